"""`awf doctor`: which agents are installed, and what is missing for a run."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from pipeline.app.doctor import AgentCall, AgentCheck, Diagnosis, Doctor
from pipeline.backends.environment import withheld_hint
from pipeline.backends.probe import probe_cache_path
from pipeline.backends.process import LocalProcesses
from pipeline.cli.location import home
from pipeline.cli.options import as_json_option, current_settings, store_option
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.terminal import Style, best_effort_output
from pipeline.errors import ExitCode
from pipeline.plugins.manager import PluginManager
from pipeline.text import format_cost, format_duration, listing, one_line, sanitize_line, wrap

_NAME, _STATE, _PART = 11, 12, 15  # columns


@click.command("doctor")
@click.option("--probe", is_flag=True, help="Ask each agent for one word. This costs a little money.")
@store_option
@as_json_option
def command(store: Path, *, probe: bool, as_json: bool) -> int:
    """Show which agents are installed and what is missing for a run.

    Exits with 0 if git, the store, the default agent and every model profile are ready, otherwise with 1.
    """
    plugins = PluginManager(time.time)
    plugins.load_installed()
    doctor = Doctor(
        settings=current_settings(),
        environ=dict(os.environ),
        store=store,
        processes=LocalProcesses(f"doctor-{os.getpid()}"),
        cache=probe_cache_path(os.environ, home()),
        plugins=plugins.collect("agent_backends"),
    )
    diagnosis = asyncio.run(doctor.examine(call=probe))
    with best_effort_output():
        if as_json:
            agents = [{**asdict(agent), "works": agent.works} for agent in diagnosis.agents]
            print_json(
                {
                    "healthy": diagnosis.healthy,
                    "default": diagnosis.default or None,
                    "agents": agents,
                    "profiles": [{**asdict(profile), "works": profile.works} for profile in diagnosis.profiles],
                    "parts": [asdict(part) for part in diagnosis.parts],
                }
            )
        else:
            for line in _lines(diagnosis, Style.of(sys.stdout)):
                click.echo(line)
    return ExitCode.SUCCESS if diagnosis.healthy else ExitCode.RUN_FAILED


def _lines(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    room = terminal_width() - _NAME - _STATE - 4
    yield style.name("agents")
    for agent in diagnosis.agents:
        state, rest = _agent_state(agent, style)
        yield f"  {sanitize_line(agent.name):<{_NAME}}{state} {one_line(rest, room)}"
        yield from map(_wrap, _details(agent))
    if diagnosis.profiles:
        yield from ("", style.name("model profiles"))
    for profile in diagnosis.profiles:
        paint = style.good if profile.works else style.error
        state = paint(f"{profile.agent or 'no agent':<{_STATE}}")
        yield f"  {sanitize_line(profile.name):<{_NAME}}{state} {one_line(profile.model, room)}"
        if profile.problem:
            yield _wrap(profile.problem)
        if profile.call:
            yield _wrap(_answer(profile.call))
    yield from ("", style.name("machine"))
    for part in diagnosis.parts:
        paint = style.error if part.needed else style.quiet
        if part.ok:
            paint = style.good
        yield f"  {part.name:<{_PART}}" + paint(one_line(part.state, terminal_width() - _PART - 3))
    yield from ("", *_verdict(diagnosis, style))


def _agent_state(agent: AgentCheck, style: Style) -> tuple[str, str]:
    """Return in what state an agent is, as wide as its column, and where it is or how to get it."""
    if agent.works:
        return style.good(f"{agent.version or 'found':<{_STATE}}"), agent.path
    if agent.path:
        return style.error(f"{'not usable':<{_STATE}}"), agent.path
    return style.quiet(f"{'not found':<{_STATE}}"), agent.problem or f"install: {agent.advice}"


def _wrap(detail: str) -> str:
    """A line below a name, in full: it may be an error to act on."""
    indent, width = " " * (_NAME + _STATE + 3), max(terminal_width() - 1, 60)
    return "\n".join(wrap(sanitize_line(detail), width, indent, indent))


def _details(agent: AgentCheck) -> Iterator[str]:
    if not agent.path:
        if agent.problem and agent.advice:
            yield agent.advice
        return
    if agent.problem:
        yield agent.problem
    if agent.missing:
        yield f"version {agent.version} does not support {', '.join(agent.missing)}: update it"
    if agent.keys:
        yield f"key in {', '.join(agent.keys)}"
    else:
        yield agent.advice or "no key in the environment; it may be logged in"
    if agent.withheld:
        yield withheld_hint(agent.name, agent.withheld)
    if agent.instructions:
        yield f"project instructions from {', '.join(agent.instructions)}"
    if agent.not_loaded:
        yield f"not loaded: {agent.not_loaded}"
    if agent.call:
        yield _answer(agent.call)


def _answer(call: AgentCall) -> str:
    after = f"after {format_duration(call.seconds)}"
    if call.error:
        return ": ".join(filter(None, (f"failed {after}", call.error, call.message)))
    cost = format_cost(call.cost_usd) if call.cost_usd is not None else "cost unknown"
    return f'answered "{one_line(call.text, 30)}" {after}, {cost}'


def _verdict(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    if diagnosis.healthy:
        yield style.good("Ready.") + f" A stage that names no agent gets {sanitize_line(diagnosis.default)}."
        return
    if wrong := [part.name for part in diagnosis.parts if part.needed and not part.ok]:
        yield style.error(f"Not ready: fix {listing(wrong)}.")
    if wrong := [f"profile {sanitize_line(profile.name)}" for profile in diagnosis.profiles if not profile.works]:
        yield style.error(f"Not ready: fix the model {listing(wrong)}.")
    if not diagnosis.working:
        yield style.error("No usable agent found. Install one, or use --backend command.")
    elif not diagnosis.default_works:
        missing = f"gets {sanitize_line(diagnosis.default)}, which is not usable" if diagnosis.default else "gets none"
        other = f'backend "{sanitize_line(diagnosis.working[0])}"'
        yield style.error(
            f"Not ready: a stage that names no agent {missing}. Fix it, or put {other} into the settings."
        )

"""`awf doctor`: what is there for a run, and what is missing."""

import asyncio
import os
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pipeline.app.doctor import AgentCall, AgentCheck, Diagnosis, Doctor, SystemCheck
from pipeline.backends.probe import probe_cache_path
from pipeline.backends.process import LocalProcesses
from pipeline.cli.location import home
from pipeline.cli.options import as_json_option, current_settings, store_option
from pipeline.cli.output import print_json, terminal_width
from pipeline.cli.terminal import Style, best_effort_output
from pipeline.errors import ExitCode
from pipeline.plugins.manager import PluginManager
from pipeline.text import format_cost, format_duration, sanitize_line, truncate

_NAME, _STATE, _PART = 11, 12, 15  # columns


@click.command("doctor")
@click.option("--probe", is_flag=True, help="Ask each agent for one word. This costs a little money.")
@store_option
@as_json_option
def command(store: Path, *, probe: bool, as_json: bool) -> int:
    """Show which agents are there, and what a run lacks.

    Exits with 0 when at least one agent, git and the store are ready for a run, with 1 otherwise.
    """
    diagnosis = asyncio.run(_doctor(store).examine(call=probe))
    with best_effort_output():
        if as_json:
            print_json(as_object(diagnosis))
        else:
            for line in lines(diagnosis, Style.of(sys.stdout)):
                click.echo(line)
    return ExitCode.SUCCESS if diagnosis.healthy else ExitCode.RUN_FAILED


def _doctor(store: Path) -> Doctor:
    plugins = PluginManager(time.time)
    plugins.load_installed()
    return Doctor(
        settings=current_settings(),
        environ=dict(os.environ),
        store=store,
        processes=LocalProcesses(f"doctor-{os.getpid()}"),
        cache=probe_cache_path(os.environ, home()),
        added=plugins.agent_backends(),
    )


def as_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """A diagnosis as JSON has it."""
    agents = [{**asdict(one), "works": one.works} for one in diagnosis.agents]
    parts = [asdict(part) for part in diagnosis.parts]
    return {"healthy": diagnosis.healthy, "default": diagnosis.default or None, "agents": agents, "parts": parts}


def lines(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    """A diagnosis as a person reads it."""
    yield style.name("agents")
    for one in diagnosis.agents:
        yield from _agent(one, style)
    yield ""
    yield style.name("machine")
    yield from (_part(part, style) for part in diagnosis.parts)
    yield ""
    yield _verdict(diagnosis, style)


def _agent(one: AgentCheck, style: Style) -> Iterator[str]:
    if one.works:
        yield _row(one.name, style.good(f"{one.version or 'there':<{_STATE}}"), one.path)
    elif one.path:
        yield _row(one.name, style.error(f"{'not usable':<{_STATE}}"), one.path)
    else:
        yield _row(one.name, style.quiet(f"{'not there':<{_STATE}}"), one.problem or f"get it: {one.advice}")
    if not one.path:
        yield from [_more(one.advice)] if one.problem and one.advice else []
        return
    if one.problem:
        yield _more(one.problem)
    if one.missing:
        yield _more(f"version {one.version} does not take {', '.join(one.missing)}: update it")
    yield _more(_key(one))
    if one.call:
        yield _more(_called(one.call))


def _key(one: AgentCheck) -> str:
    if one.keys:
        return f"key in {', '.join(one.keys)}"
    return one.advice or "no key in the environment; it may be logged in"


def _called(call: AgentCall) -> str:
    took = f"after {format_duration(call.seconds)}"
    if call.error:
        return f"failed {took}: {call.error}" + (f": {call.message}" if call.message else "")
    cost = f", {format_cost(call.cost_usd)}" if call.cost_usd is not None else ", cost unknown"
    return f'answered "{truncate(sanitize_line(call.text), 30)}" {took}{cost}'


def _part(part: SystemCheck, style: Style) -> str:
    paint = style.good if part.ok else style.error if part.needed else style.quiet
    return f"  {part.name:<{_PART}}" + paint(_cut(part.state, _PART + 3))


def _row(name: str, state: str, rest: str) -> str:
    return f"  {sanitize_line(name):<{_NAME}}{state} {_cut(rest, _NAME + _STATE + 4)}"


def _more(text: str) -> str:
    """What else there is to say of an agent, whole: it may be an error that somebody has to act on."""
    indent = " " * (_NAME + _STATE + 3)
    return textwrap.fill(
        sanitize_line(text), max(terminal_width() - 1, 60), initial_indent=indent, subsequent_indent=indent
    )


def _cut(text: str, taken: int) -> str:
    return truncate(sanitize_line(text), terminal_width() - taken)


def _verdict(diagnosis: Diagnosis, style: Style) -> str:
    if diagnosis.healthy:
        works = diagnosis.default in {one.name for one in diagnosis.agents if one.works}
        note = "." if works else style.warning(", which is not usable.")
        chosen = (
            f" A stage that asks for no agent gets {sanitize_line(diagnosis.default)}{note}"
            if diagnosis.default
            else ""
        )
        return style.good("Ready for a run.") + chosen
    wrong = [part.name for part in diagnosis.parts if part.needed and not part.ok]
    wrong += [] if any(one.works for one in diagnosis.agents) else ["the agents"]
    return style.error(f"Not ready for a run: see to {', '.join(wrong)}.")

"""`awf run` and `awf resume`: start a run or continue one, and watch it until it stops."""

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from pipeline.app.catalog import CatalogEntry
from pipeline.app.check import CheckedWorkflow, check
from pipeline.app.doctor import Doctor
from pipeline.app.overview import UNPRICED, resume_commands
from pipeline.app.preflight import agent_problems, goal_problems, project_problems
from pipeline.app.responders import check_answers
from pipeline.app.run_names import check_run_name, find_run
from pipeline.app.runs import ResumeRequest, RunResult, build_record
from pipeline.app.store import RunStore, StoppedWatching, find_unfinished
from pipeline.app.wiring import Runtime
from pipeline.backends.probe import probe_cache_path
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.cli.diagnostics import print_diagnostics
from pipeline.cli.location import catalog, home, project, user_name
from pipeline.cli.main import print_error
from pipeline.cli.options import agent_options, as_json_option, current_settings, read_agent_options
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import best_effort_output
from pipeline.cli.terminal_responder import TerminalResponder
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.records import RunCreated
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.review_options import is_review_command
from pipeline.handlers.questions import Responder
from pipeline.journal import check_run_id, new_run_id
from pipeline.language.inputs import resolve_inputs
from pipeline.language.model import Workflow
from pipeline.observe.progress import open_view
from pipeline.plugins.manager import PluginManager
from pipeline.text import did_you_mean, format_time_until, plural, sanitize

Action = Callable[[RunStore, Runtime], RunResult]  # starts or resumes a run


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How to watch a run."""

    as_json: bool = False
    log: Path | None = None
    stay: bool = False  # wait for an answer or for a quota to reset instead of stopping
    detach: bool = False  # leave the run to a cluster
    events: bool = True  # print the events of the run before its result, if that is printed as JSON


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how to watch a run; the command receives them as `watch`."""

    @wraps(command)
    def watching(*args: Any, as_json: bool, log: Path | None, stay: bool, detach: bool, **more: Any) -> Any:
        return command(*args, watch=WatchOptions(as_json, log, stay, detach), **more)

    options = (
        click.option("--wait", "stay", is_flag=True, help="Wait for an answer or a quota instead of stopping."),
        click.option("--detach", is_flag=True, help="On a cluster: do not wait for the run."),
        click.option(
            "--log",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Append the run's events to a file, one JSON object per line.",
        ),
        as_json_option,
    )
    for option in reversed(options):
        watching = option(watching)
    return watching


@click.command("run")
@click.argument("workflow", metavar="FILE|NAME")
@click.option("--goal", default="", help="The goal of this run.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="An input of the workflow. Repeatable.")
@click.option("--preflight", is_flag=True, help="First ask each agent for one word, at a small cost.")
@agent_options
@click.option("--run-id", help="The run's name. [default: made from the time]")
@click.option("--remote", metavar="NAME|URL", help="On a cluster: the git remote that carries the run's files.")
@store_location_options
@watch_options
def run_command(
    workflow: str,
    goal: str,
    inputs: tuple[str, ...],
    run_id: str | None,
    remote: str | None,
    where: StoreLocation,
    watch: WatchOptions,
    *,
    preflight: bool,
    **agent: Any,
) -> int:
    """Run a workflow.

    It works at the root of the git repository around the current directory. Before it starts, it lists what would
    stop it halfway: an empty goal that prompts use, missing and unknown inputs, and missing agents, prompt files and
    check commands.

    Exits with 0 if the run succeeds, 1 if it fails, 3 if it is paused or waits for a person, 130 if it is cancelled.
    """
    if (remote or watch.detach) and not where.on:
        raise click.UsageError(f"{'--remote' if remote else '--detach'} needs a cluster; name one with --on")
    if preflight and where.on:
        raise click.UsageError("--preflight asks the agents of this machine and cannot be combined with --on")
    entry = catalog().find(workflow)
    checked = check(entry)
    if checked.diagnostics and (checked.workflow is None or not watch.as_json):
        print_diagnostics(checked)
    given = _parse_pairs("--input", inputs, "name=value")
    options = read_agent_options(**agent)
    record = prepare_run(workflow, entry, checked, goal, given, options, where, run_id=run_id, ask=preflight)
    if record is None:
        return ExitCode.USAGE

    def start(store: RunStore, runtime: Runtime) -> RunResult:
        settings = runtime.settings.with_option("remote", "--remote", remote or None)
        return store.start(record, replace(runtime, settings=settings), checked.workflow)

    return execute_run(start, where, watch)


def prepare_run(
    workflow: str,
    entry: CatalogEntry,
    checked: CheckedWorkflow,
    goal: str,
    inputs: Mapping[str, str],
    options: dict[str, Any],
    where: StoreLocation,
    *,
    run_id: str | None = None,
    ask: bool = False,
) -> RunCreated | None:
    """Return the first record of a run, or print what would stop it halfway and return None."""
    readable = checked.workflow_for_preflight
    problems: list[AwfError] = []
    if readable:
        values, wrong = resolve_inputs(readable, inputs)
        problems = [*goal_problems(workflow, entry, readable, goal), *wrong]
        if inputs:
            options["inputs"] = {name: value for name, value in values.items() if name in inputs}
    max_cost = current_settings().limits.max_cost_usd
    if max_cost is not None:
        options["max_cost_usd"] = max_cost
    if readable and not where.on:  # on a cluster, the workers have the files and the agents
        problems += _local_problems(readable, options, where.store, ask=ask)
    for problem in problems:
        print_error(problem)
    if problems and checked.workflow:
        return None
    name = run_id or new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    check_run_id(name)
    check_run_name(name)
    if checked.workflow:
        check_answers(options.get("answers", {}), checked.workflow)
        _note_unknown_stages(options, checked.workflow)
    return build_record(entry, checked, name, goal, options, project(), time.time())


def _local_problems(workflow: Workflow, options: dict[str, Any], store: Path, *, ask: bool) -> list[AwfError]:
    """List what the project and the agents of this machine lack; with `ask`, each agent has to answer."""
    found = list(project_problems(workflow, project(), Path.cwd(), os.environ))
    plugins = PluginManager(time.time)
    plugins.load_installed()
    added = plugins.collect("agent_backends")
    settings, processes = current_settings(), LocalProcesses(f"preflight-{os.getpid()}")
    backends = BackendSelector(options, processes, added, settings, os.environ)
    missing = backends.problems(workflow)
    has_budget = workflow.settings.max_cost_usd is not None or "max_cost_usd" in options
    if has_budget and not missing and (unpriced := backends.unpriced(workflow)):
        options[UNPRICED] = unpriced  # recorded with the run
        hint = "" if unpriced == ["command"] else "; set a price in the settings"  # a command reports no tokens either
        note = f"max_cost_usd is not enforced for {', '.join(unpriced)}: it does not report its cost{hint}"
        click.echo(f"warning: {sanitize(note)}", err=True)
    if ask and not missing:
        doctor = Doctor(settings, os.environ, store, processes, probe_cache_path(os.environ, home()), added)
        missing = asyncio.run(agent_problems(workflow, backends, doctor))
    return found + missing


def _note_unknown_stages(options: dict[str, Any], workflow: Workflow) -> None:
    """Note replies and answers for stages that do not exist: a typo could make a review pass that should fail."""
    named = {"script": json.loads(options.get("script", "{}")), "answers": options.get("answers", {})}
    for option, stages in named.items():
        for name in [name for name in stages if name not in workflow.by_id]:
            hint = did_you_mean(name, workflow.by_id) or "ignored"
            note = f'--{option} names the stage "{name}", which is not in the workflow; {hint}'
            click.echo(f"note: {sanitize(note)}", err=True)


@click.command("resume")
@click.argument("run", default="")
@click.option("--raise", "raised", multiple=True, metavar="LIMIT=VALUE", help="Raise a limit, such as max_visits=+10.")
@click.option("--now", is_flag=True, help="Do not wait for a quota to reset.")
@click.option(
    "--repeat",
    is_flag=True,
    help="Repeat an interrupted stage even if it may have changed things outside the workspace.",
)
@agent_options
@click.option("--adopt", metavar="FILE|NAME", help="Continue with a changed workflow.")
@store_location_options
@watch_options
def resume_command(
    run: str,
    raised: tuple[str, ...],
    adopt: str | None,
    where: StoreLocation,
    watch: WatchOptions,
    *,
    now: bool,
    repeat: bool,
    **agent: Any,
) -> int:
    """Resume a run where it stopped: RUN, or the newest that has not succeeded.

    Completed stages do not run again. An interrupted stage does.
    """
    if watch.detach and not where.on:
        raise click.UsageError("--detach needs a cluster; name one with --on")
    entry = catalog().find(adopt) if adopt else None
    limits = _parse_pairs("--raise", raised, "max_visits=+10")
    adopted = (entry, check(entry)) if entry else None
    request = ResumeRequest(limits, read_agent_options(**agent), repeat=repeat, adopt=adopted, now=now)
    return resume_run(run, request, where, watch)


def _parse_pairs(option: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """Split the values of an option such as `--raise max_visits=+10` into names and values."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise AwfError(f'{option} "{text}" has no value', help=f"write {option} {example}")
        if name in pairs:
            raise AwfError(f'{option} gives "{name}" twice', help="give it once")
        pairs[name] = value
    return pairs


def resume_run(run: str, request: ResumeRequest, where: StoreLocation, watch: WatchOptions) -> int:
    """Resume a run, by default the newest that has not succeeded, and watch it until it stops."""

    def resume(store: RunStore, runtime: Runtime) -> RunResult:
        runs = store.journal.runs()
        run_id = find_run(run, runs) if run else find_unfinished(store.journal)
        if not run and run_id != runs[-1]:
            click.echo(f"run {runs[-1]} has succeeded; resuming {run_id}", err=True)
        return store.resume(run_id, request, runtime)

    return execute_run(resume, where, watch)


def execute_run(action: Action, where: StoreLocation, watch: WatchOptions) -> int:
    """Start or resume a run, show it until it stops, and return the exit code."""
    try:
        with where.open() as store, ExitStack() as stack:
            result = action(store, _watching_runtime(store, where, watch, stack))
            first = next(store.journal.entries(result.run_id)).record
            if isinstance(first, RunCreated) and is_review_command(first.options) and not watch.detach:
                from pipeline.cli.review_result import show_review  # noqa: PLC0415 - other runs do without the ledger

                stack.close()  # the live view ends before the result is printed
                return show_review(store, result, where, watch)
    except StoppedWatching as stopped:
        click.echo(f"\n{stopped.message}; cancel it with: awf cancel {stopped.run_id}{where.end}", err=True)
        return ExitCode.CANCELLED
    with best_effort_output():
        if watch.detach and watch.as_json:
            click.echo(json.dumps({"run_id": result.run_id}))
        elif watch.detach:
            click.echo(f"run {result.run_id} is with the workers\nsee: awf status {result.run_id}{where.end}")
        elif watch.as_json:
            click.echo(json.dumps(result.as_event()))
        else:
            show_triage(result)
            click.echo(format_result(result, where))
    return ExitCode.SUCCESS if watch.detach else result.exit_code


def _watching_runtime(store: RunStore, where: StoreLocation, watch: WatchOptions, stack: ExitStack) -> Runtime:
    """Return what a run needs of this process; what shows the run is closed with the stack."""
    listeners, responders = list[Listener](), list[Responder]()
    if not watch.as_json and not watch.detach:
        terminal = sys.stderr  # while the view is drawn, another stream has that name
        view = stack.enter_context(open_view(terminal))
        listeners.append(view.listen)
        if sys.stdin.isatty():
            responders.append(TerminalResponder(user_name(), terminal, view.hide, view.show))
    elif watch.events:
        listeners.append(print_event)
    if watch.log:
        from pipeline.observe.log import event_log  # noqa: PLC0415 - structlog takes 0.1 s, and few runs need it

        listeners.append(stack.enter_context(event_log(watch.log)))
    return Runtime(
        where.store.resolve(),  # agents and tools run in another directory
        dict(os.environ),
        tuple(listeners),
        tuple(responders),
        settings=current_settings(),
        mailbox=store.mailbox,
        wait_for_answer=watch.stay,
        wait_for_quota=watch.stay or (sys.stdin.isatty() and sys.stderr.isatty()),
        detach=watch.detach,
    )


def show_triage(result: RunResult) -> None:
    """Print what became of the findings that were decided in a run, once it is over."""
    if result.triage_text and result.status.final:
        from pipeline.cli.findings.screen import Screen  # noqa: PLC0415 - few runs have a triage

        Screen(sys.stdout).show_markdown(f"{result.triage_text}\n")


def print_event(event: Event) -> None:
    """Print an event as one line of JSON."""
    if event.event != EventKind.RUN_COMPLETED:  # the result is printed instead
        click.echo(json.dumps(event.to_dict(), default=str))


def format_result(result: RunResult, where: StoreLocation) -> str:
    """Format the closing lines: how the run ended and what to do next."""
    run_id, end, now = result.run_id, where.end, time.time()
    reason = f" ({sanitize(result.reason)})" if result.reason and result.reason != result.status else ""
    lines = [f"run {run_id}: {result.status}{reason}"]
    if result.objection:
        lines.append(f"the change is not ready: {sanitize(result.objection)}; see: awf verdict{end}")
    if result.findings:
        lines.append(f"{plural(result.findings, 'open finding')}: awf findings list --run {run_id}{end}")
    if result.reports:
        lines.append(f"{plural(result.reports, 'open report')}: awf context {run_id} review.findings{end}")
    if result.status is RunStatus.WAITING:
        lines.append(f"answer with: awf answer {run_id}{end}")
    if result.until is not None:
        lines.append(f"the quota resets {format_time_until(result.until, now)}")
    if result.status is not RunStatus.SUCCESS:
        until = None if where.on else result.until  # a cluster waits for a quota by itself
        lines.append(f"resume with: {resume_commands(run_id, result.resume, until, now)[0]}{end}")
    return "\n".join(lines)

"""Running a run from the command line: signals, what is shown meanwhile, and how it ends."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from pipeline.app.overview import resume_commands
from pipeline.app.runs import RunResult
from pipeline.app.store import RunStore, StoppedWatching
from pipeline.app.wiring import Runtime
from pipeline.cli.location import user_name
from pipeline.cli.options import current_settings
from pipeline.cli.store_options import StoreLocation
from pipeline.cli.terminal import best_effort_output, sanitize
from pipeline.cli.terminal_responder import TerminalResponder, TerminalTriage
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.state import RunStatus
from pipeline.errors import ExitCode
from pipeline.observe.progress import open_view
from pipeline.text import format_time_until, plural

Action = Callable[[RunStore, Runtime], RunResult]  # starts or resumes a run


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How to watch a run."""

    as_json: bool = False
    log: Path | None = None
    stay: bool = False  # wait for `awf answer`, or for a quota to reset, instead of stopping
    detach: bool = False  # leave the run to a cluster


def execute_run(action: Action, where: StoreLocation, watch: WatchOptions) -> int:
    """Start or resume a run where it is kept, show it until it stops, and return the exit code."""
    with where.open() as store, open_event_log(watch.log) as listeners:
        runtime = Runtime(
            where.store.resolve(),  # agents and tools run in another directory
            dict(os.environ),
            listeners,
            settings=current_settings(),
            mailbox=store.mailbox,
            wait_for_answer=watch.stay,
            wait_for_quota=watch.stay or (sys.stdin.isatty() and sys.stderr.isatty()),
            detach=watch.detach,
        )
        try:
            if watch.as_json or watch.detach:
                result = action(store, replace(runtime, listeners=(print_event, *listeners)))
            else:
                result = _watched(action, store, runtime)
        except StoppedWatching as stopped:
            click.echo(f"\n{stopped.message}; cancel it with: awf cancel {stopped.run_id}{where.end}", err=True)
            return ExitCode.CANCELLED
    run_id = result.run_id
    if watch.detach:
        handed_over = f"run {run_id} is with the workers\nsee: awf status {run_id}{where.end}"
        words = json.dumps({"run_id": run_id}) if watch.as_json else handed_over
    else:
        words = json.dumps(result.as_event()) if watch.as_json else format_result(result, where)
    with best_effort_output():
        click.echo(words)
    return ExitCode.SUCCESS if watch.detach else result.exit_code


def _watched(action: Action, store: RunStore, runtime: Runtime) -> RunResult:
    """With a live view on a terminal, plain lines elsewhere; a person at the terminal can be asked."""
    with open_view(sys.stderr) as view:
        if sys.stdin.isatty():
            responder = TerminalResponder(view.hide, view.show, user_name())
            runtime = replace(runtime, responders=(responder,), deciders=(TerminalTriage(view.hide, view.show),))
        return action(store, replace(runtime, listeners=(view.listen, *runtime.listeners)))


@contextlib.contextmanager
def open_event_log(path: Path | None) -> Iterator[tuple[Listener, ...]]:
    """What adds events to a file, where one is named."""
    if path is None:
        yield ()
        return
    from pipeline.observe.log import event_log  # noqa: PLC0415 - structlog takes a while, and few runs need it

    with event_log(path) as listener:
        yield (listener,)


def print_event(event: Event) -> None:
    """Print an event as one line of JSON."""
    if event.event is not EventKind.RUN_COMPLETED:  # the result says it
        click.echo(json.dumps(event.to_dict(), default=str))


def format_result(result: RunResult, where: StoreLocation) -> str:
    """The last lines a person reads: how it ended, and what to do next."""
    end = where.end
    words = f"run {result.run_id}: {result.status}"
    if result.reason:
        words += f" ({sanitize(result.reason)})"
    if result.outstanding:
        left = plural(result.outstanding, "finding")
        words += f"\n{left} outstanding: awf context {result.run_id} review.findings{end}"
    if result.status is RunStatus.WAITING:
        words += f"\nanswer with: awf answer {result.run_id}{end}"
    now = time.time()
    if result.until is not None:
        words += f"\nthe quota resets {format_time_until(result.until, now)}"
    if result.status is not RunStatus.SUCCESS:
        until = None if where.on else result.until  # a cluster waits for a quota by itself
        words += f"\nresume with: {resume_commands(result.run_id, result.resume, until, now)[0]}{end}"
    return words

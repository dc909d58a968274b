"""Runs a workflow from the command line: progress, signals, and how the run ended."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeline.app.overview import resume_commands
from pipeline.app.runs import RunResult
from pipeline.app.wiring import Runtime
from pipeline.cli.location import user_name
from pipeline.cli.options import current_settings
from pipeline.cli.store_options import StoreLocation
from pipeline.cli.terminal import best_effort_output, sanitize
from pipeline.cli.terminal_responder import TerminalResponder
from pipeline.cli.terminal_triage import TerminalTriage
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.ports import Journal
from pipeline.engine.state import RunStatus
from pipeline.handlers.human import Responder
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.observe.progress import open_view
from pipeline.text import format_time_until, plural

Run = Callable[[Journal, Runtime], Coroutine[Any, Any, RunResult]]


def execute_run(run: Run, where: StoreLocation, *, as_json: bool, log: Path | None = None, stay: bool = False) -> int:
    """Drive a run to where it stops and tell how it ended; `log` takes its events as well.

    With `stay` it does not stop where nobody here can answer, but waits for somebody elsewhere.
    """
    store = where.store.resolve()  # agents and tools run in another directory
    letters = SqliteMailbox(store)
    waits = stay or (sys.stdin.isatty() and sys.stderr.isatty())
    around = Runtime(store, dict(os.environ), settings=current_settings(), letters=letters, stay=stay, waits=waits)
    with contextlib.closing(SqliteJournal(store)) as journal, open_event_log(log) as listeners:
        if as_json:
            around = replace(around, listeners=(print_event, *listeners))
            result = asyncio.run(_until_stopped(run(journal, around)))
            said = json.dumps(result.as_event())
        else:
            result = _watched(run, journal, replace(around, listeners=listeners))
            said = format_result(result, where)
    with best_effort_output():
        click.echo(said)
    return result.exit_code


def _watched(run: Run, journal: Journal, around: Runtime) -> RunResult:
    """With a live view on a terminal, plain lines elsewhere; a person at the terminal can be asked."""
    with open_view(sys.stderr) as view:
        people: tuple[Responder, ...] = ()
        if sys.stdin.isatty():
            people = (TerminalResponder(view.hide, view.show, user_name()),)
            around = replace(around, deciders=(TerminalTriage(view.hide, view.show),))
        around = replace(around, listeners=(view.listen, *around.listeners), people=people)
        return asyncio.run(_until_stopped(run(journal, around)))


@contextlib.contextmanager
def open_event_log(path: Path | None) -> Iterator[tuple[Listener, ...]]:
    """Open the file that takes the run's events, if one is named; yields its listener."""
    if path is None:
        yield ()
        return
    from pipeline.observe.log import event_log  # noqa: PLC0415 - structlog takes 0.1 s, and few runs need it

    with event_log(path) as listener:
        yield (listener,)


async def _until_stopped(work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Run until it stops by itself, or a signal stops it; a run that is stopping is not stopped again."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(number, task.cancel)
    return await task


def print_event(event: Event) -> None:
    """Print an event as one line of JSON."""
    if event.event is not EventKind.RUN_COMPLETED:  # the result is printed instead
        click.echo(json.dumps(event.flat(), default=str))


def format_result(result: RunResult, where: StoreLocation) -> str:
    """Format the closing lines: how the run ended and what to do next."""
    end = where.end
    words = f"run {result.run_id}: {result.status}"
    if result.reason and result.reason != result.status:
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

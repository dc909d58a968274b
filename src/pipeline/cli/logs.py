"""`awf logs`, `awf prompt` and `awf context`: what a stage wrote, what its agent was asked, and what a run keeps."""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pipeline.app.history import STREAMS, AttemptArtifacts, find_artifacts
from pipeline.app.store import RunStore
from pipeline.cli.options import as_json_option, attempt_option, visit_option
from pipeline.cli.output import (
    copy_to_stdout,
    load_history,
    load_history_and_name,
    print_json,
    print_text,
    stage_names,
)
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.engine.outcome import Status
from pipeline.errors import AwfError
from pipeline.language.model import StageKind
from pipeline.text import did_you_mean, display_width, sanitize_line, truncate

INTERVAL = 0.2  # seconds between two looks at a file that grows
CLUSTER_INTERVAL = 2.0  # the same for a file on another machine
MAX_WIDTH = 200  # columns of a line of the context when the output is not a terminal

RESPONSE = "response"
_ANSWERING = (StageKind.LLM, StageKind.TRIAGE)
_NARROWEST = 20  # columns that a value of the context keeps


@dataclass(frozen=True, slots=True)
class LogPart:
    """Something to print: a file, or a recorded answer."""

    name: str
    path: Path | None
    text: str = ""


@click.command("logs")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] STAGE")
@visit_option
@attempt_option
@click.option("--stdout", "stream", flag_value="stdout", help="Only its standard output.")
@click.option("--stderr", "stream", flag_value="stderr", help="Only its standard error.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the attempt ends.")
@store_location_options
@as_json_option
def logs_command(
    words: tuple[str, ...],
    visit: int | None,
    attempt: int | None,
    stream: str | None,
    where: StoreLocation,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Print what a tool stage wrote, its standard output before its standard error, or what an agent answered.

    For a triage stage, it is the report on what was decided.

    RUN is the id of a run, the beginning of one, or "latest", the default. The last visit and attempt are shown unless
    others are given.
    """
    with where.open() as store:
        history, stage = load_history_and_name(store, words, stage_names, needed=True)
        found = find_artifacts(store.directory, history, stage, visit, attempt)
        names = _log_names(found, stream)
        if follow:
            _follow(store, found, names, CLUSTER_INTERVAL if where.on else INTERVAL)
            return
        store.fetch_files(found)
        parts = [part for name in names if (part := _find_part(found, name))]
        if not parts:
            attempted = f'stage "{found.stage}", visit {found.visit}, attempt {found.attempt}'
            help = f"its files would be in {store.display_path(found.directory)}"
            raise AwfError(f"{attempted} has no {' or '.join(names)}", help=help)
        if as_json:
            visited = {"run_id": found.run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt}
            print_json({**visited, "files": [_as_object(part, store) for part in parts]})
            return
        _print(parts)
    if found.outcome and found.outcome.status is Status.ERROR:  # there may be nothing else to read
        click.echo(f"{Style.of(sys.stderr).error('error')}: {sanitize_line(found.outcome.reason)}", err=True)


@click.command("prompt")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] STAGE")
@visit_option
@attempt_option
@store_location_options
@as_json_option
def prompt_command(
    words: tuple[str, ...], visit: int | None, attempt: int | None, where: StoreLocation, *, as_json: bool
) -> None:
    """Print the whole prompt that a stage's agent received.

    RUN is the id of a run, the beginning of one, or "latest", the default. The last visit and attempt are shown unless
    others are given.
    """
    with where.open() as store:
        history, stage = load_history_and_name(store, words, stage_names, needed=True)
        found = find_artifacts(where.store, history, stage, visit, attempt)
        if found.kind not in (StageKind.LLM, ""):
            better = "logs" if found.kind == StageKind.TOOL else "why"
            message = f'stage "{stage}" is a {found.kind} stage; only an agent gets a prompt'
            raise AwfError(message, help=f"see what it did with: awf {better} {found.run_id} {stage}")
        text = store.journal.attached(found.run_id, found.seq) if found.seq is not None else ""
    if not text:
        attempted = f'stage "{stage}", visit {found.visit}, attempt {found.attempt}'
        raise AwfError(f"no prompt is recorded for {attempted}", help="a prompt is recorded when its attempt has ended")
    if as_json:
        visited = {"run_id": found.run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt}
        print_json({**visited, "text": text})
    else:
        print_text(text)


@click.command("context")
@click.argument("words", nargs=-1, metavar="[RUN] [KEY]")
@store_location_options
@as_json_option
def context_command(words: tuple[str, ...], where: StoreLocation, *, as_json: bool) -> None:
    """Print the context of a run: every key, or the whole value of one.

    RUN is the id of a run, the beginning of one, or "latest", the default.
    """
    with where.open() as store:
        history, key = load_history_and_name(store, words, lambda state: state.context.values)
    run_id, values = history.state.run_id, dict(history.state.context.values)
    if key and key not in values:
        help = did_you_mean(key, values) or f'"awf context {run_id}" lists the keys'
        raise AwfError(f'the context of run {run_id} has no key "{key}"', help=help)
    if as_json or (key and not isinstance(values[key], str)):
        print_json(values[key] if key else values)
    elif key:
        print_text(values[key])
    else:
        style = Style.of(sys.stdout)
        for name in sorted(values):
            room = min(style.width, MAX_WIDTH) - display_width(name) - 4
            click.echo(f"{style.name(sanitize_line(name))} = {_preview(values[name], max(room, _NARROWEST))}")


def _as_object(part: LogPart, store: RunStore) -> dict[str, Any]:
    if part.path is None:
        return {"name": part.name, "path": None, "text": part.text}
    text = part.path.read_bytes().decode(errors="replace")
    return {"name": part.name, "path": store.display_path(part.path), "text": text}


def _log_names(found: AttemptArtifacts, stream: str | None) -> tuple[str, ...]:
    """What to print: the answer of an agent, or the streams of its program if there is no answer."""
    if found.kind not in (StageKind.TOOL, *_ANSWERING, ""):
        message = f'stage "{found.stage}" is a {found.kind} stage and has no logs'
        raise AwfError(message, help=f"see how it ended with: awf why {found.run_id} {found.stage}")
    if stream is not None:
        return (stream,)
    if found.kind not in _ANSWERING or found.outcome is None:
        return STREAMS
    return (RESPONSE,) if found.outcome.response or not found.outcome.logs else STREAMS


def _find_part(found: AttemptArtifacts, name: str) -> LogPart | None:
    path = found.file(f"{name}.log")
    if path:
        return LogPart(name, path)
    if name == RESPONSE and found.outcome:
        return LogPart(name, None, found.outcome.response)
    return None


def _print(parts: Sequence[LogPart]) -> None:
    """Print each part; on a terminal, the second one has a heading."""
    for number, part in enumerate(parts):
        if part.path is None:
            print_text(part.text)
            continue
        if number and sys.stdout.isatty() and part.path.stat().st_size:
            click.echo(Style.of(sys.stdout).quiet(f"--- {part.name}"))
        with part.path.open("rb") as file:
            copy_to_stdout(file)


def _follow(store: RunStore, found: AttemptArtifacts, names: Sequence[str], interval: float) -> None:
    """Print the files as they grow, until the attempt has ended and everything is printed."""
    with ExitStack() as stack:
        opened = {}
        running = True
        while running:
            running = _is_running(store, found)
            for name in names:
                if name not in opened and (path := found.file(f"{name}.log")):
                    opened[name] = stack.enter_context(path.open("rb"))
            for file in opened.values():
                copy_to_stdout(file)
            if running:
                time.sleep(interval)


def _is_running(store: RunStore, found: AttemptArtifacts) -> bool:
    """Whether the attempt may write more; fetches what it has written."""
    driven = store.is_driven(found.run_id)  # before the records: a process that has ended since has written them
    history = load_history(store, found.run_id)
    last, this = (
        find_artifacts(store.directory, history, found.stage, found.visit, attempt) for attempt in (None, found.attempt)
    )
    store.fetch_files(this)
    return driven and not this.done and last.attempt == found.attempt


def _preview(value: Any, room: int) -> str:
    """A value on one line; a truncated one is followed by its length."""
    whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = sanitize_line(whole[: 2 * MAX_WIDTH])
    if len(whole) <= 2 * MAX_WIDTH and display_width(text) <= room:
        return text
    note = f" ({len(value)} entries)" if isinstance(value, list) else f" ({len(whole)} characters)"
    return truncate(f"{text} ", room - len(note)) + note

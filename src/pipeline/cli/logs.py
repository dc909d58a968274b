"""`awf logs`: what a tool wrote, or an agent answered."""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from pipeline.app.artifacts import STREAMS, AttemptArtifacts, find_artifacts
from pipeline.app.store import RunStore
from pipeline.cli.options import as_json_option, attempt_option, visit_option
from pipeline.cli.output import copy_to_stdout, load_run_and_name, print_json, print_text, stage_names
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.engine.outcome import Status
from pipeline.errors import AwfError
from pipeline.language.model import StageKind
from pipeline.text import sanitize_line

PAUSE = 0.2  # seconds between two looks at a file that grows
ELSEWHERE = 2.0  # the same, where it grows on another machine

RESPONSE = "response"
_ANSWERING = (StageKind.LLM, StageKind.TRIAGE)


@dataclass(frozen=True, slots=True)
class LogPart:
    """Something to print: a file, or a text that is on record."""

    name: str
    path: Path | None
    text: str = ""


@click.command("logs")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] STAGE")
@visit_option
@attempt_option
@click.option("--stdout", "stream", flag_value="stdout", help="Only what it wrote to standard output.")
@click.option("--stderr", "stream", flag_value="stderr", help="Only what it wrote to standard error.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the visit ends.")
@store_location_options
@as_json_option
def command(
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

    Of a triage it is the report on what was decided.

    RUN is a run's id, the beginning of one, or "latest", the default. The last visit and attempt are meant
    unless others are given.
    """
    with where.open() as store:
        run_id, records, stage = load_run_and_name(store, words, stage_names, needed=True)
        found = find_artifacts(store.directory, records, stage, visit, attempt)
        names = _names(found, stream)
        if follow:
            _follow(found, names, partial(_goes_on, store, found), ELSEWHERE if where.on else PAUSE)
            return
        store.fetch_files(found)
        parts = _parts(found, names, store)
        if as_json:
            place = {"run_id": run_id, "stage": stage, "visit": found.visit, "attempt": found.attempt}
            print_json({**place, "files": [_object(part, store) for part in parts]})
            return
        _print(parts)
    if found.outcome and found.outcome.status is Status.ERROR:  # there may be nothing else to read
        click.echo(f"{Style.of(sys.stderr).error('error')}: {sanitize_line(found.outcome.reason)}", err=True)


def _names(found: AttemptArtifacts, stream: str | None) -> tuple[str, ...]:
    """What to print of a stage, by its kind; of an agent that still runs, whatever its program writes."""
    if found.kind not in (StageKind.TOOL, *_ANSWERING, ""):
        words = f'stage "{found.stage}" is a {found.kind} stage, which writes no logs'
        raise AwfError(words, help="awf why RUN STAGE tells how it ended")
    if stream is not None:
        return (stream,)
    return (RESPONSE,) if found.kind in _ANSWERING and _answered(found) else STREAMS


def _answered(found: AttemptArtifacts) -> bool:
    """Whether there is an answer; of an agent that gave none, what its program wrote tells why."""
    return found.outcome is not None and bool(found.outcome.response or not found.outcome.logs)


def _parts(found: AttemptArtifacts, names: Sequence[str], store: RunStore) -> list[LogPart]:
    parts = [part for name in names if (part := _part(found, name))]
    if not parts:
        where = f'stage "{found.stage}", visit {found.visit}, attempt {found.attempt}'
        help = f"its files would be in {store.display_path(found.directory)}"
        raise AwfError(f"there is no {' or '.join(names)} of {where}", help=help)
    return parts


def _part(found: AttemptArtifacts, name: str) -> LogPart | None:
    """A file that was written, or the answer as it is on record."""
    if path := found.file(f"{name}.log"):
        return LogPart(name, path)
    answered = name == RESPONSE and found.outcome is not None
    return LogPart(name, None, found.outcome.response) if answered and found.outcome else None


def _object(part: LogPart, store: RunStore) -> dict[str, str | None]:
    text = part.path.read_bytes().decode(errors="replace") if part.path else part.text
    return {"name": part.name, "path": store.display_path(part.path) if part.path else None, "text": text}


def _print(parts: Sequence[LogPart]) -> None:
    """Each part in turn; on a terminal a second one is announced."""
    style = Style.of(sys.stdout)
    for number, part in enumerate(parts):
        if part.path is None:
            print_text(part.text)
            continue
        if number and sys.stdout.isatty() and part.path.stat().st_size:
            click.echo(style.quiet(f"--- {part.name}"))
        with part.path.open("rb") as file:
            copy_to_stdout(file)


def _goes_on(store: RunStore, found: AttemptArtifacts) -> bool:
    """Whether more may be written: the attempt has not ended, and somebody is at the run. What there is, is brought."""
    driven = store.is_driven(found.run_id)  # asked before the records: whoever has left since has written them
    records = [entry.record for entry in store.journal.entries(found.run_id)]
    last, this = (
        find_artifacts(store.directory, records, found.stage, found.visit, attempt) for attempt in (None, found.attempt)
    )
    store.fetch_files(this)
    return driven and not this.done and last.attempt == found.attempt


def _follow(found: AttemptArtifacts, names: Sequence[str], goes_on: Callable[[], bool], pause: float) -> None:
    """Print what the files have and get, until the attempt has ended and all of it is printed."""
    with ExitStack() as stack:
        opened = {}
        more = True
        while more:
            more = goes_on()
            for name in names:
                if name not in opened and (path := found.file(f"{name}.log")):
                    opened[name] = stack.enter_context(path.open("rb"))
            for file in opened.values():
                copy_to_stdout(file)
            if more:
                time.sleep(pause)

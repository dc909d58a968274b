"""What one visit left, for its page: the prompt, the answer and the logs, of which no more is read than is shown.

Nothing in an address becomes part of a path: a log is named, and the record of the visit says where it is.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.history import STREAMS, AttemptArtifacts, find_artifacts
from pipeline.backends.spool import RedactionFilter
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal
from pipeline.errors import AwfError
from pipeline.redaction import Redactor
from pipeline.web.following import RunSnapshot
from pipeline.web.place import Place

TAIL = 64 * 1024  # bytes of a log that a page shows
LONGEST = 100_000  # characters of a prompt or an answer that a page shows
_CHUNK = 256 * 1024


class NoSuchText(AwfError):
    """A visit has no log, prompt or answer of this name."""


@dataclass(frozen=True, slots=True)
class VisitQuery:
    """Which visit somebody means; its last attempt when they do not say."""

    stage: str
    visit: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log, or what came after a place in it."""

    name: str
    text: str
    start: int  # the bytes before it
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Left:
    """What an attempt left."""

    found: AttemptArtifacts
    prompt: str
    response: str
    logs: tuple[Tail, ...]


def at_hand(place: Place, seen: RunSnapshot, wanted: VisitQuery) -> None:
    """Have the files of an attempt where they are read."""
    place.fetch_files(_found(place.directory, seen, wanted))


def left(store: Path, journal: Journal, seen: RunSnapshot, wanted: VisitQuery, redactor: Redactor) -> Left:
    """All that an attempt left, the logs by their ends."""
    found = _found(store, seen, wanted)
    outcome = _recorded(journal, found)
    prompt = journal.attached(found.run_id, found.seq) if found.seq is not None else ""
    logs = (tail(store, seen, wanted, name, redactor) for name in log_files(store, found))
    response = outcome.response if outcome else ""
    return Left(found, redactor.text(prompt), redactor.text(response), tuple(logs))


def text_of(store: Path, journal: Journal, seen: RunSnapshot, wanted: VisitQuery, name: str) -> str:
    """The whole prompt or answer of an attempt."""
    found = _found(store, seen, wanted)
    outcome = _recorded(journal, found)
    if name == "prompt" and found.seq is not None:
        return journal.attached(found.run_id, found.seq)
    if name == "response" and outcome:
        return outcome.response
    raise NoSuchText(f'visit {found.visit} of stage "{found.stage}" has no {name}')


def tail(
    store: Path, seen: RunSnapshot, wanted: VisitQuery, name: str, redactor: Redactor, after: int | None = None
) -> Tail:
    """The end of a log, or what comes after so many bytes; at most `TAIL` bytes of it."""
    path = _log(store, seen, wanted, name)
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = max(size - TAIL, 0) if after is None else min(max(after, 0), size)
        file.seek(start)
        data = file.read(TAIL)
    if after is None and start:
        whole = data.find(b"\n") + 1  # begin with a line, not within one
        start, data = start + whole, data[whole:]
    _, used = codecs.utf_8_decode(data, "replace", False)  # the rest of a cut character comes with the next look
    text = redactor.data(data[:used]).decode(errors="replace")
    return Tail(name, text, start, start + used, size)


def whole(path: Path, redactor: Redactor) -> Iterator[bytes]:
    """A log from its beginning to its end, piece by piece."""
    ready: list[bytes] = []
    with path.open("rb") as file, RedactionFilter(redactor, ready.append) as clean:
        while data := file.read(_CHUNK):
            clean.feed(data)
            yield b"".join(ready)
            ready.clear()
    yield b"".join(ready)


def log_path(store: Path, seen: RunSnapshot, wanted: VisitQuery, name: str) -> Path:
    """Where a log of an attempt is."""
    return _log(store, seen, wanted, name)


def log_files(store: Path, found: AttemptArtifacts) -> dict[str, Path]:
    """The logs of an attempt by name: those on record, and those that its program is writing."""
    named = {name: found.directory / f"{name}.log" for name in STREAMS}
    recorded = found.outcome.logs if found.outcome else {}
    named |= {name: store / path for name, path in recorded.items()}
    return {name: path for name, path in named.items() if _is_ours(store, path)}


def _is_ours(store: Path, path: Path) -> bool:
    """Whether a path is a file of the store, and not a link out of it: stages can write there."""
    return path.is_file() and path.resolve().is_relative_to(store.resolve())


def _log(store: Path, seen: RunSnapshot, wanted: VisitQuery, name: str) -> Path:
    found = _found(store, seen, wanted)
    path = log_files(store, found).get(name)
    if path is None:
        raise NoSuchText(f'visit {found.visit} of stage "{found.stage}" has no log "{name}"')
    return path


def _found(store: Path, seen: RunSnapshot, wanted: VisitQuery) -> AttemptArtifacts:
    return find_artifacts(store, seen.history, wanted.stage, wanted.visit, wanted.attempt)


def _recorded(journal: Journal, found: AttemptArtifacts) -> Outcome | None:
    """The outcome with all that it said, from its record."""
    if found.seq is None:
        return None
    record = next(journal.entries(found.run_id, found.seq - 1)).record
    outcome: Outcome | None = getattr(record, "outcome", None)
    return outcome

"""The files of attempts, such as the logs of tools: sent to the store before the record that names them.

While a stage runs, what its programs print is sent in parts. A part is named for the bytes before it, so that a reader
who has so many bytes knows what the next part is called, and has neither a gap nor anything twice.
"""

from pathlib import Path

from pipeline.app.history import STREAMS, AttemptArtifacts
from pipeline.cluster.artefacts import Artefacts
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, StageErrored, VisitCompleted

FILES = "files"  # what their keys begin with
_LARGEST = 4 * 1024 * 1024  # bytes of a part


def send(store: Artefacts, directory: Path, record: AnyRecord) -> None:
    """Put the files that a record names into the store."""
    for name in _named(record):
        if (directory / name).is_file():
            store.put(_key(name), (directory / name).read_bytes())


def send_part(store: Artefacts, directory: Path, name: str, sent: int) -> int:
    """Put what a file has beyond so many bytes into the store; the bytes that are there then."""
    path = directory / name
    if not path.is_file():
        return sent
    with path.open("rb") as file:
        file.seek(sent)
        more = file.read(_LARGEST)
    if more and not store.create(_part(name, sent), more):
        more = store.get(_part(name, sent))  # an earlier try arrived after all
    return sent + len(more)


def fetch(store: Artefacts, directory: Path, outcome: Outcome) -> None:
    """Have the files that an outcome names here; one that is nowhere is an error that says which."""
    for name in _below(outcome):
        path = directory / name
        if not path.exists():
            body = store.get(_key(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


def bring(store: Artefacts, directory: Path, found: AttemptArtifacts) -> None:
    """Have the files of an attempt here, or of one that runs, or was lost with its worker, what it printed so far."""
    names = _below(found.outcome) if found.outcome else _printed(directory, found)
    for name in names:
        path = directory / name
        have = path.stat().st_size if path.exists() else None
        more = _rest(store, name, have or 0) if found.done else _parts(store, name, have or 0)
        if more or (have is None and more is not None):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(more)


def _rest(store: Artefacts, name: str, after: int) -> bytes | None:
    whole = store.find(_key(name))
    return None if whole is None else whole[after:]


def _parts(store: Artefacts, name: str, after: int) -> bytes | None:
    """What was sent of a file beyond so many bytes; None when there is nothing."""
    more = b""
    while (part := store.find(_part(name, after + len(more)))) is not None:
        more += part
    return more or None


def _named(record: AnyRecord) -> list[str]:
    match record:
        case AttemptFailed() | StageErrored() | BranchCompleted() | VisitCompleted():
            return _below(record.outcome)
        case _:
            return []


def _below(outcome: Outcome) -> list[str]:
    """The names of those files of an outcome that are below the store's directory."""
    paths = map(Path, outcome.logs.values())
    return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]


def _printed(directory: Path, found: AttemptArtifacts) -> list[str]:
    return [str((found.directory / f"{name}.log").relative_to(directory)) for name in STREAMS]


def _key(name: str) -> str:
    return f"{FILES}/{name}"


def _part(name: str, before: int) -> str:
    return f"parts/{name}/{before:012d}"

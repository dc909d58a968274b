"""The files of attempts, such as the logs of tools: sent to the store before the record that names them."""

from pathlib import Path

from pipeline.cluster.artefacts import Artefacts
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, VisitCompleted


def send(store: Artefacts, directory: Path, record: AnyRecord) -> None:
    """Put the files that a record names into the store."""
    for name in _named(record):
        if (directory / name).is_file():
            store.put(_key(name), (directory / name).read_bytes())


def fetch(store: Artefacts, directory: Path, outcome: Outcome) -> None:
    """Have the files that an outcome names here; one that is nowhere is an error that says which."""
    for name in outcome.logs.values():
        path = directory / name
        if not Path(name).is_absolute() and not path.exists():
            body = store.get(_key(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


def _named(record: AnyRecord) -> list[str]:
    match record:
        case AttemptFailed() | BranchCompleted() | VisitCompleted():
            return [name for name in record.outcome.logs.values() if not Path(name).is_absolute()]
        case _:
            return []


def _key(name: str) -> str:
    return f"files/{name}"

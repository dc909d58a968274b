"""The ledger where it is kept: lines of the store, read as far as they are new, and only ever added to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline import files
from pipeline.engine.ports import Journal, JournalError
from pipeline.findings.events import AnyEvent, decode, encode
from pipeline.findings.ledger import Ledger


class Book:
    """The ledger of one store."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ledger = Ledger()
        self._read = 0  # lines

    def ledger(self) -> Ledger:
        """The findings as they stand now, whoever wrote them."""
        for number, line in self._journal.ledger(self._read):
            self._ledger.apply(event_of(number, line))
            self._read = number
        return self._ledger

    def enter(self, events: Sequence[AnyEvent]) -> None:
        """Add events, all of them or none."""
        if not events:
            return
        ledger, expected = self.ledger(), self._read + len(events)
        if self._journal.append_ledger(encode(event) for event in events) == expected:
            for event in events:
                ledger.apply(event)
            self._read = expected


@contextmanager
def held(store: Path) -> Iterator[None]:
    """Be the only command that takes findings in, so that two at once do not raise the same defect twice."""
    store.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(store):
        yield


def event_of(number: int, line: str) -> AnyEvent:
    """The event of a line of the ledger."""
    try:
        return decode(line)
    except ValueError as error:
        raise JournalError(
            f"line {number} of the ledger cannot be read: {error}",
            help="it may have been written by a newer awf; update it. Nothing was changed",
        ) from error

"""The ledger of a store and the rounds of reviews of a run, for those who mostly find none."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.journal.sqlite import SqliteJournal

if TYPE_CHECKING:
    from pipeline.findings.ledger import Ledger
    from pipeline.findings.rounds import Round


def ledger_of(store: Path) -> "Ledger | None":
    """The findings of a store; None where there are none that code can read."""
    with closing(SqliteJournal(store)) as journal:
        if next(journal.ledger(), None) is None:
            return None
        from pipeline.findings.book import Book  # noqa: PLC0415 - most runs have no ledger, and it takes a while to load

        return Book(journal).ledger()


def rounds_of(store: Path, run_id: str) -> "list[Round]":
    """What each round came to; nothing for a run without findings that code can read."""
    ledger = ledger_of(store)
    if ledger is None:
        return []
    from pipeline.findings.rounds import rounds  # noqa: PLC0415 - as above

    return rounds(ledger, run_id)

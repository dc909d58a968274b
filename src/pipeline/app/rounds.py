"""The rounds of reviews of a run, from the ledger of its store."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.journal.sqlite import SqliteJournal

if TYPE_CHECKING:
    from pipeline.findings.rounds import Round


def rounds_of(store: Path, run_id: str) -> "list[Round]":
    """What each round came to; nothing for a run without findings that code can read."""
    with closing(SqliteJournal(store)) as journal:
        if next(journal.ledger(), None) is None:
            return []
        from pipeline.findings.book import Book  # noqa: PLC0415 - most runs have no ledger, and it takes a while to load
        from pipeline.findings.rounds import rounds  # noqa: PLC0415 - as above

        return rounds(Book(journal).ledger(), run_id)

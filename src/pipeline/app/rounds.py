"""The rounds of reviews of a run, from the ledger that has them."""

from typing import TYPE_CHECKING

from pipeline.engine.ports import Journal

if TYPE_CHECKING:
    from pipeline.findings.rounds import Round


def rounds_of(journal: Journal, run_id: str) -> "list[Round]":
    """What each round came to; nothing for a run without findings that code can read."""
    if next(journal.ledger(), None) is None:
        return []
    from pipeline.findings.book import Book  # noqa: PLC0415 - most runs have no ledger, and it takes a while to load
    from pipeline.findings.rounds import rounds  # noqa: PLC0415 - as above

    return rounds(Book(journal).ledger(), run_id)

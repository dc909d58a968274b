"""The ledger behind a journal and the rounds of reviews of a run, for those who mostly find none."""

from typing import TYPE_CHECKING

from pipeline.engine.ports import Journal

if TYPE_CHECKING:
    from pipeline.findings.ledger import Ledger
    from pipeline.findings.rounds import Round


def ledger_of(journal: Journal) -> "Ledger | None":
    """The findings that a journal has; None where there are none that code can read."""
    if next(journal.ledger(), None) is None:
        return None
    from pipeline.findings.book import Book  # noqa: PLC0415 - most runs have no ledger, and it takes a while to load

    return Book(journal).ledger()


def rounds_of(journal: Journal, run_id: str) -> "list[Round]":
    """What each round came to; nothing for a run without findings that code can read."""
    ledger = ledger_of(journal)
    if ledger is None:
        return []
    from pipeline.findings.rounds import rounds  # noqa: PLC0415 - as above

    return rounds(ledger, run_id)

"""The ledger of a store for one command, with what people and agents changed in the files about it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.engine.ports import Journal
from pipeline.findings.book import Book, held
from pipeline.findings.codecs.reading import uncollected
from pipeline.findings.ledger import Ledger
from pipeline.findings.showing import Views
from pipeline.findings.views.binding import NO_TRUST, Trust
from pipeline.journal.sqlite import SqliteJournal


@dataclass(frozen=True, slots=True)
class Known:
    """The findings as they stand, and what was changed in the files that may not be."""

    ledger: Ledger
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writing:
    """A ledger that this command alone adds to."""

    book: Book
    views: Views
    problems: tuple[str, ...] = ()


def known(store: Path, root: Path, at: str) -> Known:
    """The findings of a store, with what somebody changed in the files. Looking writes nothing."""
    with closing(SqliteJournal(store)) as journal:
        return known_in(journal, root, at, store)


def known_in(journal: Journal, root: Path, at: str, store: Path | None = None) -> Known:
    """The findings of a journal's ledger, with what somebody changed in the files."""
    with uncollected():
        ledger = Book(journal).ledger()
    return with_edits(ledger, root, at, store)


def with_edits(ledger: Ledger, root: Path, at: str, store: Path | None = None) -> Known:
    """A ledger that nobody else uses, with what somebody changed in the files taken in."""
    edits = Views(root, store).take_back(ledger, at)
    for event in edits.events:
        ledger.apply(event)
    return Known(ledger, edits.problems)


@contextmanager
def writing(store: Path, root: Path, at: str, trust: Trust = NO_TRUST) -> Iterator[Writing]:
    """The ledger to be added to; what somebody changed in the files is in it before anything else."""
    with held(store), closing(SqliteJournal(store)) as journal:
        book, views = Book(journal), Views(root, store, trust)
        edits = views.take_back(book.ledger(), at)
        book.enter(edits.all)
        problems = edits.problems
        if edits.events:  # an edit is taken once, also when what follows is interrupted
            problems += views.reshow(book.ledger(), at)
        elif problems:
            problems += views.put_back(book.ledger(), at)
        yield Writing(book, views, tuple(dict.fromkeys(problems)))


def iso(now: datetime) -> str:
    """A moment as the ledger has it: whole seconds, in UTC."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

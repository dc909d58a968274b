"""Runs where they are kept, for those who look at them or have something for them: on this machine or on a cluster."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeline.app.artifacts import Artifacts
from pipeline.engine.ports import Journal, Letters
from pipeline.journal.letters import SqliteLetters
from pipeline.journal.lock import is_driven
from pipeline.journal.sqlite import SqliteJournal


@dataclass(frozen=True, slots=True)
class Files:
    """The files of attempts: where they are, or where they are put when somebody wants them."""

    directory: Path
    name: str  # what the place they come from is called in messages
    bring: Callable[[Artifacts], None]  # has those of an attempt in the directory, as far as they are written

    def shown(self, path: Path) -> str:
        """A file of the directory as it is called where it comes from."""
        inside = path.is_relative_to(self.directory)
        return f"{self.name}/{path.relative_to(self.directory)}" if inside else str(path)


@dataclass(frozen=True, slots=True)
class Attended:
    """Who has a run that is under way elsewhere; nothing is known of it while no worker answers."""

    worker: str | None = None  # the queue of the one that has its files; empty when none had a stage of it yet
    events: int | None = None  # of its workflow's history, which begins anew when it is long


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is known of runs, whoever runs them."""

    store: Path  # the directory of this machine
    name: str  # what the place is called in messages
    journal: Journal
    letters: Letters
    driven: Callable[[str], bool]  # whether somebody is at a run
    ledger: Callable[[str], Journal]  # whose ledger has what is known about a run's findings
    files: Files
    attended: Callable[[str], Attended | None] = lambda _: None  # of a run that somebody is at; None on this machine


@contextmanager
def local_shelf(store: Path) -> Iterator[Shelf]:
    """The runs of a store."""
    with closing(SqliteJournal(store.resolve())) as journal:
        files = Files(store, str(store), lambda _: None)
        driven = partial(is_driven, store)
        yield Shelf(store, str(store), journal, SqliteLetters(store), driven, lambda _: journal, files)

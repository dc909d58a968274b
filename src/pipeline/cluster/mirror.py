"""The runs of a cluster copied into a store of this machine, so that whoever reads such a store can look at them.

Only what is new is read. A run that is over is copied once; another is asked for its next record, the more seldom the
longer it has been quiet; and new runs are found by what was entered into the index since the last look.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from pathlib import Path

from pipeline.app.overview import status_after
from pipeline.cluster.artefacts import Artefacts, StoreAway
from pipeline.cluster.journal import INDEX, JournalObject, SharedJournal, entered
from pipeline.cluster.mirror_journal import LedgerOfRun, MirroredJournal
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError

QUIET = 20.0  # seconds without a record that make it one second longer until the next look
LONGEST = {RunStatus.RUNNING: 5.0}  # seconds between two looks at a run, by how it stands
SELDOM = 60.0  # the same, for one that waits for somebody, or whose records cannot be read
_APART = 600.0  # seconds by which the clocks of machines that start runs may differ
_FIRST = 64  # runs of which nothing is known yet, at one look
_PAGES = 1000  # of one run, at one look
_READERS = 16


@dataclass(slots=True)
class _Run:
    number: int
    moved: float  # when something happened to it
    read: int = 0  # pages
    status: RunStatus | None = None  # by its last record
    due: float = 0.0  # when it is looked at again
    trouble: str = ""  # what is wrong with its records
    lines: list[range] = field(default_factory=list)  # of the mirror's ledger


@dataclass(frozen=True, slots=True)
class News:
    """What a run has that its copy has not."""

    run_id: str
    pages: tuple[JournalObject, ...]
    trouble: str = ""

    @property
    def status(self) -> RunStatus | None:
        """How the run stands by it; None where it has no record."""
        return next((status_after(page.record) for page in reversed(self.pages) if page.record), None)


class Mirror:
    """A store with copies of a cluster's runs. One thread at a time looks and copies; any may ask what is known."""

    def __init__(self, store: Artefacts, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._store = store
        self._journal = SharedJournal(store)
        self._now = now
        self._runs: dict[str, _Run] = {}
        self._newest = ""  # the last name in the index

    @property
    def behind(self) -> bool:
        """Whether there are runs that nobody has looked at yet."""
        return any(run.due == 0 for run in list(self._runs.values()))

    def status(self, run_id: str) -> RunStatus | None:
        """How the copy of a run stands; None for one of which nothing is known."""
        known = self._runs.get(run_id)
        return known.status if known and not known.trouble else None

    def quiet(self, run_id: str) -> float:
        """The seconds since something happened to a run."""
        return max(self._now() - self._runs[run_id].moved, 0)

    def active(self) -> list[str]:
        """The runs that somebody is at, by their records, or that wait for a person."""
        return [name for name, run in list(self._runs.items()) if _is_active(run.status)]

    def troubles(self) -> list[str]:
        """What is wrong with the records of runs."""
        return [run.trouble for run in list(self._runs.values()) if run.trouble]

    def ledgers(self) -> list[str]:
        """The runs that have a ledger, the newest first."""
        found = [(run.number, name) for name, run in list(self._runs.items()) if run.lines]
        return [name for _, name in sorted(found, reverse=True)]

    def ledger(self, run_id: str) -> LedgerOfRun:
        """The store with the ledger of one run."""
        known = self._runs.get(run_id)
        return LedgerOfRun(self.directory, known.lines if known else ())

    def expect(self, run_id: str) -> None:
        """Something will happen to a run: look at it more often for a while."""
        if known := self._runs.get(run_id):
            known.moved = known.due = self._now()

    def look(self, run_ids: Iterable[str] | None = None) -> None:
        """Copy what is new, of all runs or of some."""
        self.keep(self.news(run_ids))

    def news(self, run_ids: Iterable[str] | None = None) -> list[News]:
        """What is new, of the runs whose turn it is or of some; nothing is copied yet."""
        self._find()
        wanted = self._due() if run_ids is None else [name for name in run_ids if name in self._runs]
        with ThreadPoolExecutor(_READERS) as readers:
            return list(readers.map(self._read, wanted))

    def keep(self, news: Sequence[News]) -> None:
        """Copy what was found, and say when to look again."""
        with closing(MirroredJournal(self.directory)) as journal:
            for one in news:
                self._copy(journal, one)

    def _find(self) -> None:
        """Take note of runs that were begun since the last look, whosever clock was behind."""
        after = f"{int(max(entered(self._newest)[0] - _APART, 0) * 1e9):020d}" if self._newest else ""
        names = self._store.names(INDEX, after)
        if self._newest and self._newest not in names:
            raise StoreAway(
                f"the store {self._store.name} has nothing of what was in it",
                help="see that it is mounted, and that it is the one that the workers have",
            )
        for name in names:
            at, run_id = entered(name)
            if at:  # nobody but us writes there, and what somebody put there by hand is no run
                self._runs.setdefault(run_id, _Run(len(self._runs) + 1, at))
                self._newest = max(self._newest, name)

    def _due(self) -> list[str]:
        """Those that are known and may have moved, and then the newest of those that are not."""
        now = self._now()
        moving = [name for name, run in self._runs.items() if 0 < run.due <= now]
        unknown = (name for name, run in reversed(self._runs.items()) if run.due == 0)
        return [*moving, *islice(unknown, _FIRST)]

    def _read(self, run_id: str) -> News:
        pages: list[JournalObject] = []
        try:
            for page in islice(self._journal.pages(run_id, self._runs[run_id].read), _PAGES):
                pages.append(page)  # noqa: PERF402 - those before a damaged one are kept
        except StoreAway:
            raise
        except AwfError as error:
            return News(run_id, tuple(pages), error.message)
        return News(run_id, tuple(pages))

    def _copy(self, journal: MirroredJournal, news: News) -> None:
        run = self._runs[news.run_id]
        rows = [(page.record, page.attached, page.lines) for page in news.pages if page.seq > run.read]
        if rows:
            lines = journal.copy(news.run_id, run.number, rows)
            run.lines += [lines] if lines else []
            run.read, run.status = news.pages[-1].seq, news.status or run.status
            run.moved = max([run.moved, *(page.record.at for page in news.pages if page.record)])
        run.trouble = news.trouble
        run.due = self._now() if len(news.pages) == _PAGES else self._again(run)

    def _again(self, run: _Run) -> float:
        """When to look at a run again: never at one that is over."""
        if run.status and run.status.final:
            return inf
        now = self._now()
        longest = LONGEST.get(run.status, SELDOM) if run.status and not run.trouble else SELDOM
        return now + min(max(now - run.moved, 0) / QUIET, longest)


def _is_active(status: RunStatus | None) -> bool:
    return status in (RunStatus.RUNNING, RunStatus.WAITING)

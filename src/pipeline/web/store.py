"""The one reader of a store behind all pages: its runs and findings, of which only what was added is read."""

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from threading import Lock

from pipeline.app.findings.ledger import LedgerSnapshot, find_repository, timestamp, with_view_edits
from pipeline.app.findings.queries import ALL_STATES, FindingFilter, select
from pipeline.app.history import HistoryBuilder, RunHistory
from pipeline.app.overview import RunOverview, RunSummary, overview_of, running_status, summarize, summarize_ends
from pipeline.app.store import RunStore
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal, JournalEntry, JournalError
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger, apply_line
from pipeline.findings.lines import Line
from pipeline.findings.reviews import Review, review, review_of_run
from pipeline.findings.rounds import Round, rounds
from pipeline.findings.untaken import untaken
from pipeline.findings.views import records, verdict_file
from pipeline.findings.walk.report import render_report
from pipeline.findings.walk.session import triage_of_run
from pipeline.journal.sqlite import LEDGER, SqliteJournal, StoreHeads

UNREADABLE = "unreadable"  # the status of a run whose records are damaged, or were written by a newer awf
_MAX_HISTORIES = 32  # runs whose next record is read without reading the earlier ones again
_MAX_LEDGERS = 16  # of the runs of a cluster
_MAX_GOAL = 1000  # characters of a goal that are kept and searched
_ASSESSED = '{"kind":"assessed"'  # how the line of a pass starts

OpenStore = Callable[[], AbstractContextManager[RunStore]]
FileStamps = tuple[tuple[str, int, int], ...]  # path, time and size of files


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run after one of its records. The answers of its stages are left out: they may be large."""

    history: RunHistory
    head: int  # the number of the run's last record
    driven: bool | None  # whether a process or worker drives the run; None if that is unknown
    review: Review | None = None  # as of now; None if nobody has looked
    ledger_unread: bool = False  # whether the ledger could not be read, so that nothing is known of its findings

    @property
    def state(self) -> State:
        """The state after that record."""
        return self.history.state

    @property
    def is_latest(self) -> bool:
        """Whether that record is the run's last one."""
        return self.history.position == self.head

    @property
    def status(self) -> str:
        """The status to show."""
        running = self.state.status is RunStatus.RUNNING
        return running_status(driven=self.driven) if running else str(self.state.status)

    def overview(self) -> RunOverview:
        """The run on one screen."""
        return overview_of(self.history, self.review, driven=self.driven)


class FindingsView:
    """The findings of a ledger at one moment, in a ledger that nobody changes. Any thread may use it."""

    def __init__(self, snapshot: LedgerSnapshot) -> None:
        self.snapshot = snapshot
        self._reviews: dict[str, Review | None] = {}

    @property
    def ledger(self) -> Ledger:
        """All findings."""
        return self.snapshot.ledger

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """All lines of work, the most important first."""
        return tuple(select(self.ledger.lines(), FindingFilter(states=ALL_STATES)))

    @cached_property
    def review(self) -> Review:
        """What is known about the last target."""
        return review(self.ledger)

    def review_of(self, run_id: str) -> Review | None:
        """Return what is known about the target of a run; None if nobody has looked in it."""
        if run_id not in self._reviews:
            self._reviews[run_id] = review_of_run(self.ledger, run_id)
        return self._reviews[run_id]

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The stages that reported findings."""
        return tuple(sorted({finding.stage for finding in self.ledger.findings.values()} - {""}))

    @cached_property
    def reviewers(self) -> tuple[str, ...]:
        """Everyone who reported a finding."""
        return tuple(sorted({finding.reviewer for finding in self.ledger.findings.values()} - {""}))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files that findings are about."""
        places = (place for finding in self.ledger.findings.values() for place in finding.locations)
        return tuple(sorted({place.path for place in places}))


class StoreReader:
    """Reads one store for all pages, and each time only what was added. Any thread may use it.

    When another store has replaced the one it knows, it forgets everything and reads from the start.
    """

    def __init__(self, open_store: OpenStore) -> None:
        self.open = open_store
        self.generation = 0  # how often another store has replaced the one that was known
        with open_store() as store:
            self.directory, self.title = store.directory, store.title
            self.project, self.command_options = store.project, store.command_options
            self.cluster = store if store.on_cluster else None  # any thread may use it; each run has a ledger there
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._heads: dict[str, int] = {}
        self._last_line = (0, "")
        self._rounds: dict[str, set[int]] = {}
        self._summaries: dict[str, tuple[int, RunSummary]] = {}  # with the number of the last record then
        self._histories: OrderedDict[str, HistoryBuilder] = OrderedDict()
        self._ledgers: dict[str, LedgerReader] = {}

    def open_journal(self) -> AbstractContextManager[Journal]:
        """The journal that the pages read, for the calling thread."""
        return closing(SqliteJournal(self.directory))

    def heads(self) -> dict[str, int]:
        """The number of each run's last record, oldest run first, and that of the ledger's last line as `LEDGER`."""
        with self._lock, self.open_journal() as journal:
            return dict(self._sync(journal))

    def run(self, run_id: str, at: int | None = None) -> RunSnapshot:
        """A run as it is now, or after record `at`; the first or last record where there is no such number."""
        view = self._view(run_id)
        found, unread = view.review_of(run_id) if view else None, view is None
        with self.open() as store, self.open_journal() as journal:
            if at is not None:
                head = journal.last(run_id).seq
                position = min(max(at, 1), head)
                if position < head:
                    earlier = takewhile(lambda entry: entry.seq <= position, journal.entries(run_id))
                    return RunSnapshot(_extend(None, earlier).build(), head, True, found, unread)
            with self._lock:
                self._sync(journal)
                history = self._read_history(journal, run_id)
            return RunSnapshot(history, history.position, store.driven_status(run_id), found, unread)

    def runs(self) -> Iterator[tuple[RunSummary, int]]:
        """Every run with the number of its review rounds, newest first; each is read when it is asked for."""
        view = None if self.cluster else self._view()
        with self.open() as store, self.open_journal() as journal:
            with self._lock:
                heads, generation = self._sync(journal), self.generation
            for run_id in reversed([name for name in heads if name != LEDGER]):
                with self._lock:
                    if generation != self.generation:
                        return  # open pages load the new store
                    summary = self._read_summary(journal, run_id, heads[run_id])
                    count = len(self._rounds.get(run_id, ()))
                if self.cluster:
                    view = self._view(run_id)
                found = view.review_of(run_id) if view else None
                summary = replace(summary, findings=len(found.open) if found else 0)
                yield summary.resolve_status(store.driven_status), count

    def findings(self, run_id: str = "") -> FindingsView:
        """Return the findings of the store, or of one run where each run has a ledger of its own."""
        with self.open() as store, closing(store.ledger(run_id)) as journal:
            return self._ledger(run_id).read(journal)

    def review_rounds(self, run_id: str) -> list[Round]:
        """Return the review rounds of a run."""
        return rounds(self.findings(run_id).ledger, run_id)

    def triage_report(self, run_id: str) -> str:
        """Return what was decided in the triage of a run and what became of the fixes; empty if nothing was."""
        walk = triage_of_run(self.findings(run_id).ledger, run_id)
        return render_report(walk) if walk else ""

    def _view(self, run_id: str = "") -> FindingsView | None:
        """Return the findings; None if the ledger cannot be read, which the findings page explains."""
        with suppress(JournalError):
            return self.findings(run_id)
        return None

    @cached_property
    def root(self) -> Path:
        """The repository that the findings are about."""
        project = self.project if self.cluster else self.directory.parent
        return find_repository(None, project, os.environ).root

    def _sync(self, journal: Journal) -> dict[str, int]:
        """Read how far the store has come; forget everything if another store has replaced it."""
        with closing(StoreHeads(self.directory)) as reader:
            heads = reader.read()
        if self._is_replaced(heads, journal):
            self.generation += 1
            self._forget()
        self._heads = heads
        with suppress(JournalError):  # a damaged ledger is reported where findings are read; it hides no run
            for number, line in journal.ledger(self._last_line[0]):
                if line.startswith(_ASSESSED):  # folding the whole ledger takes 0.5 s for 10,000 findings
                    fields = json.loads(line)["assessment"]
                    self._rounds.setdefault(fields.get("run", ""), set()).add(fields.get("round", 1))
                self._last_line = (number, line)
        return heads

    def _is_replaced(self, heads: dict[str, int], journal: Journal) -> bool:
        """Whether a run has fewer records than it had, or the ledger has another line where the last one was."""
        if any(heads.get(name, 0) < head for name, head in self._heads.items()):
            return True
        number, _ = self._last_line
        with suppress(JournalError):
            return number > 0 and next(journal.ledger(number - 1), None) != self._last_line
        return True

    def _read_history(self, journal: Journal, run_id: str) -> RunHistory:
        """Read the records that were added to a run."""
        known = self._histories.pop(run_id, None)
        builder = _extend(known, journal.entries(run_id, known.position if known else 0))
        self._histories[run_id] = builder
        if len(self._histories) > _MAX_HISTORIES:
            self._histories.popitem(last=False)
        return builder.build()

    def _read_summary(self, journal: Journal, run_id: str, head: int) -> RunSummary:
        position, summary = self._summaries.get(run_id, (0, None))
        if summary is not None and position >= head:
            return summary
        try:
            summary = summarize(self._read_history(journal, run_id))
        except JournalError as error:
            summary = RunSummary(run_id, "", "", 0.0, 0.0, UNREADABLE, error.message)
        except AwfError as error:
            summary = summarize_ends(journal, run_id, error.message)
        summary = replace(summary, goal=summary.goal[:_MAX_GOAL])
        self._summaries[run_id] = (head, summary)
        return summary

    def _ledger(self, run_id: str) -> "LedgerReader":
        key = run_id if self.cluster else ""
        with self._lock, self.open_journal() as journal:
            self._sync(journal)
            if key not in self._ledgers:
                if len(self._ledgers) >= _MAX_LEDGERS:
                    self._ledgers.clear()
                self._ledgers[key] = LedgerReader(self.root, self.directory)
            return self._ledgers[key]


class LedgerReader:
    """Reads one ledger: each time only its new lines, and the view files only after one was written."""

    def __init__(self, root: Path, store: Path) -> None:
        self._root = root
        self._store = store
        self._lock = Lock()
        self._ledger = Ledger()
        self._position = 0  # the number of the last line that was read
        self._read: tuple[int, FileStamps, FindingsView] | None = None
        self._unedited: FileStamps | None = ()  # the view files when none of them was edited

    def read(self, journal: Journal) -> FindingsView:
        """Return the findings, with what people and agents said in the view files."""
        with self._lock:
            for number, line in journal.ledger(self._position):
                apply_line(self._ledger, number, line)
                self._position = number
            stamps, waits = tuple(_file_stamps(self._root)), untaken(journal)
            if waits != self._ledger.untaken:
                self._ledger.untaken, self._read = waits, None
            if self._read is None or self._read[:2] != (self._position, stamps):
                self._read = (self._position, stamps, FindingsView(self._snapshot(stamps)))
            return self._read[2]

    def _snapshot(self, stamps: FileStamps) -> LedgerSnapshot:
        if stamps == self._unedited:  # reading 10,000 files takes seconds
            return LedgerSnapshot(self._ledger.copy())
        snapshot = with_view_edits(self._ledger.copy(), self._root, self._store, timestamp(datetime.now(UTC)))
        unedited = snapshot.ledger.findings == self._ledger.findings and not snapshot.problems
        self._unedited = stamps if unedited else None
        return snapshot


def _extend(builder: HistoryBuilder | None, entries: Iterable[JournalEntry]) -> HistoryBuilder:
    """Add records to a history, or begin one with them; answers are left out."""
    for entry in entries:
        if builder is None:
            builder = HistoryBuilder(entry.record)
        else:
            builder.add(_without_answers(entry.record))
    if builder is None:
        raise JournalError("this run has no records", help="its store is damaged: restore it from a backup")
    return builder


def _without_answers(record: AnyRecord) -> AnyRecord:
    """The record without what its stage answered, which its operations have put where the run needs it."""
    outcome = getattr(record, "outcome", None)
    if not isinstance(outcome, Outcome):
        return record
    nothing: dict[str, object] = {"response": "", "updates": {}}
    changed: dict[str, object] = {"outcome": outcome.model_copy(update=nothing)}
    if branches := getattr(record, "branches", ()):
        changed["branches"] = tuple(
            branch.model_copy(update={"outcome": branch.outcome.model_copy(update=nothing)}) for branch in branches
        )
    return record.model_copy(update=changed)


def _file_stamps(root: Path) -> Iterator[tuple[str, int, int]]:
    """The times and sizes of the view files, which change when one is written; reading them all takes seconds."""
    for folder, prefix in ((verdict_file.DIRECTORY, "review-"), (f"{records.DIRECTORY}/findings", "fnd_")):
        with suppress(OSError):  # there is none, or it cannot be read: either way it has no edits
            for entry in os.scandir(root / folder):
                if entry.name.startswith(prefix):
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status.st_mtime_ns, status.st_size

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

from pipeline.app.findings.ledger import LedgerSnapshot, apply_view_edits, find_repository, timestamp
from pipeline.app.findings.queries import ALL_STATES, FindingFilter, VerdictSummary, select, summarize_verdict
from pipeline.app.history import HistoryBuilder, RunHistory
from pipeline.app.overview import RunOverview, RunSummary, overview_of, running_status, summarize, summarize_ends
from pipeline.app.store import RunStore
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal, JournalEntry, JournalError
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger, apply_line, hidden_items, open_findings_by_run
from pipeline.findings.model import Finding
from pipeline.findings.rounds import Round, rounds
from pipeline.findings.views import records, verdict_file
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
    findings: tuple[Finding, ...] = ()  # the open ones, as of now
    filtered: int = 0  # items that the gate filtered or demoted
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
        return overview_of(self.history, self.findings, self.filtered, driven=self.driven)


@dataclass(frozen=True, slots=True)
class FindingsView:
    """The findings of a ledger at one moment."""

    snapshot: LedgerSnapshot
    findings: tuple[Finding, ...]  # those that are not merged into another, the most important first
    verdict: VerdictSummary
    stages: tuple[str, ...]
    reviewers: tuple[str, ...]
    files: tuple[str, ...]


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
        found = self._open_findings(run_id)
        findings, filtered, unread = tuple((found or {}).get(run_id, ())), self._filtered(run_id), found is None
        with self.open() as store, self.open_journal() as journal:
            if at is not None:
                head = journal.last(run_id).seq
                position = min(max(at, 1), head)
                if position < head:
                    earlier = takewhile(lambda entry: entry.seq <= position, journal.entries(run_id))
                    return RunSnapshot(_extend(None, earlier).build(), head, True, findings, filtered, unread)
            with self._lock:
                self._sync(journal)
                history = self._read_history(journal, run_id)
            return RunSnapshot(history, history.position, store.driven_status(run_id), findings, filtered, unread)

    def runs(self) -> Iterator[tuple[RunSummary, int]]:
        """Every run with the number of its review rounds, newest first; each is read when it is asked for."""
        found = {} if self.cluster else self._open_findings() or {}
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
                    found = self._open_findings(run_id) or {}
                summary = replace(summary, findings=len(found.get(run_id, ())))
                yield summary.resolve_status(store.driven_status), count

    def findings(self, run_id: str = "") -> FindingsView:
        """The findings of the store, or of one run where each run has a ledger of its own."""
        with self.open() as store, closing(store.ledger(run_id)) as journal:
            return self._ledger(run_id).read_view(journal)

    def review_rounds(self, run_id: str) -> list[Round]:
        """The review rounds of a run."""
        with self.open() as store, closing(store.ledger(run_id)) as journal:
            return self._ledger(run_id).read_rounds(journal, run_id)

    def _open_findings(self, run_id: str = "") -> dict[str, list[Finding]] | None:
        """The open findings by run; None if the ledger cannot be read, which the findings page explains."""
        with suppress(JournalError), self.open() as store, closing(store.ledger(run_id)) as journal:
            return self._ledger(run_id).read_open(journal)
        return None

    def _filtered(self, run_id: str) -> int:
        """How many items of a run the gate filtered; none where the ledger cannot be read."""
        with suppress(JournalError), self.open() as store, closing(store.ledger(run_id)) as journal:
            return self._ledger(run_id).count_filtered(journal, run_id)
        return 0

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
                self._ledgers[key] = LedgerReader(self.root)
            return self._ledgers[key]


class LedgerReader:
    """Reads one ledger: each time only its new lines, and the view files only after one was written."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = Lock()
        self._ledger = Ledger()
        self._position = 0  # the number of the last line that was read
        self._view: tuple[int, FileStamps, FindingsView] | None = None
        self._open: tuple[int, dict[str, list[Finding]]] | None = None  # by run, and the position then
        self._unedited: FileStamps | None = ()  # the view files when none of them was edited

    def read_view(self, journal: Journal) -> FindingsView:
        """The findings, with what people and agents edited in the view files. Writes nothing."""
        with self._lock:
            self._read_lines(journal)
            stamps = tuple(_file_stamps(self._root))
            if self._view is None or self._view[:2] != (self._position, stamps):
                self._view = (self._position, stamps, _build_view(self._snapshot(stamps)))
            return self._view[2]

    def read_open(self, journal: Journal) -> dict[str, list[Finding]]:
        """The open findings by run."""
        with self._lock:
            self._read_lines(journal)
            if self._open is None or self._open[0] != self._position:
                self._open = (self._position, open_findings_by_run(self._ledger))
            return self._open[1]

    def count_filtered(self, journal: Journal, run_id: str) -> int:
        """How many items of a run's last reviews the gate filtered or demoted."""
        with self._lock:
            self._read_lines(journal)
            return len(hidden_items(self._ledger, run_id))

    def read_rounds(self, journal: Journal, run_id: str) -> list[Round]:
        """The review rounds of a run."""
        with self._lock:
            self._read_lines(journal)
            return rounds(self._ledger, run_id)

    def _read_lines(self, journal: Journal) -> None:
        for number, line in journal.ledger(self._position):
            apply_line(self._ledger, number, line)
            self._position = number

    def _snapshot(self, stamps: FileStamps) -> LedgerSnapshot:
        if stamps == self._unedited:  # reading 10,000 files takes seconds
            return LedgerSnapshot(self._ledger.copy())
        snapshot = apply_view_edits(self._ledger.copy(), self._root, timestamp(datetime.now(UTC)))
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


def _build_view(snapshot: LedgerSnapshot) -> FindingsView:
    findings = tuple(select(snapshot.ledger, FindingFilter(states=ALL_STATES)))
    votes = [vote for finding in findings for vote in finding.votes]
    return FindingsView(
        snapshot,
        findings,
        summarize_verdict(snapshot.ledger),
        tuple(sorted({vote.stage for vote in votes} - {""})),
        tuple(sorted({vote.reviewer for vote in votes} - {""})),
        tuple(sorted({location.path for finding in findings for location in finding.locations})),
    )


def _file_stamps(root: Path) -> Iterator[tuple[str, int, int]]:
    """The times and sizes of the view files, which change when one is written; reading them all takes seconds."""
    for folder, prefix in ((verdict_file.DIRECTORY, "review-"), (f"{records.DIRECTORY}/findings", "fnd_")):
        with suppress(OSError):  # there is none, or it cannot be read: either way it has no edits
            for entry in os.scandir(root / folder):
                if entry.name.startswith(prefix):
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status.st_mtime_ns, status.st_size

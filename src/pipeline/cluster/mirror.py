"""A copy of a cluster's runs in a store on this machine, for the dashboard.

Only what is new is read. A run that has ended is copied once; any other is asked for its next record, less often the
longer nothing happened; and new runs are found by what was added to the index since the last time.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from math import inf
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from pipeline.app.history import AttemptArtifacts
from pipeline.app.overview import status_after
from pipeline.cluster.client import WORKFLOW_ID, ClusterStore, open_cluster
from pipeline.cluster.journal import INDEX, JournalObject, SharedJournal, parse_index_name
from pipeline.cluster.messages import WORKFLOW
from pipeline.cluster.object_store import ObjectStore, StoreUnavailable
from pipeline.engine.ports import HumanAnswer
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.journal import check_run_id
from pipeline.journal.codec import encode
from pipeline.journal.sqlite import SqliteJournal, insert_lines, insert_record

LONGEST_RUNNING = 5.0  # seconds between two reads of a run that is running
LONGEST_STOPPED = 60.0  # the same for one that has stopped, or whose records cannot be read
_QUIET = 20.0  # seconds without a record that make the time until the next read one second longer
_CLOCK_SKEW = 600.0  # seconds by which the clocks of machines that start runs may differ
_FIRST_RUNS = 64  # runs that are read for the first time in one update
_MOST_OBJECTS = 1000  # of one run in one update
_READERS = 16
_ACTIVE = (RunStatus.RUNNING, RunStatus.WAITING)

_UPDATE_INTERVAL = 1.0  # seconds
_LIST_INTERVAL = 5.0  # seconds between two requests for all open workflows
_QUERY_TIMEOUT = 5.0  # seconds for the server to respond to a question
_HANDOVER = 30.0  # seconds from the first record of a run until the server knows it
_CLOSE_TIMEOUT = 5.0  # seconds for the last update to end
_MOST_PROBLEMS = 3  # damaged runs that are named


class MirroredJournal(SqliteJournal):
    """A store into which runs are copied. Its ledger holds the lines of all runs, in the order they were copied."""

    def copy(self, run_id: str, number: int, objects: Iterable[JournalObject]) -> range:
        """Add the new objects of a run, all or none, and return the numbers of its lines in the ledger.

        The runs of the store are listed by their numbers.
        """
        check_run_id(run_id)
        lines: list[str] = []
        with self._transaction(create=True) as database:
            database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?)", (number, run_id))
            seq = database.execute("SELECT max(seq) FROM records WHERE run = ?", (number,)).fetchone()[0] or 0
            for one in objects:
                lines += one.lines
                if one.record is not None:
                    seq += 1
                    insert_record(database, number, seq, encode(one.record), one.attached)
            end = insert_lines(database, lines)
        return range(end - len(lines) + 1, end + 1)

    def _open(self) -> sqlite3.Connection:
        is_new = self._database is None
        database = super()._open()
        if is_new:
            database.execute("PRAGMA synchronous=OFF")  # what a crash loses is copied again
        return database


class RunLedgerJournal(SqliteJournal):
    """The mirror with the lines of one run as its ledger: `parts` of the whole ledger."""

    def __init__(self, directory: Path, parts: Sequence[range]) -> None:
        super().__init__(directory)
        self._parts = tuple(parts)

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        whole = super().ledger
        lines = (line for part in self._parts for _, (_, line) in zip(part, whole(part.start - 1), strict=False))
        return islice(enumerate(lines, start=1), after, None)


@dataclass(slots=True)
class _MirroredRun:
    number: int
    changed: float  # when the latest record was written
    read: int = 0  # objects
    status: RunStatus | None = None  # by its latest record
    due: float = 0.0  # when it is read again; 0 if it was never read
    problem: str = ""  # what is wrong with its records
    lines: list[range] = field(default_factory=list)  # in the mirror's ledger


class Mirror:
    """A store with copies of a cluster's runs. One thread at a time reads and copies; any may ask what is known."""

    def __init__(self, store: ObjectStore, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._store = store
        self._journal = SharedJournal(store)
        self._now = now
        self._runs: dict[str, _MirroredRun] = {}
        self._newest = ""  # the last name in the index

    @property
    def behind(self) -> bool:
        """Whether there are runs that were never read."""
        return any(run.due == 0 for run in list(self._runs.values()))

    def status(self, run_id: str) -> RunStatus | None:
        """Return the status of a run; None if it is not known."""
        run = self._runs.get(run_id)
        return run.status if run and not run.problem else None

    def quiet_for(self, run_id: str) -> float:
        """Return the seconds since the latest record of a run."""
        return max(self._now() - self._runs[run_id].changed, 0)

    def active(self) -> list[str]:
        """Return the runs that are running or wait for a person, by their records."""
        return [name for name, run in list(self._runs.items()) if run.status in _ACTIVE]

    def problems(self) -> list[str]:
        """Return what is wrong with the records of runs."""
        return [run.problem for run in list(self._runs.values()) if run.problem]

    def runs_with_findings(self) -> list[str]:
        """Return the runs that have a ledger, newest first."""
        found = [(run.number, name) for name, run in list(self._runs.items()) if run.lines]
        return [name for _, name in sorted(found, reverse=True)]

    def ledger(self, run_id: str) -> RunLedgerJournal:
        """Return the store with the ledger of one run."""
        run = self._runs.get(run_id)
        return RunLedgerJournal(self.directory, run.lines if run else ())

    def expect(self, run_id: str) -> None:
        """Read a run more often for a while, because something will happen to it."""
        if run := self._runs.get(run_id):
            run.changed = run.due = self._now()

    def update(self, run_ids: Iterable[str] | None = None) -> None:
        """Copy what is new: of the runs that are due, or of some."""
        self._find_runs()
        wanted = self._due_runs() if run_ids is None else [name for name in run_ids if name in self._runs]
        with ThreadPoolExecutor(_READERS) as readers, closing(MirroredJournal(self.directory)) as journal:
            for run_id, (objects, problem) in zip(wanted, readers.map(self._read_run, wanted), strict=True):
                self._copy_run(journal, run_id, objects, problem)

    def _find_runs(self) -> None:
        """Add the runs that were started since the last time, even if the clock of their machine is slow."""
        after = f"{int(max(parse_index_name(self._newest)[0] - _CLOCK_SKEW, 0) * 1e9):020d}" if self._newest else ""
        names = self._store.names(INDEX, after)
        if self._newest and self._newest not in names:
            raise StoreUnavailable(
                f"the store {self._store.name} no longer has what was in it",
                help="check that it is mounted, and that it is the one that the workers use",
            )
        for name in names:
            at, run_id = parse_index_name(name)
            if at:  # not a name that a person has put there
                self._runs.setdefault(run_id, _MirroredRun(len(self._runs) + 1, at))
                self._newest = max(self._newest, name)

    def _due_runs(self) -> list[str]:
        """Return the known runs that are due, then the newest that were never read."""
        now = self._now()
        due = [name for name, run in self._runs.items() if 0 < run.due <= now]
        unread = (name for name, run in reversed(self._runs.items()) if run.due == 0)
        return [*due, *islice(unread, _FIRST_RUNS)]

    def _read_run(self, run_id: str) -> tuple[list[JournalObject], str]:
        """Return the new objects of a run, as far as they can be read, and what is wrong with the next one."""
        objects: list[JournalObject] = []
        try:
            for one in islice(self._journal.objects(run_id, self._runs[run_id].read), _MOST_OBJECTS):
                objects.append(one)  # noqa: PERF402 - those before a damaged one are kept
        except StoreUnavailable:
            raise
        except AwfError as error:
            return objects, error.message
        return objects, ""

    def _copy_run(self, journal: MirroredJournal, run_id: str, objects: list[JournalObject], problem: str) -> None:
        """Copy the new objects of a run, and decide when to read it again."""
        run, now = self._runs[run_id], self._now()
        run.problem = problem
        if objects:
            lines = journal.copy(run_id, run.number, objects)
            run.lines += [lines] if lines else []
            run.read = objects[-1].seq
        for one in objects:
            if one.record is not None:
                run.status, run.changed = status_after(one.record), max(run.changed, one.record.at)
        if len(objects) == _MOST_OBJECTS:
            run.due = now
        elif run.status and run.status.final:
            run.due = inf
        else:
            is_running = run.status is RunStatus.RUNNING and not run.problem
            longest = LONGEST_RUNNING if is_running else LONGEST_STOPPED
            run.due = now + min(max(now - run.changed, 0) / _QUIET, longest)


class MirroredStore(ClusterStore):
    """A cluster as the dashboard shows it: pages read the mirror, actions go to the cluster.

    While the server or the store is unavailable it does not claim to know whether a run is driven.
    """

    call_timeout = 90.0  # seconds, for a run to stop
    on_cluster = True

    def __init__(self, *connection: Any) -> None:
        super().__init__(*connection)
        self.name = self.client.namespace
        self.project = Path.cwd()
        self._mirror = Mirror(self.objects, self.directory)
        self._open: dict[str, bool] = {}  # whether an active run has an open workflow, as the server said last
        self._listed_at = 0.0  # when the server was asked for all open workflows
        self._unavailable: dict[str, str] = {}  # what does not respond, with a message
        self._complete: set[Path] = set()  # directories whose files are copied to their ends
        self._fetching = Lock()
        self._updating = Lock()  # one thread at a time uses the mirror's database

    def driven_status(self, run_id: str) -> bool | None:
        status = self._mirror.status(run_id)
        if self._unavailable or status is None:
            return None
        if status not in _ACTIVE:
            return False
        is_open = self._open.get(run_id)
        if is_open is False and self._mirror.quiet_for(run_id) < _HANDOVER:
            return None
        return is_open

    def connection_problem(self) -> str:
        return "; ".join(self._unavailable.values())

    def run_problems(self) -> Sequence[str]:
        problems = self._mirror.problems()
        more = len(problems) - _MOST_PROBLEMS
        return [*problems[:_MOST_PROBLEMS], *([f"and {more} more runs have damaged records"] if more > 0 else [])]

    def runs_with_findings(self) -> Sequence[str]:
        return self._mirror.runs_with_findings()

    def ledger(self, run_id: str) -> RunLedgerJournal:
        return self._mirror.ledger(run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        with self._fetching:
            if found.directory not in self._complete and not self._unavailable:
                super().fetch_files(found)
                self._complete |= {found.directory} if found.done else set()

    def refresh(self, run_id: str) -> None:
        """Copy what is new of a run at once, and read it more often for a while."""
        with self._updating:
            self._mirror.expect(run_id)
            self._mirror.update([run_id])
            self._ask_server()

    def wake(self, answer: HumanAnswer) -> bool:
        continues = super().wake(answer)
        self.refresh(answer.run_id)
        return continues

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        recorded = super().cancel(run_id, by=by, reason=reason, wait=wait)
        self.refresh(run_id)
        return recorded

    def keep_updated(self, stop: Event) -> None:
        """Update the mirror until it is stopped."""
        while not stop.is_set():
            self.update()
            stop.wait(0 if self._mirror.behind and not self._unavailable else _UPDATE_INTERVAL)

    def update(self) -> None:
        """Read the store and ask the server once, each even if the other is unavailable."""
        with self._updating:
            with self._noting_problems("store"):
                self._mirror.update()
            self._ask_server()

    def _ask_server(self) -> None:
        """Ask which active runs have an open workflow.

        The list of all may be a moment old, and is not asked for each time: a run that is not in it, and may have a
        workflow, is asked about by its name.
        """
        with self._noting_problems("server"):
            active = self._mirror.active()
            is_open = {run for run in active if self._open.get(run)}
            if time.monotonic() - self._listed_at > _LIST_INTERVAL or "server" in self._unavailable:
                is_open = self.call(self._list_open_runs(), _QUERY_TIMEOUT)
                self._listed_at = time.monotonic()
            new = {run for run in active if self._open.get(run, True) or self._mirror.quiet_for(run) < _HANDOVER}
            asked = self.call(self.are_open(new - is_open), _QUERY_TIMEOUT)
            self._open = {run: asked.get(run, run in is_open) for run in active}

    async def _list_open_runs(self) -> set[str]:
        query = f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus = 'Running'"
        return {found.id.removeprefix(WORKFLOW_ID) async for found in self.client.list_workflows(query)}

    @contextmanager
    def _noting_problems(self, part: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, pages say that they are not up to date
            if part not in self._unavailable:
                message = error.message if isinstance(error, AwfError) else f"{type(error).__name__}: {error}"
                since = f"{datetime.now().astimezone():%H:%M:%S}"
                self._unavailable = {**self._unavailable, part: f"{message} (since {since})"}
        else:
            self._unavailable = {key: message for key, message in self._unavailable.items() if key != part}


@contextmanager
def open_mirrored_store(on: str, artifacts: str, environ: Mapping[str, str], queue: str) -> Iterator[MirroredStore]:
    """Open a cluster for the dashboard. Its mirror is private, and removed at the end."""
    with open_cluster(MirroredStore, on, artifacts, environ, queue) as store:
        store.title = f"{on}, {store.objects.name}"
        store.command_options = (f"--on={on}", f"--artifacts={artifacts}", f"--queue={queue}", "--detach")
        store.update()
        stop = Event()
        updating = Thread(target=store.keep_updated, args=(stop,), daemon=True)
        updating.start()
        try:
            yield store
        finally:
            stop.set()
            updating.join(_CLOSE_TIMEOUT)  # not for ever: the object store may hang

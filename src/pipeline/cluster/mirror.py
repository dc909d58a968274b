"""The runs of a cluster copied into a store of this machine, so that whoever reads such a store can look at them.

Only what is new is read. A run that is over is copied once; another is asked for its next record, the more seldom the
longer it has been quiet; and new runs are found by what was entered into the index since the last look.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, TypeVar

from temporalio.service import RPCError

from pipeline.app.history import AttemptArtifacts
from pipeline.app.overview import status_after
from pipeline.app.store import AnswerReceipt
from pipeline.cluster.client import Cluster, ClusterStore
from pipeline.cluster.journal import INDEX, JournalObject, SharedJournal, parse_index_name
from pipeline.cluster.messages import QUEUE
from pipeline.cluster.object_store import ObjectStore, StoreUnavailable, open_object_store
from pipeline.cluster.server import Address, ServerUnreachable, connect
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.journal import check_run_id
from pipeline.journal.codec import encode
from pipeline.journal.sqlite import SqliteJournal, insert_lines, insert_record
from pipeline.redaction import PATTERNS_ONLY, Redactor, redactor_of

CopiedRow = tuple[AnyRecord | None, str, Sequence[str]]  # a record, the text attached to it, and lines for the ledger


class MirroredJournal(SqliteJournal):
    """A store into which runs are copied. Its ledger holds the lines of all runs, in the order they were copied."""

    def copy(self, run_id: str, number: int, rows: Sequence[CopiedRow]) -> range:
        """Add the new rows of a run, all or none, and return the numbers of its lines in the ledger.

        The runs of a store are listed by their numbers.
        """
        check_run_id(run_id)
        with self._transaction(create=True) as database:
            database.execute("INSERT OR IGNORE INTO runs VALUES (?, ?)", (number, run_id))
            seq = database.execute("SELECT max(seq) FROM records WHERE run = ?", (number,)).fetchone()[0] or 0
            for record, attached, _ in rows:
                if record is not None:
                    seq += 1
                    insert_record(database, number, seq, encode(record), attached)
            lines = [line for _, _, more in rows for line in more]
            end = insert_lines(database, lines)
        return range(end - len(lines) + 1, end + 1)

    def _open(self) -> sqlite3.Connection:
        fresh = self._database is None
        database = super()._open()
        if fresh:
            database.execute("PRAGMA synchronous=OFF")  # what a crash loses is copied again
        return database


class RunLedgerJournal(SqliteJournal):
    """The same store with the lines of one run as its ledger, which are these parts of the whole ledger."""

    def __init__(self, directory: Path, parts: Sequence[range]) -> None:
        super().__init__(directory)
        self._lines = tuple(parts)

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        number = 0
        for part in self._lines:
            skipped = min(max(after - number, 0), len(part))
            number += skipped
            whole = super().ledger(part.start - 1 + skipped)
            for _, (_, line) in zip(part[skipped:], whole, strict=False):
                number += 1
                yield number, line


QUIET = 20.0  # seconds without a record that make it one second longer until the next look
LONGEST = {RunStatus.RUNNING: 5.0}  # seconds between two looks at a run, by how it stands
SELDOM = 60.0  # the same, for one that waits for somebody, or whose records cannot be read
_APART = 600.0  # seconds by which the clocks of machines that start runs may differ
_FIRST = 64  # runs of which nothing is known yet, at one look
_PAGES = 1000  # of one run, at one look
_READERS = 16


@dataclass(slots=True)
class _MirroredRun:
    number: int
    moved: float  # when something happened to it
    read: int = 0  # pages
    status: RunStatus | None = None  # by its last record
    due: float = 0.0  # when it is looked at again
    trouble: str = ""  # what is wrong with its records
    lines: list[range] = field(default_factory=list)  # of the mirror's ledger


@dataclass(frozen=True, slots=True)
class RunUpdate:
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

    def __init__(self, store: ObjectStore, directory: Path, *, now: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self._store = store
        self._journal = SharedJournal(store)
        self._now = now
        self._runs: dict[str, _MirroredRun] = {}
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

    def ledger(self, run_id: str) -> RunLedgerJournal:
        """The store with the ledger of one run."""
        known = self._runs.get(run_id)
        return RunLedgerJournal(self.directory, known.lines if known else ())

    def expect(self, run_id: str) -> None:
        """Something will happen to a run: look at it more often for a while."""
        if known := self._runs.get(run_id):
            known.moved = known.due = self._now()

    def look(self, run_ids: Iterable[str] | None = None) -> None:
        """Copy what is new, of all runs or of some."""
        self.keep(self.news(run_ids))

    def news(self, run_ids: Iterable[str] | None = None) -> list[RunUpdate]:
        """What is new, of the runs whose turn it is or of some; nothing is copied yet."""
        self._find()
        wanted = self._due() if run_ids is None else [name for name in run_ids if name in self._runs]
        with ThreadPoolExecutor(_READERS) as readers:
            return list(readers.map(self._read, wanted))

    def keep(self, news: Sequence[RunUpdate]) -> None:
        """Copy what was found, and say when to look again."""
        with closing(MirroredJournal(self.directory)) as journal:
            for one in news:
                self._copy(journal, one)

    def _find(self) -> None:
        """Take note of runs that were begun since the last look, whosever clock was behind."""
        after = f"{int(max(parse_index_name(self._newest)[0] - _APART, 0) * 1e9):020d}" if self._newest else ""
        names = self._store.names(INDEX, after)
        if self._newest and self._newest not in names:
            raise StoreUnavailable(
                f"the store {self._store.name} has nothing of what was in it",
                help="see that it is mounted, and that it is the one that the workers have",
            )
        for name in names:
            at, run_id = parse_index_name(name)
            if at:  # nobody but us writes there, and what somebody put there by hand is no run
                self._runs.setdefault(run_id, _MirroredRun(len(self._runs) + 1, at))
                self._newest = max(self._newest, name)

    def _due(self) -> list[str]:
        """Those that are known and may have moved, and then the newest of those that are not."""
        now = self._now()
        moving = [name for name, run in self._runs.items() if 0 < run.due <= now]
        unknown = (name for name, run in reversed(self._runs.items()) if run.due == 0)
        return [*moving, *islice(unknown, _FIRST)]

    def _read(self, run_id: str) -> RunUpdate:
        pages: list[JournalObject] = []
        try:
            for page in islice(self._journal.pages(run_id, self._runs[run_id].read), _PAGES):
                pages.append(page)  # noqa: PERF402 - those before a damaged one are kept
        except StoreUnavailable:
            raise
        except AwfError as error:
            return RunUpdate(run_id, tuple(pages), error.message)
        return RunUpdate(run_id, tuple(pages))

    def _copy(self, journal: MirroredJournal, news: RunUpdate) -> None:
        run = self._runs[news.run_id]
        rows = [(page.record, page.attached, page.lines) for page in news.pages if page.seq > run.read]
        if rows:
            lines = journal.copy(news.run_id, run.number, rows)
            run.lines += [lines] if lines else []
            run.read, run.status = news.pages[-1].seq, news.status or run.status
            run.moved = max([run.moved, *(page.record.at for page in news.pages if page.record)])
        run.trouble = news.trouble
        run.due = self._now() if len(news.pages) == _PAGES else self._again(run)

    def _again(self, run: _MirroredRun) -> float:
        """When to look at a run again: never at one that is over."""
        if run.status and run.status.final:
            return inf
        now = self._now()
        longest = LONGEST.get(run.status, SELDOM) if run.status and not run.trouble else SELDOM
        return now + min(max(now - run.moved, 0) / QUIET, longest)


def _is_active(status: RunStatus | None) -> bool:
    return status in (RunStatus.RUNNING, RunStatus.WAITING)


T = TypeVar("T")

_PAUSE = 1.0  # seconds between two looks
_ASK = 5.0  # seconds between two questions about all runs
_PATIENCE = 5.0  # seconds for the server to answer a question
_LONGEST_DEED = 90.0  # seconds for a run to stop
_LONGEST_END = 5.0  # seconds for the last look to end
_HANDED_OVER = 30.0  # seconds from the first record of a run until the server knows it
_TOLD = 3  # damaged runs
_ACTIVE = (RunStatus.RUNNING, RunStatus.WAITING)


class MirroredStore(ClusterStore):
    """One cluster as the dashboard shows it: read from the mirror, acted on through the cluster."""

    on_cluster = True

    def __init__(
        self,
        cluster: Cluster,
        address: Address,
        artefacts: str,
        directory: Path,
        loop: "_LoopThread",
        redactor: Redactor = PATTERNS_ONLY,
    ) -> None:
        super().__init__(cluster, directory, redactor)
        self.name = address.namespace
        self.title = f"{address}, {cluster.store.name}"
        self.project = Path.cwd()
        self.command_options = (f"--on={address}", f"--artefacts={artefacts}", f"--queue={cluster.queue}", "--detach")
        self._loop = loop
        self._mirror = Mirror(cluster.store, directory)
        self._driven: dict[str, bool] = {}  # what the server said of runs
        self._asked = 0.0  # when it was asked about all of them
        self._away: dict[str, str] = {}  # what does not answer, and since when
        self._whole: set[Path] = set()  # the directories whose files are here to their ends
        self._bringing = Lock()
        self._looking = Lock()  # what one has found must be copied before another looks

    def driven_status(self, run_id: str) -> bool | None:
        """Whether workers run a run, or will without anybody's doing; None when nobody can tell."""
        status = self._mirror.status(run_id)
        if self._away or status is None:
            return None
        if status not in _ACTIVE or self._driven.get(run_id):
            return status in _ACTIVE
        return None if self._mirror.quiet(run_id) < _HANDED_OVER else False

    def connection_problem(self) -> str:
        """Which part of the cluster does not answer; empty when all of it does."""
        return "; ".join(self._away.values())

    def run_problems(self) -> list[str]:
        """What is wrong with the records of some runs."""
        told = self._mirror.troubles()
        more = [f"and {len(told) - _TOLD} more runs have damaged records"] if len(told) > _TOLD else []
        return [*told[:_TOLD], *more]

    def runs_with_findings(self) -> list[str]:
        """The runs that have findings, newest first."""
        return self._mirror.ledgers()

    def ledger(self, run_id: str) -> RunLedgerJournal:
        """A journal whose ledger is that of a run."""
        return self._mirror.ledger(run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        """Have the files of an attempt in the directory, as far as they are written."""
        with self._bringing:
            if found.directory not in self._whole and not self._away:
                super().fetch_files(found)
                self._whole |= {found.directory} if found.done else set()

    def refresh(self, run_id: str) -> None:
        """Copy what is new of one run at once, and what comes next as it comes."""
        with self._looking:
            self._mirror.expect(run_id)
            self._copy(self._mirror.news([run_id]))

    def answer(
        self, run_id: str, option: str, *, by: str, stage: str = "", visit: int = 0, feedback: str = ""
    ) -> AnswerReceipt:
        """Answer what a run asks, and show it at once."""
        given = super().answer(run_id, option, by=by, stage=stage, visit=visit, feedback=feedback)
        self.refresh(run_id)
        return given

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        """Stop a run, and show it at once."""
        recorded = super().cancel(run_id, by=by, reason=reason, wait=wait)
        self.refresh(run_id)
        return recorded

    async def look_on(self, end: asyncio.Event) -> None:
        """Look again and again, until the end."""
        while not end.is_set():
            await asyncio.to_thread(self.look)
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), 0.01 if self._mirror.behind and not self._away else _PAUSE)

    def look(self) -> None:
        """Look once at the server and at the store; that one is away keeps nobody from looking at the other."""
        if time.monotonic() - self._asked > _ASK or "server" in self._away:
            with self._noting("server"):
                self._ask_about_all()
        with self._noting("store"), self._looking:
            self._copy(self._mirror.news())

    def _copy(self, news: list[RunUpdate]) -> None:
        """Copy news; who is at these runs is asked before, so that nobody reads of a run and takes it for left."""
        begun = {one.run_id for one in news if one.status in _ACTIVE}
        begun |= {run for run in self._mirror.active() if self._mirror.quiet(run) < _HANDED_OVER}
        unknown = [run for run in begun if not self._driven.get(run)]
        if unknown:
            with self._noting("server"):
                self._driven |= self.call(self.cluster.are_open(unknown), _PATIENCE)
        self._mirror.keep(news)

    def _ask_about_all(self) -> None:
        """Who is at which run. The list may be some moments old: about a run that is not in it the server is asked."""
        listed = self.call(self.cluster.open_runs(), _PATIENCE)
        active = self._mirror.active()
        doubtful = [run for run in active if run not in listed and self._driven.get(run, True)]
        found = self.call(self.cluster.are_open(doubtful), _PATIENCE) if doubtful else {}
        self._driven |= {run: found.get(run, run in listed) for run in active}
        self._asked = time.monotonic()

    @contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the pages say that they are not up to date
            if what not in self._away:
                told = error.message if isinstance(error, AwfError) else f"{type(error).__name__}: {error}"
                since = f"{datetime.now().astimezone():%H:%M:%S}"
                self._away = {**self._away, what: f"{told} (since {since})"}
        else:
            self._away = {key: told for key, told in self._away.items() if key != what}

    def call(self, work: Coroutine[Any, Any, T], patience: float = _LONGEST_DEED) -> T:
        try:
            return self._loop.call(asyncio.wait_for(work, patience))
        except (RPCError, TimeoutError) as error:
            words = getattr(error, "message", "") or f"nothing was heard in {patience:g} seconds"
            raise ServerUnreachable(f"the Temporal server does not answer: {words}") from None


class _LoopThread:
    """An event loop in a thread of its own, which many threads may call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextmanager
    def looking(self, window: MirroredStore) -> Iterator[None]:
        """Have a window kept up to date meanwhile."""
        end = asyncio.Event()
        looking = asyncio.run_coroutine_threadsafe(window.look_on(end), self._loop)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(end.set)
            with suppress(TimeoutError):  # a store that hangs keeps nobody from leaving
                looking.result(_LONGEST_END)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LONGEST_END)


@contextmanager
def open_mirrored_store(
    on: str, artefacts: str, environ: Mapping[str, str], queue: str = QUEUE
) -> Iterator[MirroredStore]:
    """A window on a cluster for as long as the context lasts; its mirror is private, and gone at the end."""
    store, address, loop = open_object_store(artefacts), Address.read(on), _LoopThread()
    try:
        client = loop.call(connect(address, environ))
        with TemporaryDirectory(prefix="awf-mirror-", ignore_cleanup_errors=True) as folder:
            made = MirroredStore(
                Cluster(client, store, queue), address, artefacts, Path(folder), loop, redactor_of(environ)
            )
            made.look()
            with loop.looking(made):
                yield made
    finally:
        loop.close()

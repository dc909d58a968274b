"""A cluster as the dashboard has it: a mirror that a thread keeps up to date, and the deeds that go to the cluster.

What it cannot find out it does not claim: while the server or the store is away, nobody knows who is at a run.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, TypeVar

from temporalio.service import RPCError

from pipeline.app.history import AttemptArtifacts
from pipeline.app.store import AnswerReceipt
from pipeline.cluster.artefacts import open_artefacts
from pipeline.cluster.mirror import Mirror, News
from pipeline.cluster.mirror_journal import LedgerOfRun
from pipeline.cluster.orders import QUEUE
from pipeline.cluster.remote import ClusterStore
from pipeline.cluster.runs import Cluster
from pipeline.cluster.server import Address, Unreachable, connected
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.redaction import PATTERNS_ONLY, Redactor, redactor_of

T = TypeVar("T")

_PAUSE = 1.0  # seconds between two looks
_ASK = 5.0  # seconds between two questions about all runs
_PATIENCE = 5.0  # seconds for the server to answer a question
_LONGEST_DEED = 90.0  # seconds for a run to stop
_LONGEST_END = 5.0  # seconds for the last look to end
_HANDED_OVER = 30.0  # seconds from the first record of a run until the server knows it
_TOLD = 3  # damaged runs
_ACTIVE = (RunStatus.RUNNING, RunStatus.WAITING)


class Window(ClusterStore):
    """One cluster as the dashboard shows it: read from the mirror, acted on through the cluster."""

    apart = True  # each run has a ledger of its own

    def __init__(
        self,
        cluster: Cluster,
        address: Address,
        artefacts: str,
        directory: Path,
        loop: "_Loop",
        redactor: Redactor = PATTERNS_ONLY,
    ) -> None:
        super().__init__(cluster, directory, redactor)
        self.name = address.namespace
        self.title = f"{address}, {cluster.store.name}"
        self.project = Path.cwd()
        self.options = (f"--on={address}", f"--artefacts={artefacts}", f"--queue={cluster.queue}", "--detach")
        self._loop = loop
        self._mirror = Mirror(cluster.store, directory)
        self._driven: dict[str, bool] = {}  # what the server said of runs
        self._asked = 0.0  # when it was asked about all of them
        self._away: dict[str, str] = {}  # what does not answer, and since when
        self._whole: set[Path] = set()  # the directories whose files are here to their ends
        self._bringing = Lock()
        self._looking = Lock()  # what one has found must be copied before another looks

    def open(self) -> AbstractContextManager[ClusterStore]:
        """The store to act on; it may be used by any thread."""
        return nullcontext(self)

    def driven(self, run_id: str) -> bool | None:
        """Whether the workers are at a run, or will be without anybody's doing; None when nobody knows."""
        status = self._mirror.status(run_id)
        if self._away or status is None:
            return None
        if status not in _ACTIVE or self._driven.get(run_id):
            return status in _ACTIVE
        return None if self._mirror.quiet(run_id) < _HANDED_OVER else False

    def away(self) -> str:
        """What of the cluster does not answer; nothing when all of it does."""
        return "; ".join(self._away.values())

    def troubles(self) -> list[str]:
        """What is wrong with the records of some runs."""
        told = self._mirror.troubles()
        more = [f"and {len(told) - _TOLD} more runs have damaged records"] if len(told) > _TOLD else []
        return [*told[:_TOLD], *more]

    def ledgers(self) -> list[str]:
        """The runs that have findings, the newest first."""
        return self._mirror.ledgers()

    def ledger(self, run_id: str) -> LedgerOfRun:
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

    def _copy(self, news: list[News]) -> None:
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
            raise Unreachable(f"the Temporal server does not answer: {words}") from None


class _Loop:
    """An event loop in a thread of its own, which many threads may call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextmanager
    def looking(self, window: Window) -> Iterator[None]:
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
def window(on: str, artefacts: str, environ: Mapping[str, str], queue: str = QUEUE) -> Iterator[Window]:
    """A window on a cluster for as long as the context lasts; its mirror is private, and gone at the end."""
    store, address, loop = open_artefacts(artefacts), Address.read(on), _Loop()
    try:
        client = loop.call(connected(address, environ))
        with TemporaryDirectory(prefix="awf-mirror-", ignore_cleanup_errors=True) as folder:
            made = Window(Cluster(client, store, queue), address, artefacts, Path(folder), loop, redactor_of(environ))
            made.look()
            with loop.looking(made):
                yield made
    finally:
        loop.close()

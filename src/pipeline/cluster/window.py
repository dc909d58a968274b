"""A cluster as the dashboard has it: a mirror that a thread keeps up to date, and the deeds that go to the cluster.

What it cannot find out it does not claim: while the server or the store is away, nobody knows who is at a run.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any, TypeVar

from temporalio.service import RPCError

from pipeline.app.artifacts import AttemptArtifacts
from pipeline.app.store import AlreadyAnswered, AnswerReceipt, Desk, answer
from pipeline.cluster.artefacts import open_artefacts
from pipeline.cluster.files import bring
from pipeline.cluster.mirror import Mirror, News
from pipeline.cluster.mirror_journal import LedgerOfRun
from pipeline.cluster.orders import QUEUE
from pipeline.cluster.runs import Cluster
from pipeline.cluster.server import Address, Unreachable, connected
from pipeline.engine.ports import CancelRequest, HumanAnswer, Mailbox
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError
from pipeline.journal.memory import MemoryMailbox
from pipeline.redaction import Redactor

T = TypeVar("T")

_PAUSE = 1.0  # seconds between two looks
_ASK = 5.0  # seconds between two questions about all runs
_PATIENCE = 5.0  # seconds for the server to answer a question
_LONGEST_DEED = 90.0  # seconds for a run to stop
_LONGEST_END = 5.0  # seconds for the last look to end
_HANDED_OVER = 30.0  # seconds from the first record of a run until the server knows it
_TOLD = 3  # damaged runs
_ACTIVE = (RunStatus.RUNNING, RunStatus.WAITING)


class Window:
    """One cluster, looked at from here."""

    apart = True  # each run has a ledger of its own

    def __init__(self, cluster: Cluster, address: Address, artefacts: str, directory: Path, loop: "_Loop") -> None:
        self.name = address.namespace
        self.title = f"{address}, {cluster.store.name}"
        self.directory = directory
        self.project = Path.cwd()
        self.options = (f"--on={address}", f"--artefacts={artefacts}", f"--queue={cluster.queue}", "--detach")
        self._cluster = cluster
        self._loop = loop
        self._mirror = Mirror(cluster.store, directory)
        self._driven: dict[str, bool] = {}  # what the server said of runs
        self._asked = 0.0  # when it was asked about all of them
        self._away: dict[str, str] = {}  # what does not answer, and since when
        self._whole: set[Path] = set()  # the directories whose files are here to their ends
        self._bringing = Lock()
        self._looking = Lock()  # what one has found must be copied before another looks

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

    @property
    def letters(self) -> Mailbox:
        """What people have left for its runs; nothing is known of it while the store is away."""
        return MemoryMailbox() if self._away else self._cluster.letters

    def ledgers(self) -> list[str]:
        """The runs that have findings, the newest first."""
        return self._mirror.ledgers()

    def ledger(self, run_id: str) -> LedgerOfRun:
        """A journal whose ledger is that of a run."""
        return self._mirror.ledger(run_id)

    def bring(self, found: AttemptArtifacts) -> None:
        """Have the files of an attempt in the directory, as far as they are written."""
        with self._bringing:
            if found.directory not in self._whole and not self._away:
                bring(self._cluster.store, self.directory, found)
                self._whole |= {found.directory} if found.done else set()

    def refresh(self, run_id: str) -> None:
        """Copy what is new of one run at once, and what comes next as it comes."""
        with self._looking:
            self._mirror.expect(run_id)
            self._copy(self._mirror.news([run_id]))

    def answer(
        self, run_id: str, option: str, *, by: str, stage: str, visit: int, feedback: str, redactor: Redactor
    ) -> AnswerReceipt:
        """Answer what a run asks, and have the run told."""
        cluster = self._cluster
        desk = Desk(self.directory, cluster.journal, cluster.letters, time.time, redactor, lambda _: True)
        try:
            given = answer(desk, run_id, option, by=by, stage=stage, visit=visit, feedback=feedback)
        except AlreadyAnswered as error:
            self._wake(error.kept)  # whoever was quicker may not have told it
            raise
        self._wake(given.answer)
        self.refresh(run_id)
        return given

    def cancel(self, run_id: str, *, by: str, reason: str, redactor: Redactor) -> None:
        """Stop a run, and wait until nothing of it runs any more."""
        wish = CancelRequest(run_id, redactor.text(reason), by, time.time())
        self._call(self._cluster.cancel(run_id, str(wish)), _LONGEST_DEED)
        self.refresh(run_id)

    def _wake(self, kept: HumanAnswer) -> None:
        self._call(self._cluster.wake(kept.run_id, kept.stage, kept.visit), _LONGEST_DEED)

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
                self._driven |= self._call(self._cluster.are_open(unknown))
        self._mirror.keep(news)

    def _ask_about_all(self) -> None:
        """Who is at which run. The list may be some moments old: about a run that is not in it the server is asked."""
        listed = self._call(self._cluster.open_runs())
        active = self._mirror.active()
        doubtful = [run for run in active if run not in listed and self._driven.get(run, True)]
        found = self._call(self._cluster.are_open(doubtful)) if doubtful else {}
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

    def _call(self, work: Coroutine[Any, Any, T], patience: float = _PATIENCE) -> T:
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
            made = Window(Cluster(client, store, queue), address, artefacts, Path(folder), loop)
            made.look()
            with loop.looking(made):
                yield made
    finally:
        loop.close()

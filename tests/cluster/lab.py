"""A cluster in one process: a store, workers, and runs on them, as a test needs them."""

import asyncio
import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle
from tests.cluster.conftest import Server

from pipeline.app.runs import RunResult, result_of
from pipeline.app.settings import NOTHING_SET
from pipeline.app.wiring import Runtime
from pipeline.cluster.client import Cluster, ClusterStore, LoopThread
from pipeline.cluster.messages import Timeouts, WorkflowResult
from pipeline.cluster.object_store import open_object_store
from pipeline.cluster.server import Address, connect
from pipeline.cluster.worker import WorkerOptions, run_worker
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.records import AnyRecord, RunCreated, RunResumed
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.redaction import PATTERNS_ONLY

COMMAND = str(Path(sys.executable).with_name("awf"))
QUICK = Timeouts(heartbeat=4.0, sticky=2.0, tries=1)

IMPATIENT = NOTHING_SET.with_option("limits.retry_delay", "test", timedelta(milliseconds=1))


class Lab:
    """One cluster."""

    def __init__(
        self, server: Server, loop: LoopThread, folder: Path, environ: Mapping[str, str], url: str = ""
    ) -> None:
        self.server = server
        self.url = url or server.url  # what workers and commands are told, where something stands in between
        self.loop = loop
        self.folder = folder
        self.environ = dict(environ)
        self.queue = f"queue-{folder.parent.name}-{folder.name}"
        self.shared = str(folder / "shared")
        self.terms = QUICK
        self._workers: dict[str, tuple[asyncio.Event, Any]] = {}
        self._wait = threading.Event()
        self._seen: dict[str, tuple[State, int]] = {}
        self._mark = f"-{secrets.token_hex(4)}"  # the tests of a session share one namespace

    def connect(self) -> None:
        self.client = self.loop.call(connect(Address.read(self.url), self.environ))

    def begin(self) -> None:
        self.connect()
        self.worker("w1")

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.client, open_object_store(self.shared), self.queue, self.terms)

    @property
    def store(self) -> ClusterStore:
        """The runs of the lab, as a command acts on them."""
        return ClusterStore(self.cluster, self.folder, self.loop, PATTERNS_ONLY)

    def handle(self, run_id: str) -> WorkflowHandle[RunWorkflow, WorkflowResult]:
        """The workflow of a run."""
        return self.cluster.handle(self.id(run_id))

    def worker(self, name: str, **duties: Any) -> None:
        """Start another worker, with a store of its own."""
        client = self.loop.call(connect(Address.read(self.url), self.environ))  # each has one of its own
        leave = asyncio.Event()
        around = Runtime(self.folder / name, self.environ, settings=IMPATIENT)
        whole = WorkerOptions(**{"queue": self.queue, "concurrency": 20, "grace": 5.0, **duties})
        working = self.loop.submit(run_worker(client, open_object_store(self.shared), around, whole, leave))
        self._workers[name] = (leave, working)

    def leave(self, name: str) -> None:
        """Tell a worker to leave, and wait until it has."""
        event, working = self._workers.pop(name)
        self.loop.call(_set(event))
        working.result(60)

    def close(self) -> None:
        for name in [*self._workers]:
            self.leave(name)

    @contextmanager
    def process(self, name: str, *more: str) -> "Iterator[subprocess.Popen[bytes]]":
        """A worker as a process of its own, which can be killed; it has left at the end."""
        with (self.folder / f"{name}.log").open("ab") as log:
            worker = subprocess.Popen(
                [COMMAND, "worker", *self.place, "--store", str(self.folder / name), "--grace", "5", *more],
                env=self.environ,
                stderr=log,
            )
            try:
                yield worker
            finally:
                worker.terminate()
                worker.wait(60)

    @property
    def place(self) -> tuple[str, ...]:
        return ("--on", self.url, "--artifacts", self.shared, "--queue", self.queue)

    def id(self, run: str) -> str:
        """What a run is really called."""
        return run if run.endswith(self._mark) else run + self._mark

    def start(self, run_id: str, source: str, script: Any = None, **options: Any) -> None:
        self.loop.call(self.cluster.start(self.created(run_id, source, script, **options), PATTERNS_ONLY))

    def created(
        self, run_id: str, source: str, script: Any = None, cwd: Path | None = None, **options: Any
    ) -> RunCreated:
        cwd = cwd or self.folder / "project"
        cwd.mkdir(exist_ok=True)
        given = {"backend": "scripted", "script": json.dumps(script or {}), **options}
        return RunCreated(
            at=time.time(),
            run_id=self.id(run_id),
            file="w.awf.kdl",
            source=source,
            goal="g",
            options=given,
            cwd=str(cwd),
            version="0",
        )

    def state(self, run_id: str) -> State:
        """Where a run stands; only what is new since the last look is read."""
        state, seq = self._seen.get(run_id, (None, 0))
        for found in self.cluster.journal.objects(self.id(run_id), seq):
            seq = found.seq
            if isinstance(found.record, RunCreated):
                state = begin(found.record)
            elif found.record is not None and state is not None:
                state = apply(state, found.record)
        assert state is not None
        self._seen[run_id] = (state, seq)
        return state

    def records(self, run_id: str) -> list[AnyRecord]:
        return [entry.record for entry in self.cluster.journal.entries(self.id(run_id))]

    def until(self, run_id: str, holds: Callable[[State], bool], timeout: float = 60) -> State:
        """The state of a run as soon as something holds of it."""
        deadline = time.monotonic() + timeout
        while not holds(state := self.state(run_id)):
            assert time.monotonic() < deadline, f"{run_id} is {state.status} at {state.cursor}"
            self._wait.wait(0.05)
        return state

    def stopped(self, run_id: str, timeout: float = 60) -> RunResult:
        """How a run stands once nobody is at it."""
        state = self.until(run_id, lambda state: state.status is not RunStatus.RUNNING, timeout)
        return result_of(state, self.cluster.journal)

    def over(self, run_id: str, timeout: float = 60) -> RunResult:
        """How a run ended."""
        state = self.until(run_id, lambda state: state.status.final, timeout)
        return result_of(state, self.cluster.journal)

    def answer(self, run_id: str, option: str, by: str = "anna", **more: Any) -> None:
        self.store.answer(self.id(run_id), option, by=by, **more)

    def resume(self, run_id: str, **more: Any) -> None:
        self.loop.call(self.cluster.resume(self.id(run_id), [RunResumed(at=time.time(), **more)]))

    def cancel(self, run_id: str, reason: str) -> None:
        self.loop.call(self.cluster.cancel(self.id(run_id), reason))

    def git(self, *words: str, cwd: Path) -> str:
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        return subprocess.run(named, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


async def _set(event: asyncio.Event) -> None:
    event.set()

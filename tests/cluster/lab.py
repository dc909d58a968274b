"""A cluster for one test: an object store, workers, and runs."""

import asyncio
import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle
from tests.cluster.conftest import Server

from pipeline.app.runs import ResumeRequest, RunResult, result_of
from pipeline.app.settings import NOTHING_SET
from pipeline.app.wiring import Runtime
from pipeline.backends.process_tree import is_alive, list_processes, read_marker
from pipeline.cluster.client import ClusterStore
from pipeline.cluster.messages import Timeouts, WorkflowResult
from pipeline.cluster.object_store import open_object_store
from pipeline.cluster.server import Address, LoopThread, connect
from pipeline.cluster.worker import run_worker
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.records import AnyRecord, RunCreated, VisitCompleted
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.redaction import PATTERNS_ONLY

COMMAND = str(Path(sys.executable).with_name("awf"))
SHORT = Timeouts(heartbeat=4.0, sticky=2.0, tries=1)
FAST_RETRIES = NOTHING_SET.with_option("limits.retry_delay", "test", timedelta(milliseconds=1))


class Lab:
    """One cluster. Runs are called by short names, to which an ending is added: all tests share a namespace."""

    def __init__(self, server: Server, loop: LoopThread, folder: Path, environ: Mapping[str, str]) -> None:
        self.server = server
        self.url = server.url  # what workers and commands are given
        self.loop = loop
        self.folder = folder
        self.environ = dict(environ)
        self.queue = f"queue-{folder.parent.name}-{folder.name}"
        self.shared = folder / "shared"
        self.timeouts = SHORT
        self._workers: dict[str, tuple[asyncio.Event, Future[None]]] = {}
        self._seen: dict[str, tuple[State, int]] = {}
        self._ending = f"-{secrets.token_hex(4)}"

    def connect(self) -> None:
        self.client = self.loop.call(connect(Address.read(self.url), self.environ))

    @property
    def store(self) -> ClusterStore:
        objects = open_object_store(str(self.shared))
        store = ClusterStore(self.client, objects, self.queue, self.folder, self.loop, PATTERNS_ONLY)
        store.timeouts = self.timeouts
        return store

    @property
    def runtime(self) -> Runtime:
        """What a command that starts or resumes a run without watching it uses."""
        return Runtime(self.folder, self.environ, settings=FAST_RETRIES, detach=True)

    @property
    def options(self) -> tuple[str, ...]:
        """The options by which a command finds this cluster."""
        return ("--on", self.url, "--artifacts", str(self.shared), "--queue", self.queue)

    def worker(self, name: str, grace: float = 5.0) -> None:
        """Start a worker in this process, with a directory of its own."""
        client = self.loop.call(connect(Address.read(self.url), self.environ))
        stop, runtime = asyncio.Event(), Runtime(self.folder / name, self.environ, settings=FAST_RETRIES)
        objects = open_object_store(str(self.shared))
        work = run_worker(client, objects, runtime, stop, queue=self.queue, slots=20, grace=grace)
        self._workers[name] = (stop, self.loop.submit(work))

    def stop_worker(self, name: str) -> None:
        """Stop a worker and wait until it is gone."""
        stop, working = self._workers.pop(name)
        self.loop.call(_set(stop))
        working.result(60)

    def close(self) -> None:
        for name in [*self._workers]:
            self.stop_worker(name)

    @contextmanager
    def worker_process(self, name: str, *more: str) -> "Iterator[subprocess.Popen[bytes]]":
        """A worker as a separate process, which can be killed."""
        command = [COMMAND, "worker", *self.options, "--store", str(self.folder / name), "--grace", "5", *more]
        with subprocess.Popen(command, env=self.environ, stderr=subprocess.DEVNULL) as worker:
            try:
                yield worker
            finally:
                worker.terminate()
                worker.wait(60)

    def id(self, run: str) -> str:
        """Return the full name of a run."""
        return run if run.endswith(self._ending) else run + self._ending

    def use_full_names(self) -> None:
        """Call runs by their full names from now on."""
        self._ending = ""

    def start(self, run: str, source: str, script: Any = None, **options: Any) -> None:
        self.store.start(self.creation(run, source, script, **options), self.runtime)

    def creation(
        self, run: str, source: str, script: Any = None, cwd: Path | None = None, **options: Any
    ) -> RunCreated:
        """Return the first record of a run."""
        cwd = cwd or self.folder / "project"
        cwd.mkdir(exist_ok=True)
        return RunCreated(
            at=time.time(),
            run_id=self.id(run),
            file="w.awf.kdl",
            source=source,
            goal="g",
            options={"backend": "scripted", "script": json.dumps(script or {}), **options},
            cwd=str(cwd),
            version="0",
        )

    def state(self, run: str) -> State:
        """Return the state of a run; only what is new since the last call is read."""
        state, seq = self._seen.get(run, (None, 0))
        for found in self.store.journal.objects(self.id(run), seq):
            seq = found.seq
            if isinstance(found.record, RunCreated):
                state = begin(found.record)
            elif found.record is not None and state is not None:
                state = apply(state, found.record)
        assert state is not None
        self._seen[run] = (state, seq)
        return state

    def records(self, run: str = "r") -> list[AnyRecord]:
        return [entry.record for entry in self.store.journal.entries(self.id(run))]

    def kinds(self, run: str = "r") -> list[type]:
        """Return the kinds of a run's records after the first."""
        return [type(record) for record in self.records(run)[1:]]

    def completed(self, stage: str, run: str = "r") -> list[VisitCompleted]:
        """Return the completed visits of a stage."""
        return [one for one in self.records(run) if isinstance(one, VisitCompleted) and one.stage == stage]

    def until(self, run: str, holds: Callable[[State], bool], timeout: float = 60) -> State:
        """Return the state of a run as soon as a condition holds."""
        wait_until(lambda: holds(self.state(run)), timeout)
        return self.state(run)

    def stopped(self, run: str = "r", timeout: float = 60) -> RunResult:
        """Return the result of a run once it has stopped or waits."""
        state = self.until(run, lambda state: state.status is not RunStatus.RUNNING, timeout)
        return result_of(state, self.store.journal, self.store.ledger(state.run_id))

    def ended(self, run: str = "r", timeout: float = 60) -> RunResult:
        """Return the result of a run once it has ended."""
        state = self.until(run, lambda state: state.status.final, timeout)
        return result_of(state, self.store.journal, self.store.ledger(state.run_id))

    def answer(self, run: str, option: str, by: str = "anna", **more: Any) -> None:
        self.store.answer(self.id(run), option, by=by, **more)

    def resume(self, run: str, **request: Any) -> None:
        self.store.resume(self.id(run), ResumeRequest(**request), self.runtime)

    def cancel(self, run: str, reason: str) -> None:
        self.store.cancel(self.id(run), by="anna", reason=reason)

    def handle(self, run: str = "r") -> WorkflowHandle[RunWorkflow, WorkflowResult]:
        return self.store.handle(self.id(run))

    def processes(self, run: str = "r") -> list[int]:
        """Return the processes that the stages of a run started, on any worker."""
        marked = [(process.pid, read_marker(process) or "") for process in list_processes() if is_alive(process)]
        return [pid for pid, mark in marked if mark.startswith(f"{self.id(run)}@")]

    def git(self, *words: str, cwd: Path) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


async def _set(event: asyncio.Event) -> None:
    event.set()


def wait_until(holds: Callable[[], bool], timeout: float = 60) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        threading.Event().wait(0.05)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it does not exist."""
    return path.read_text().splitlines() if path.exists() else []


def tools(*stages: tuple[str, str]) -> str:
    """Return a workflow of tools that run one after the other."""
    names = [name for name, _ in stages]
    body = "\n".join(f'stage "{name}" kind="tool" command="{command}"' for name, command in stages)
    transitions = "\n".join(f'transition from="{a}" to="{b}"' for a, b in zip(names, [*names[1:], "end"], strict=True))
    return workflow(f"{body}\n{transitions}", names[0])


def workflow(body: str, start: str = "a", settings: str = "") -> str:
    """Return a workflow with an exit."""
    return f'workflow "W" {{\nversion 2\nstart "{start}"\n{settings}\n{body}\nstage "end" kind="exit"\n}}\n'

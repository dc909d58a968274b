"""A worker: takes the steps of runs from a queue, and those of the runs whose files it has from one of its own."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from pipeline.app.store import store_label
from pipeline.app.wiring import Runtime
from pipeline.backends.process_tree import kill_by_store
from pipeline.cluster.activities import Activities, Tails
from pipeline.cluster.artefacts import Artefacts
from pipeline.cluster.desk import WorkerRuns
from pipeline.cluster.orders import QUEUE
from pipeline.cluster.workflow import RunWorkflow
from pipeline.errors import AwfError

# What the sandbox need not load again for each run: it holds values and pure functions only.
PASSED = ("pipeline", "pydantic", "pydantic_core", "kdl", "networkx", "annotated_types")


@dataclass(frozen=True, slots=True)
class Duties:
    """What a worker takes on."""

    queue: str = QUEUE
    concurrency: int = 4  # stages at once, from each queue
    grace: float = 60.0  # seconds that stages have to end when the worker is told to leave


def own_queue(store: Path) -> str:
    """The queue of the worker at a store on this machine."""
    return f"{QUEUE}@{socket.gethostname()}:{store_label(store)}"


async def work(client: Client, artefacts: Artefacts, around: Runtime, duties: Duties, leave: asyncio.Event) -> None:
    """Work until told to leave; then finish what can be finished in time, and hand back the rest."""
    with _alone(around.store):
        kill_by_store(store_label(around.store))  # what a worker that was killed left running
        queue, tails = own_queue(around.store), Tails()
        doing = Activities(WorkerRuns(artefacts, around, tails.hear), queue, tails)
        general = _worker(client, duties.queue, doing, duties, workflows=True)
        own = _worker(client, queue, doing, duties, workflows=False)
        async with general, own:
            await leave.wait()


def sandbox() -> SandboxedWorkflowRunner:
    """What keeps a workflow from looking at a clock, a file or a random number."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED))


def _worker(client: Client, queue: str, doing: Activities, duties: Duties, *, workflows: bool) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        workflows=[RunWorkflow] if workflows else [],
        activities=doing.all(),
        workflow_runner=sandbox(),
        max_concurrent_activities=duties.concurrency,
        graceful_shutdown_timeout=timedelta(seconds=duties.grace),
        max_heartbeat_throttle_interval=timedelta(seconds=2),  # how long a wish to cancel may take to arrive
        default_heartbeat_throttle_interval=timedelta(seconds=2),
    )


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """Be the only worker at a store: another one would take our processes for leftovers."""
    store.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(store / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AwfError(
            f"another worker is at {store}", help="give each worker of a machine a directory of its own: --store DIR"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)

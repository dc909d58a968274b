"""A worker: takes the steps of runs from a queue, and those of the runs whose files it has from one of its own."""

import asyncio
import os
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from pipeline.app.history import STREAMS
from pipeline.app.store import store_label
from pipeline.app.wiring import Runtime, build_services
from pipeline.backends.process_tree import kill_by_store
from pipeline.backends.worktree import GitWorktrees
from pipeline.cluster.journal import (
    FencedJournal,
    JournalObject,
    RunTakenOver,
    SharedJournal,
    SharedMailbox,
    load_resume_records,
)
from pipeline.cluster.messages import (
    QUEUE,
    ActivityErrorType,
    AttemptRequest,
    NumberedRecord,
    OpenedRun,
    StateSnapshot,
    StepRequest,
    StepResult,
    compact_record,
    compress,
)
from pipeline.cluster.object_store import ObjectStore, fetch_outcome_files, send_files, send_output
from pipeline.cluster.remote_worktrees import MERGED_COMMIT, RemoteWorktrees, remote_of
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.driver import Services, StageExecutor
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.machine import Ask, Command, Fail, FanOut, Pause, Visit, decide
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import JournalError, UnknownRun, WorkspaceError, attempt_directory
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCancelled,
    RunCreated,
    RunPaused,
    RunResumed,
    StageErrored,
    VisitStarted,
    WorkflowAdopted,
)
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.errors import AwfError
from pipeline.language.model import ParallelStage

_REMEMBERED = 200  # runs


@dataclass
class WorkerRun:
    """A run as this worker knows it."""

    state: State
    text: tuple[str, str]  # the name and the source of its workflow
    seq: int = 1
    made: Services | None = None  # what its stages need; made anew when the run is taken up anew
    stands: tuple[str, str] | None = None  # the commits that its files here are at; None when nobody knows
    active: int = 0  # stages that run here now
    standing: asyncio.Lock = field(default_factory=asyncio.Lock)
    concluding: asyncio.Lock = field(default_factory=asyncio.Lock)  # branches commit one after the other


class WorkerRuns:
    """What a worker knows of runs, and what it needs for their stages."""

    def __init__(self, store: ObjectStore, around: Runtime, hear: Listener) -> None:
        self.store = store
        self.journal = SharedJournal(store)
        self._around = replace(around, mailbox=SharedMailbox(store), listeners=(*around.listeners, hear))
        self._runs: OrderedDict[str, WorkerRun] = OrderedDict()

    def run(self, run_id: str) -> WorkerRun:
        """A run as it stands now."""
        run = self._runs.get(run_id) or self._begun(run_id)
        self._runs[run_id] = run
        self._runs.move_to_end(run_id)
        for page in self.journal.pages(run_id, run.seq):
            _take(run, page)
        return run

    def forget(self, run_id: str) -> None:
        """Let go of a run: it is over, or in doubt."""
        self._runs.pop(run_id, None)

    def pen(self, run_id: str, after: int, branch: AttemptRequest | None = None) -> FencedJournal:
        """What writes the next records of a run, each after the files that it names."""
        return FencedJournal(self.store, run_id, after, branch, partial(send_files, self.store, self._around.store))

    async def stand(self, run: WorkerRun) -> None:
        """Have the files of a run here as its records say, unless they were left so."""
        async with run.standing:
            if run.stands == _commit(run.state) or (run.stands and run.active > 1):  # others are at work there
                return
            state = run.state
            if travelling := self._travelling(state):
                await travelling.stand(travelling.placed(state))
            else:
                await self._stand_here(state)
            run.stands = _commit(state)

    async def _stand_here(self, state: State) -> None:
        """Put a worktree that every worker has back to its last checkpoint."""
        workspace = state.workspace
        place = workspace.path if workspace else state.cwd
        if not place.is_dir():
            raise AwfError(
                f"there is no directory {place} here",
                help="have it on every worker, or start runs with --remote, so that their files travel",
            )
        if workspace:
            worktrees = GitWorktrees(place.parent, dict(self._around.environ))
            await worktrees.restore(workspace, f"{state.run_id}/{state.cursor.stage}-{state.cursor.visit}")

    def steps(self, run: WorkerRun, pen: FencedJournal) -> StageExecutor:
        """The steps of a run from where it stands, written with a pen."""
        state, travelling = self.placed(run), self._travelling(run.state)
        if run.made is None:
            around = replace(self._around, workspaces=travelling)
            run.made = build_services(state, self.journal.of(state.run_id), around)
            if state.stages_run:
                run.made.plugins.on_resume(state)  # here, at least
        return StageExecutor(state, replace(run.made, journal=pen))

    def placed(self, run: WorkerRun) -> State:
        """The state of a run with its directories as they are here."""
        travelling = self._travelling(run.state)
        return travelling.placed(run.state) if travelling else run.state

    def fetched(self, outcome: Outcome) -> None:
        """Have the files here that an outcome names."""
        fetch_outcome_files(self.store, self._around.store, outcome)

    def send_part(self, name: str, sent: int) -> int:
        """Send what a file here has beyond so many bytes; the bytes that are sent then."""
        return send_output(self.store, self._around.store, name, sent)

    def left(self, run: WorkerRun) -> None:
        """A stage is over and on record: the files of the run are as it says."""
        run.stands = _commit(run.state)

    def _travelling(self, state: State) -> RemoteWorktrees | None:
        remote = remote_of(state)
        return RemoteWorktrees(state.run_id, remote, self._around.store, self._around.environ) if remote else None

    def _begun(self, run_id: str) -> WorkerRun:
        while len(self._runs) >= _REMEMBERED:
            self._runs.popitem(last=False)
        first = next(self.journal.pages(run_id), None)
        if first is None or not isinstance(first.record, RunCreated):
            raise UnknownRun(f"there is no run {run_id} in {self.store.name}")
        return WorkerRun(begin(first.record), (first.record.file, first.record.source))


def _commit(state: State) -> tuple[str, str]:
    workspace = state.workspace
    return (workspace.commit if workspace else ""), str(state.context.get(MERGED_COMMIT) or "")


def _take(run: WorkerRun, page: JournalObject) -> None:
    record, run.seq = page.record, page.seq
    if record is None:
        return
    run.state = apply(run.state, record)
    if isinstance(record, WorkflowAdopted):
        run.text = (record.file, record.source)
    if isinstance(record, RunResumed | WorkflowAdopted):
        run.made = None


MOST_LOSSES = 5  # of one visit, with its worker, until somebody has to look
_BEAT = 1.0  # seconds between two signs of life
_LONGEST_PAUSE = 15.0  # seconds between two looks for a store that is away
_PART = 2.0  # seconds between two looks at what a stage has printed
_TAIL = 2000  # characters of what a stage printed, that go with them

C = TypeVar("C", Visit, Ask, FanOut, Pause)


class Activities:
    """What one worker can be asked for. `queue` is its own."""

    def __init__(self, desk: WorkerRuns, queue: str, tails: "Tails") -> None:
        self._desk = desk
        self._queue = queue
        self._tails = tails

    def all(self) -> list[Callable[..., Any]]:
        """Every activity, for whoever registers them."""
        steps = (self.ask, self.join, self.pause, self.take_up, self.resume, self.cancel)
        return [self.open, self.visit, self.branch, *steps]

    @activity.defn
    async def open(self, order: StepRequest) -> OpenedRun:
        """Where a run stands; one that has begun before is taken up again."""
        run = self._desk.run(order.run_id)
        if (order.resume or run.seq > 1) and run.state.status is not RunStatus.SUCCESS:
            self._resumed(run, order.resume)
        return OpenedRun(snapshot=_snapshot(run), seq=run.seq)

    @activity.defn
    async def visit(self, order: StepRequest) -> StepResult:
        """Try the stage at the cursor once."""
        run, known = self._ready(order)
        if known:
            return self._done(run, known)
        command, pen = decide(run.state), self._pen(order)
        async with self._working(run, order, pen) as steps:
            if steps is not None:
                outcome = await steps.attempt(_expected(command, Visit))
                if isinstance(outcome, Outcome):
                    await self._wait_for_the_store(run)
                    await steps.conclude(_expected(command, Visit), outcome)
        return self._done(run, pen.written)

    @activity.defn
    async def branch(self, order: StepRequest) -> StepResult:
        """Try one branch of the parallel stage at the cursor once."""
        wanted = _attempt(order)
        run, known = self._ready(order)
        mine = [page for page in known if page.record is not None and _is_about(page.record, wanted)]
        if mine:
            return self._done(run, mine)
        pen = self._pen(order, wanted)
        async with self._working(run, order, pen) as steps:
            if steps is not None:
                await self._branch(run, steps, Visit(wanted.stage, wanted.visit, wanted.attempt))
        return self._done(run, pen.written)

    async def _branch(self, run: WorkerRun, steps: StageExecutor, visit: Visit) -> None:
        command = _expected(decide(run.state), FanOut)
        outcome = await steps.attempt(visit)
        if not isinstance(outcome, Outcome):
            return
        await self._wait_for_the_store(run)
        async with run.concluding:
            steps.state = self._desk.placed(self._desk.run(run.state.run_id))  # with what other branches have done
            await steps.conclude_branch(command, visit, outcome)

    @activity.defn
    async def join(self, order: StepRequest) -> StepResult:
        """Conclude the parallel stage at the cursor."""

        async def act(steps: StageExecutor) -> None:
            command = _expected(decide(steps.state), FanOut)
            for branch in steps.state.progress.branches.values():
                self._desk.fetched(branch.outcome)
            steps.join(command, order.began)

        return await self._near(order, act)

    @activity.defn
    async def ask(self, order: StepRequest) -> StepResult:
        """Ask whoever has left an answer, and otherwise note that the run waits."""

        async def act(steps: StageExecutor) -> None:
            await steps.ask(_expected(decide(steps.state), Ask))

        return await self._near(order, act)

    async def _near(self, order: StepRequest, act: Callable[[StageExecutor], Awaitable[None]]) -> StepResult:
        """Do something with the run's files at hand."""
        run, known = self._ready(order)
        pen = self._pen(order)
        if not known and (steps := await self._prepared(run, order, pen)):
            await act(steps)
            self._desk.left(self._desk.run(order.run_id))
        return self._done(run, [*known, *pen.written])

    @activity.defn
    async def pause(self, order: StepRequest) -> StepResult:
        """Record that the run pauses, or that it fails where nobody is to be waited for."""
        run, known = self._ready(order)
        pen = self._pen(order)
        if not known:
            steps, command = self._desk.steps(run, pen), decide(run.state)
            steps.fail(command) if isinstance(command, Fail) else steps.pause(_expected(command, Pause))
        return self._done(run, [*known, *pen.written])

    @activity.defn
    async def cancel(self, order: StepRequest) -> StepResult:
        """Note that the run is cancelled."""
        run, known = self._ready(order)
        pen, state = self._pen(order, after=run.seq), run.state
        if not state.status.final and state.status is not RunStatus.CANCELLED:
            place = {"stage": state.cursor.stage, "visit": state.cursor.visit}
            pen.append(order.run_id, RunCancelled(at=time.time(), **place, reason=order.reason))
        return self._done(run, [*known, *pen.written])

    @activity.defn
    async def take_up(self, order: StepRequest) -> StepResult:
        """Find what is left of attempts whose worker went away; those that are not on record are torn."""
        run, known = self._ready(order)
        unseen = [page for page in known if page.seq not in order.seen]
        pen = self._pen(order, after=run.seq)
        if any(_torn(run.state, attempt) for attempt in order.lost):
            pen.append(order.run_id, RunResumed(at=time.time()))
            if pause := _too_many(self._desk.run(order.run_id).state, order):
                pen.append(order.run_id, pause)
        return self._done(run, [*unseen, *pen.written])

    @activity.defn
    async def resume(self, order: StepRequest) -> StepResult:
        """Take a run up again that was stopped, in the way that somebody asked for."""
        run, known = self._ready(order)
        before = run.text
        written = known or self._resumed(run, order.resume)
        done = self._done(run, written)
        return done if run.text == before else done.model_copy(update={"snapshot": _snapshot(run)})

    def _ready(self, order: StepRequest) -> tuple[WorkerRun, list[JournalObject]]:
        """The run as it stands, and the records that whoever ordered this has not seen."""
        try:
            run = self._desk.run(order.run_id)
            ahead = run.seq > order.after
            known = list(self._desk.journal.pages(order.run_id, order.after)) if ahead else []
        except JournalError as error:
            raise ApplicationError(_told(error), type=ActivityErrorType.NOT_BEGUN) from error
        return run, [page for page in known if page.record is not None]

    def _pen(self, order: StepRequest, branch: AttemptRequest | None = None, after: int = -1) -> FencedJournal:
        return self._desk.pen(order.run_id, order.after if after < 0 else after, branch)

    def _resumed(self, run: WorkerRun, key: str) -> list[JournalObject]:
        """Record that the run goes on, and how, where somebody has said so."""
        run_id, now = run.state.run_id, time.time()
        wanted = load_resume_records(self._desk.store, key) if key else [RunResumed(at=now)]
        pen = self._desk.pen(run_id, run.seq)
        for record in wanted:
            pen.append(run_id, record.model_copy(update={"at": now}))
        self._desk.run(run_id)
        return pen.written

    @asynccontextmanager
    async def _working(
        self, run: WorkerRun, order: StepRequest, pen: FencedJournal
    ) -> AsyncIterator[StageExecutor | None]:
        """Give signs of life while a stage runs. A worker that lacks what the run needs pauses it."""
        beating = asyncio.create_task(self._beat(_attempt(order), order.run_id))
        showing = asyncio.create_task(self._show(_attempt(order), order.run_id))
        run.active += 1
        try:
            yield await self._prepared(run, order, pen)
            self._desk.left(self._desk.run(order.run_id))
        except asyncio.CancelledError:
            self._forget(run)
            details = activity.cancellation_details()
            if details and details.worker_shutdown and not details.cancel_requested:
                raise ApplicationError(
                    "its worker leaves", type=ActivityErrorType.HANDED_BACK, non_retryable=True
                ) from None
            raise
        except AwfError as error:
            self._forget(run)
            kind = ActivityErrorType.REPLACED if isinstance(error, RunTakenOver) else type(error).__name__
            raise ApplicationError(_told(error), type=kind, non_retryable=True) from error
        finally:
            run.active -= 1
            beating.cancel()
            showing.cancel()
            self._tails.forget(order.run_id, _attempt(order).stage)

    def _forget(self, run: WorkerRun) -> None:
        """What is known here of a run is in doubt, unless others are at it here."""
        if run.active <= 1:
            self._desk.forget(run.state.run_id)

    async def _prepared(self, run: WorkerRun, order: StepRequest, pen: FencedJournal) -> StageExecutor | None:
        """The steps of a run with its files at hand; None when it had to be paused for the lack of something."""
        try:
            await self._desk.stand(run)
            return self._desk.steps(run, pen)
        except JournalError as error:
            raise ApplicationError(_told(error), type=ActivityErrorType.NOT_BEGUN) from error
        except AwfError as error:
            if isinstance(error, WorkspaceError) and activity.info().attempt <= order.tries:
                raise ApplicationError(_told(error), type=ActivityErrorType.NOT_BEGUN) from error
            reason = f"the worker {self._queue} cannot run it: {_told(error)}"
            stage = run.state.cursor.stage
            pen.append(
                order.run_id, RunPaused(at=time.time(), limit="worker", stage=stage, count=1, allowed=0, reason=reason)
            )
            return None

    async def _wait_for_the_store(self, run: WorkerRun) -> None:
        """Wait for a store that is away before the end of a stage is written: its work may have taken hours."""
        pause = _BEAT
        while not await asyncio.to_thread(self._desk.journal.is_there, run.state.run_id):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _beat(self, attempt: AttemptRequest, run_id: str) -> None:
        """Signs of life, with the last that the stage printed."""
        while True:
            await asyncio.sleep(_BEAT)  # that a stage began is a sign too
            activity.heartbeat({**attempt.model_dump(), "tail": self._tails.of(run_id, attempt.stage)})

    async def _show(self, attempt: AttemptRequest, run_id: str) -> None:
        """Send what the stage prints while it runs, for those who follow it; at its end all of it is sent."""
        folder = attempt_directory(Path(), run_id, attempt.stage, attempt.visit, attempt.attempt)
        sent = {str(folder / f"{name}.log"): 0 for name in STREAMS}
        while True:
            await asyncio.sleep(_PART)
            for name, before in sent.items():
                with suppress(JournalError, OSError):  # tried again; whoever cannot send is told so at the stage's end
                    sent[name] = await asyncio.to_thread(self._desk.send_part, name, before)

    def _done(self, run: WorkerRun, pages: Sequence[JournalObject]) -> StepResult:
        run_id = run.state.run_id
        if self._desk.run(run_id).state.status.final:
            self._desk.forget(run_id)
        records = [
            NumberedRecord(seq=page.seq, record=compact_record(page.record))
            for page in pages
            if page.record is not None
        ]
        return StepResult(records=tuple(records), queue=self._queue)


class Tails:
    """The last that each stage of this worker printed."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], dict[str, Any]] = {}

    def hear(self, event: Event) -> None:
        """Note what a stage prints."""
        if event.event is EventKind.STAGE_OUTPUT:
            self._last[event.run_id, event.stage] = {key: str(value)[-_TAIL:] for key, value in event.data.items()}

    def of(self, run_id: str, stage: str) -> dict[str, Any]:
        """What a stage printed last."""
        return self._last.get((run_id, stage), {})

    def forget(self, run_id: str, stage: str) -> None:
        """A stage is over."""
        self._last.pop((run_id, stage), None)


def _attempt(order: StepRequest) -> AttemptRequest:
    if order.attempt is None:
        raise ApplicationError("the order names no attempt", non_retryable=True)
    return order.attempt


def _expected(command: Command, kind: type[C]) -> C:
    """What the machine says here, which is what it said where the order came from."""
    if not isinstance(command, kind):
        wrong = f"the run's workflow is out of step with its records, by which {command} comes next"
        raise ApplicationError(wrong, non_retryable=True)
    return command


def _snapshot(run: WorkerRun) -> StateSnapshot:
    file, source = run.text
    return StateSnapshot.of(run.state, file, compress(source))


def _is_about(record: AnyRecord, wanted: AttemptRequest) -> bool:
    """Whether a record tells how an attempt at a branch ended."""
    match record:
        case BranchCompleted():
            return record.branch == wanted.stage
        case AttemptFailed() | StageErrored() | VisitStarted():
            return record.stage == wanted.stage and record.attempt == wanted.attempt
        case _:
            return False


def _torn(state: State, lost: AttemptRequest) -> bool:
    """Whether an attempt whose worker went away has left no record of its end."""
    if state.status is not RunStatus.RUNNING or state.progress.attempt(lost.stage) != lost.attempt:
        return False
    if state.cursor.stage == lost.stage:
        return state.cursor.visit == lost.visit
    stage = state.stage
    branches = {branch.stage for branch in stage.branches} if isinstance(stage, ParallelStage) else set()
    return lost.stage in branches - state.progress.branches.keys() and state.visits.get(lost.stage, 0) + 1 == lost.visit


def _too_many(state: State, order: StepRequest) -> RunPaused | None:
    """A stage that takes its worker with it again and again is not given to the next one."""
    for lost in order.lost:
        count = state.progress.interrupted.get(lost.stage, 0)
        if count >= MOST_LOSSES:
            reason = f'stage "{lost.stage}" was lost with its worker {count} times, at last because: {order.reason}'
            place = {"stage": lost.stage, "count": count, "allowed": MOST_LOSSES - 1}
            return RunPaused(at=time.time(), limit="lost", **place, reason=reason)
    return None


def _told(error: AwfError) -> str:
    return f"{error.message} ({error.help})" if error.help else error.message


# What the sandbox need not load again for each run: it holds values and pure functions only.
PASSED = ("pipeline", "pydantic", "pydantic_core", "kdl", "networkx", "annotated_types")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker takes on."""

    queue: str = QUEUE
    concurrency: int = 4  # stages at once, from each queue
    grace: float = 60.0  # seconds that stages have to end when the worker is told to leave


def worker_queue(store: Path) -> str:
    """The queue of the worker at a store on this machine."""
    return f"{QUEUE}@{socket.gethostname()}:{store_label(store)}"


async def run_worker(
    client: Client, artefacts: ObjectStore, around: Runtime, duties: WorkerOptions, leave: asyncio.Event
) -> None:
    """Work until told to leave; then finish what can be finished in time, and hand back the rest."""
    with _lock_store(around.store):
        kill_by_store(store_label(around.store))  # what a worker that was killed left running
        queue, tails = worker_queue(around.store), Tails()
        doing = Activities(WorkerRuns(artefacts, around, tails.hear), queue, tails)
        general = _worker(client, duties.queue, doing, duties, workflows=True)
        own = _worker(client, queue, doing, duties, workflows=False)
        async with general, own:
            await leave.wait()


def sandbox() -> SandboxedWorkflowRunner:
    """What keeps a workflow from looking at a clock, a file or a random number."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED))


def _worker(client: Client, queue: str, doing: Activities, duties: WorkerOptions, *, workflows: bool) -> Worker:
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
def _lock_store(store: Path) -> Iterator[None]:
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

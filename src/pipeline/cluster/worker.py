"""A worker: it takes steps of runs from a shared queue, and those of the runs whose files it has from its own queue.

A stage runs as it does on a single machine, with the same handlers, plugins and redaction. A step that is requested
again writes no second record: what the journal says counts.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from pipeline.app.history import STREAMS
from pipeline.app.store import store_label
from pipeline.app.wiring import Runtime, build_services, installed_views
from pipeline.backends.process_tree import kill_by_store
from pipeline.backends.worktree import GitWorktrees
from pipeline.cluster.journal import (
    FencedJournal,
    JournalObject,
    SharedJournal,
    SharedMailbox,
    branch_attempt,
    load_resume_records,
)
from pipeline.cluster.messages import (
    NOT_BEGUN,
    QUEUE,
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
from pipeline.engine.events import Event, EventKind
from pipeline.engine.machine import Ask, Command, Fail, FanOut, Pause, Visit, decide
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import JournalError, RunIsOwned, UnknownRun, WorkspaceError, attempt_directory
from pipeline.engine.records import RunCancelled, RunCreated, RunPaused, RunResumed, WorkflowAdopted
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.errors import AwfError
from pipeline.journal.lock import lock_run
from pipeline.language.model import ParallelStage

MOST_LOSSES = 5  # of one visit with its worker, until a person has to look
_HEARTBEAT = 1.0  # seconds
_HEARTBEAT_THROTTLE = timedelta(seconds=2)  # also how long a cancel request may take to arrive
_LONGEST_PAUSE = 15.0  # seconds between two attempts to reach the store
_OUTPUT_INTERVAL = 2.0  # seconds after which new output of a stage is stored
_REMEMBERED = 200  # runs
_TAIL = 2000  # characters of output in a heartbeat
# Modules that the sandbox need not load again for each run: they hold values and pure functions only.
_PASSED_THROUGH = ("pipeline", "pydantic", "pydantic_core", "kdl", "networkx", "annotated_types")


@dataclass
class WorkerRun:
    """A run as this worker knows it."""

    state: State
    workflow: tuple[str, str]  # the file name and the text of its workflow
    worktrees: RemoteWorktrees | None  # if its files are shared through a git remote
    seq: int = 1
    services: Services | None = None  # what its stages need; built again when the run is resumed
    restored: tuple[str, str] | None = None  # the commits that its files on this worker are at, if known
    active: int = 0  # stages that this worker is running
    restoring: asyncio.Lock = field(default_factory=asyncio.Lock)
    concluding: asyncio.Lock = field(default_factory=asyncio.Lock)  # branches commit one after the other

    def take(self, found: JournalObject) -> None:
        """Apply the next object of the journal."""
        record, self.seq = found.record, found.seq
        if record is None:
            return
        self.state = apply(self.state, record)
        if isinstance(record, WorkflowAdopted):
            self.workflow = (record.file, record.source)
        if isinstance(record, RunResumed | WorkflowAdopted):
            self.services = None

    def commits(self) -> tuple[str, str]:
        """Return the commits that its worktree and its clone are at, by its records."""
        workspace = self.state.workspace
        return (workspace.commit if workspace else ""), str(self.state.context.get(MERGED_COMMIT) or "")

    def local_state(self) -> State:
        """Return its state with the paths that its directories have on this worker."""
        return self.worktrees.localize(self.state) if self.worktrees else self.state

    def snapshot(self) -> StateSnapshot:
        """Return its state as a message."""
        file, source = self.workflow
        return StateSnapshot.of(self.state, file, compress(source))


class WorkerRuns:
    """The runs that a worker knows: each is replayed once, and then only what is new is read."""

    def __init__(self, store: ObjectStore, runtime: Runtime) -> None:
        self.store = store
        self.journal = SharedJournal(store)
        self.directory = runtime.store
        self.output: dict[tuple[str, str], dict[str, str]] = {}  # the latest of each running stage
        listeners = (*runtime.listeners, self._note_output)
        self._runtime = replace(runtime, mailbox=SharedMailbox(store), listeners=listeners)
        self._views = installed_views()
        self._runs: dict[str, WorkerRun] = {}  # the one used last at the end

    def get(self, run_id: str) -> WorkerRun:
        """Return a run with all of its records."""
        run = self._runs.pop(run_id, None) or self._load(run_id)
        self._runs[run_id] = run
        for found in self.journal.objects(run_id, run.seq):
            run.take(found)
        return run

    def forget(self, run_id: str) -> None:
        """Drop a run that has ended, or whose state is in doubt."""
        self._runs.pop(run_id, None)

    def fenced_journal(self, run_id: str, after: int, branch: AttemptRequest | None = None) -> FencedJournal:
        """Return a journal for the next records of a run. The files that a record names are stored before it."""
        return FencedJournal(self.store, run_id, after, branch, partial(send_files, self.store, self.directory))

    async def restore_workspace(self, run: WorkerRun) -> None:
        """Bring the files of a run to where its records say they are, unless they are there."""
        async with run.restoring:
            if run.restored == run.commits() or (run.restored and run.active > 1):  # other branches use them
                return
            commits, state, workspace = run.commits(), run.state, run.state.workspace
            directory = workspace.path if workspace else state.cwd
            if run.worktrees:
                await run.worktrees.restore_run(run.local_state())
            elif not directory.is_dir():
                raise AwfError(
                    f"there is no directory {directory} on this worker",
                    help="make it available on every worker, or start runs with --remote",
                )
            elif workspace:
                worktrees = GitWorktrees(directory.parent, dict(self._runtime.environ), self._views)
                await worktrees.restore(workspace, f"{state.run_id}/{state.cursor.stage}-{state.cursor.visit}")
            run.restored = commits

    def mark_restored(self, run_id: str) -> None:
        """Note that the files of a run are where its records say, because a stage that ran here has left them there."""
        run = self.get(run_id)
        run.restored = run.commits()

    def executor(self, run: WorkerRun, journal: FencedJournal) -> StageExecutor:
        """Return what carries out the next commands of a run."""
        state = run.local_state()
        if run.services is None:
            runtime = replace(self._runtime, workspaces=run.worktrees)
            run.services = build_services(state, self.journal.of(state.run_id), runtime)
        return StageExecutor(state, replace(run.services, journal=journal))

    def _load(self, run_id: str) -> WorkerRun:
        while len(self._runs) >= _REMEMBERED:
            del self._runs[next(iter(self._runs))]
        first = next(self.journal.objects(run_id), None)
        if first is None or not isinstance(first.record, RunCreated):
            raise UnknownRun(f"there is no run {run_id} in {self.store.name}")
        state, remote = begin(first.record), remote_of(first.record)
        given = (self.directory, self._runtime.environ, self._views)
        worktrees = RemoteWorktrees(run_id, remote, *given) if remote else None
        return WorkerRun(state, (first.record.file, first.record.source), worktrees)

    def _note_output(self, event: Event) -> None:
        if event.event is EventKind.STAGE_OUTPUT:
            self.output[event.run_id, event.stage] = {key: str(value)[-_TAIL:] for key, value in event.data.items()}


class Activities:
    """The steps that one worker can be asked for; `queue` is its own."""

    def __init__(self, runs: WorkerRuns, queue: str) -> None:
        self._runs = runs
        self._queue = queue

    def all(self) -> list[Callable[..., Any]]:
        """Return the activities to register."""
        steps = (self.ask, self.join, self.pause, self.take_up, self.resume, self.cancel)
        return [self.open, self.visit, self.branch, *steps]

    @activity.defn
    async def open(self, request: StepRequest) -> OpenedRun:
        """Return the state of a run; one that has run before is resumed."""
        run = self._runs.get(request.run_id)
        if (request.resume or run.seq > 1) and run.state.status is not RunStatus.SUCCESS:
            self._resume(run, request.resume)
        return OpenedRun(snapshot=run.snapshot(), seq=run.seq)

    @activity.defn
    async def visit(self, request: StepRequest) -> StepResult:
        """Make one attempt at the stage at the cursor."""
        run, unseen = self._load(request)
        if unseen:
            return self._result(run, unseen)
        journal, visit = self._runs.fenced_journal(request.run_id, request.after), decide(run.state)
        if not isinstance(visit, Visit):
            raise _disagreement(visit)

        async def conclude(executor: StageExecutor, outcome: Outcome) -> None:
            await executor.conclude(visit, outcome)

        return await self._attempt(run, request, visit, journal, conclude)

    @activity.defn
    async def branch(self, request: StepRequest) -> StepResult:
        """Make one attempt at a branch of the parallel stage at the cursor."""
        attempt = request.attempt
        if attempt is None:
            raise ApplicationError("the request names no attempt", non_retryable=True)
        run, unseen = self._load(request)
        ends = ((attempt.stage, attempt.attempt), (attempt.stage, inf))
        own = [found for found in unseen if found.record is not None and branch_attempt(found.record) in ends]
        if own:
            return self._result(run, own)
        journal, command = self._runs.fenced_journal(request.run_id, request.after, attempt), decide(run.state)
        if not isinstance(command, FanOut):
            raise _disagreement(command)
        visit = Visit(attempt.stage, attempt.visit, attempt.attempt)

        async def conclude(executor: StageExecutor, outcome: Outcome) -> None:
            async with run.concluding:
                executor.state = self._runs.get(request.run_id).local_state()  # with other branches
                await executor.conclude_branch(command, visit, outcome)

        return await self._attempt(run, request, visit, journal, conclude)

    @activity.defn
    async def join(self, request: StepRequest) -> StepResult:
        """Conclude the parallel stage at the cursor."""
        return await self._carry_out(request)

    @activity.defn
    async def ask(self, request: StepRequest) -> StepResult:
        """Record the answer to the question at the cursor or, if there is none, that the run waits."""
        return await self._carry_out(request)

    @activity.defn
    async def pause(self, request: StepRequest) -> StepResult:
        """Record that the run pauses or, if a stage says so, that it fails."""
        return await self._carry_out(request)

    async def _carry_out(self, request: StepRequest) -> StepResult:
        """Carry out the next command of a run, which runs no stage. A pause needs no files."""
        run, unseen = self._load(request)
        journal, command = self._runs.fenced_journal(request.run_id, request.after), decide(run.state)
        if unseen:
            return self._result(run, unseen)
        if isinstance(command, Pause):
            self._runs.executor(run, journal).pause(command)
        elif isinstance(command, Fail):
            self._runs.executor(run, journal).fail(command)
        elif executor := await self._prepare(run, request, journal):
            if isinstance(command, Ask):
                await executor.ask(command)
            elif isinstance(command, FanOut):
                for outcome in executor.state.progress.branches.values():
                    fetch_outcome_files(self._runs.store, self._runs.directory, outcome)
                executor.join(command, request.began)
            else:
                raise _disagreement(command)
            self._runs.mark_restored(request.run_id)
        return self._result(run, journal.written)

    @activity.defn
    async def cancel(self, request: StepRequest) -> StepResult:
        """Record that the run was cancelled."""
        run, unseen = self._load(request)
        journal, state = self._runs.fenced_journal(request.run_id, run.seq), run.state
        if not state.status.final and state.status is not RunStatus.CANCELLED:
            stage, visit = state.cursor
            journal.append(
                request.run_id, RunCancelled(at=time.time(), stage=stage, visit=visit, reason=request.reason)
            )
        return self._result(run, [*unseen, *journal.written])

    @activity.defn
    async def take_up(self, request: StepRequest) -> StepResult:
        """Record that attempts whose worker is gone were interrupted, unless their end is recorded."""
        run, found = self._load(request)
        unseen = [one for one in found if one.seq not in request.seen]
        journal = self._runs.fenced_journal(request.run_id, run.seq)
        if any(_is_unfinished(run.state, attempt) for attempt in request.lost):
            journal.append(request.run_id, RunResumed(at=time.time()))
            if pause := _pause_after_losses(self._runs.get(request.run_id).state, request):
                journal.append(request.run_id, pause)
        return self._result(run, [*unseen, *journal.written])

    @activity.defn
    async def resume(self, request: StepRequest) -> StepResult:
        """Continue a stopped run, by the records that were stored for that, if any."""
        run, unseen = self._load(request)
        before = run.workflow
        result = self._result(run, unseen or self._resume(run, request.resume))
        return result if run.workflow == before else result.model_copy(update={"snapshot": run.snapshot()})

    def _resume(self, run: WorkerRun, key: str) -> list[JournalObject]:
        run_id, now = run.state.run_id, time.time()
        journal = self._runs.fenced_journal(run_id, run.seq)
        for record in load_resume_records(self._runs.store, key) if key else [RunResumed(at=now)]:
            journal.append(run_id, record.model_copy(update={"at": now}))
        self._runs.get(run_id)
        return journal.written

    def _load(self, request: StepRequest) -> tuple[WorkerRun, list[JournalObject]]:
        """Return a run, and those of its records that the workflow has not seen."""
        try:
            run = self._runs.get(request.run_id)
            unseen = self._runs.journal.objects(request.run_id, request.after) if run.seq > request.after else ()
            return run, [found for found in unseen if found.record is not None]
        except JournalError as error:
            raise ApplicationError(_describe(error), type=NOT_BEGUN) from error

    async def _attempt(
        self,
        run: WorkerRun,
        request: StepRequest,
        visit: Visit,
        journal: FencedJournal,
        conclude: Callable[[StageExecutor, Outcome], Awaitable[None]],
    ) -> StepResult:
        """Run one attempt, and send heartbeats and output meanwhile."""
        run_id = request.run_id
        tasks = [asyncio.create_task(send(run_id, visit)) for send in (self._send_heartbeats, self._send_output)]
        run.active += 1
        try:
            if executor := await self._prepare(run, request, journal):
                outcome = await executor.attempt(visit)
                if isinstance(outcome, Outcome):
                    await self._wait_for_store(run_id)
                    await conclude(executor, outcome)
            self._runs.mark_restored(run_id)
        except (asyncio.CancelledError, AwfError) as error:
            if run.active <= 1:  # its state is in doubt, and no other branch of it is running here
                self._runs.forget(run_id)
            if isinstance(error, AwfError):
                raise ApplicationError(_describe(error), type=type(error).__name__, non_retryable=True) from error
            details = activity.cancellation_details()
            if details and details.worker_shutdown and not details.cancel_requested:
                raise ApplicationError("its worker is shutting down", type="HandedBack", non_retryable=True) from None
            raise
        finally:
            run.active -= 1
            for task in tasks:
                task.cancel()
            self._runs.output.pop((run_id, visit.stage), None)
        return self._result(run, journal.written)

    async def _prepare(self, run: WorkerRun, request: StepRequest, journal: FencedJournal) -> StageExecutor | None:
        """Return the executor of a run whose files are restored; None if the run had to be paused instead."""
        try:
            await self._runs.restore_workspace(run)
            return self._runs.executor(run, journal)
        except AwfError as error:
            may_retry = isinstance(error, WorkspaceError) and activity.info().attempt <= request.tries
            if isinstance(error, JournalError) or may_retry:
                raise ApplicationError(_describe(error), type=NOT_BEGUN) from error
            reason = f"the worker {self._queue} cannot run it: {_describe(error)}"
            stage = run.state.cursor.stage
            pause = RunPaused(at=time.time(), limit="worker", stage=stage, count=1, allowed=0, reason=reason)
            journal.append(request.run_id, pause)
            return None

    async def _wait_for_store(self, run_id: str) -> None:
        """Wait for a store that is unavailable before the end of a stage is recorded: it may have taken hours."""
        pause = 1.0
        while True:
            with suppress(JournalError):
                await asyncio.to_thread(self._runs.journal.last, run_id)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _send_heartbeats(self, run_id: str, visit: Visit) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT)
            output = self._runs.output.get((run_id, visit.stage), {})
            activity.heartbeat({"stage": visit.stage, "visit": visit.visit, "attempt": visit.attempt, "tail": output})

    async def _send_output(self, run_id: str, visit: Visit) -> None:
        """Store what the stage prints while it runs; when it ends, the whole files are stored."""
        directory = attempt_directory(Path(), run_id, visit.stage, visit.visit, visit.attempt)
        sent = {str(directory / f"{name}.log"): 0 for name in STREAMS}
        while True:
            await asyncio.sleep(_OUTPUT_INTERVAL)
            for name, size in sent.items():
                with suppress(JournalError, OSError):  # tried again; at the end of the stage it is an error
                    sent[name] = await asyncio.to_thread(
                        send_output, self._runs.store, self._runs.directory, name, size
                    )

    def _result(self, run: WorkerRun, found: Sequence[JournalObject]) -> StepResult:
        run_id = run.state.run_id
        if self._runs.get(run_id).state.status.final:
            self._runs.forget(run_id)
        records = [
            NumberedRecord(seq=one.seq, record=compact_record(one.record)) for one in found if one.record is not None
        ]
        return StepResult(records=tuple(records), queue=self._queue)


def _disagreement(command: Command) -> ApplicationError:
    message = f"the run's workflow does not agree with its records, by which {command} comes next"
    return ApplicationError(message, non_retryable=True)


def _is_unfinished(state: State, lost: AttemptRequest) -> bool:
    """Return whether the end of an attempt whose worker is gone was not recorded."""
    if state.status is not RunStatus.RUNNING or state.progress.attempt(lost.stage) != lost.attempt:
        return False
    if state.cursor.stage == lost.stage:
        return state.cursor.visit == lost.visit
    stage = state.stage
    branches = {branch.stage for branch in stage.branches} if isinstance(stage, ParallelStage) else set()
    return lost.stage in branches - state.progress.branches.keys() and state.visits.get(lost.stage, 0) + 1 == lost.visit


def _pause_after_losses(state: State, request: StepRequest) -> RunPaused | None:
    """Return a pause if a stage was lost with its worker too often: it may be what kills the workers."""
    for lost in request.lost:
        count = state.progress.interrupted.get(lost.stage, 0)
        if count >= MOST_LOSSES:
            reason = f'stage "{lost.stage}" was lost with its worker {count} times, most recently: {request.reason}'
            place = {"stage": lost.stage, "count": count, "allowed": MOST_LOSSES - 1}
            return RunPaused(at=time.time(), limit="lost", **place, reason=reason)
    return None


def _describe(error: AwfError) -> str:
    return f"{error.message} ({error.help})" if error.help else error.message


def worker_queue(store: Path) -> str:
    """Return the name of the queue of the worker with this directory on this machine."""
    return f"{QUEUE}@{socket.gethostname()}:{store_label(store)}"


async def run_worker(
    client: Client, store: ObjectStore, runtime: Runtime, stop: asyncio.Event, *, queue: str, slots: int, grace: float
) -> None:
    """Work until `stop` is set; then finish what can be finished in `grace` seconds, and hand back the rest.

    At most `slots` stages run at a time from each of both queues.
    """
    with _lock_store(runtime.store):
        kill_by_store(store_label(runtime.store))  # what a killed worker left running
        own_queue = worker_queue(runtime.store)
        activities = Activities(WorkerRuns(store, runtime), own_queue).all()

        def listen(queue: str, workflows: Sequence[type]) -> Worker:
            return Worker(
                client,
                task_queue=queue,
                workflows=workflows,
                activities=activities,
                workflow_runner=sandbox(),
                max_concurrent_activities=slots,
                graceful_shutdown_timeout=timedelta(seconds=grace),
                max_heartbeat_throttle_interval=_HEARTBEAT_THROTTLE,
                default_heartbeat_throttle_interval=_HEARTBEAT_THROTTLE,
            )

        async with listen(queue, [RunWorkflow]), listen(own_queue, []):
            await stop.wait()


def sandbox() -> SandboxedWorkflowRunner:
    """Return what keeps a workflow from reading a clock, a file or a random number."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*_PASSED_THROUGH))


@contextmanager
def _lock_store(store: Path) -> Iterator[None]:
    """Be the only worker with this directory: another would kill our processes as leftovers."""
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_run(store, "worker.lock", time.time))
        except RunIsOwned:
            help = "give each worker on a machine a directory of its own: --store DIR"
            raise AwfError(f"another worker uses {store}", help=help) from None
        yield

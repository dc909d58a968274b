"""The runs of a cluster from outside: start, watch, answer, resume and cancel them, through one run store."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from pipeline.app.history import AttemptArtifacts
from pipeline.app.runs import ResumeRequest, RunResult, emit_end, redact_record, result_of, resume_records, with_head
from pipeline.app.store import RunFinished, RunStore, StoppedWatching, WorkerInfo, load_state
from pipeline.app.wiring import Runtime
from pipeline.cluster.journal import JournalObject, SharedJournal, SharedMailbox, save_resume_records
from pipeline.cluster.messages import QUEUE, WORKFLOW, HumanVisit, RunInput, Timeouts, WorkflowResult
from pipeline.cluster.object_store import FILES, ObjectStore, fetch_attempt_files, open_object_store
from pipeline.cluster.remote_worktrees import push_start
from pipeline.cluster.server import Address, LoopThread, ServerUnreachable, connect
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.context import Key
from pipeline.engine.driver import Plugins, event_data
from pipeline.engine.events import EventKind
from pipeline.engine.machine import FanOut, Visit, decide
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import CancelRequest, HumanAnswer, Journal, RunIsOwned
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCancelled,
    RunCreated,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.errors import AwfError
from pipeline.findings.plugin import commit_events
from pipeline.language.model import StageKind, Workflow
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import Redactor, redactor_of

_WORKFLOW_ID = "awf-"  # the prefix of a run's name on the server
_QUERY_TIMEOUT = timedelta(seconds=3)  # for a worker to answer
_PARALLEL = 20  # requests to the server at the same time
_RESUME_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds, until a workflow knows that its run has stopped
_POLL_INTERVAL = 0.25  # seconds between two reads of the journal of a run that is watched
_POLLS_PER_OUTPUT = 4  # polls, after which the server is asked what stages print

T = TypeVar("T")
_EventArguments = tuple[str, str, int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Temporal namespace and the object store that belongs to it."""

    client: Client
    store: ObjectStore
    queue: str = QUEUE
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def journal(self) -> SharedJournal:
        """The journal of its runs."""
        return SharedJournal(self.store)

    async def start(self, record: RunCreated, redactor: Redactor) -> None:
        """Record a run and hand it to the workers."""
        self.journal.create(record.run_id, redact_record(redactor, record))
        await self._start_workflow(record.run_id, "")

    async def wake(self, run_id: str, stage: str, visit: int) -> None:
        """Wake a run that has an answer. A run that no longer has a workflow is resumed."""
        try:
            await self.handle(run_id).execute_update(RunWorkflow.answer, HumanVisit(stage=stage, visit=visit))
        except WorkflowUpdateFailedError:
            return  # it has continued already
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                message = f"the answer to run {run_id} is kept, but the run was not informed: {error.message}"
                raise ServerUnreachable(message) from None
            await self._start_workflow(run_id, "")

    async def resume(self, run_id: str, records: Iterable[AnyRecord]) -> None:
        """Continue a stopped run by these records; refuse one that is running."""
        key = save_resume_records(self.store, run_id, records)
        for pause in (*_RESUME_PAUSES, None):
            try:
                await self.handle(run_id).execute_update(RunWorkflow.resume, key)
            except WorkflowUpdateFailedError:
                if pause is None or load_state(self.journal, run_id).status is RunStatus.RUNNING:
                    raise _run_is_owned(run_id) from None
                await asyncio.sleep(pause)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise ServerUnreachable(f"run {run_id} was not resumed: {error.message}") from None
                return await self._start_workflow(run_id, key)
            else:
                return None
        return None

    async def cancel(self, run_id: str, reason: str) -> State:
        """Stop a run, wait until none of it is running, and return its state."""
        state = load_state(self.journal, run_id)
        if state.status.final:
            raise RunFinished(f"run {run_id} has finished ({state.status}) and cannot be cancelled")
        try:
            await self.handle(run_id).cancel(reason=reason)
            await self.result(run_id)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        state = load_state(self.journal, run_id)
        if not state.status.final and state.status is not RunStatus.CANCELLED:  # it had no workflow
            stage, visit = state.cursor
            self.journal.append(run_id, RunCancelled(at=time.time(), stage=stage, visit=visit, reason=reason))
            state = load_state(self.journal, run_id)
        return state

    async def result(self, run_id: str) -> WorkflowResult | None:
        """Wait until a run ends, and return how; None if it was cancelled."""
        try:
            return await self.handle(run_id).result()
        except WorkflowFailureError:
            return None

    async def is_driven(self, run_id: str) -> bool:
        """Return whether workers run a run, or will without being asked."""
        if not await self._is_open(run_id):
            return False
        return load_state(self.journal, run_id).status in (RunStatus.RUNNING, RunStatus.WAITING)

    async def worker_info(self, run_id: str) -> WorkerInfo:
        """Return what the workflow of a run says about its worker; any worker can answer for it."""
        try:
            position = await self.handle(run_id).query(RunWorkflow.position, rpc_timeout=_QUERY_TIMEOUT)
        except (RPCError, WorkflowQueryFailedError):  # no worker responds, or none has opened the run yet
            return WorkerInfo()
        return WorkerInfo(position.home, position.events)

    async def are_open(self, run_ids: Iterable[str]) -> dict[str, bool]:
        """Return for each run whether it has an open workflow, whatever its records say."""
        slots = asyncio.Semaphore(_PARALLEL)

        async def ask(run_id: str) -> tuple[str, bool]:
            async with slots:
                return run_id, await self._is_open(run_id)

        return dict(await asyncio.gather(*map(ask, run_ids)))

    async def open_runs(self) -> set[str]:
        """Return the runs with an open workflow, by the server's list, which may be a moment old."""
        query = f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus = 'Running'"
        return {found.id.removeprefix(_WORKFLOW_ID) async for found in self.client.list_workflows(query)}

    def handle(self, run_id: str) -> WorkflowHandle[RunWorkflow, WorkflowResult]:
        """Return the workflow of a run, which need not exist."""
        return self.client.get_workflow_handle_for(RunWorkflow.run, f"{_WORKFLOW_ID}{run_id}")

    async def _is_open(self, run_id: str) -> bool:
        try:
            found = await self.handle(run_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status is WorkflowExecutionStatus.RUNNING

    async def _start_workflow(self, run_id: str, key: str) -> None:
        try:
            await self.client.start_workflow(
                RunWorkflow.run,
                RunInput(run_id=run_id, terms=self.timeouts, resume=key),
                id=f"{_WORKFLOW_ID}{run_id}",
                task_queue=self.queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
        except WorkflowAlreadyStartedError:
            raise _run_is_owned(run_id) from None


def _run_is_owned(run_id: str) -> RunIsOwned:
    return RunIsOwned(f"run {run_id} is being run by the workers; wait for it or cancel it")


class ClusterStore(RunStore):
    """The runs of a cluster. The files of an attempt are copied into `directory` on demand."""

    call_timeout: float | None = None  # seconds for a request to the server

    def __init__(self, cluster: Cluster, directory: Path, loop: LoopThread, redactor: Redactor) -> None:
        super().__init__(cluster.store.name, directory, cluster.journal, SharedMailbox(cluster.store), redactor)
        self.cluster = cluster
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for a request to the server; raise ServerUnreachable if it does not respond."""
        timeout = timeout or self.call_timeout
        try:
            return self._loop.call(work, timeout)
        except (RPCError, TimeoutError) as error:
            reason = error.message if isinstance(error, RPCError) else f"nothing within {timeout} seconds"
            raise ServerUnreachable(f"the Temporal server does not respond: {reason}") from None

    def is_driven(self, run_id: str) -> bool:
        return self.call(self.cluster.is_driven(run_id))

    def ledger(self, run_id: str) -> Journal:
        return self.cluster.journal.of(run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        fetch_attempt_files(self.cluster.store, self.directory, found)

    def display_path(self, path: Path) -> str:
        if not path.is_relative_to(self.directory):
            return str(path)
        return f"{self.cluster.store.name}/{FILES}/{path.relative_to(self.directory)}"

    def worker_info(self, run_id: str) -> WorkerInfo | None:
        return self.call(self.cluster.worker_info(run_id))

    def start(self, record: RunCreated, runtime: Runtime, workflow: Workflow | None = None) -> RunResult:
        self.call(self._hand_over(record, runtime, workflow))
        return self._watch(record.run_id, 0, runtime)

    async def _hand_over(self, record: RunCreated, runtime: Runtime, workflow: Workflow | None) -> None:
        record = with_head(record, runtime.environ)
        if name := runtime.settings.remote:
            if not any(stage.kind == StageKind.WORKSPACE_CREATE for stage in begin(record, workflow).workflow.stages):
                raise AwfError(
                    "the workflow has no workspace.create stage, so its changes would stay on one worker",
                    help="add one, or leave out --remote and have the directory on every worker",
                )
            remote = await push_start(Path(record.cwd), runtime.environ, name, record.run_id)
            record = record.model_copy(update={"options": {**record.options, "remote": remote.model_dump()}})
        await self.cluster.start(record, runtime.redactor)

    def resume(self, run_id: str, request: ResumeRequest, runtime: Runtime) -> RunResult:
        last = self.journal.last(run_id).seq
        records = resume_records(load_state(self.journal, run_id), request, runtime.redactor)
        self.call(self.cluster.resume(run_id, [record for record in records if record]))
        return self._watch(run_id, last, runtime)

    def _watch(self, run_id: str, after: int, runtime: Runtime) -> RunResult:
        """Report to the listeners what happens to a run after record `after`, until it stops."""
        if runtime.detach:
            return RunResult(run_id, RunStatus.RUNNING, (), 0, "")
        plugins = PluginManager(time.time, runtime.listeners, runtime.redactor)
        follower = RunFollower(self.cluster, run_id, plugins)
        try:
            return self.call(follower.follow(after, while_waiting=runtime.wait_for_answer))
        except KeyboardInterrupt:
            raise StoppedWatching(run_id) from None

    def wake(self, answer: HumanAnswer) -> bool:
        self.call(self.cluster.wake(answer.run_id, answer.stage, answer.visit))
        return True  # the workers resume even a run that had stopped

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        del wait  # the server responds only after everything has stopped
        request = CancelRequest(run_id, self.redactor.text(reason), by, self.now())
        return self.call(self.cluster.cancel(run_id, str(request))).reason


@contextmanager
def connect_to_cluster(
    on: str, artifacts: str, environ: Mapping[str, str], queue: str = QUEUE
) -> Iterator[tuple[Cluster, LoopThread]]:
    """Connect to the cluster at an address, with its object store."""
    store, address, loop = open_object_store(artifacts), Address.read(on), LoopThread()
    try:
        yield Cluster(loop.call(connect(address, environ)), store, queue), loop
    finally:
        loop.close()


@contextmanager
def open_cluster(on: str, artifacts: str, environ: Mapping[str, str], queue: str = QUEUE) -> Iterator[ClusterStore]:
    """Open the run store of a cluster."""
    with connect_to_cluster(on, artifacts, environ, queue) as (cluster, loop), TemporaryDirectory("-awf") as directory:
        yield ClusterStore(cluster, Path(directory), loop, redactor_of(environ))


class RunFollower:
    """Turns the records of a cluster run, as they appear, into the events that a run on this machine emits."""

    def __init__(self, cluster: Cluster, run_id: str, plugins: Plugins) -> None:
        self._cluster = cluster
        self._run_id = run_id
        self._plugins = plugins
        self._seq = 0
        self._state: State  # from the first record on
        self._started: set[Visit] = set()  # visits whose start was reported
        self._output: dict[str, str] = {}  # what was reported last of each stage's output

    async def follow(self, after: int, *, while_waiting: bool = False) -> RunResult:
        """Emit what happens after a record until the run stops; with `while_waiting`, also while it waits."""
        polls = 0
        while True:
            for found in self._cluster.journal.objects(self._run_id, self._seq):
                self._take(found, silent=found.seq <= after)
            state = self._state
            waits = while_waiting and state.status is RunStatus.WAITING
            if state.status is not RunStatus.RUNNING and self._seq > after and not waits:
                break
            self._emit_started()
            polls += 1
            if polls % _POLLS_PER_OUTPUT == 0:
                await self._emit_output()
            await asyncio.sleep(_POLL_INTERVAL)
        result = result_of(state, self._cluster.journal)
        emit_end(self._plugins, state, result)
        return result

    def _take(self, found: JournalObject, *, silent: bool) -> None:
        self._seq = found.seq
        record = found.record
        if record is None:
            return
        if isinstance(record, RunCreated):
            before = self._state = begin(record)
        else:
            before, self._state = self._state, apply(self._state, record)
        if not silent:
            for event in _events(record, before, self._state):
                self._emit(*event)
            self._emit_started()

    def _emit_started(self) -> None:
        """Emit the start of what the machine has decided to run."""
        command = decide(self._state)
        for visit in command.branches if isinstance(command, FanOut) else (command,):
            if isinstance(visit, Visit) and visit not in self._started:
                self._started.add(visit)
                self._emit(EventKind.STAGE_STARTED, visit.stage, visit.visit, {"attempt": visit.attempt})

    async def _emit_output(self) -> None:
        """Emit what stages print, from the heartbeats of their workers."""
        try:
            heartbeats = [one async for one in self._heartbeats()]
        except RPCError:  # the journal says the rest
            return
        for heartbeat in heartbeats:
            stage, tail = str(heartbeat.get("stage", "")), heartbeat.get("tail") or {}
            if tail and self._output.get(stage) != str(tail):
                self._output[stage] = str(tail)
                visit = int(heartbeat.get("visit", self._state.cursor.visit))
                self._emit(EventKind.STAGE_OUTPUT, stage, visit, tail)

    async def _heartbeats(self) -> AsyncIterator[dict[str, Any]]:
        found = await self._cluster.handle(self._run_id).describe()
        for pending in found.raw_description.pending_activities:
            if pending.HasField("heartbeat_details"):
                for value in await self._cluster.client.data_converter.decode(pending.heartbeat_details.payloads):
                    if isinstance(value, dict):
                        yield value

    def _emit(self, kind: str, stage: str, visit: int, data: Mapping[str, Any]) -> None:
        self._plugins.emit(kind, self._state, stage, visit, **data)


def _events(record: AnyRecord, before: State, after: State) -> Iterator[_EventArguments]:
    """Return the events of a record that turned one state into another."""
    match record:
        case RunCreated() | RunResumed():
            kind = EventKind.RUN_STARTED if isinstance(record, RunCreated) else EventKind.RUN_RESUMED
            yield kind, *after.cursor, {"goal": after.goal, "workflow": after.workflow.name}
        case AttemptFailed():
            data = {"attempt": record.attempt, "reason": record.outcome.reason, "delay": record.delay}
            yield EventKind.STAGE_RETRYING, record.stage, record.visit, data
        case StageErrored():
            data = {"attempt": record.attempt, **event_data(record.outcome)}
            yield EventKind.STAGE_ERRORED, record.stage, record.visit, data
        case BranchCompleted():
            yield _done_event(record.outcome, record.branch, record.branch_visit)
        case VisitCompleted():
            visit = (record.stage, record.visit)
            if record.option:
                by = str(record.outcome.updates.get(Key.HUMAN_BY, ""))
                yield EventKind.HUMAN_ANSWERED, *visit, {"option": record.option, "by": by}
            yield EventKind.CHECKPOINT_SAVED, *visit, {}
            yield _done_event(record.outcome, *visit, to=record.chosen.target, why=record.chosen.reason)
            for name, data in commit_events(before.context, after.context):
                yield name, *visit, data
        case RunWaiting():
            yield EventKind.HUMAN_ASKED, record.stage, record.visit, {}


def _done_event(outcome: Outcome, stage: str, visit: int, **data: Any) -> _EventArguments:
    kind = EventKind.STAGE_COMPLETED if outcome.status.passes else EventKind.STAGE_FAILED
    return kind, stage, visit, {**event_data(outcome), **data}

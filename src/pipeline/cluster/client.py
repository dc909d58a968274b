"""The runs of a cluster from outside: start one, wake one, take one up again, stop one."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
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
from pipeline.cluster.server import Address, ServerUnreachable, connect, run_id_of, workflow_id
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

_PATIENCE = timedelta(seconds=3)  # for a worker to answer
_AT_ONCE = 20  # questions to the server
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds, until a run that has stopped knows that it has


def _owned(run_id: str) -> RunIsOwned:
    return RunIsOwned(f"run {run_id} is being run by the workers; wait for it or cancel it")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Temporal namespace and the store that goes with it."""

    client: Client
    store: ObjectStore
    queue: str = QUEUE
    terms: Timeouts = field(default_factory=Timeouts)

    @property
    def journal(self) -> SharedJournal:
        """The journal of its runs."""
        return SharedJournal(self.store)

    @property
    def letters(self) -> SharedMailbox:
        """What people have for its runs."""
        return SharedMailbox(self.store)

    async def start(self, record: RunCreated, redactor: Redactor) -> None:
        """Record a run and hand it to the workers."""
        self.journal.create(record.run_id, redact_record(redactor, record))
        await self._begin(record.run_id, "")

    async def wake(self, run_id: str, stage: str, visit: int) -> None:
        """Tell a run that an answer is there. One that has no workflow any more is taken up again."""
        try:
            await self._handle(run_id).execute_update(RunWorkflow.answer, HumanVisit(stage=stage, visit=visit))
        except WorkflowUpdateFailedError:
            return  # it has gone on, by itself or by another answer
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise ServerUnreachable(
                    f"the answer to run {run_id} is kept, but the run was not told: {error.message}"
                ) from None
            await self._begin(run_id, "")

    async def resume(self, run_id: str, records: list[AnyRecord]) -> None:
        """Have a stopped run go on, by these records; one that is running is refused."""
        key = save_resume_records(self.store, run_id, records)
        for pause in (*_PAUSES, None):
            try:
                await self._handle(run_id).execute_update(RunWorkflow.resume, key)
            except WorkflowUpdateFailedError:
                if pause is None or load_state(self.journal, run_id).status is RunStatus.RUNNING:
                    raise _owned(run_id) from None
                await asyncio.sleep(pause)  # it has stopped by its records, and will hear of that in a moment
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise ServerUnreachable(f"run {run_id} was not told to go on: {error.message}") from None
                return await self._begin(run_id, key)
            else:
                return None
        return None

    async def cancel(self, run_id: str, reason: str) -> State:
        """Stop a run, and wait until nothing of it runs any more; how it stands then."""
        state = load_state(self.journal, run_id)
        if state.status.final:
            raise RunFinished(f"run {run_id} is over ({state.status}) and cannot be cancelled")
        try:
            await self._handle(run_id).cancel(reason=reason)
            await self.ended(run_id)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        state = load_state(self.journal, run_id)
        if state.status.final or state.status is RunStatus.CANCELLED:
            return state
        place = {"stage": state.cursor.stage, "visit": state.cursor.visit}
        self.journal.append(run_id, RunCancelled(at=time.time(), **place, reason=reason))  # nobody was at it
        return load_state(self.journal, run_id)

    async def ended(self, run_id: str) -> WorkflowResult | None:
        """How a run ended; None when it was cancelled."""
        from temporalio.client import WorkflowFailureError  # noqa: PLC0415 - only here

        try:
            ended: WorkflowResult = await self._handle(run_id).result()
        except WorkflowFailureError:
            return None
        return ended

    async def is_driven(self, run_id: str) -> bool:
        """Whether the workers are at a run, or will be without anybody's doing."""
        if not await self._is_open(run_id):
            return False
        return load_state(self.journal, run_id).status in (RunStatus.RUNNING, RunStatus.WAITING)

    async def attended(self, run_id: str) -> WorkerInfo:
        """Who has a run that is under way, by its workflow itself: any worker can answer for it."""
        try:
            standing = await self._handle(run_id).query(RunWorkflow.standing, rpc_timeout=_PATIENCE)
        except (RPCError, WorkflowQueryFailedError):  # there is no worker, or none has opened the run yet
            return WorkerInfo()
        return WorkerInfo(standing.home, standing.events)

    async def are_open(self, run_ids: Iterable[str]) -> dict[str, bool]:
        """Which of some runs have a workflow that goes on, whatever their records say."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def asked(run_id: str) -> tuple[str, bool]:
            async with places:
                return run_id, await self._is_open(run_id)

        return dict(await asyncio.gather(*map(asked, run_ids)))

    async def open_runs(self) -> set[str]:
        """The runs with a workflow that goes on, by the server's list, which may be some moments old."""
        asked = f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus = 'Running'"
        return {run_id_of(found.id) async for found in self.client.list_workflows(asked)}

    async def _is_open(self, run_id: str) -> bool:
        try:
            found = await self._handle(run_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status is WorkflowExecutionStatus.RUNNING

    async def _begin(self, run_id: str, key: str) -> None:
        try:
            await self.client.start_workflow(
                RunWorkflow.run,
                RunInput(run_id=run_id, terms=self.terms, resume=key),
                id=workflow_id(run_id),
                task_queue=self.queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
        except WorkflowAlreadyStartedError:
            raise _owned(run_id) from None

    def _handle(self, run_id: str) -> WorkflowHandle[RunWorkflow, WorkflowResult]:
        return self.client.get_workflow_handle_for(RunWorkflow.run, workflow_id(run_id))


_PAUSE = 0.25  # seconds between two looks at the journal
_TAILS_EVERY = 4  # looks, until the server is asked what stages print


@dataclass
class RunFollower:
    """One run, and who is told of it."""

    cluster: Cluster
    run_id: str
    plugins: Plugins
    seq: int = 0
    _state: State | None = None
    _going: set[Visit] = field(default_factory=set)  # visits that were told to have started
    _said: dict[str, str] = field(default_factory=dict)  # what each stage printed last

    async def until_it_stops(self, after: int, *, stay: bool = False) -> RunResult:
        """Tell what happens later than a record, until nobody is at the run; with `stay` also while it waits."""
        looks = 0
        while True:
            for page in self.cluster.journal.pages(self.run_id, self.seq):
                self._take(page, silent=page.seq <= after)
            state = self._known
            if state.status is not RunStatus.RUNNING and self.seq > after and not (stay and _waits(state)):
                break
            self._started(state)
            looks += 1
            if looks % _TAILS_EVERY == 0:
                await self._tails(state)
            await asyncio.sleep(_PAUSE)
        result = result_of(state, self.cluster.journal)
        emit_end(self.plugins, state, result)
        return result

    @property
    def _known(self) -> State:
        assert self._state is not None  # noqa: S101 - a run that is followed has been created
        return self._state

    def _take(self, page: JournalObject, *, silent: bool) -> None:
        self.seq = page.seq
        if isinstance(page.record, RunCreated):
            self._state = begin(page.record)
        elif page.record is not None:
            before, self._state = self._known, apply(self._known, page.record)
            for kind, stage, visit, data in () if silent else _events(page, before, self._known):
                self._tell(kind, stage, visit, **data)
        if isinstance(page.record, RunCreated | RunResumed) and not silent:
            kind = EventKind.RUN_STARTED if isinstance(page.record, RunCreated) else EventKind.RUN_RESUMED
            cursor, state = self._known.cursor, self._known
            self._tell(kind, cursor.stage, cursor.visit, goal=state.goal, workflow=state.workflow.name)
        if not silent:
            self._started(self._known)

    def _started(self, state: State) -> None:
        """Tell what the machine has begun with."""
        command = decide(state)
        visits = command.branches if isinstance(command, FanOut) else (command,)
        for visit in visits:
            if isinstance(visit, Visit) and visit not in self._going:
                self._going.add(visit)
                self._tell(EventKind.STAGE_STARTED, visit.stage, visit.visit, attempt=visit.attempt)

    async def _tails(self, state: State) -> None:
        """What stages print, from the signs of life of their workers."""
        try:
            beats = [beat async for beat in _beats(self.cluster, self.run_id)]
        except RPCError:  # the journal tells the rest
            return
        for beat in beats:
            stage, tail = str(beat.get("stage", "")), beat.get("tail") or {}
            if tail and self._said.get(stage) != str(tail):
                self._said[stage] = str(tail)
                self._tell(EventKind.STAGE_OUTPUT, stage, int(beat.get("visit", state.cursor.visit)), **tail)

    def _tell(self, kind: str, stage: str, visit: int, **data: Any) -> None:
        self.plugins.emit(kind, self._known, stage, visit, **data)


async def _beats(cluster: Cluster, run_id: str) -> Any:
    handle: WorkflowHandle[RunWorkflow, WorkflowResult] = cluster.client.get_workflow_handle_for(
        RunWorkflow.run, workflow_id(run_id)
    )
    found = await handle.describe()
    for pending in found.raw_description.pending_activities:
        if pending.HasField("heartbeat_details"):
            for value in await cluster.client.data_converter.decode(pending.heartbeat_details.payloads):
                if isinstance(value, dict):
                    yield value


def _waits(state: State) -> bool:
    return state.status is RunStatus.WAITING


_Told = tuple[str, str, int, dict[str, Any]]


def _events(page: JournalObject, before: State, after: State) -> Iterator[_Told]:
    """What a record is told as."""
    match record := page.record:
        case AttemptFailed():
            data = {"attempt": record.attempt, "reason": record.outcome.reason, "delay": record.delay}
            yield EventKind.STAGE_RETRYING, record.stage, record.visit, data
        case StageErrored():
            data = {"attempt": record.attempt, **event_data(record.outcome)}
            yield EventKind.STAGE_ERRORED, record.stage, record.visit, data
        case BranchCompleted():
            yield _done(record.outcome, record.branch, record.branch_visit)
        case VisitCompleted():
            yield from _completed(record, before, after)
        case RunWaiting():
            yield EventKind.HUMAN_ASKED, record.stage, record.visit, {}


def _completed(record: VisitCompleted, before: State, after: State) -> Iterator[_Told]:
    if record.option:
        by = str(record.outcome.updates.get(Key.HUMAN_BY, ""))
        yield EventKind.HUMAN_ANSWERED, record.stage, record.visit, {"option": record.option, "by": by}
    yield EventKind.CHECKPOINT_SAVED, record.stage, record.visit, {}
    way = {"to": record.chosen.target, "why": record.chosen.reason}
    yield _done(record.outcome, record.stage, record.visit, **way)
    for kind, data in commit_events(before.context, after.context):
        yield kind, record.stage, record.visit, data


def _done(outcome: Outcome, stage: str, visit: int, **data: Any) -> _Told:
    kind = EventKind.STAGE_COMPLETED if outcome.status.passes else EventKind.STAGE_FAILED
    return kind, stage, visit, {**event_data(outcome), **data}


T = TypeVar("T")


class ClusterStore(RunStore):
    """The runs of a cluster. The files of an attempt are copied into `directory` when somebody wants them."""

    def __init__(self, cluster: Cluster, directory: Path, redactor: Redactor) -> None:
        super().__init__(cluster.store.name, directory, cluster.journal, cluster.letters, redactor)
        self.cluster = cluster

    @abstractmethod
    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Talk to the Temporal server and wait; raises Unreachable when it does not answer."""

    def is_driven(self, run_id: str) -> bool:
        return self.call(self.cluster.is_driven(run_id))

    def ledger(self, run_id: str) -> Journal:
        return self.cluster.journal.of(run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        fetch_attempt_files(self.cluster.store, self.directory, found)

    def display_path(self, path: Path) -> str:
        inside = path.is_relative_to(self.directory)
        return f"{self.cluster.store.name}/{FILES}/{path.relative_to(self.directory)}" if inside else str(path)

    def worker_info(self, run_id: str) -> WorkerInfo | None:
        return self.call(self.cluster.attended(run_id))

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
            sent = await push_start(Path(record.cwd), runtime.environ, name, record.run_id)
            record = record.model_copy(update={"options": {**record.options, "remote": sent.model_dump()}})
        await self.cluster.start(record, runtime.redactor)

    def resume(self, run_id: str, request: ResumeRequest, runtime: Runtime) -> RunResult:
        last = self.journal.last(run_id).seq
        records = resume_records(load_state(self.journal, run_id), request, runtime.redactor)
        self.call(self.cluster.resume(run_id, [record for record in records if record]))
        return self._watch(run_id, last, runtime)

    def _watch(self, run_id: str, after: int, runtime: Runtime) -> RunResult:
        """Tell the listeners what happens to a run after a record, until it stops."""
        if runtime.detach:
            return RunResult(run_id, RunStatus.RUNNING, (), 0, "")
        plugins = PluginManager(time.time, runtime.listeners, runtime.redactor)
        follower = RunFollower(self.cluster, run_id, plugins)
        try:
            return self.call(follower.until_it_stops(after, stay=runtime.wait_for_answer))
        except KeyboardInterrupt:
            raise StoppedWatching(run_id) from None

    def wake(self, answer: HumanAnswer) -> bool:
        self.call(self.cluster.wake(answer.run_id, answer.stage, answer.visit))
        return True  # the workers resume even a run that had stopped

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        del wait  # the server answers when nothing of the run is running
        request = CancelRequest(run_id, self.redactor.text(reason), by, self.now())
        return self.call(self.cluster.cancel(run_id, str(request))).reason


class CommandStore(ClusterStore):
    """A cluster as one command uses it, with an event loop of its own."""

    def __init__(self, cluster: Cluster, directory: Path, redactor: Redactor, runner: asyncio.Runner) -> None:
        super().__init__(cluster, directory, redactor)
        self._runner = runner

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        except RPCError as error:
            raise ServerUnreachable(f"the Temporal server does not answer: {error.message}") from None


@contextmanager
def open_cluster(on: str, artefacts: str, environ: Mapping[str, str], queue: str = QUEUE) -> Iterator[CommandStore]:
    """The cluster at an address, with its object store, while the context lasts."""
    store = open_object_store(artefacts)
    address = Address.read(on)
    with asyncio.Runner() as runner, TemporaryDirectory(prefix="awf-") as files:
        client = runner.run(connect(address, environ))
        yield CommandStore(Cluster(client, store, queue), Path(files), redactor_of(environ), runner)

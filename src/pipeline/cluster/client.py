"""The runs of a cluster from outside: start, watch, answer, resume and cancel them, through one run store."""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
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
from pipeline.app.store import RunStore, StoppedWatching, WorkerInfo, load_state
from pipeline.app.wiring import Runtime
from pipeline.cluster.journal import JournalObject, SharedJournal, SharedMailbox, save_resume_records
from pipeline.cluster.messages import HumanVisit, RunInput, Timeouts, WorkflowResult
from pipeline.cluster.object_store import FILES, ObjectStore, fetch_attempt_files, open_object_store
from pipeline.cluster.remote_worktrees import push_start
from pipeline.cluster.server import Address, LoopThread, ServerUnreachable, connect
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.context import Key
from pipeline.engine.driver import Plugins, record_events
from pipeline.engine.events import EventKind
from pipeline.engine.machine import FanOut, Visit, decide
from pipeline.engine.ports import CancelRequest, HumanAnswer, Journal, RunIsOwned
from pipeline.engine.records import (
    AnyRecord,
    RunCreated,
    RunResumed,
    RunWaiting,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.errors import AwfError
from pipeline.findings.keys import commit_events
from pipeline.language.model import StageKind, Workflow
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import Redactor, redactor_of

WORKFLOW_ID = "awf-"  # the prefix of a run's name on the server
_QUERY_TIMEOUT = timedelta(seconds=3)  # for a worker to answer
_PARALLEL = 20  # requests to the server at the same time
_RESUME_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds, until a workflow knows that its run has stopped
_POLL_INTERVAL = 0.25  # seconds between two reads of the journal of a run that is watched
_POLLS_PER_OUTPUT = 4  # polls, after which the server is asked what stages print

T = TypeVar("T")


class NoWorkflow(AwfError):
    """The run has no open workflow on the server."""


class ClusterStore(RunStore):
    """The runs of a Temporal namespace and of the object store that belongs to it.

    The files of an attempt are copied into `directory` on demand.
    """

    journal: SharedJournal
    call_timeout: float | None = None  # seconds for a request to the server
    timeouts = Timeouts()  # of the runs that are started

    def __init__(
        self, client: Client, objects: ObjectStore, queue: str, directory: Path, loop: LoopThread, redactor: Redactor
    ) -> None:
        super().__init__(objects.name, directory, SharedJournal(objects), SharedMailbox(objects), redactor)
        self.client = client
        self.objects = objects
        self.queue = queue
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for a request to the server; raise NoWorkflow, or ServerUnreachable if it does not respond."""
        timeout = timeout or self.call_timeout
        try:
            return self._loop.call(work, timeout)
        except (RPCError, TimeoutError) as error:
            if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
                raise NoWorkflow(error.message) from None
            reason = error.message if isinstance(error, RPCError) else f"nothing within {timeout} seconds"
            raise ServerUnreachable(f"the Temporal server does not respond: {reason}") from None

    def handle(self, run_id: str) -> WorkflowHandle[RunWorkflow, WorkflowResult]:
        """Return the workflow of a run, which need not exist."""
        return self.client.get_workflow_handle_for(RunWorkflow.run, f"{WORKFLOW_ID}{run_id}")

    async def are_open(self, run_ids: Iterable[str]) -> dict[str, bool]:
        """Return for each run whether it has an open workflow, whatever its records say."""
        slots = asyncio.Semaphore(_PARALLEL)

        async def is_open(run_id: str) -> bool:
            try:
                async with slots:
                    found = await self.handle(run_id).describe()
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return False
                raise
            return found.status is WorkflowExecutionStatus.RUNNING

        runs = tuple(run_ids)
        return dict(zip(runs, await asyncio.gather(*map(is_open, runs)), strict=True))

    def is_driven(self, run_id: str) -> bool:
        is_open = self.call(self.are_open([run_id]))[run_id]
        return is_open and load_state(self.journal, run_id).status in (RunStatus.RUNNING, RunStatus.WAITING)

    def ledger(self, run_id: str) -> Journal:
        return self.journal.of(run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        fetch_attempt_files(self.objects, self.directory, found)

    def display_path(self, path: Path) -> str:
        if not path.is_relative_to(self.directory):
            return str(path)
        return f"{self.objects.name}/{FILES}/{path.relative_to(self.directory)}"

    def worker_info(self, run_id: str) -> WorkerInfo | None:
        try:  # any worker can answer for the workflow
            position = self.call(self.handle(run_id).query(RunWorkflow.position, rpc_timeout=_QUERY_TIMEOUT))
        except (NoWorkflow, ServerUnreachable, WorkflowQueryFailedError):  # no worker responds, or has opened the run
            return WorkerInfo()
        return WorkerInfo(position.home, position.events)

    def start(self, record: RunCreated, runtime: Runtime, workflow: Workflow | None = None) -> RunResult:
        record = with_head(record, runtime.environ)
        if name := runtime.settings.remote:
            if not any(stage.kind == StageKind.WORKSPACE_CREATE for stage in begin(record, workflow).workflow.stages):
                raise AwfError(
                    "the workflow has no workspace.create stage, so its changes would stay on one worker",
                    help="add one, or leave out --remote and have the directory on every worker",
                )
            remote = self.call(push_start(Path(record.cwd), runtime.environ, name, record.run_id))
            record = record.model_copy(update={"options": {**record.options, "remote": remote.model_dump()}})
        self.journal.create(record.run_id, redact_record(runtime.redactor, record))
        self._start_workflow(record.run_id)
        return self._watch(record.run_id, 0, runtime)

    def resume(self, run_id: str, request: ResumeRequest, runtime: Runtime) -> RunResult:
        last = self.journal.last(run_id).seq
        records = resume_records(load_state(self.journal, run_id), request, runtime.redactor)
        key = save_resume_records(self.objects, run_id, [record for record in records if record])
        for pause in (*_RESUME_PAUSES, None):
            try:
                self.call(self.handle(run_id).execute_update(RunWorkflow.resume, key))
                break
            except NoWorkflow:
                self._start_workflow(run_id, key)
                break
            except WorkflowUpdateFailedError:
                if pause is None or load_state(self.journal, run_id).status is RunStatus.RUNNING:
                    raise _run_is_owned(run_id) from None
                time.sleep(pause)
        return self._watch(run_id, last, runtime)

    def wake(self, answer: HumanAnswer) -> bool:
        visit = HumanVisit(stage=answer.stage, visit=answer.visit)
        try:
            self.call(self.handle(answer.run_id).execute_update(RunWorkflow.answer, visit))
        except WorkflowUpdateFailedError:
            pass  # it has continued already
        except NoWorkflow:
            self._start_workflow(answer.run_id)
        except ServerUnreachable as error:
            message = f"the answer to run {answer.run_id} is kept, but the run was not informed: {error.message}"
            raise ServerUnreachable(message) from None
        return True  # the workers resume even a run that had stopped

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        del wait  # the server responds only after everything has stopped
        request = CancelRequest(run_id, self.redactor.text(reason), by, self.now())
        with suppress(NoWorkflow, WorkflowFailureError):  # the result of a cancelled workflow is an error
            self.call(self.handle(run_id).cancel(reason=str(request)))
            self.call(self.handle(run_id).result())
        return self.record_cancelled(request)

    def _start_workflow(self, run_id: str, key: str = "") -> None:
        """Hand a run to the workers, with the key of the records by which it is to continue, if any."""
        starting = self.client.start_workflow(
            RunWorkflow.run,
            RunInput(run_id=run_id, terms=self.timeouts, resume=key),
            id=f"{WORKFLOW_ID}{run_id}",
            task_queue=self.queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
        try:
            self.call(starting)
        except WorkflowAlreadyStartedError:
            raise _run_is_owned(run_id) from None

    def _watch(self, run_id: str, after: int, runtime: Runtime) -> RunResult:
        """Report to the listeners what happens to a run after record `after`, until it stops."""
        if runtime.detach:
            return RunResult(run_id, RunStatus.RUNNING, (), 0, 0, "")
        plugins = PluginManager(time.time, runtime.listeners, runtime.redactor)
        try:
            return RunFollower(self, run_id, plugins).follow(after, while_waiting=runtime.wait_for_answer)
        except KeyboardInterrupt:
            raise StoppedWatching(run_id) from None


def _run_is_owned(run_id: str) -> RunIsOwned:
    return RunIsOwned(f"run {run_id} is being run by the workers; wait for it or cancel it")


S = TypeVar("S", bound=ClusterStore)


@contextmanager
def open_cluster(kind: type[S], on: str, artifacts: str, environ: Mapping[str, str], queue: str) -> Iterator[S]:
    """Open a run store of this kind for a cluster, with a directory of its own that is removed at the end."""
    objects, address, loop = open_object_store(artifacts), Address.read(on), LoopThread()
    try:
        client = loop.call(connect(address, environ))
        with TemporaryDirectory(prefix="awf-", ignore_cleanup_errors=True) as directory:
            yield kind(client, objects, queue, Path(directory), loop, redactor_of(environ))
    finally:
        loop.close()


class RunFollower:
    """Turns the records of a cluster run, as they appear, into the events that a run on this machine emits."""

    def __init__(self, store: ClusterStore, run_id: str, plugins: Plugins) -> None:
        self._store = store
        self._run_id = run_id
        self._plugins = plugins
        self._seq = 0
        self._state: State  # from the first record on
        self._started: set[Visit] = set()  # visits whose start was reported
        self._output: dict[str, str] = {}  # what was reported last of each stage's output

    def follow(self, after: int, *, while_waiting: bool) -> RunResult:
        """Emit what happens after a record until the run stops; with `while_waiting`, also while it waits."""
        for poll in count(1):
            for found in self._store.journal.objects(self._run_id, self._seq):
                self._take(found, silent=found.seq <= after)
            waits = while_waiting and self._state.status is RunStatus.WAITING
            if self._state.status is not RunStatus.RUNNING and self._seq > after and not waits:
                break
            self._emit_started()
            if poll % _POLLS_PER_OUTPUT == 0:
                self._emit_output()
            time.sleep(_POLL_INTERVAL)
        result = result_of(self._state, self._store.journal, self._store.ledger(self._run_id))
        emit_end(self._plugins, self._state, result)
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

    def _emit_output(self) -> None:
        """Emit what stages print, from the heartbeats of their workers."""
        try:
            heartbeats = self._store.call(self._heartbeats())
        except (NoWorkflow, ServerUnreachable):  # the journal says the rest
            return
        for heartbeat in heartbeats:
            stage, tail = str(heartbeat.get("stage", "")), heartbeat.get("tail") or {}
            if tail and self._output.get(stage) != str(tail):
                self._output[stage] = str(tail)
                visit = int(heartbeat.get("visit", self._state.cursor.visit))
                self._emit(EventKind.STAGE_OUTPUT, stage, visit, tail)

    async def _heartbeats(self) -> list[dict[str, Any]]:
        found, decode = await self._store.handle(self._run_id).describe(), self._store.client.data_converter.decode
        pending = [one for one in found.raw_description.pending_activities if one.HasField("heartbeat_details")]
        values = [value for one in pending for value in await decode(one.heartbeat_details.payloads)]
        return [value for value in values if isinstance(value, dict)]

    def _emit(self, kind: str, stage: str, visit: int, data: Mapping[str, Any]) -> None:
        self._plugins.emit(kind, self._state, stage, visit, **data)


def _events(record: AnyRecord, before: State, after: State) -> Iterator[tuple[str, str, int, Mapping[str, Any]]]:
    """Return the events of a record that turned one state into another."""
    if isinstance(record, RunCreated | RunResumed):
        kind = EventKind.RUN_STARTED if isinstance(record, RunCreated) else EventKind.RUN_RESUMED
        yield kind, *after.cursor, {"goal": after.goal, "workflow": after.workflow.name}
    if isinstance(record, RunWaiting):
        yield EventKind.HUMAN_ASKED, record.stage, record.visit, {}
    if isinstance(record, VisitCompleted) and record.option:
        by = str(record.outcome.updates.get(Key.HUMAN_BY, ""))
        yield EventKind.HUMAN_ANSWERED, record.stage, record.visit, {"option": record.option, "by": by}
    yield from record_events(record)
    if isinstance(record, VisitCompleted):
        for name, data in commit_events(before.context, after.context):
            yield name, record.stage, record.visit, data

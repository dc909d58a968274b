"""The runs of a cluster from outside: start one, wake one, take one up again, stop one."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

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

from pipeline.app.runs import redact_record
from pipeline.app.store import RunFinished, WorkerInfo, load_state
from pipeline.cluster.artefacts import Artefacts
from pipeline.cluster.journal import SharedJournal
from pipeline.cluster.letters import SharedLetters
from pipeline.cluster.orders import QUEUE, WORKFLOW, Beginning, Ended, HumanVisit, Terms
from pipeline.cluster.resuming import leave
from pipeline.cluster.server import Unreachable, run_of, workflow_id
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.ports import RunIsOwned
from pipeline.engine.records import AnyRecord, RunCancelled, RunCreated
from pipeline.engine.state import RunStatus, State
from pipeline.redaction import Redactor

_PATIENCE = timedelta(seconds=3)  # for a worker to answer
_AT_ONCE = 20  # questions to the server
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds, until a run that has stopped knows that it has


def _owned(run_id: str) -> RunIsOwned:
    return RunIsOwned(f"run {run_id} is being run by the workers; wait for it or cancel it")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Temporal namespace and the store that goes with it."""

    client: Client
    store: Artefacts
    queue: str = QUEUE
    terms: Terms = field(default_factory=Terms)

    @property
    def journal(self) -> SharedJournal:
        """The journal of its runs."""
        return SharedJournal(self.store)

    @property
    def letters(self) -> SharedLetters:
        """What people have for its runs."""
        return SharedLetters(self.store)

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
                raise Unreachable(
                    f"the answer to run {run_id} is kept, but the run was not told: {error.message}"
                ) from None
            await self._begin(run_id, "")

    async def resume(self, run_id: str, records: list[AnyRecord]) -> None:
        """Have a stopped run go on, by these records; one that is running is refused."""
        key = leave(self.store, run_id, records)
        for pause in (*_PAUSES, None):
            try:
                await self._handle(run_id).execute_update(RunWorkflow.resume, key)
            except WorkflowUpdateFailedError:
                if pause is None or load_state(self.journal, run_id).status is RunStatus.RUNNING:
                    raise _owned(run_id) from None
                await asyncio.sleep(pause)  # it has stopped by its records, and will hear of that in a moment
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise Unreachable(f"run {run_id} was not told to go on: {error.message}") from None
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

    async def ended(self, run_id: str) -> Ended | None:
        """How a run ended; None when it was cancelled."""
        from temporalio.client import WorkflowFailureError  # noqa: PLC0415 - only here

        try:
            ended: Ended = await self._handle(run_id).result()
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
        return {run_of(found.id) async for found in self.client.list_workflows(asked)}

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
                Beginning(run_id=run_id, terms=self.terms, resume=key),
                id=workflow_id(run_id),
                task_queue=self.queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            )
        except WorkflowAlreadyStartedError:
            raise _owned(run_id) from None

    def _handle(self, run_id: str) -> WorkflowHandle[RunWorkflow, Ended]:
        return self.client.get_workflow_handle_for(RunWorkflow.run, workflow_id(run_id))

"""Watching a run of a cluster: its records as the events that a run of this machine would tell, while they come."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from pipeline.app.runs import RunResult, emit_end, result_of
from pipeline.cluster.journal import JournalObject
from pipeline.cluster.orders import Ended
from pipeline.cluster.runs import Cluster
from pipeline.cluster.server import workflow_id
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.context import Key
from pipeline.engine.driver import Plugins, event_data
from pipeline.engine.events import EventKind
from pipeline.engine.machine import FanOut, Visit, decide
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import (
    AttemptFailed,
    BranchCompleted,
    RunCreated,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.findings.accumulate import commit_events

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
    handle: WorkflowHandle[RunWorkflow, Ended] = cluster.client.get_workflow_handle_for(
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

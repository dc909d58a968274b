"""The state of a run: an immutable value, made only by folding records.

Resuming a run means replaying its records and asking the machine what comes next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.engine.context import EMPTY, Context, Delete, Key, Operation, RecordedOperation, Set, input_key
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    RunCancelled,
    RunCreated,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
)
from pipeline.engine.routing import approving_options, unsatisfied_gates
from pipeline.errors import AwfError
from pipeline.language.inputs import resolve_inputs
from pipeline.language.model import (
    Effects,
    ExitStage,
    HumanStage,
    ParallelStage,
    Stage,
    ToolStage,
    Workflow,
    WorkflowSettings,
    waits_for_person,
)
from pipeline.language.source import SourceText

INTERRUPTED = "interrupted"  # why a run was cancelled that nobody cancelled by name: Ctrl-C, or its terminal was closed
RECENT_VISITS = 30  # visits that a summary lists one by one
_NONE: Mapping[str, Any] = MappingProxyType({})
_DAMAGED = "the journal is damaged: restore the store from a backup; nothing was changed"


class RunStatus(StrEnum):
    """The status of a run."""

    RUNNING = "running"  # or interrupted, if no process is driving it
    WAITING = "waiting"  # for a person
    PAUSED = "paused"  # by an error or a limit
    CANCELLED = "cancelled"
    SUCCESS = "success"
    FAIL = "fail"

    @property
    def final(self) -> bool:
        """Whether the run has ended. A failed run can still be resumed."""
        return self in (RunStatus.SUCCESS, RunStatus.FAIL)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A git worktree and its branch. `commit` is the latest checkpoint of its files."""

    path: Path
    branch: str
    base: str  # the commit it started from
    commit: str


class Cursor(NamedTuple):
    """Which stage is next, and which visit of it."""

    stage: str
    visit: int


class VisitSummary(NamedTuple):
    """A completed visit, as summaries show it."""

    stage: str
    visit: int
    status: str
    reason: str


class StageError(NamedTuple):
    """Why a stage could not do its job."""

    reason: str
    until: float | None  # when a used-up quota resets
    ends_run: bool


class Progress(NamedTuple):
    """How far the visit at the cursor has come."""

    failed: Mapping[str, int] = _NONE  # attempts that failed and were retried, by stage
    said: Mapping[str, tuple[str, ...]] = _NONE  # what agents answered in attempts that failed, by stage
    interrupted: Mapping[str, int] = _NONE  # attempts that were interrupted, by stage
    started: frozenset[str] = frozenset()  # stages with external effects that started and have not ended
    branches: Mapping[str, Outcome] = _NONE  # of the finished branches of a parallel stage
    errors: Mapping[str, StageError] = _NONE  # stages that could not do their job, until the run is resumed
    retry_at: Mapping[str, float] = _NONE  # when the next attempt is due, by stage
    asked_at: float | None = None  # when a person was first needed and not available
    commit: str = ""  # the workspace after the latest finished branch

    def attempt(self, stage: str) -> int:
        """Return the number of the next attempt at a stage."""
        return self.failed.get(stage, 0) + self.interrupted.get(stage, 0) + 1


class State(NamedTuple):
    """A run between two records."""

    run_id: str
    workflow: Workflow
    prompts: Mapping[str, str]
    goal: str
    options: Mapping[str, Any]
    cwd: Path
    cursor: Cursor
    settings: WorkflowSettings
    head: str = ""  # the commit that was checked out where the run started, if any
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    until: float | None = None  # when a paused run can continue without anybody's help
    context: Context = EMPTY
    outcomes: Mapping[str, Status] = _NONE  # of each stage's latest visit
    visits: Mapping[str, int] = _NONE  # completed ones, by stage
    recent: tuple[VisitSummary, ...] = ()  # the latest visits, oldest first
    stages_run: int = 0
    seconds: float = 0.0  # spent running, not waiting
    cost_usd: float = 0.0
    tokens: int = 0
    pending_gates: frozenset[str] = frozenset()  # human gates that must be passed again
    repeat: bool = False  # whether an interrupted stage with external effects may run again
    progress: Progress = Progress()

    @property
    def stage(self) -> Stage:
        """The stage at the cursor."""
        return self.workflow.by_id[self.cursor.stage]

    @property
    def directory(self) -> Path:
        """Where the stages work: the run's worktree, or the directory it was started in."""
        return self.workspace.path if self.workspace else self.cwd

    @property
    def workspace(self) -> Workspace | None:
        """The run's own worktree at its latest commit, if it has one."""
        path = self.context.get(Key.WORKSPACE_PATH)
        if not path:
            return None
        branch, base, commit = (
            self.context.get(key) for key in (Key.WORKSPACE_BRANCH, Key.WORKSPACE_BASE, Key.WORKSPACE_COMMIT)
        )
        return Workspace(Path(path), branch, base, self.progress.commit or commit)


def begin(record: RunCreated, workflow: Workflow | None = None) -> State:
    """Return the state of a run that has just been created; `workflow` is its workflow if already read."""
    workflow = workflow or read_workflow(record.file, record.source)
    goal = record.goal or workflow.goal
    return State(
        run_id=record.run_id,
        workflow=workflow,
        prompts=record.prompts,
        goal=goal,
        options=record.options,
        cwd=Path(record.cwd),
        cursor=Cursor(workflow.start, 1),
        settings=_effective_settings(workflow, record.options),
        head=record.head,
        context=EMPTY.apply(
            [
                Set(Key.GOAL, goal),
                Set(Key.NAME, workflow.name),
                *_set_inputs(workflow, record.options),
            ]
        ),
    )


def _set_inputs(workflow: Workflow, options: Mapping[str, Any]) -> list[Operation]:
    """Return the operations that set the inputs of a run, which were checked before they were recorded."""
    values, _ = resolve_inputs(workflow, options.get("inputs", {}))
    return [Set(input_key(name), value) for name, value in values.items()]


@lru_cache(maxsize=16)  # most runs of a store share a workflow: `awf runs` lists 1,000 in 0.8 s instead of 2.5 s
def read_workflow(file: str, source: str) -> Workflow:
    """Return the workflow of a recorded source, which was checked when it was recorded."""
    from pipeline.language.reader import parse_workflow  # noqa: PLC0415 - only a run has a workflow to read

    draft = parse_workflow(SourceText(file, source))
    if draft.workflow is None:
        message = f'the recorded workflow "{file}" cannot be read: {draft.hits[0].problem.message}'
        raise AwfError(message, help="use the version of awf that started the run, or a later one")
    return draft.workflow


def creation_record(first: AnyRecord | None) -> RunCreated:
    """Return the first record of a run, or raise AwfError if it does not create the run."""
    if not isinstance(first, RunCreated):
        raise AwfError("the journal of this run does not begin with its creation", help=_DAMAGED)
    return first


def replay(records: Iterable[AnyRecord]) -> State:
    """Return the state after all records of a run."""
    remaining = iter(records)
    state = begin(creation_record(next(remaining, None)))
    for record in remaining:
        state = apply(state, record)
    return state


def apply(state: State, record: AnyRecord) -> State:
    """Return the state after one more record."""
    progress = state.progress
    match record:
        case VisitStarted():
            return state._replace(progress=progress._replace(started=progress.started | {record.stage}))
        case AttemptFailed():
            return _apply_failed_attempt(_add_usage(state, [record.outcome]), record)
        case StageErrored():
            return _apply_error(_add_usage(state, [record.outcome]), record)
        case BranchCompleted():
            branches = {**progress.branches, record.branch: record.outcome}
            started, commit = progress.started - {record.branch}, record.commit or progress.commit
            return state._replace(progress=progress._replace(branches=branches, started=started, commit=commit))
        case VisitCompleted():
            return _apply_completed(state, record)
        case RunWaiting():
            asked_at = record.at if progress.asked_at is None else progress.asked_at
            reason = ": ".join(filter(None, (f'stage "{record.stage}" waits for a person', record.reason)))
            return state._replace(
                status=RunStatus.WAITING, reason=reason, progress=progress._replace(asked_at=asked_at)
            )
        case RunPaused():
            return state._replace(status=RunStatus.PAUSED, reason=record.reason, until=record.until)
        case RunFailed():
            return state._replace(status=RunStatus.FAIL, reason=record.reason)
        case RunCancelled():
            return state._replace(status=RunStatus.CANCELLED, reason=record.reason or INTERRUPTED, until=None)
        case RunResumed():
            return _apply_resumed(state, record)
        case WorkflowAdopted():
            return _apply_adopted(state, record)
        case RunCreated():
            raise AwfError(f"the journal of run {state.run_id} creates it twice", help=_DAMAGED)


def apply_outcome(
    state: State, outcome: Outcome, operations: Sequence[RecordedOperation], branches: Sequence[BranchResult]
) -> State:
    """Return the state with what the visit at the cursor changed, before its transition is known."""
    outcomes, visits = dict(state.outcomes), dict(state.visits)
    for branch in branches:
        outcomes[branch.stage] = branch.outcome.status
        visits[branch.stage] = branch.visit
    outcomes[state.cursor.stage] = outcome.status
    visits[state.cursor.stage] = state.cursor.visit
    return state._replace(context=state.context.apply(operations), outcomes=outcomes, visits=visits)


def pending_gates_after(state: State, stage: str, option: str) -> frozenset[str]:
    """Return the human gates that must be passed again after an option was chosen at one of them."""
    gate = state.workflow.by_id.get(stage) if option else None
    if not isinstance(gate, HumanStage):
        return state.pending_gates
    if option in {approving.key for approving in approving_options(gate)}:
        return state.pending_gates - {stage}
    return state.pending_gates | {stage} if gate.re_review else state.pending_gates


def _apply_failed_attempt(state: State, record: AttemptFailed) -> State:
    progress, stage, outcome = state.progress, record.stage, record.outcome
    answers = outcome.answers or tuple(filter(None, [outcome.response]))
    changed = progress._replace(
        said={**progress.said, stage: (*progress.said.get(stage, ()), *answers)} if answers else progress.said,
        failed={**progress.failed, stage: progress.failed.get(stage, 0) + 1},
        started=progress.started - {stage},
        retry_at={**progress.retry_at, stage: record.at + record.delay},
    )
    return state._replace(progress=changed)


def _apply_error(state: State, record: StageErrored) -> State:
    """Count all attempts as interrupted, so that the next resume starts with fresh retries.

    A finished branch that turns out to be an error when the branches are joined runs again as well.
    """
    progress, stage = state.progress, record.stage
    error = StageError(f'stage "{stage}" could not run: {record.outcome.reason}', record.until, record.ends_run)
    changed = progress._replace(
        errors={**progress.errors, stage: error},
        interrupted={**progress.interrupted, stage: progress.attempt(stage)},
        failed={name: count for name, count in progress.failed.items() if name != stage},
        said={name: answers for name, answers in progress.said.items() if name != stage},
        retry_at={name: due for name, due in progress.retry_at.items() if name != stage},
        started=progress.started - {stage},
        branches={name: outcome for name, outcome in progress.branches.items() if name != stage},
    )
    return state._replace(progress=changed)


def _apply_completed(state: State, record: VisitCompleted) -> State:
    after = apply_outcome(state, record.outcome, record.operations, record.branches)
    after = _add_usage(after, [record.outcome, *(branch.outcome for branch in record.branches)])
    if record.ends is not None:
        after = after._replace(status=RunStatus(record.ends), reason=record.chosen.reason)
    else:
        target = record.chosen.target or record.stage
        cursor = Cursor(target, after.visits.get(target, 0) + 1)
        after = after._replace(status=RunStatus.RUNNING, reason="", cursor=cursor)
    done = [*record.branches, BranchResult(stage=record.stage, visit=record.visit, outcome=record.outcome)]
    recent = [VisitSummary(one.stage, one.visit, one.outcome.status, one.outcome.reason) for one in done]
    return after._replace(
        stages_run=state.stages_run + len(done),
        recent=(*state.recent, *recent)[-RECENT_VISITS:],
        pending_gates=pending_gates_after(state, record.stage, record.option),
        repeat=False,
        progress=Progress(),
    )


def _add_usage(state: State, outcomes: Sequence[Outcome]) -> State:
    """Add time, tokens and money. The first outcome's duration covers the others, which ran inside it."""
    cost, tokens = state.cost_usd, state.tokens
    for outcome in outcomes:
        if usage := outcome.usage:
            cost += usage.cost_usd or 0.0
            tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
    running = 0.0 if waits_for_person(state.stage) else outcomes[0].duration
    return state._replace(seconds=state.seconds + running, cost_usd=cost, tokens=tokens)


def _apply_resumed(state: State, record: RunResumed) -> State:
    if state.status is RunStatus.SUCCESS:
        raise AwfError(f"run {state.run_id} was resumed after it had succeeded", help=_DAMAGED)
    if state.status in (RunStatus.RUNNING, RunStatus.CANCELLED):
        state = state._replace(progress=_interrupt(state, record.at))
    elif state.status is RunStatus.PAUSED and Key.HOLD in state.context:
        # Only then has a person seen why it was held; a run that was killed before stays held.
        state = state._replace(context=state.context.apply([Delete(Key.HOLD)]))
    elif state.status is RunStatus.FAIL and not state.progress.errors:
        state = _restart_failed(state)
    return state._replace(
        status=RunStatus.RUNNING,
        reason="",
        until=None,
        repeat=record.repeat,
        options={**state.options, **record.options},
        settings=raise_limits(state.settings, record.raised),
        progress=state.progress._replace(errors={}),
    )


def _interrupt(state: State, at: float) -> Progress:
    """Count the attempts that were running when the process died or was stopped.

    An attempt that is not due yet had not started, and is still waited for.
    """
    stage, progress = state.stage, state.progress
    names = [branch.stage for branch in stage.branches] if isinstance(stage, ParallelStage) else [stage.id]
    waiting = {name: due for name, due in progress.retry_at.items() if due > at}
    done = {*progress.branches, *progress.errors, *waiting}
    counts = {name: progress.interrupted.get(name, 0) + 1 for name in names if name not in done}
    return progress._replace(interrupted={**progress.interrupted, **counts}, retry_at=waiting)


def _restart_failed(state: State) -> State:
    """Move the cursor of a failed run to the stage that failed, or to the goal gate that blocked its exit.

    A stage that did its external work, and only then had no transition to follow, counts as started.
    """
    stage, name = state.stage, state.cursor.stage
    if isinstance(stage, ExitStage) and (gate := next(unsatisfied_gates(state.workflow, state.outcomes), None)):
        name = _owner_of(state.workflow, gate.id)
    started = state.progress.started
    if isinstance(stage, ToolStage) and stage.effects is Effects.EXTERNAL:
        started |= {stage.id} if state.outcomes.get(stage.id, Status.FAIL).passes else set()
    cursor = Cursor(name, state.visits.get(name, 0) + 1)
    return state._replace(cursor=cursor, progress=state.progress._replace(started=started))


def _owner_of(workflow: Workflow, stage: str) -> str:
    """Return the parallel stage that a branch belongs to; any other stage is its own owner."""
    for parallel in workflow.stages:
        if isinstance(parallel, ParallelStage) and stage in {branch.stage for branch in parallel.branches}:
            return parallel.id
    return stage


def _effective_settings(workflow: Workflow, options: Mapping[str, Any]) -> WorkflowSettings:
    """Return the workflow's settings, with the cost limit of the run's options if the workflow sets none."""
    limit = options.get("max_cost_usd")
    if limit is None or workflow.settings.max_cost_usd is not None:
        return workflow.settings
    return workflow.settings.model_copy(update={"max_cost_usd": float(limit)})


def raise_limits(settings: WorkflowSettings, raised: Mapping[str, float]) -> WorkflowSettings:
    """Return settings with other limits; a duration is given in seconds."""
    values: dict[str, object] = dict(raised)
    for name in ("max_visits", "max_stages", "summary_budget"):
        if name in values:
            values[name] = int(raised[name])
    if "max_duration" in raised:
        values["max_duration"] = timedelta(seconds=raised["max_duration"])
    return settings.model_copy(update=values)


def _is_same(before: Stage | None, now: Stage | None) -> bool:
    """Return whether a stage is as it was, wherever in the file it stands, so that its answer can be taken in."""
    return before is not None and now is not None and before.model_dump() == now.model_dump()


def _apply_adopted(state: State, record: WorkflowAdopted) -> State:
    workflow, stage = read_workflow(record.file, record.source), state.cursor.stage
    if stage not in workflow.by_id:
        message = f'the new workflow has no stage "{stage}", which the run is at'
        raise AwfError(message, help="add a stage of that name, or start another run")
    if (owner := _owner_of(workflow, stage)) != stage:
        message = f'in the new workflow "{stage}", which the run is at, is a branch of "{owner}"'
        raise AwfError(message, help="make it a stage that is not a branch, or start another run")
    at_cursor = workflow.by_id[stage]
    branches = {branch.stage for branch in at_cursor.branches} if isinstance(at_cursor, ParallelStage) else set[str]()
    same = {name for name in branches if _is_same(state.workflow.by_id.get(name), workflow.by_id.get(name))}
    if lost := sorted(state.progress.branches.keys() - same):
        message = f'the new workflow has no such branch "{lost[0]}" in "{stage}", and what it answered would be lost'
        raise AwfError(message, help="keep that branch as it is, or start another run")
    return state._replace(
        workflow=workflow,
        prompts=record.prompts,
        settings=_effective_settings(workflow, state.options),
        context=state.context.apply(_set_inputs(workflow, state.options)),
    )

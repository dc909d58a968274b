"""What a record makes of a state. Resuming a run is folding its records and asking the machine again."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.engine.context import EMPTY, Context, Delete, Key, Recorded, Set
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.policy import approving_options, unsatisfied_gates
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
from pipeline.engine.state import BranchDone, Cursor, Past, Progress, RunStatus, StageError, State
from pipeline.engine.ways import ways_of
from pipeline.errors import AwfError
from pipeline.language.load import load
from pipeline.language.model import (
    Effects,
    ExitStage,
    HumanStage,
    ParallelStage,
    Settings,
    ToolStage,
    Workflow,
    asks_a_person,
)
from pipeline.language.source import Source

REMEMBERED = 30  # visits that agents are told of one by one
_FRESH = Progress()
_MID_STAGE = (RunStatus.RUNNING, RunStatus.CANCELLED)


def begin(record: RunCreated) -> State:
    """The state of a run that has just been created."""
    workflow = read_workflow(record.file, record.source)
    goal = record.goal or workflow.goal
    context = EMPTY.apply([Set(Key.GOAL, goal), Set(Key.NAME, workflow.name)])
    return State(
        run_id=record.run_id,
        workflow=workflow,
        ways=ways_of(workflow),
        prompts=record.prompts,
        goal=goal,
        options=record.options,
        cwd=Path(record.cwd),
        cursor=Cursor(workflow.start, 1),
        settings=_bounds(workflow, record.options),
        context=context,
    )


def _bounds(workflow: Workflow, options: Mapping[str, Any]) -> Settings:
    """The workflow's bounds; the money it may cost, where it does not say, as the run was started."""
    most = options.get("max_cost_usd")
    if most is None or workflow.settings.max_cost_usd is not None:
        return workflow.settings
    return workflow.settings.model_copy(update={"max_cost_usd": float(most)})


def read_workflow(file: str, source: str) -> Workflow:
    """The workflow of a recorded source; it was checked when it was recorded."""
    draft = load(Source(file, source))
    if draft.workflow is None:
        words = f'the recorded workflow "{file}" cannot be read: {draft.seen[0][1].message}'
        raise AwfError(words, help="use the awf that the run was started with, or a later one; nothing was changed")
    return draft.workflow


def created(first: AnyRecord | None) -> RunCreated:
    """The record that a run begins with. A journal that begins with anything else is damaged."""
    if not isinstance(first, RunCreated):
        words = "the journal of this run does not begin with its creation"
        raise AwfError(words, help="it is damaged: restore the store from a copy; nothing was changed")
    return first


def replay(records: Iterable[AnyRecord]) -> State:
    """The state after all records of a run."""
    remaining = iter(records)
    state = begin(created(next(remaining, None)))
    for record in remaining:
        state = apply(state, record)
    return state


def apply(state: State, record: AnyRecord) -> State:
    """The state after one more record."""
    match record:
        case VisitStarted():
            return state._replace(progress=state.progress._replace(begun=state.progress.begun | {record.stage}))
        case AttemptFailed():
            return _tried_again(state, record)._replace(**_spent(state, [record.outcome]))
        case StageErrored():
            return _errored(state, record)._replace(**_spent(state, [record.outcome]))
        case BranchCompleted():
            return state._replace(progress=_branch_done(state.progress, record))
        case VisitCompleted():
            return completed(state, record, absorb(state, record.outcome, record.operations, record.branches))
        case RunWaiting():
            return _waiting(state, record)
        case RunPaused():
            return state._replace(status=RunStatus.PAUSED, reason=record.reason, until=record.until)
        case RunFailed():
            return state._replace(status=RunStatus.FAIL, reason=record.reason)
        case RunCancelled():
            return state._replace(status=RunStatus.CANCELLED, reason=record.reason or "cancelled", until=None)
        case RunResumed():
            return _resumed(state, record)
        case WorkflowAdopted():
            return _adopted(state, record)
        case RunCreated():
            words = f"the journal of run {state.run_id} creates it twice"
            raise AwfError(words, help="it is damaged: restore the store from a copy; nothing was changed")


def _waiting(state: State, record: RunWaiting) -> State:
    asked_at = record.at if state.progress.asked_at is None else state.progress.asked_at
    reason = f'stage "{record.stage}" waits for a person'
    return state._replace(status=RunStatus.WAITING, reason=reason, progress=state.progress._replace(asked_at=asked_at))


def _branch_done(progress: Progress, record: BranchCompleted) -> Progress:
    return progress._replace(
        branches={**progress.branches, record.branch: BranchDone(record.outcome, record.operations)},
        begun=progress.begun - {record.branch},
        commit=record.commit or progress.commit,
    )


def _tried_again(state: State, record: AttemptFailed) -> State:
    progress = state.progress
    failed = {**progress.failed, record.stage: progress.failed.get(record.stage, 0) + 1}
    due = {**progress.retry_at, record.stage: record.at + record.delay}
    begun = progress.begun - {record.stage}
    return state._replace(progress=progress._replace(failed=failed, begun=begun, retry_at=due))


def _errored(state: State, record: StageErrored) -> State:
    """Count the attempt like an interrupted one: the retries of the next resume begin afresh."""
    progress, stage = state.progress, record.stage
    error = StageError(f'stage "{stage}" could not run: {record.outcome.reason}', record.until, record.ends_run)
    attempts = progress.torn.get(stage, 0) + progress.failed.get(stage, 0) + 1
    changed = progress._replace(
        errors={**progress.errors, stage: error},
        torn={**progress.torn, stage: attempts},
        failed={name: count for name, count in progress.failed.items() if name != stage},
        retry_at={name: due for name, due in progress.retry_at.items() if name != stage},
        begun=progress.begun - {stage},
    )
    return state._replace(progress=changed)


class After(NamedTuple):
    """What a completed visit leaves, before the way on is known."""

    context: Context
    outcomes: Mapping[str, Status]
    visits: Mapping[str, int]


def absorb(state: State, outcome: Outcome, operations: Sequence[Recorded], branches: Sequence[BranchResult]) -> After:
    """What the visit at the cursor changes."""
    outcomes, visits = dict(state.outcomes), dict(state.visits)
    for branch in branches:
        outcomes[branch.stage] = branch.outcome.status
        visits[branch.stage] = branch.visit
    outcomes[state.cursor.stage] = outcome.status
    visits[state.cursor.stage] = state.cursor.visit
    return After(state.context.apply(operations), outcomes, visits)


def completed(state: State, record: VisitCompleted, after: After) -> State:
    """The state after a visit whose changes are known."""
    ended, chosen = record.ends is not None, record.chosen
    target = chosen.target or record.stage
    return state._replace(
        context=after.context,
        outcomes=after.outcomes,
        visits=after.visits,
        status=RunStatus(record.ends) if record.ends else RunStatus.RUNNING,
        reason=chosen.reason if ended else "",
        cursor=state.cursor if ended else Cursor(target, after.visits.get(target, 0) + 1),
        stages_run=state.stages_run + 1 + len(record.branches),
        recent=_recent(state, record),
        owed=owed_after(state, record.stage, record.option),
        repeat=False,
        progress=_FRESH,
        **_spent(state, [record.outcome, *(branch.outcome for branch in record.branches)]),
    )


def _recent(state: State, record: VisitCompleted) -> tuple[Past, ...]:
    done = [
        Past(branch.stage, branch.visit, branch.outcome.status, branch.outcome.reason) for branch in record.branches
    ]
    done.append(Past(record.stage, record.visit, record.outcome.status, record.outcome.reason))
    return (*state.recent, *done)[-REMEMBERED:]


def _spent(state: State, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Time, tokens and money so far. The first outcome's time covers the others', which ran inside it."""
    cost, tokens = state.cost_usd, state.tokens
    for outcome in outcomes:
        if usage := outcome.usage:
            cost += usage.cost_usd or 0.0
            tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
    running = 0.0 if asks_a_person(state.stage) else outcomes[0].duration
    return {"seconds": state.seconds + running, "cost_usd": cost, "tokens": tokens}


def _resumed(state: State, record: RunResumed) -> State:
    if state.status is RunStatus.SUCCESS:
        words = f"run {state.run_id} finished with success, and was resumed after that"
        raise AwfError(words, help="its journal is damaged: restore the store from a copy; nothing was changed")
    progress = _interrupted(state, record.at) if state.status in _MID_STAGE else state.progress
    return state._replace(
        status=RunStatus.RUNNING,
        reason="",
        until=None,
        cursor=_cursor_after_failure(state) if state.status is RunStatus.FAIL else state.cursor,
        repeat=record.repeat,
        context=_let_go(state),
        options={**state.options, **record.options},
        settings=_raised(state.settings, record.raised),
        progress=progress._replace(errors={}, begun=progress.begun | _done_outside(state)),
    )


def _done_outside(state: State) -> frozenset[str]:
    """The stage of a failed run that did its work outside the workspace, and then had no transition to follow."""
    stage = state.stage
    if state.status is not RunStatus.FAIL or not isinstance(stage, ToolStage) or state.progress.errors:
        return frozenset()
    passed = state.outcomes.get(stage.id, Status.FAIL).passes
    return frozenset({stage.id}) if passed and stage.effects is Effects.EXTERNAL else frozenset()


def _cursor_after_failure(state: State) -> Cursor:
    """Where a failed run continues: at the stage that failed, or at the goal gate that kept it from its exit."""
    if state.progress.errors:
        return state.cursor
    gate = next(unsatisfied_gates(state.workflow, state.outcomes), None) if isinstance(state.stage, ExitStage) else None
    stage = _runner_of(state.workflow, gate.id) if gate else state.cursor.stage
    return Cursor(stage, state.visits.get(stage, 0) + 1)


def _runner_of(workflow: Workflow, stage: str) -> str:
    """The parallel stage that runs a branch; any other stage runs by itself."""
    for one in workflow.stages:
        if isinstance(one, ParallelStage) and stage in {branch.stage for branch in one.branches}:
            return one.id
    return stage


def _let_go(state: State) -> Context:
    """The context without what held the run, once it was held: who takes up a killed run has not been told of it."""
    if state.status is RunStatus.PAUSED and Key.HOLD in state.context:
        return state.context.apply([Delete(Key.HOLD)])
    return state.context


def _interrupted(state: State, at: float) -> Progress:
    """The attempts that were under way when a process ended without a word, or was told to stop.

    One that is not due yet had not begun, and is still waited for.
    """
    stage, progress = state.stage, state.progress
    started = [branch.stage for branch in stage.branches] if isinstance(stage, ParallelStage) else [stage.id]
    running = [name for name in started if name not in progress.branches and name not in progress.errors]
    waiting = {name: due for name, due in progress.retry_at.items() if due > at}
    begun = [name for name in running if name not in waiting]
    torn = {**progress.torn, **{name: progress.torn.get(name, 0) + 1 for name in begun}}
    return progress._replace(torn=torn, retry_at=waiting)


def _raised(settings: Settings, raised: Mapping[str, float]) -> Settings:
    values: dict[str, object] = dict(raised)
    for name in ("max_visits", "max_stages", "summary_budget"):
        if name in values:
            values[name] = int(raised[name])
    if "max_duration" in raised:
        values["max_duration"] = timedelta(seconds=raised["max_duration"])
    return settings.model_copy(update=values)


def _adopted(state: State, record: WorkflowAdopted) -> State:
    workflow = read_workflow(record.file, record.source)
    if state.cursor.stage not in workflow.by_id:
        words = f'the new workflow has no stage "{state.cursor.stage}", where the run stands'
        raise AwfError(words, help="give it a stage of that name, or begin another run")
    if (runner := _runner_of(workflow, state.cursor.stage)) != state.cursor.stage:
        words = f'in the new workflow "{state.cursor.stage}", where the run stands, is a branch of "{runner}"'
        raise AwfError(words, help="give it a stage of that name that is not a branch, or start another run")
    return state._replace(
        workflow=workflow,
        ways=ways_of(workflow),
        prompts=record.prompts,
        settings=_bounds(workflow, state.options),
    )


def owed_after(state: State, stage: str, option: str) -> frozenset[str]:
    """The human gates to be passed again, after a choice at one of them."""
    gate = state.workflow.by_id.get(stage) if option else None
    if not isinstance(gate, HumanStage):
        return state.owed
    if option in {approving.key for approving in approving_options(gate)}:
        return state.owed - {stage}
    return state.owed | {stage} if gate.re_review else state.owed

"""The engine as a state machine without I/O: what comes next, and what a record makes of a state.

`decide` looks at a state and says what to do; whoever does it writes a record; `apply` folds it into the next state.
Nothing here looks at a clock, a file, the environment or a random number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pipeline.engine.context import EMPTY, Key, Operation, Set
from pipeline.engine.environment import RunEnvironment
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.policy import approving_options, gate_in_the_way, reached_limit, unsatisfied_gates
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    Checkout,
    Chosen,
    RunCancelled,
    RunCreated,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
    packed,
    unpacked,
)
from pipeline.engine.select import select
from pipeline.engine.state import Cursor, Progress, RunStatus, State
from pipeline.engine.ways import ways_of
from pipeline.errors import AwfError
from pipeline.language.load import load
from pipeline.language.model import Effects, ExitStage, HumanStage, ParallelStage, Settings, ToolStage, Workflow
from pipeline.language.source import Source


@dataclass(frozen=True, slots=True)
class Visit:
    """Run a stage."""

    stage: str
    visit: int
    attempt: int
    not_before: float | None = None  # when a failed attempt is tried again


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person."""

    stage: str
    visit: int


@dataclass(frozen=True, slots=True)
class FanOut:
    """Run the branches of a parallel stage that are not done yet."""

    stage: str
    visit: int
    branches: tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop before the next visit, until somebody says to go on."""

    limit: str
    stage: str
    count: float
    allowed: float
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """There is nothing to do."""

    status: RunStatus
    reason: str


Command = Visit | Ask | FanOut | Pause | Stop


def decide(state: State) -> Command:
    """What comes next."""
    if state.status is not RunStatus.RUNNING:
        return Stop(state.status, state.reason)
    if limit := reached_limit(state):
        return Pause(limit.limit, state.cursor.stage, limit.count, limit.allowed, limit.reason)
    stage = state.stage
    if state.progress.torn and not state.repeat and (touched := _touched_outside(state)):
        reason = f'stage "{touched}" was interrupted, and what it did outside the workspace cannot be undone'
        return Pause("effects", touched, 1, 0, reason)
    match stage:
        case HumanStage():
            return Ask(stage.id, state.cursor.visit)
        case ParallelStage():
            return FanOut(stage.id, state.cursor.visit, _unfinished(state, stage))
        case _:
            return _visit(state, stage.id, state.cursor.visit)


def _visit(state: State, stage: str, visit: int) -> Visit:
    return Visit(stage, visit, state.progress.started.get(stage, 0) + 1, state.progress.retry_at)


def _unfinished(state: State, stage: ParallelStage) -> tuple[Visit, ...]:
    names = [branch.stage for branch in stage.branches if branch.stage not in state.progress.branches]
    return tuple(_visit(state, name, state.visits.get(name, 0) + 1) for name in names)


def _touched_outside(state: State) -> str | None:
    """The interrupted stage whose effects reach beyond the workspace, or None."""
    for name, started in state.progress.started.items():
        stage = state.workflow.by_id.get(name)
        interrupted = started > state.progress.failed.get(name, 0) and name not in state.progress.branches
        if interrupted and isinstance(stage, ToolStage) and stage.effects is Effects.EXTERNAL:
            return name
    return None


def complete(
    state: State,
    outcome: Outcome,
    operations: Iterable[Operation],
    at: float,
    *,
    option: str = "",
    branches: Sequence[BranchResult] = (),
    workspace: Checkout | None = None,
) -> VisitCompleted:
    """The record of the visit at the cursor: what it left, and the way on with its reason."""
    operations = tuple(operations)
    stage = state.stage
    after = _absorb(state, outcome, operations, branches)
    chosen, ends = _way_on(after, outcome, option)
    return VisitCompleted(
        at=at,
        stage=stage.id,
        visit=state.cursor.visit,
        attempt=state.progress.started.get(stage.id, 0),
        outcome=outcome,
        operations=packed(operations),
        chosen=chosen,
        ends=ends,
        branches=tuple(branches),
        option=option,
        workspace=workspace or state.workspace,
    )


def _way_on(after: State, outcome: Outcome, option: str) -> tuple[Chosen, Status | None]:
    stage = after.stage
    if isinstance(stage, ExitStage):
        return _at_exit(after)
    environment = RunEnvironment(after.context, after.outcomes, after.visits)
    taken = select(stage, outcome, after.ways.leaving(stage.id), environment, after.ways.decisions, option)
    if taken.target is None:
        return Chosen(target=None, reason=taken.reason), Status.FAIL
    owed = _owed(after, stage.id, option)
    if gate := gate_in_the_way(after.workflow, owed, taken.target):
        reason = f'"{taken.target}" needs another approval at "{gate}"'
        return Chosen(target=gate, role="re_review", reason=reason), None
    return Chosen(target=taken.target, role=taken.role, when=taken.when, reason=taken.reason), None


def _at_exit(after: State) -> tuple[Chosen, Status | None]:
    for gate in unsatisfied_gates(after.workflow, after.outcomes):
        status = after.outcomes.get(gate.id, "not_run")
        reason = f'the goal gate "{gate.id}" is not satisfied ({status})'
        if gate.retry_target is None:
            return Chosen(target=None, reason=reason), Status.FAIL
        return Chosen(target=gate.retry_target, role="goal_gate", reason=reason), None
    return Chosen(target=None, reason="the exit is reached"), Status.SUCCESS


def _owed(state: State, stage: str, option: str) -> frozenset[str]:
    """The human gates to be passed again, after a choice at one of them."""
    gate = state.workflow.by_id.get(stage)
    if not isinstance(gate, HumanStage) or not option:
        return state.owed
    if option in {approving.key for approving in approving_options(gate)}:
        return state.owed - {stage}
    return state.owed | {stage} if gate.re_review else state.owed


def join_branches(stage: ParallelStage, results: Sequence[BranchResult], duration: float) -> Outcome:
    """The outcome of a parallel stage from those of its branches."""
    wanted = {"all": len(results), "any": 1}.get(str(stage.join), stage.join)
    passed = [result for result in results if result.outcome.status is Status.SUCCESS]
    partly = [result for result in results if result.outcome.status is Status.PARTIAL_SUCCESS]
    if len(passed) >= int(wanted):
        return Outcome(status=Status.SUCCESS, duration=duration)
    if len(passed) + len(partly) >= int(wanted):
        return Outcome(status=Status.PARTIAL_SUCCESS, duration=duration)
    others = [result for result in results if not result.outcome.status.passes]
    told = "; ".join(f"{r.stage}: {r.outcome.reason or r.outcome.status}" for r in others)
    reason = f"{len(passed)} of {len(results)} branches succeeded, {wanted} needed ({told})"
    return Outcome(status=Status.FAIL, reason=reason, duration=duration)


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
        cwd=record.cwd,
        cursor=Cursor(workflow.start, 1),
        settings=workflow.settings,
        context=context,
    )


def read_workflow(file: str, source: str) -> Workflow:
    """The workflow of a recorded source; it was checked when it was recorded."""
    draft = load(Source(file, source))
    if draft.workflow is None:
        raise AwfError(f'the recorded workflow "{file}" cannot be read: {draft.seen[0][1].message}')
    return draft.workflow


def replay(records: Iterable[AnyRecord]) -> State:
    """The state after all records of a run."""
    remaining = iter(records)
    first = next(remaining, None)
    if not isinstance(first, RunCreated):
        raise AwfError("the journal of this run does not begin with its creation")
    state = begin(first)
    for record in remaining:
        state = apply(state, record)
    return state


def apply(state: State, record: AnyRecord) -> State:
    """The state after one more record."""
    match record:
        case VisitStarted():
            return replace(state, progress=_counted(state.progress, record.stage))
        case AttemptFailed():
            return _spend(_tried_again(state, record), [record.outcome])
        case BranchCompleted():
            done = {**state.progress.branches, record.branch: record.outcome}
            return replace(state, progress=replace(state.progress, branches=done))
        case VisitCompleted():
            return _completed(state, record)
        case RunWaiting():
            return replace(state, status=RunStatus.WAITING, reason=f'stage "{record.stage}" waits for a person')
        case RunPaused():
            return replace(state, status=RunStatus.PAUSED, reason=record.reason)
        case RunCancelled():
            return replace(state, status=RunStatus.CANCELLED, reason=record.reason or "cancelled")
        case RunResumed():
            return _resumed(state, record)
        case WorkflowAdopted():
            return _adopted(state, record)
        case RunCreated():
            raise AwfError(f"the journal of run {state.run_id} creates it twice")


def _counted(progress: Progress, stage: str) -> Progress:
    started = {**progress.started, stage: progress.started.get(stage, 0) + 1}
    return replace(progress, started=started, retry_at=None, torn=False)


def _tried_again(state: State, record: AttemptFailed) -> State:
    failed = {**state.progress.failed, record.stage: state.progress.failed.get(record.stage, 0) + 1}
    due = record.at + record.delay if record.stage == state.cursor.stage else None
    return replace(state, progress=replace(state.progress, failed=failed, retry_at=due))


def _absorb(
    state: State, outcome: Outcome, operations: tuple[Operation, ...], branches: Sequence[BranchResult]
) -> State:
    """What a completed visit changes, before the way on is known."""
    outcomes, visits = dict(state.outcomes), dict(state.visits)
    for branch in branches:
        outcomes[branch.stage] = branch.outcome.status
        visits[branch.stage] = branch.visit
    outcomes[state.cursor.stage] = outcome.status
    visits[state.cursor.stage] = state.cursor.visit
    return replace(state, context=state.context.apply(operations), outcomes=outcomes, visits=visits)


def _completed(state: State, record: VisitCompleted) -> State:
    after = _absorb(state, record.outcome, unpacked(record.operations), record.branches)
    after = _spend(after, [record.outcome, *(branch.outcome for branch in record.branches)])
    ended = record.ends is not None
    target = record.chosen.target or record.stage
    return replace(
        after,
        status=RunStatus(record.ends) if record.ends else RunStatus.RUNNING,
        reason=record.chosen.reason if ended else "",
        cursor=state.cursor if ended else Cursor(target, after.visits.get(target, 0) + 1),
        stages_run=state.stages_run + 1 + len(record.branches),
        owed=_owed(state, record.stage, record.option),
        workspace=record.workspace,
        repeat=False,
        progress=Progress(),
    )


def _spend(state: State, outcomes: Sequence[Outcome]) -> State:
    """Count time, tokens and money. The first outcome's time covers the others', which ran inside it."""
    human = isinstance(state.stage, HumanStage)
    used = [outcome.usage for outcome in outcomes if outcome.usage is not None]
    return replace(
        state,
        seconds=state.seconds + (0.0 if human else outcomes[0].duration),
        cost_usd=state.cost_usd + sum(usage.cost_usd or 0.0 for usage in used),
        tokens=state.tokens + sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in used),
    )


def _resumed(state: State, record: RunResumed) -> State:
    if state.status.final:
        raise AwfError(f"run {state.run_id} is over ({state.status})")
    progress = state.progress
    torn = any(count > progress.failed.get(name, 0) for name, count in progress.started.items())
    return replace(
        state,
        status=RunStatus.RUNNING,
        reason="",
        repeat=record.repeat,
        settings=_raised(state.settings, record.raised),
        progress=replace(progress, torn=torn),
    )


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
        raise AwfError(f'the new workflow has no stage "{state.cursor.stage}", where the run stands')
    return replace(
        state, workflow=workflow, ways=ways_of(workflow), prompts=record.prompts, settings=workflow.settings
    )


def crashed(error: BaseException) -> Outcome:
    """The outcome of a handler that raised: a failure of its stage, not of the run."""
    words = f"{type(error).__name__}: {error}"
    return Outcome(status=Status.FAIL, reason=words, failure=Failure(kind=FailureClass.INTERNAL, digest=words))


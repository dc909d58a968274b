"""The engine as a state machine without I/O: what comes next, and how a visit is concluded.

`decide` looks at a state and says what to do; whoever does it concludes it with `complete`, which gives the record and
the state that `fold.apply` makes of it. Nothing here looks at a clock, a file, the environment or a random number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.engine.context import Key, Operation
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.records import BranchResult, VisitCompleted
from pipeline.engine.routing import ConditionScope, Selection, select_transition
from pipeline.engine.state import (
    RunStatus,
    State,
    VisitEffects,
    apply_completed,
    apply_outcome,
    pending_gate,
    pending_gates_after,
    reached_limit,
    unsatisfied_gates,
)
from pipeline.errors import AwfError
from pipeline.language.model import ExitStage, HumanStage, LlmStage, Loop, ParallelStage, TriageStage, is_review


def loop_exit(state: State, after: VisitEffects, target: str) -> Selection | None:
    """The way out of the loop that the cursor is in, instead of the way to `target`; None to go on."""
    source = state.cursor.stage
    for loop in state.workflow.loops:
        if source in loop.stages and target in loop.stages:
            return _stalled(state, after, loop, target) or _exhausted(after, loop, target)
    return None


def _stalled(state: State, after: VisitEffects, loop: Loop, target: str) -> Selection | None:
    """Before something is fixed once more."""
    stage = state.workflow.by_id.get(target)
    why, to = after.context.get(Key.STALLED), loop.exit_for("stalled")
    if not why or to is None or not isinstance(stage, LlmStage) or is_review(stage):
        return None
    return Selection(target=to, role="loop", reason=f'loop "{loop.name}" is stalled: {why}')


def _exhausted(after: VisitEffects, loop: Loop, target: str) -> Selection | None:
    """Before another round begins."""
    rounds, to = after.visits.get(loop.stages[0], 0), loop.exit_for("exhausted")
    if target != loop.stages[0] or rounds < loop.max_rounds or to is None:
        return None
    return Selection(
        target=to, role="loop", reason=f'loop "{loop.name}" is exhausted: {rounds} of {loop.max_rounds} rounds'
    )


# Pauses that are not limits of the settings: a stage errored, a person has to look, an interrupted stage has effects.
ERROR, HOLD, EFFECTS = "error", "hold", "effects"


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

    parallel: ParallelStage
    visit: int
    branches: tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop before the next visit, until somebody resumes the run or `until` is reached."""

    limit: str
    stage: str
    count: float
    allowed: float
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """End the run: a stage errored, and nobody is to be waited for."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """There is nothing to do."""

    status: RunStatus
    reason: str


@dataclass(frozen=True, slots=True)
class CompletedVisit:
    """A visit that is over: its record, and the state that applying the record makes."""

    record: VisitCompleted
    state: State


Command = Visit | Ask | FanOut | Pause | Fail | Stop


def decide(state: State) -> Command:
    """What comes next."""
    if state.status is not RunStatus.RUNNING:
        return Stop(state.status, state.reason)
    unfinished = _unfinished(state)
    if state.progress.errors and not unfinished:  # branches that still run are waited for
        return _stop_at_errors(state)
    if hold := state.context.get(Key.HOLD):  # before any limit: a person who raises one has not been told of this
        return Pause(HOLD, state.cursor.stage, 1, 0, str(hold))
    if limit := reached_limit(state):
        return Pause(limit.limit, state.cursor.stage, limit.count, limit.allowed, limit.reason)
    stage = state.stage
    if state.progress.begun and not state.repeat:
        begun = min(state.progress.begun)
        reason = f'stage "{begun}" was interrupted, and what it did outside the workspace cannot be undone'
        return Pause(EFFECTS, begun, 1, 0, reason)
    match stage:
        case HumanStage() | TriageStage():
            return Ask(stage.id, state.cursor.visit)
        case ParallelStage():
            return FanOut(stage, state.cursor.visit, unfinished)
        case _:
            return unfinished[0]


def _unfinished(state: State) -> tuple[Visit, ...]:
    """What the stage at the cursor still has to run: itself, or its branches that are neither done nor errored."""
    stage, progress = state.stage, state.progress
    if isinstance(stage, ParallelStage):
        visits = [(branch.stage, state.visits.get(branch.stage, 0) + 1) for branch in stage.branches]
    else:
        visits = [(stage.id, state.cursor.visit)]
    return tuple(
        Visit(name, visit, progress.attempt(name), progress.retry_at.get(name))
        for name, visit in visits
        if name not in progress.branches and name not in progress.errors
    )


def _stop_at_errors(state: State) -> Pause | Fail:
    """Pause until every quota has reset, or until a person resumes where waiting would not help."""
    order = [stage.id for stage in state.workflow.stages]  # whichever branch was quicker
    errors = dict(sorted(state.progress.errors.items(), key=lambda one: order.index(one[0])))
    stage, reason = next(iter(errors)), "; ".join(error.reason for error in errors.values())
    if any(error.ends_run for error in errors.values()):
        return Fail(stage, reason)
    waits = [error.until for error in errors.values()]
    until = None if None in waits else max(moment for moment in waits if moment is not None)
    return Pause(ERROR, stage, len(errors), 0, reason, until)


def complete(
    state: State,
    outcome: Outcome,
    operations: Iterable[Operation],
    at: float,
    *,
    option: str = "",
    branches: Sequence[BranchResult] = (),
) -> CompletedVisit:
    """Conclude the visit at the cursor: what it left, and the way on with its reason."""
    operations = tuple(operations)
    stage = state.stage
    after = apply_outcome(state, outcome, operations, branches)
    chosen, ends = _way_on(state, after, outcome, option)
    record = VisitCompleted(
        at=at,
        stage=stage.id,
        visit=state.cursor.visit,
        attempt=state.progress.attempt(stage.id),
        outcome=outcome,
        operations=operations,
        chosen=chosen,
        ends=ends,
        branches=tuple(branches),
        option=option,
    )
    return CompletedVisit(record, apply_completed(state, record, after))


def _way_on(state: State, after: VisitEffects, outcome: Outcome, option: str) -> tuple[Selection, Status | None]:
    stage = state.stage
    if isinstance(stage, ExitStage):
        return _at_exit(state, after)
    environment = ConditionScope(after.context, after.outcomes, after.visits)
    taken = select_transition(stage, outcome, state.ways.leaving(stage.id), environment, state.ways.decisions, option)
    if taken.target is None:
        return taken, Status.FAIL
    owed = pending_gates_after(state, stage.id, option)
    if gate := pending_gate(state.workflow, owed, taken.target):
        reason = f'"{taken.target}" needs another approval at "{gate}"'
        return Selection(target=gate, role="re_review", reason=reason), None
    if way_out := loop_exit(state, after, taken.target):
        return way_out, None
    return taken, None


def _at_exit(state: State, after: VisitEffects) -> tuple[Selection, Status | None]:
    for gate in unsatisfied_gates(state.workflow, after.outcomes):
        status = after.outcomes.get(gate.id, "not_run")
        reason = f'the goal gate "{gate.id}" is not satisfied ({status})'
        if gate.retry_target is None:
            return Selection(target=None, reason=reason), Status.FAIL
        return Selection(target=gate.retry_target, role="goal_gate", reason=reason), None
    return Selection(target=None, reason="the exit is reached"), Status.SUCCESS


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


def crash_outcome(error: BaseException) -> Outcome:
    """The outcome of a handler or plugin that raised."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, AwfError):
        words = f"{error.message}; {error.help}" if error.help else error.message
    return Outcome(status=Status.ERROR, reason=words, failure=Failure(kind=FailureClass.INTERNAL, digest=words))

"""The engine as a state machine without I/O.

`decide` looks at a state and returns the command that comes next. A driver carries it out and appends the record that
`complete` makes of a visit. Nothing here reads a clock, a file, the environment or a random number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.engine.context import Key, Operation
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.policy import reached_limit
from pipeline.engine.records import BranchResult, VisitCompleted
from pipeline.engine.routing import (
    ConditionScope,
    ExpressionFunction,
    Selection,
    is_failure,
    pending_gate,
    select_loop_exit,
    select_transition,
    unsatisfied_gates,
)
from pipeline.engine.state import RunStatus, State, apply_outcome, pending_gates_after
from pipeline.errors import AwfError
from pipeline.language.edges import edges
from pipeline.language.model import DecisionStage, ExitStage, ParallelStage, Workflow, waits_for_person

# Reasons to pause besides the limits of the settings: a stage errored, a person has to look, an interrupted stage had
# external effects.
ERROR, HOLD, EFFECTS = "error", "hold", "effects"


@dataclass(frozen=True, slots=True)
class Visit:
    """Run a stage."""

    stage: str
    visit: int
    attempt: int
    not_before: float | None = None  # when the next attempt is due


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person."""

    stage: str
    visit: int


@dataclass(frozen=True, slots=True)
class FanOut:
    """Run the unfinished branches of a parallel stage."""

    parallel: ParallelStage
    visit: int
    branches: tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop before the next visit, until the run is resumed or `until` is reached."""

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
    """Do nothing: the run has ended or is stopped."""

    status: RunStatus
    reason: str


Command = Visit | Ask | FanOut | Pause | Fail | Stop


def decide(state: State) -> Command:
    """Return what comes next."""
    if state.status is not RunStatus.RUNNING:
        return Stop(state.status, state.reason)
    stage, progress = state.stage, state.progress
    unfinished = _unfinished_visits(state)
    if progress.errors and not unfinished:  # the other branches may finish first
        return _stop_at_errors(state)
    if hold := state.context.get(Key.HOLD):  # before any limit: raising a limit is not consent to this
        return Pause(HOLD, stage.id, 1, 0, str(hold))
    if limit := reached_limit(state):
        return Pause(limit.limit, stage.id, limit.count, limit.allowed, limit.reason)
    if progress.started and not state.repeat:
        started = min(progress.started)
        reason = f'stage "{started}" was interrupted, and its external effects cannot be undone'
        return Pause(EFFECTS, started, 1, 0, reason)
    if waits_for_person(stage):
        return Ask(stage.id, state.cursor.visit)
    if isinstance(stage, ParallelStage):
        return FanOut(stage, state.cursor.visit, unfinished)
    return unfinished[0]


def _unfinished_visits(state: State) -> tuple[Visit, ...]:
    """Return what the stage at the cursor still has to run: itself, or its branches that neither finished nor erred."""
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
    """Pause until every quota has reset, or until somebody resumes the run if waiting would not help."""
    # In file order, whichever branch was quicker.
    errors = {
        stage.id: state.progress.errors[stage.id]
        for stage in state.workflow.stages
        if stage.id in state.progress.errors
    }
    stage, reason = next(iter(errors)), "; ".join(error.reason for error in errors.values())
    if any(error.ends_run for error in errors.values()):
        return Fail(stage, reason)
    resets = [error.until for error in errors.values() if error.until is not None]
    return Pause(ERROR, stage, len(errors), 0, reason, max(resets) if len(resets) == len(errors) else None)


def complete(
    state: State,
    outcome: Outcome,
    operations: Iterable[Operation],
    at: float,
    *,
    option: str = "",
    branches: Sequence[BranchResult] = (),
    functions: Mapping[str, ExpressionFunction] | None = None,
) -> VisitCompleted:
    """Return the record that completes the visit at the cursor, with the transition to follow and its reason.

    `functions` are the expression functions that plugins provide.
    """
    operations = tuple(operations)
    after = apply_outcome(state, outcome, operations, branches)
    chosen, ends = _choose_next(after, outcome, option, functions or {})
    return VisitCompleted(
        at=at,
        stage=state.cursor.stage,
        visit=state.cursor.visit,
        attempt=state.progress.attempt(state.cursor.stage),
        outcome=outcome,
        operations=operations,
        chosen=chosen,
        ends=ends,
        branches=tuple(branches),
        option=option,
    )


def _choose_next(
    after: State, outcome: Outcome, option: str, functions: Mapping[str, ExpressionFunction]
) -> tuple[Selection, Status | None]:
    """Return the transition from the stage at the cursor, and how the run ends if it ends here."""
    stage, workflow = after.stage, after.workflow
    if isinstance(stage, ExitStage):
        return _leave(after)
    scope = ConditionScope(after.context, after.outcomes, after.visits, functions)
    leaving = [edge for edge in edges(workflow) if edge.source == stage.id]
    decisions = frozenset(one.id for one in workflow.stages if isinstance(one, DecisionStage))
    chosen = select_transition(stage, outcome, leaving, scope, decisions, option)
    if chosen.target is None:
        return chosen, Status.FAIL
    if gate := pending_gate(workflow, pending_gates_after(after, stage.id, option), chosen.target):
        return Selection(gate, f'"{chosen.target}" needs another approval at "{gate}"', role="re_review"), None
    return select_loop_exit(workflow, stage.id, chosen.target, scope) or chosen, None


def _leave(after: State) -> tuple[Selection, Status | None]:
    """Return how a run leaves through its exit: with success, or back to a goal gate that is not satisfied."""
    gate = next(unsatisfied_gates(after.workflow, after.outcomes), None)
    if gate is None:
        return Selection(None, "reached exit"), Status.SUCCESS
    reason = f'the goal gate "{gate.id}" is not satisfied ({after.outcomes.get(gate.id, "not_run")})'
    if gate.retry_target is None:
        return Selection(None, reason), Status.FAIL
    return Selection(gate.retry_target, reason, role="goal_gate"), None


def join_branches(
    stage: ParallelStage, results: Sequence[BranchResult], duration: float, workflow: Workflow
) -> Outcome:
    """Return the outcome of a parallel stage from those of its branches.

    It is a failure if a branch is one. What reviews report is an ordinary result, in parallel as well as alone.
    """
    needed = {"all": len(results), "any": 1}.get(str(stage.join), stage.join)
    succeeded = sum(result.outcome.status is Status.SUCCESS for result in results)
    passed = sum(result.outcome.status.passes for result in results)
    if succeeded >= int(needed):
        return Outcome(status=Status.SUCCESS, duration=duration)
    if passed >= int(needed):
        return Outcome(status=Status.PARTIAL_SUCCESS, duration=duration)
    others = [result for result in results if not result.outcome.status.passes]
    causes = "; ".join(f"{result.stage}: {result.outcome.reason or result.outcome.status}" for result in others)
    reason = f"{succeeded} of {len(results)} branches succeeded, {needed} needed ({causes})"
    failed = next((one for one in others if is_failure(workflow.stage(one.stage), one.outcome)), None)
    failure = failed and (failed.outcome.failure or Failure(kind=FailureClass.AGENT, digest=failed.outcome.reason))
    return Outcome(status=Status.FAIL, reason=reason, failure=failure, duration=duration)


def crash_outcome(error: BaseException) -> Outcome:
    """Return the outcome of a handler or plugin that raised."""
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, AwfError):
        reason = f"{error.message}; {error.help}" if error.help else error.message
    return Outcome(status=Status.ERROR, reason=reason, failure=Failure(kind=FailureClass.INTERNAL, digest=reason))

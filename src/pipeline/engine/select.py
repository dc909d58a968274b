"""Which way a run takes after a stage: one pure function, and the reason goes on record."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.engine.outcome import FailureClass, Outcome, Status
from pipeline.language.edges import Edge, Role
from pipeline.language.expressions import Environment, EvaluationError, evaluate
from pipeline.language.model import BaseStage, DecisionStage, asks_a_person, is_review

_FOLLOWED = (Role.TRANSITION, Role.ROUTE)  # by the cursor, when their conditions hold


@dataclass(frozen=True)
class Selection:
    """The way taken, and why. It goes on record."""

    target: str | None  # None when the run ends here
    reason: str
    role: str = ""  # transition, route, option, retry_target, goal_gate, re_review, loop
    when: str = ""


def select(
    stage: BaseStage,
    outcome: Outcome,
    edges: Sequence[Edge],
    environment: Environment,
    decisions: frozenset[str],
    option: str = "",
) -> Selection:
    """The way on from a stage. `decisions` are the ids of the decision stages."""
    try:
        if asks_a_person(stage):
            return _by_option(stage, edges, option, outcome)
        open_ways = candidates([edge for edge in edges if edge.role in _FOLLOWED], environment)
        if failed(stage, outcome):
            return _after_failure(stage, outcome, open_ways, edges, decisions)
        return _normal(stage, outcome, open_ways)
    except EvaluationError as error:
        return Selection(None, f'a condition of stage "{stage.id}" has no value: {error.message}')


def failed(stage: BaseStage, outcome: Outcome) -> bool:
    """Whether an outcome is a failure to be routed as one. A review that found something has done its work."""
    if outcome.status not in (Status.FAIL, Status.RETRY, Status.CANCELLED):
        return False
    missing = outcome.failure is not None and outcome.failure.kind in (FailureClass.PROTOCOL, FailureClass.AGENT)
    return missing or not is_review(stage)


def candidates(edges: Sequence[Edge], environment: Environment) -> list[Edge]:
    """The edges that are open, best first: priority, then those with a condition, then the order of the file."""
    holding = [edge for edge in edges if edge.when is None or evaluate(edge.when, environment)]
    return sorted(holding, key=lambda edge: (-edge.priority, edge.when is None))


def _normal(stage: BaseStage, outcome: Outcome, ways: list[Edge]) -> Selection:
    if not ways:
        return Selection(None, f'no way leads on from stage "{stage.id}" after {outcome.status}: no condition holds')
    best = ways[0]
    if best.when is None and not isinstance(stage, DecisionStage):
        for edge in ways:
            if edge.when is None and edge.target in (outcome.preferred_next, outcome.preferred_label):
                return _taken(edge, f'the answer of "{stage.id}" asked for "{edge.target}"')
    return _taken(best, _why(best, len(ways)))


def _after_failure(
    stage: BaseStage, outcome: Outcome, ways: list[Edge], edges: Sequence[Edge], decisions: frozenset[str]
) -> Selection:
    for edge in ways:
        if edge.when is not None:
            return _taken(edge, _why(edge, len(ways)))
    for edge in ways:
        if edge.target in decisions:
            return _taken(edge, f'stage "{stage.id}" failed, and "{edge.target}" decides')
    for edge in edges:
        if edge.role is Role.RETRY:
            return _taken(edge, f'stage "{stage.id}" failed, and this is its retry target')
    kind = f" ({outcome.failure.kind})" if outcome.failure else ""
    return Selection(None, f'stage "{stage.id}" failed{kind}: {outcome.reason or "no reason given"}{_logs(outcome)}')


def _logs(outcome: Outcome) -> str:
    """Where the whole of what a stage wrote is: the directory of its logs, below the store."""
    directories = dict.fromkeys(path.rpartition("/")[0] for path in outcome.logs.values())
    return f"; its logs are in {' and '.join(directories)}" if directories else ""


def _by_option(stage: BaseStage, edges: Sequence[Edge], option: str, outcome: Outcome) -> Selection:
    if outcome.status is not Status.SUCCESS:
        return Selection(None, f'stage "{stage.id}" failed: {outcome.reason or "nobody answered"}')
    for edge in edges:
        if edge.key == option:
            return _taken(edge, f'"{option}" was chosen')
    return Selection(None, f'stage "{stage.id}" has no option "{option}"')


def _taken(edge: Edge, reason: str) -> Selection:
    return Selection(edge.target, reason, edge.role.value, edge.when.text if edge.when else "")


def _why(edge: Edge, open_ways: int) -> str:
    base = f"{edge.when} holds" if edge.when else "it has no condition"
    if open_ways == 1:
        return f"{base}, and no other way is open"
    priority = f" (priority {edge.priority})" if edge.priority else ""
    return f"{base}, and it comes first of {open_ways} open ways{priority}"

"""A workflow's edges by the stage they leave, worked out once for a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.engine.context import Context, Key
from pipeline.engine.outcome import Outcome, Status
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, by_preference, edges, failure_transitions
from pipeline.language.expressions import Environment, EvaluationError, evaluate, observed
from pipeline.language.model import BaseStage, DecisionStage, Workflow, is_review, waits_for_person


@dataclass(frozen=True, slots=True)
class EdgeIndex:
    """Every way out of every stage."""

    by_source: Mapping[str, tuple[Edge, ...]]
    decisions: frozenset[str]  # the decision stages

    def leaving(self, stage: str) -> tuple[Edge, ...]:
        """The ways out of a stage, in the order of the file."""
        return self.by_source.get(stage, ())


def index_edges(workflow: Workflow) -> EdgeIndex:
    """The ways of a workflow."""
    gathered: dict[str, list[Edge]] = {}
    for edge in edges(workflow):
        gathered.setdefault(edge.source, []).append(edge)
    decisions = frozenset(stage.id for stage in workflow.stages if isinstance(stage, DecisionStage))
    return EdgeIndex({source: tuple(leaving) for source, leaving in gathered.items()}, decisions)


class ConditionScope(NamedTuple):
    """The environment of conditions after a stage is done."""

    values: Context
    outcomes: Mapping[str, Status]
    completed: Mapping[str, int]

    def outcome(self, stage: str) -> str:
        return self.outcomes.get(stage, "not_run")

    def output(self, key: str) -> object:
        return self.values.get(key)

    def exists(self, key: str) -> bool:
        return key in self.values

    def context(self, key: str) -> object:
        return self.values.get(key)

    def visits(self, stage: str) -> int:
        return self.completed.get(stage, 0)

    def findings(self, stage: str | None) -> int:
        reports = self.values.list_at(Key.FINDINGS)
        if stage is None:
            return len(reports)
        return sum(1 for report in reports if isinstance(report, dict) and report.get("stageId") == stage)

    def verdict(self) -> str:
        verdict = self.values.get(Key.VERDICT)
        return verdict if isinstance(verdict, str) else "none"


_LONGEST = 400  # characters of what a reason says about conditions


@dataclass(frozen=True)
class Selection:
    """The transition followed, and why; part of the record."""

    target: str | None  # None when the run ends here
    reason: str
    role: str = ""  # transition, route, option, retry_target, goal_gate, re_review, loop
    when: str = ""


def select_transition(
    stage: BaseStage,
    outcome: Outcome,
    edges: Sequence[Edge],
    environment: Environment,
    decisions: frozenset[str],
    option: str = "",
) -> Selection:
    """The transition to follow from a stage. `decisions` are the ids of the decision stages."""
    if waits_for_person(stage):
        return _by_option(stage, edges, option, outcome)
    choice = _Choice(stage, outcome, [edge for edge in edges if edge.role in FOLLOWED], environment)
    try:
        if is_failure(stage, outcome):
            retry = next((edge for edge in edges if edge.role is EdgeRole.RETRY), None)
            return choice.after_failure(decisions, retry)
        return choice.ordinary()
    except EvaluationError as error:
        return Selection(None, f'a condition of stage "{stage.id}" has no value: {error.message}')


def is_failure(stage: BaseStage, outcome: Outcome) -> bool:
    """Whether an outcome is routed as a failure. What a review found is an ordinary result, unless it is an error."""
    if outcome.status.passes or outcome.status is Status.SKIPPED:
        return False
    return outcome.failure is not None or not is_review(stage)


@dataclass(frozen=True, slots=True)
class _Choice:
    """One choice between the transitions of a stage that has ended."""

    stage: BaseStage
    outcome: Outcome
    edges: Sequence[Edge]
    environment: Environment

    def ordinary(self) -> Selection:
        matches = [edge for edge in by_preference(self.edges) if self.holds(edge)]
        if not matches:
            return Selection(None, f'stage "{self.stage.id}" ended with {self.outcome.status} and {self.dead_end()}')
        best = matches[0]
        if not best.conditional and not isinstance(self.stage, DecisionStage):
            for edge in matches:
                if not edge.conditional and edge.target in (self.outcome.preferred_next, self.outcome.preferred_label):
                    return _followed(edge, f'the answer of "{self.stage.id}" asked for "{edge.target}"')
        return _followed(best, self.why(best, matches))

    def after_failure(self, decisions: frozenset[str], retry: Edge | None) -> Selection:
        matches = [edge for edge in failure_transitions(self.edges, decisions) if self.holds(edge)]
        if matches:
            return _followed(matches[0], self.why(matches[0], matches))
        if retry is not None:
            return _followed(retry, f'stage "{self.stage.id}" failed, and this is its retry target')
        return Selection(None, self.failure())

    def holds(self, edge: Edge) -> bool:
        result = edge.on is None or edge.on.holds(passed=self.outcome.status.passes)
        return result and (edge.when is None or evaluate(edge.when, self.environment))

    def why(self, edge: Edge, matches: Sequence[Edge]) -> str:
        """Why the first of several matches is followed, with the values that its condition saw."""
        if edge.conditional:
            words, seen = f"{edge.condition[:_LONGEST]} is true", self.seen([edge])
        elif any(match.conditional for match in matches):
            words, seen = "no condition", []  # it has the higher priority
        elif any(other.conditional for other in self.edges):
            words, seen = "otherwise", self.seen(self.edges)
        elif len(self.edges) == 1:
            words, seen = "only transition", []
        else:
            words, seen = "leads to a decision" if is_failure(self.stage, self.outcome) else "no condition", []
        if len(matches) > 1:
            seen.append(f"first of {len(matches)} matches" + (f", priority {edge.priority}" if edge.priority else ""))
        return f"{words} ({_short('; '.join(seen))})" if seen else words

    def seen(self, edges: Iterable[Edge]) -> list[str]:
        """The values that the conditions of some transitions saw, each once."""
        values: dict[str, None] = {}
        for edge in edges:
            if edge.on is not None:
                values[f"status = {self.outcome.status}"] = None
            if edge.when is not None:
                values |= dict.fromkeys(observed(edge.when, self.environment))
        return list(values)

    def dead_end(self) -> str:
        """Why no transition can be followed: each condition, with the values it saw."""
        if not self.edges:
            return "has no transition"
        false = (f"{edge.condition} is false ({'; '.join(self.seen([edge]))})" for edge in self.edges)
        return f"no transition matches: {_short(', '.join(false))}"

    def failure(self) -> str:
        """Why a failure ends the run."""
        outcome, name = self.outcome, self.stage.id
        kind = f" ({outcome.failure.kind})" if outcome.failure else ""
        directories = dict.fromkeys(path.rpartition("/")[0] for path in outcome.logs.values())
        logs = f"; its logs are in {' and '.join(directories)}" if directories else ""
        cause = f"{outcome.reason or 'no reason given'}{logs}"
        if not self.edges:
            return f'stage "{name}" failed{kind}: {cause}'
        if any(edge.conditional for edge in self.edges):
            return f'stage "{name}" failed{kind}: {cause}; {self.dead_end()}'
        need = "its only transition needs" if len(self.edges) == 1 else "its transitions need"
        return f'{name} failed and {need} success; add on="fail" or on="always". Cause{kind}: {cause}'


def _by_option(stage: BaseStage, edges: Sequence[Edge], option: str, outcome: Outcome) -> Selection:
    if outcome.status is not Status.SUCCESS:
        return Selection(None, f'stage "{stage.id}" failed: {outcome.reason or "nobody answered"}')
    for edge in edges:
        if edge.key == option:
            return _followed(edge, f'"{option}" was chosen')
    return Selection(None, f'stage "{stage.id}" has no option "{option}"')


def _followed(edge: Edge, reason: str) -> Selection:
    return Selection(edge.target, reason, edge.role.value, edge.when.text if edge.when else "")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

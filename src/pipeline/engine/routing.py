"""Which stage follows another: pure functions over the workflow, the outcome and the run's state."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pipeline.engine.context import Context, input_key
from pipeline.engine.outcome import Outcome, Status
from pipeline.errors import AwfError
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, by_preference, edges, failure_transitions
from pipeline.language.expressions import PLUGIN_FUNCTIONS, EvaluationError, Scope, evaluate, observed_values
from pipeline.language.model import (
    BaseStage,
    DecisionStage,
    HumanOption,
    HumanStage,
    LlmStage,
    ParallelStage,
    ToolStage,
    Workflow,
    is_review,
    waits_for_person,
)
from pipeline.text import truncate_length

EXHAUSTED = "exhausted"  # the one loop signal of the engine; the others are expression functions of plugins
_LONGEST = 400  # characters that a reason says about conditions

ExpressionFunction = Callable[[Context, str | None], object]  # takes the context and the argument of the call


class ConditionScope(NamedTuple):
    """What conditions may ask after a stage has completed. `functions` are those that plugins provide."""

    values: Context
    outcomes: Mapping[str, Status]
    completed: Mapping[str, int]
    functions: Mapping[str, ExpressionFunction] = {}

    def outcome(self, stage: str) -> str:
        return self.outcomes.get(stage, "not_run")

    def output(self, key: str) -> object:
        return self.values.get(key)

    def exists(self, key: str) -> bool:
        return key in self.values

    def context(self, key: str) -> object:
        return self.values.get(key)

    def input(self, name: str) -> object:
        return self.values.get(input_key(name))

    def visits(self, stage: str) -> int:
        return self.completed.get(stage, 0)

    def function(self, name: str) -> Callable[[str | None], object] | None:
        function = self.functions.get(name)
        return partial(function, self.values) if function else None


def require_functions(workflow: Workflow, functions: Mapping[str, ExpressionFunction]) -> None:
    """Reject a workflow that uses an expression function which no plugin provides."""
    used = {(edge.source, call.function) for edge in edges(workflow) if edge.when for call in edge.when.calls()}
    for source, function in sorted(used):
        if function in PLUGIN_FUNCTIONS and function not in functions:
            message = f'stage "{source}" uses {function}() in a condition, which no loaded plugin provides'
            raise AwfError(message, help="load the plugin that provides it, or change the condition")


@dataclass(frozen=True)
class Selection:
    """The transition that was followed, and why; part of the record."""

    target: str | None  # None if the run ends here
    reason: str
    role: str = ""  # transition, route, option, retry_target, goal_gate, re_review, loop
    when: str = ""


def select_transition(
    stage: BaseStage,
    outcome: Outcome,
    leaving: Sequence[Edge],
    scope: Scope,
    decisions: frozenset[str],
    option: str = "",
) -> Selection:
    """Return the transition to follow among those leaving a stage. `decisions` are the ids of decision stages."""
    if waits_for_person(stage):
        if outcome.status is not Status.SUCCESS:
            return Selection(None, f'stage "{stage.id}" failed: {outcome.reason or "nobody answered"}')
        chosen = next((edge for edge in leaving if edge.key == option), None)
        if chosen is None:
            return Selection(None, f'stage "{stage.id}" has no option "{option}"')
        return _follow(chosen, f'"{option}" was chosen')
    choice = _Choice(stage, outcome, [edge for edge in leaving if edge.role in FOLLOWED], scope)
    try:
        if is_failure(stage, outcome):
            retry = next((edge for edge in leaving if edge.role is EdgeRole.RETRY), None)
            return choice.after_failure(decisions, retry)
        return choice.after_result()
    except EvaluationError as error:
        return Selection(None, f'a condition of stage "{stage.id}" has no value: {error.message}')


def is_failure(stage: BaseStage, outcome: Outcome) -> bool:
    """Return whether an outcome is routed as a failure. What a review reports is an ordinary result.

    A parallel stage has a failure if one of its branches has.
    """
    if outcome.status.passes or outcome.status is Status.SKIPPED:
        return False
    return outcome.failure is not None or not (is_review(stage) or isinstance(stage, ParallelStage))


@dataclass(frozen=True, slots=True)
class _Choice:
    """A choice between the transitions of one stage, and the words for it."""

    stage: BaseStage
    outcome: Outcome
    edges: Sequence[Edge]
    scope: Scope

    def after_result(self) -> Selection:
        matches = [edge for edge in by_preference(self.edges) if self.is_match(edge)]
        if not matches:
            return Selection(None, f'stage "{self.stage.id}" ended with {self.outcome.status} and {self.dead_end()}')
        best = matches[0]
        if not best.conditional and not isinstance(self.stage, DecisionStage):
            for edge in matches:
                if not edge.conditional and edge.target in (self.outcome.preferred_next, self.outcome.preferred_label):
                    return _follow(edge, f'the answer of "{self.stage.id}" asked for "{edge.target}"')
        return _follow(best, self.explain(best, matches))

    def after_failure(self, decisions: frozenset[str], retry: Edge | None) -> Selection:
        matches = [edge for edge in failure_transitions(self.edges, decisions) if self.is_match(edge)]
        if matches:
            return _follow(matches[0], self.explain(matches[0], matches))
        if retry is not None:
            return _follow(retry, f'stage "{self.stage.id}" failed, and this is its retry target')
        return Selection(None, self.explain_failure())

    def is_match(self, edge: Edge) -> bool:
        result = edge.on is None or edge.on.holds(passed=self.outcome.status.passes)
        return result and (edge.when is None or evaluate(edge.when, self.scope))

    def explain(self, edge: Edge, matches: Sequence[Edge]) -> str:
        """Return why the first of several matches is followed, with the values its condition saw."""
        values: list[str] = []
        if edge.conditional:
            words, values = f"{edge.condition[:_LONGEST]} is true", self.observe([edge])
        elif any(match.conditional for match in matches):
            words = "no condition"  # it has the higher priority
        elif any(other.conditional for other in self.edges):
            words, values = "otherwise", self.observe(self.edges)
        elif len(self.edges) == 1:
            words = "only transition"
        else:
            words = "leads to a decision" if is_failure(self.stage, self.outcome) else "no condition"
        if len(matches) > 1:
            values.append(f"first of {len(matches)} matches" + (f", priority {edge.priority}" if edge.priority else ""))
        return f"{words} ({truncate_length('; '.join(values), _LONGEST)})" if values else words

    def observe(self, edges: Iterable[Edge]) -> list[str]:
        """Return the values that the conditions of some transitions saw, each once."""
        values: dict[str, None] = {}
        for edge in edges:
            if edge.on is not None:
                values[f"status = {self.outcome.status}"] = None
            if edge.when is not None:
                values |= dict.fromkeys(observed_values(edge.when, self.scope))
        return list(values)

    def dead_end(self) -> str:
        """Return why no transition can be followed: each condition with the values it saw."""
        if not self.edges:
            return "has no transition"
        false = (f"{edge.condition} is false ({'; '.join(self.observe([edge]))})" for edge in self.edges)
        return f"no transition matches: {truncate_length(', '.join(false), _LONGEST)}"

    def explain_failure(self) -> str:
        """Return why a failure ends the run."""
        outcome, name = self.outcome, self.stage.id
        kind = f" ({outcome.failure.kind})" if outcome.failure else ""
        match next(iter(outcome.logs.values()), "").split("/"):
            case [_, run, _, _, *_]:  # runs/RUN/STAGE/VISIT/…, relative to a store that is not known here
                logs = f"; see awf logs {run} {name}"
            case _:
                logs = ""
        cause = f"{outcome.reason or 'no reason given'}{logs}"
        if not self.edges:
            return f'stage "{name}" failed{kind}: {cause}'
        if any(edge.conditional for edge in self.edges):
            return f'stage "{name}" failed{kind}: {cause}; {self.dead_end()}'
        need = "its only transition needs" if len(self.edges) == 1 else "its transitions need"
        return f'{name} failed and {need} success; add on="fail" or on="always". Cause{kind}: {cause}'


def _follow(edge: Edge, reason: str) -> Selection:
    return Selection(edge.target, reason, edge.role.value, edge.when.text if edge.when else "")


def select_loop_exit(workflow: Workflow, source: str, target: str, scope: ConditionScope) -> Selection | None:
    """Return where a loop leads instead of going on to `target`; None to stay in the loop.

    A loop is exhausted before its next round starts; each visit to one of its exits grants one more. Any other signal
    counts before an agent changes the code again.
    """
    loop = next((loop for loop in workflow.loops if source in loop.stages and target in loop.stages), None)
    if loop is None:
        return None
    stage = workflow.by_id.get(target)
    if isinstance(stage, LlmStage) and not is_review(stage):
        for exit in loop.exits:
            signal = scope.function(exit.signal) if exit.signal != EXHAUSTED else None
            if signal and (reason := signal(None)):
                return Selection(exit.to, f'loop "{loop.name}" is {exit.signal}: {reason}', role="loop")
    rounds, exhausted = scope.visits(loop.stages[0]), loop.exit_for(EXHAUSTED)
    granted = loop.max_rounds + sum(scope.visits(name) for name in {exit.to for exit in loop.exits})
    if exhausted and target == loop.stages[0] and rounds >= granted:
        reason = f'loop "{loop.name}" is exhausted: {rounds} of {granted} rounds'
        return Selection(exhausted, reason, role="loop")
    return None


def unsatisfied_gates(workflow: Workflow, outcomes: Mapping[str, Status]) -> Iterator[LlmStage | ToolStage]:
    """Yield the goal gates that have not passed, in file order; one that never ran has not."""
    for stage in workflow.stages:
        if isinstance(stage, LlmStage | ToolStage) and stage.goal_gate:
            status = outcomes.get(stage.id)
            if status is None or not status.passes:
                yield stage


def approving_options(stage: HumanStage) -> tuple[HumanOption, ...]:
    """Return the options that approve: those marked so, or else the first."""
    return tuple(option for option in stage.options if option.approves) or stage.options[:1]


def pending_gate(workflow: Workflow, pending: frozenset[str], target: str) -> str | None:
    """Return the human gate among the `pending` ones that must be passed before this target, or None."""
    for name in sorted(pending):
        gate = workflow.by_id.get(name)
        if isinstance(gate, HumanStage) and target in {option.to for option in approving_options(gate)}:
            return name
    return None

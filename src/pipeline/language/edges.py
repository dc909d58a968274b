"""Every edge between stages, whichever kind of node declares it."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from pipeline.language.expressions import Expression
from pipeline.language.model import (
    BaseStage,
    DecisionStage,
    HumanStage,
    LlmStage,
    OnResult,
    ParallelStage,
    ToolStage,
    TriageStage,
    Workflow,
)
from pipeline.language.source import SourceSpans, Span


class EdgeRole(StrEnum):
    """What declares an edge."""

    TRANSITION = "transition"
    ROUTE = "route"
    OPTION = "option"  # chosen by a person: an option of a human stage, or the result of a triage
    BRANCH = "branch"  # run by a parallel stage, not followed by the cursor
    RETRY = "retry_target"  # followed after a failure, or from an unsatisfied goal gate
    LOOP = "loop"  # followed instead of another round


FOLLOWED = (EdgeRole.TRANSITION, EdgeRole.ROUTE)  # the roles that conditions and priorities choose from


class Edge(NamedTuple):
    """An edge from one stage to another. `on` and `when` are its condition; without both it is unconditional."""

    source: str
    target: str
    role: EdgeRole
    spans: SourceSpans
    when: Expression | None = None
    priority: int = 0
    label: str = ""
    key: str = ""  # what a person chooses an option by
    on: OnResult | None = None

    @property
    def conditional(self) -> bool:
        """Whether it has a condition. `on="always"` is one that always holds."""
        return self.on is not None or self.when is not None

    @property
    def condition(self) -> str:
        """Its condition as an author writes it; empty if it has none."""
        parts = (f'on="{self.on}"' if self.on else "", str(self.when) if self.when else "")
        return " and ".join(filter(None, parts))

    @property
    def target_span(self) -> Span:
        """Where its target is written."""
        return self.spans.of({EdgeRole.BRANCH: "stage", EdgeRole.RETRY: "retry_target"}.get(self.role, "to"))


def edges(workflow: Workflow) -> Iterator[Edge]:
    """All edges: those that stages declare, in file order, then transitions, then exits of loops."""
    for stage in workflow.stages:
        yield from _stage_edges(stage)
    for transition in workflow.transitions:
        on, when = transition.on, _condition(transition.when)
        if on is None and transition.when is not None and when is None:
            on = OnResult.ALWAYS  # when="true"
        role, spans = EdgeRole.TRANSITION, transition.spans
        yield Edge(transition.source, transition.to, role, spans, when, transition.priority, on=on)
    for loop in workflow.loops:
        for loop_exit in loop.exits if loop.stages else ():
            label = f"{loop.name}: {loop_exit.signal}"
            yield Edge(loop.stages[-1], loop_exit.to, EdgeRole.LOOP, loop_exit.spans, label=label)


def _stage_edges(stage: BaseStage) -> Iterator[Edge]:
    match stage:
        case DecisionStage():
            for route in stage.routes:
                yield Edge(stage.id, route.to, EdgeRole.ROUTE, route.spans, _condition(route.when), route.priority)
        case HumanStage():
            for option in stage.options:
                yield Edge(stage.id, option.to, EdgeRole.OPTION, option.spans, label=option.label, key=option.key)
        case TriageStage():
            for key, target in (("apply", stage.apply), ("done", stage.done)):
                if target is not None:
                    yield Edge(stage.id, target.to, EdgeRole.OPTION, target.spans, label=key, key=key)
        case ParallelStage():
            for branch in stage.branches:
                yield Edge(stage.id, branch.stage, EdgeRole.BRANCH, branch.spans)
        case LlmStage(retry_target=str(target)) | ToolStage(retry_target=str(target)):
            yield Edge(stage.id, target, EdgeRole.RETRY, stage.spans)


def _condition(when: Expression | None) -> Expression | None:
    return None if when is None or when.always else when


def by_preference(leaving: Iterable[Edge]) -> list[Edge]:
    """Edges by priority, then conditional ones first, then in file order."""
    return sorted(leaving, key=lambda edge: (-edge.priority, not edge.conditional))


def failure_transitions(leaving: Iterable[Edge], decisions: Collection[str]) -> list[Edge]:
    """The transitions that may be followed when a stage that is not a review fails, best first.

    An unconditional one needs success, unless the stage has a conditional transition too, or it leads to a decision.
    """
    followed = by_preference(edge for edge in leaving if edge.role in FOLLOWED)
    conditional = [edge for edge in followed if edge.conditional]
    unconditional = [edge for edge in followed if not edge.conditional]
    return conditional + [edge for edge in unconditional if conditional or edge.target in decisions]

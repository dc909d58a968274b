"""Every way from one stage to another, whichever kind of stage declares it."""

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
from pipeline.language.source import SourceSpans


class EdgeRole(StrEnum):
    """What kind of line in the file an edge comes from."""

    TRANSITION = "transition"
    ROUTE = "route"
    OPTION = "option"  # chosen by somebody: an option of a human stage, or what a triage came to
    BRANCH = "branch"  # run by a parallel stage, not followed by the cursor
    RETRY = "retry_target"  # taken after a failure, or by an unsatisfied goal gate
    LOOP = "loop"  # taken instead of one more round


FOLLOWED = (EdgeRole.TRANSITION, EdgeRole.ROUTE)  # the roles that are chosen by conditions and priority


class Edge(NamedTuple):
    """One way from a stage to another. `on` and `when` are its condition; it has none where both are None."""

    source: str
    target: str
    role: EdgeRole
    at: SourceSpans
    when: Expression | None = None
    priority: int = 0
    label: str = ""
    key: str = ""  # of an option: what it is chosen by
    on: OnResult | None = None

    @property
    def conditional(self) -> bool:
        """Whether it has a condition. `on="always"` is one that always holds."""
        return self.on is not None or self.when is not None

    @property
    def condition(self) -> str:
        """Its condition as an author writes it; empty when it has none."""
        parts = (f'on="{self.on}"' if self.on else "", str(self.when) if self.when else "")
        return " and ".join(filter(None, parts))

    @property
    def attribute(self) -> str:
        """The name of the attribute that holds the target."""
        return {EdgeRole.BRANCH: "stage", EdgeRole.RETRY: "retry_target"}.get(self.role, "to")


def edges(workflow: Workflow) -> Iterator[Edge]:
    """All edges, each stage's own in the order of the file, then the transitions, then the ways out of loops."""
    for stage in workflow.stages:
        yield from _declared_by(stage)
    for transition in workflow.transitions:
        on, when = transition.on, _condition(transition.when)
        if on is None and transition.when is not None and when is None:
            on = OnResult.ALWAYS  # when="true"
        yield Edge(
            transition.source, transition.to, EdgeRole.TRANSITION, transition.at, when, transition.priority, on=on
        )
    for loop in workflow.loops:
        for way in loop.exits:
            if loop.stages:
                yield Edge(loop.stages[-1], way.to, EdgeRole.LOOP, way.at, label=f"{loop.name}: {way.signal}")


def by_preference(leaving: Iterable[Edge]) -> list[Edge]:
    """Edges in the order they are preferred: by priority, then those with a condition, then as in the file."""
    return sorted(leaving, key=lambda edge: (-edge.priority, not edge.conditional))


def failure_transitions(leaving: Iterable[Edge], decisions: Collection[str]) -> list[Edge]:
    """The transitions that the failure of a stage that is not a review may follow, best first.

    Those with a condition come first. One without a condition needs success, unless another transition of the stage
    has a condition, or it leads to a decision.
    """
    followed = by_preference(edge for edge in leaving if edge.role in FOLLOWED)
    conditional = [edge for edge in followed if edge.conditional]
    plain = [edge for edge in followed if not edge.conditional]
    return conditional + [edge for edge in plain if conditional or edge.target in decisions]


def _declared_by(stage: BaseStage) -> Iterator[Edge]:
    match stage:
        case DecisionStage():
            for route in stage.routes:
                yield Edge(stage.id, route.to, EdgeRole.ROUTE, route.at, _condition(route.when), route.priority)
        case HumanStage():
            for option in stage.options:
                yield Edge(stage.id, option.to, EdgeRole.OPTION, option.at, label=option.label, key=option.key)
        case TriageStage():
            for key, way in (("apply", stage.apply), ("done", stage.done)):
                if way is not None:
                    yield Edge(stage.id, way.to, EdgeRole.OPTION, way.at, label=key, key=key)
        case ParallelStage():
            for branch in stage.branches:
                yield Edge(stage.id, branch.stage, EdgeRole.BRANCH, branch.at)
        case LlmStage(retry_target=str(target)) | ToolStage(retry_target=str(target)):
            yield Edge(stage.id, target, EdgeRole.RETRY, stage.at)


def _condition(when: Expression | None) -> Expression | None:
    return None if when is None or when.always else when

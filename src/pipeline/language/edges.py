"""Every way from one stage to another, whichever kind of stage declares it."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from pipeline.language.expressions import Expression
from pipeline.language.model import (
    BaseStage,
    DecisionStage,
    HumanStage,
    LlmStage,
    ParallelStage,
    ToolStage,
    TriageStage,
    Workflow,
)
from pipeline.language.source import Place


class Role(StrEnum):
    """What kind of line in the file an edge comes from."""

    TRANSITION = "transition"
    ROUTE = "route"
    OPTION = "option"  # chosen by somebody: an option of a human stage, or what a triage came to
    BRANCH = "branch"  # run by a parallel stage, not followed by the cursor
    RETRY = "retry_target"  # taken after a failure, or by an unsatisfied goal gate
    LOOP = "loop"  # taken instead of one more round


class Edge(NamedTuple):
    """One way from a stage to another. `when` is None where nothing has to hold."""

    source: str
    target: str
    role: Role
    at: Place
    when: Expression | None = None
    priority: int = 0
    label: str = ""
    key: str = ""  # of an option: what it is chosen by

    @property
    def attribute(self) -> str:
        """The name of the attribute that holds the target."""
        return {Role.BRANCH: "stage", Role.RETRY: "retry_target"}.get(self.role, "to")


def edges(workflow: Workflow) -> Iterator[Edge]:
    """All edges, each stage's own in the order of the file, then the transitions, then the ways out of loops."""
    for stage in workflow.stages:
        yield from _declared_by(stage)
    for transition in workflow.transitions:
        when = _condition(transition.when)
        yield Edge(transition.source, transition.to, Role.TRANSITION, transition.at, when, transition.priority)
    for loop in workflow.loops:
        for way in loop.exits:
            if loop.stages:
                yield Edge(loop.stages[-1], way.to, Role.LOOP, way.at, label=f"{loop.name}: {way.signal}")


def _declared_by(stage: BaseStage) -> Iterator[Edge]:
    match stage:
        case DecisionStage():
            for route in stage.routes:
                yield Edge(stage.id, route.to, Role.ROUTE, route.at, _condition(route.when), route.priority)
        case HumanStage():
            for option in stage.options:
                yield Edge(stage.id, option.to, Role.OPTION, option.at, label=option.label, key=option.key)
        case TriageStage():
            for key, way in (("apply", stage.apply), ("done", stage.done)):
                if way is not None:
                    yield Edge(stage.id, way.to, Role.OPTION, way.at, label=key, key=key)
        case ParallelStage():
            for branch in stage.branches:
                yield Edge(stage.id, branch.stage, Role.BRANCH, branch.at)
        case LlmStage(retry_target=str(target)) | ToolStage(retry_target=str(target)):
            yield Edge(stage.id, target, Role.RETRY, stage.at)


def _condition(when: Expression | None) -> Expression | None:
    return None if when is None or when.always else when

"""A workflow's edges by the stage they leave, worked out once for a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.language.edges import Edge, edges
from pipeline.language.model import DecisionStage, Workflow


@dataclass(frozen=True, slots=True)
class Ways:
    """Every way out of every stage."""

    by_source: Mapping[str, tuple[Edge, ...]]
    decisions: frozenset[str]  # the decision stages

    def leaving(self, stage: str) -> tuple[Edge, ...]:
        """The ways out of a stage, in the order of the file."""
        return self.by_source.get(stage, ())


def ways_of(workflow: Workflow) -> Ways:
    """The ways of a workflow."""
    gathered: dict[str, list[Edge]] = {}
    for edge in edges(workflow):
        gathered.setdefault(edge.source, []).append(edge)
    decisions = frozenset(stage.id for stage in workflow.stages if isinstance(stage, DecisionStage))
    return Ways({source: tuple(leaving) for source, leaving in gathered.items()}, decisions)

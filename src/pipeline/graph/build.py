"""From a workflow to the graph its cursor walks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pipeline.graph.walk import Ways, cycles, reached, turned
from pipeline.language.edges import Role, edges
from pipeline.language.model import ExitStage, Workflow
from pipeline.language.names import nearest


@dataclass(frozen=True)
class Graph:
    """Stages as nodes, joined by the ways the cursor goes; a parallel stage's branches hang beside them."""

    workflow: Workflow
    ways: Ways
    branches: Mapping[str, tuple[str, ...]]  # of each parallel stage

    @cached_property
    def owners(self) -> Mapping[str, frozenset[str]]:
        """Of each stage that is a branch, the parallel stages that run it."""
        owners: dict[str, set[str]] = {}
        for parallel, names in self.branches.items():
            for name in names:
                owners.setdefault(name, set()).add(parallel)
        return {name: frozenset(parallels) for name, parallels in owners.items()}

    @cached_property
    def exits(self) -> tuple[str, ...]:
        """The exit stages, in the order of the file."""
        return tuple(stage.id for stage in self.workflow.stages if isinstance(stage, ExitStage))

    @cached_property
    def reachable(self) -> frozenset[str]:
        """The stages a run can come to from its start."""
        start = _meant(self.workflow.start, self.workflow.by_id)
        if not start:
            return frozenset(self.ways)  # told by the rule about the start
        walked = reached(self.ways, [start])
        return frozenset(walked.union(*(self.branches.get(stage, ()) for stage in walked & self.branches.keys())))

    @cached_property
    def can_exit(self) -> frozenset[str]:
        """The stages from which some exit can be reached."""
        return frozenset(reached(turned(self.ways), self.exits))

    @cached_property
    def loops(self) -> tuple[tuple[str, ...], ...]:
        """The groups of stages that lie on cycles together, each in the order of the file."""
        order = {stage.id: index for index, stage in enumerate(self.workflow.stages)}
        ordered = (tuple(sorted(cycle, key=order.__getitem__)) for cycle in cycles(self.ways))
        return tuple(sorted(ordered, key=lambda loop: order[loop[0]]))


def build(workflow: Workflow) -> Graph:
    """The graph of a workflow, also of one with errors: a mistyped target counts as the stage that was meant."""
    ids = workflow.by_id
    ways: dict[str, dict[str, None]] = {name: {} for name in ids}
    branches: dict[str, list[str]] = {}
    for edge in edges(workflow):
        source, target = (_meant(name, ids) for name in (edge.source, edge.target))
        if source is None or target is None:
            continue
        if edge.role is Role.BRANCH:
            branches.setdefault(source, []).append(target)
        else:
            ways[source][target] = None
    led = {name: tuple(targets) for name, targets in ways.items()}
    return Graph(workflow, led, {stage: tuple(names) for stage, names in branches.items()})


def _meant(name: str, ids: Mapping[str, object]) -> str | None:
    return name if name in ids else nearest(name, ids)

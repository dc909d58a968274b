"""What a run can reach and where it can loop: the graph of a workflow, for its checks.

The algorithms are written out. Importing networkx takes 100 ms, and every command that reads a workflow would pay it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import ExitStage, Workflow
from pipeline.text import nearest

Successors = Mapping[str, Sequence[str]]  # where the edges of each node lead


@dataclass(frozen=True)
class Graph:
    """The stages of a workflow, joined by the transitions that a run follows, and the branches of parallel stages."""

    workflow: Workflow
    successors: Successors
    branches: Mapping[str, tuple[str, ...]]  # of each parallel stage

    @cached_property
    def owners(self) -> Mapping[str, frozenset[str]]:
        """By branch: the parallel stages that run it."""
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
        """The stages that a run can reach; all of them if the start is unknown, which another check reports."""
        start = _intended_stage(self.workflow.start, self.workflow.by_id)
        if not start:
            return frozenset(self.successors)
        reached = reachable_from(self.successors, [start])
        return frozenset(reached.union(*(self.branches.get(stage, ()) for stage in reached)))

    @cached_property
    def can_exit(self) -> frozenset[str]:
        """The stages from which some exit can be reached."""
        return frozenset(reachable_from(reversed_edges(self.successors), self.exits))

    @cached_property
    def loops(self) -> tuple[tuple[str, ...], ...]:
        """The groups of stages that are on cycles together, each in the order of the file."""
        order = {stage.id: index for index, stage in enumerate(self.workflow.stages)}
        loops = (tuple(sorted(cycle, key=order.__getitem__)) for cycle in find_cycles(self.successors))
        return tuple(sorted(loops, key=lambda loop: order[loop[0]]))


def build_graph(workflow: Workflow) -> Graph:
    """Build the graph of a workflow, even of one with errors: a mistyped target counts as the intended stage."""
    successors: dict[str, list[str]] = {name: [] for name in workflow.by_id}
    branches: dict[str, list[str]] = {}
    for edge in edges(workflow):
        source, target = (_intended_stage(name, workflow.by_id) for name in (edge.source, edge.target))
        if source is None or target is None:
            continue
        targets = branches.setdefault(source, []) if edge.role is EdgeRole.BRANCH else successors[source]
        targets.append(target)
    return Graph(
        workflow,
        {name: tuple(dict.fromkeys(targets)) for name, targets in successors.items()},
        {name: tuple(targets) for name, targets in branches.items()},
    )


def _intended_stage(name: str, ids: Mapping[str, object]) -> str | None:
    return name if name in ids else nearest(name, ids)


def reachable_from(graph: Successors, starts: Iterable[str], blocked: Collection[str] = frozenset()) -> set[str]:
    """Return the starts and all nodes that can be reached from them, without the blocked ones and those behind them."""
    reached = set(starts).difference(blocked)
    pending = list(reached)
    while pending:
        fresh = [node for node in graph[pending.pop()] if node not in reached and node not in blocked]
        reached.update(fresh)
        pending += fresh
    return reached


def reversed_edges(graph: Successors) -> dict[str, list[str]]:
    """Return the graph with all edges turned around."""
    predecessors: dict[str, list[str]] = {node: [] for node in graph}
    for node, targets in graph.items():
        for target in targets:
            predecessors[target].append(node)
    return predecessors


def subgraph(graph: Successors, nodes: Collection[str]) -> dict[str, list[str]]:
    """Return the edges between some of the nodes."""
    return {node: [target for target in graph[node] if target in nodes] for node in nodes}


def find_cycles(graph: Successors) -> Iterator[set[str]]:
    """Yield the strongly connected components that contain a cycle, by Kosaraju's algorithm."""
    predecessors = reversed_edges(graph)
    assigned: set[str] = set()
    for node in reversed(_postorder(graph)):
        if node in assigned:
            continue
        component = reachable_from(predecessors, [node], assigned)
        assigned |= component
        if len(component) > 1 or node in graph[node]:
            yield component


def _postorder(graph: Successors) -> list[str]:
    """Return the nodes in the order in which a depth-first search leaves them."""
    seen: set[str] = set()
    order: list[str] = []
    for start in graph:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(graph[start]))]
        while path:
            node, targets = path[-1]
            target = next((target for target in targets if target not in seen), None)
            if target is None:
                order.append(node)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(graph[target])))
    return order

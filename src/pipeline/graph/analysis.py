"""Where the ways of a graph lead. Written out, since loading networkx takes longer than checking a workflow does."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import ExitStage, Workflow
from pipeline.text import nearest

Successors = Mapping[str, Sequence[str]]  # from each node, where its ways lead


def reachable_from(ways: Successors, starts: Iterable[str], shut: Collection[str] = frozenset()) -> set[str]:
    """The starts, and everything that can be come to from them without going through what is shut."""
    seen = set(starts)
    ahead = list(seen)
    while ahead:
        fresh = [node for node in ways[ahead.pop()] if node not in seen and node not in shut]
        seen.update(fresh)
        ahead += fresh
    return seen


def reversed_edges(ways: Successors) -> dict[str, list[str]]:
    """The same ways, walked backwards."""
    back: dict[str, list[str]] = {node: [] for node in ways}
    for node, targets in ways.items():
        for target in targets:
            back[target].append(node)
    return back


def subgraph(ways: Successors, nodes: Collection[str]) -> dict[str, list[str]]:
    """The ways between some of the nodes."""
    return {node: [target for target in ways[node] if target in nodes] for node in nodes}


def find_cycles(ways: Successors) -> Iterator[set[str]]:
    """The largest groups of nodes each of which can be come to from every other, and from itself."""
    back = reversed_edges(ways)
    placed: set[str] = set()
    for node in reversed(postorder(ways, ways)):
        if node in placed:
            continue
        group = reachable_from(back, [node], placed)
        placed |= group
        if len(group) > 1 or node in ways[node]:
            yield group


def postorder(ways: Successors, starts: Iterable[str]) -> list[str]:
    """The nodes in the order in which a depth-first walk from the starts leaves them for good."""
    seen: set[str] = set()
    order: list[str] = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        trail = [(start, iter(ways[start]))]
        while trail:
            node, ahead = trail[-1]
            target = next((target for target in ahead if target not in seen), None)
            if target is None:
                order.append(node)
                trail.pop()
            else:
                seen.add(target)
                trail.append((target, iter(ways[target])))
    return order


def dominators(ways: Successors, start: str) -> dict[str, str]:
    """Of each node that can be come to, the nearest other one that every way from the start to it goes through.

    The start is its own. The algorithm is Cooper, Harvey and Kennedy's "A Simple, Fast Dominance Algorithm".
    """
    order = postorder(ways, [start])
    rank = {node: index for index, node in enumerate(order)}
    before = reversed_edges(subgraph(ways, rank))
    above = {start: start}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [other for other in before[node] if other in above]
            meeting = known[0]
            for other in known[1:]:
                meeting = _common_dominator(above, rank, meeting, other)
            if above.get(node) != meeting:
                above[node] = meeting
                changed = True
    return above


def _common_dominator(above: Mapping[str, str], rank: Mapping[str, int], one: str, other: str) -> str:
    while one != other:
        while rank[one] < rank[other]:
            one = above[one]
        while rank[other] < rank[one]:
            other = above[other]
    return one


@dataclass(frozen=True)
class Graph:
    """Stages as nodes, joined by the ways the cursor goes; a parallel stage's branches hang beside them."""

    workflow: Workflow
    ways: Successors
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
        start = _intended_stage(self.workflow.start, self.workflow.by_id)
        if not start:
            return frozenset(self.ways)  # told by the rule about the start
        walked = reachable_from(self.ways, [start])
        return frozenset(walked.union(*(self.branches.get(stage, ()) for stage in walked & self.branches.keys())))

    @cached_property
    def can_exit(self) -> frozenset[str]:
        """The stages from which some exit can be reached."""
        return frozenset(reachable_from(reversed_edges(self.ways), self.exits))

    @cached_property
    def loops(self) -> tuple[tuple[str, ...], ...]:
        """The groups of stages that lie on cycles together, each in the order of the file."""
        order = {stage.id: index for index, stage in enumerate(self.workflow.stages)}
        ordered = (tuple(sorted(cycle, key=order.__getitem__)) for cycle in find_cycles(self.ways))
        return tuple(sorted(ordered, key=lambda loop: order[loop[0]]))


def build_graph(workflow: Workflow) -> Graph:
    """The graph of a workflow, also of one with errors: a mistyped target counts as the stage that was meant."""
    ids = workflow.by_id
    ways: dict[str, dict[str, None]] = {name: {} for name in ids}
    branches: dict[str, list[str]] = {}
    for edge in edges(workflow):
        source, target = (_intended_stage(name, ids) for name in (edge.source, edge.target))
        if source is None or target is None:
            continue
        if edge.role is EdgeRole.BRANCH:
            branches.setdefault(source, []).append(target)
        else:
            ways[source][target] = None
    led = {name: tuple(targets) for name, targets in ways.items()}
    return Graph(workflow, led, {stage: tuple(names) for stage, names in branches.items()})


def _intended_stage(name: str, ids: Mapping[str, object]) -> str | None:
    return name if name in ids else nearest(name, ids)

"""The order in which a graph reads: what leads on, what leads back, and how far each node is from the start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx


@dataclass(frozen=True, slots=True)
class Flow:
    """A graph without its ways back, put in order. Every link that does not lead back goes to a later layer."""

    order: tuple[str, ...]
    layer: Mapping[str, int]
    back: frozenset[tuple[str, str]]
    spine: tuple[str, ...]  # the longest way from the start to an end

    def leads_back(self, source: str, target: str) -> bool:
        """Whether a link goes to where the flow has been."""
        return source == target or (source, target) in self.back


def flow(nodes: Iterable[str], links: Iterable[tuple[str, str]], start: str) -> Flow:
    """The flow of a graph from its start; what cannot be reached from there comes after."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from((start, *nodes))
    graph.add_edges_from((source, target) for source, target in links if source != target)
    ends = {node for node in graph if not graph.out_degree(node)}
    seen = {node: index for index, node in enumerate(nx.dfs_preorder_nodes(graph))}
    back = _ways_back(graph)
    graph.remove_edges_from(back)
    order = tuple(nx.lexicographical_topological_sort(graph, seen.__getitem__))
    return Flow(order, _layers(graph, order, start), back, _spine(graph, order, start, ends))


def _ways_back(graph: "nx.DiGraph[str]") -> frozenset[tuple[str, str]]:
    """The links to a node that the depth-first search is still inside of."""
    inside: set[str] = set()
    back = set()
    for source, target, what in nx.dfs_labeled_edges(graph):
        if what == "forward":
            inside.add(target)
        elif what == "reverse":
            inside.discard(target)
        elif target in inside:
            back.add((source, target))
    return frozenset(back)


def _layers(graph: "nx.DiGraph[str]", order: tuple[str, ...], start: str) -> Mapping[str, int]:
    layer = {node: index for index, nodes in enumerate(nx.topological_generations(graph)) for node in nodes}
    for node in reversed(order):
        if node != start and not graph.in_degree(node) and graph.out_degree(node):
            layer[node] = min(layer[after] for after in graph.successors(node)) - 1  # close to what it leads to
    return layer


def _spine(graph: "nx.DiGraph[str]", order: tuple[str, ...], start: str, ends: set[str]) -> tuple[str, ...]:
    after: dict[str, str] = {}
    length = dict.fromkeys(ends, 0)
    for node in reversed(order):
        ahead = [other for other in graph.successors(node) if other in length]
        if ahead:
            after[node] = max(ahead, key=length.__getitem__)
            length[node] = length[after[node]] + 1
    spine = [start]
    while spine[-1] in after:
        spine.append(after[spine[-1]])
    return tuple(spine)

"""Where the boxes of a drawing go: the first half of a layered layout after Sugiyama, Tagawa and Toda.

1. `assign_layers` finds the edges that lead back and puts every box below all boxes that lead to it.
2. `build_rows` gives each layer a row for its boxes and a row for the labels below them. An edge gets an item in every
   row that it passes, so that nothing else is placed on it.
3. `reduce_crossings` orders the items of each row by the barycenter of their neighbors.
4. `assign_columns` aligns the items that should be joined by a straight line and moves them toward their neighbors.

The second half, which routes the edges, is in `layout`.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

import networkx as nx

LOOP, LOOP_STEP = 14.0, 10.0  # the distance of a self-loop from its box, and of the next one from that

_MAX_DUMMIES = 40_000  # the longest edges beyond this go around the side, where their length costs nothing
_BOX_MARGIN, _LABEL_MARGIN, _LINE_MARGIN = 20.0, 9.0, 11.0
_SWEEPS = 12  # to reduce crossings
_MAX_ROUNDS = 60  # of moving columns
_ARRIVAL_WEIGHT = 6  # how much more the end of an edge counts than its beginning


class Size(NamedTuple):
    """A width and a height."""

    width: float
    height: float


NO_SIZE = Size(0, 0)


@dataclass(frozen=True, slots=True)
class LayoutEdge:
    """An edge from one box to another, and the size of its label."""

    source: str
    target: str
    label: Size = NO_SIZE


@dataclass(frozen=True, slots=True)
class Layering:
    """The layers of a graph. Every edge leads to a later layer, except those that lead back."""

    order: tuple[str, ...]  # a topological order
    layer: Mapping[str, int]
    back: frozenset[tuple[str, str]]  # self-loops included
    main_path: tuple[str, ...]  # the longest path from the start to an end


def assign_layers(nodes: Iterable[str], edges: Iterable[tuple[str, str]], start: str) -> Layering:
    """Layer a graph from its start; what cannot be reached from there comes last."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from((start, *nodes))
    graph.add_edges_from(edges)
    ends = {node for node in graph if graph[node].keys() <= {node}}
    visited = {node: index for index, node in enumerate(nx.dfs_preorder_nodes(graph))}
    back = _back_edges(graph)
    graph.remove_edges_from(back)
    order = tuple(nx.lexicographical_topological_sort(graph, visited.__getitem__))
    layer = {node: index for index, layer in enumerate(nx.topological_generations(graph)) for node in layer}
    for node in reversed(order):
        if node != start and not graph.in_degree(node) and graph.out_degree(node):
            layer[node] = min(layer[after] for after in graph[node]) - 1  # close to what it leads to
    return Layering(order, layer, back, _main_path(graph, order, start, ends))


def _back_edges(graph: "nx.DiGraph[str]") -> frozenset[tuple[str, str]]:
    """Return the edges to a node that the depth-first search has not left yet."""
    unfinished: set[str] = set()
    back = set()
    for source, target, kind in nx.dfs_labeled_edges(graph):
        if kind == "forward":
            unfinished.add(target)
        elif kind == "reverse":
            unfinished.discard(target)
        elif target in unfinished:
            back.add((source, target))
    return frozenset(back)


def _main_path(graph: "nx.DiGraph[str]", order: Sequence[str], start: str, ends: Iterable[str]) -> tuple[str, ...]:
    """Return the longest path from the start to an end, through a graph without cycles."""
    following: dict[str, str] = {}
    length = dict.fromkeys(ends, 0)
    for node in reversed(order):
        candidates = [other for other in graph[node] if other in length]
        if candidates:
            following[node] = max(candidates, key=length.__getitem__)
            length[node] = length[following[node]] + 1
    path = [start]
    while path[-1] in following:
        path.append(following[path[-1]])
    return tuple(path)


@dataclass(frozen=True, slots=True)
class RowItem:
    """A box, a label, or the dummy that keeps room for a passing edge. `left` and `right` include its margins."""

    row: int
    left: float
    right: float
    size: Size


@dataclass(frozen=True, slots=True)
class Rows:
    """Items by number, and the rows they are in: boxes in the even rows, labels in the odd ones, dummies in both."""

    items: tuple[RowItem, ...]
    rows: tuple[tuple[int, ...], ...]  # from left to right
    box: Mapping[str, int]  # the item of each box
    chains: Mapping[int, tuple[int, ...]]  # by edge that leads down: its items, from the upper box to the lower one
    around: tuple[int, ...]  # the edges that go around the side
    main: tuple[int, ...]  # the edges to be straight before all others


def self_loops(edges: Sequence[LayoutEdge]) -> dict[str, list[int]]:
    """Return the edges from each box to itself."""
    loops: dict[str, list[int]] = {}
    for index, edge in enumerate(edges):
        if edge.source == edge.target:
            loops.setdefault(edge.source, []).append(index)
    return loops


def build_rows(boxes: Mapping[str, Size], edges: Sequence[LayoutEdge], layering: Layering) -> Rows:
    """Put boxes into the rows of their layers, and edges into all rows that they pass."""
    items: list[RowItem] = []
    box: dict[str, int] = {}
    loops = self_loops(edges)
    for name in layering.order:
        half = boxes[name].width / 2 + _BOX_MARGIN
        labels = [edges[index].label for index in loops.get(name, ())]
        reach = LOOP + LOOP_STEP * len(labels) + max(label.width for label in labels) if labels else 0.0
        box[name] = len(items)
        items.append(RowItem(2 * layering.layer[name], half, half + reach, boxes[name]))
    chains: dict[int, tuple[int, ...]] = {}
    for index in _passing_edges(edges, layering):
        edge = edges[index]
        first, last = 2 * layering.layer[edge.source] + 1, 2 * layering.layer[edge.target]
        chains[index] = (box[edge.source], *range(len(items), len(items) + last - first), box[edge.target])
        for row in range(first, last):
            label = edge.label if row == first else NO_SIZE
            half = label.width / 2 + _LABEL_MARGIN if label.width else _LINE_MARGIN
            items.append(RowItem(row, half, half, label))
    around = (index for index, edge in enumerate(edges) if index not in chains and edge.source != edge.target)
    rows: list[list[int]] = [[] for _ in range(2 * max(layering.layer.values()) + 1)]
    for item in _initial_order(edges, layering, box, chains):
        rows[items[item].row].append(item)
    first_edge = {(edge.source, edge.target): index for index, edge in reversed(list(enumerate(edges)))}
    main = (first_edge[step] for step in pairwise(layering.main_path))
    return Rows(tuple(items), tuple(map(tuple, rows)), box, chains, tuple(around), tuple(main))


def _passing_edges(edges: Sequence[LayoutEdge], layering: Layering) -> list[int]:
    """Return the edges that lead down through the rows, the shortest ones if there are too many."""
    span = {
        index: layering.layer[edge.target] - layering.layer[edge.source]
        for index, edge in enumerate(edges)
        if (edge.source, edge.target) not in layering.back
    }
    room, passing = _MAX_DUMMIES, []
    for index in sorted(span, key=span.__getitem__):
        room -= 2 * span[index] - 1
        if room >= 0:
            passing.append(index)
    return sorted(passing)


def _initial_order(
    edges: Sequence[LayoutEdge], layering: Layering, box: Mapping[str, int], chains: Mapping[int, tuple[int, ...]]
) -> Iterator[int]:
    """Yield all items, those of the main path first."""
    main = set(layering.main_path)
    leaving: dict[str, list[int]] = {}
    for index in sorted(chains, key=lambda index: not {edges[index].source, edges[index].target} <= main):
        leaving.setdefault(edges[index].source, []).append(index)
    for name in (*layering.main_path, *(name for name in layering.order if name not in main)):
        yield box[name]
        for index in leaving.get(name, ()):
            yield from chains[index][1:-1]


Neighbors = Mapping[int, Sequence[int]]


def reduce_crossings(rows: Rows) -> Rows:
    """Order the items of each row: sweep down and up, and keep the order with the fewest crossings."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in rows.chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    best = order = rows.rows
    fewest = _count_crossings(order, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        order = _sweep(order, above) if sweep % 2 == 0 else _sweep(order[::-1], below)[::-1]
        count = _count_crossings(order, below)
        if count < fewest:
            best, fewest = order, count
    return replace(rows, rows=best)


def _sweep(rows: Sequence[tuple[int, ...]], neighbors: Neighbors) -> tuple[tuple[int, ...], ...]:
    """Sort each row by the mean position (the barycenter) of its neighbors in the row before."""
    swept: list[tuple[int, ...]] = []
    position: dict[int, float] = {}
    for row in rows:
        position |= _relative_positions(row)
        barycenter = {
            item: sum(position[other] for other in neighbors[item]) / len(neighbors[item])
            if item in neighbors
            else position[item]
            for item in row
        }
        swept.append(tuple(sorted(row, key=barycenter.__getitem__)))
        position |= _relative_positions(swept[-1])
    return tuple(swept)


def _relative_positions(row: Sequence[int]) -> dict[int, float]:
    return {item: (place + 0.5) / len(row) for place, item in enumerate(row)}


def _count_crossings(rows: Sequence[Sequence[int]], below: Neighbors) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        position = {item: index for index, item in enumerate(lower)}
        seen: list[int] = []  # where the edges further left end, sorted
        for item in upper:
            ends = [position[other] for other in below.get(item, ())]
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count


def assign_columns(rows: Rows) -> list[float]:
    """Return the x of every item. Aligned items share one, and the items of a row keep their order and distance."""
    column = _align(rows)
    gaps = _column_gaps(rows, column)
    left = {c: [(other, edge["gap"]) for other, edge in gaps.pred[c].items()] for c in gaps}
    right = {c: [(other, edge["gap"]) for other, edge in gaps.succ[c].items()] for c in gaps}
    pulls = _pulls(rows, column)
    x: dict[int, float] = {}

    def leftmost(c: int, default: float) -> float:
        return max((x[other] + gap for other, gap in left[c]), default=default)

    order = list(nx.topological_sort(gaps))
    for c in order:
        x[c] = leftmost(c, 0.0)
    moving = [c for c in order if c in pulls]
    unconnected = [c for c in order if c not in pulls and not right[c]]
    x |= dict.fromkeys(unconnected, inf)  # out of the way of the others, until those have moved
    for _ in range(_MAX_ROUNDS):  # move columns to the mean of those they are drawn to, as far as their neighbors allow
        before = [x[c] for c in moving]
        for c in (*reversed(moving), *moving):
            wanted = sum(x[other] for other in pulls[c]) / len(pulls[c])
            rightmost = min((x[other] - gap for other, gap in right[c]), default=inf)
            x[c] = max(leftmost(c, -inf), min(rightmost, wanted))
        if all(abs(x[c] - old) < 1 for c, old in zip(moving, before, strict=True)):
            break
    for c in unconnected:
        x[c] = leftmost(c, 0.0)
    return [x[c] for c in column]


def _align(rows: Rows) -> list[int]:
    """Return the column of every item, named after the topmost item in it."""
    place = {item: index for row in rows.rows for index, item in enumerate(row)}
    above: dict[int, int] = {}
    accepted: dict[int, list[tuple[int, int]]] = {}  # by row: pairs of places, none of which cross
    taken: set[int] = set()
    for upper, lower in _straight_pairs(rows):
        pairs = accepted.setdefault(rows.items[upper].row, [])
        at = place[upper], place[lower]
        if upper in taken or lower in above or any((at[0] < one) != (at[1] < other) for one, other in pairs):
            continue
        pairs.append(at)
        above[lower] = upper
        taken.add(upper)
    column = list(range(len(rows.items)))
    for row in rows.rows:
        for item in row:
            column[item] = column[above.get(item, item)]
    return column


def _straight_pairs(rows: Rows) -> Iterator[tuple[int, int]]:
    """Yield the pairs to align, by precedence: the main path, the inside of long edges, then boxes with one edge."""
    for index in rows.main:
        yield from pairwise(rows.chains.get(index, ()))
    for chain in rows.chains.values():
        yield from pairwise(chain[1:-1])
    leaving = Counter(chain[0] for chain in rows.chains.values())
    entering = Counter(chain[-1] for chain in rows.chains.values())
    for chain in rows.chains.values():
        if leaving[chain[0]] == 1:
            yield chain[0], chain[1]
        if entering[chain[-1]] == 1:
            yield chain[-2], chain[-1]


def _column_gaps(rows: Rows, column: Sequence[int]) -> "nx.DiGraph[int]":
    """Return the least distance from each column to those right of it."""
    gaps: nx.DiGraph[int] = nx.DiGraph()
    gaps.add_nodes_from(column)
    for row in rows.rows:
        for left, right in pairwise(row):
            ends = column[left], column[right]
            gap = rows.items[left].right + rows.items[right].left
            if not gaps.has_edge(*ends) or gaps.edges[ends]["gap"] < gap:
                gaps.add_edge(*ends, gap=gap)
    return gaps


def _pulls(rows: Rows, column: Sequence[int]) -> dict[int, list[int]]:
    """Return what columns each column is drawn to, mostly those where its edges arrive: then they bend only once."""
    pulls: dict[int, list[int]] = {}
    for chain in rows.chains.values():
        for upper, lower in pairwise(chain):
            one, other = column[upper], column[lower]
            if one != other:
                pulls.setdefault(one, []).extend([other] * (_ARRIVAL_WEIGHT if lower == chain[-1] else 1))
                pulls.setdefault(other, []).append(one)
    return pulls

"""The sizes, places and lines a layout is asked for and answers with. The y axis points down."""

from bisect import bisect, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import NamedTuple

import networkx as nx


class Size(NamedTuple):
    """How much room something takes."""

    width: float
    height: float


NO_SIZE = Size(0, 0)


class Point(NamedTuple):
    """A place."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower side."""
        return self.y + self.height

    @property
    def centre(self) -> Point:
        """Its middle."""
        return Point(self.x + self.width / 2, self.y + self.height / 2)

    def overlaps(self, other: "Box") -> bool:
        """Whether the two share more than an edge."""
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom


def around(middle: Point, size: Size) -> Box:
    """The box of a size around a point."""
    return Box(middle.x - size.width / 2, middle.y - size.height / 2, size.width, size.height)


@dataclass(frozen=True, slots=True)
class LayoutEdge:
    """A line to be led from one box to another, with room for its label."""

    source: str
    target: str
    label: Size = NO_SIZE


@dataclass(frozen=True, slots=True)
class EdgePath:
    """How a line runs: straight where two points share a coordinate, else bent within the rectangle they span."""

    points: tuple[Point, ...]
    label: Box | None
    back: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A finished arrangement: every box in its place, and one route for each link, in their order."""

    size: Size
    boxes: Mapping[str, Box]
    routes: tuple[EdgePath, ...]


@dataclass(frozen=True, slots=True)
class Layering:
    """A graph without its ways back, put in order. Every link that does not lead back goes to a later layer."""

    order: tuple[str, ...]
    layer: Mapping[str, int]
    back: frozenset[tuple[str, str]]
    spine: tuple[str, ...]  # the longest way from the start to an end

    def leads_back(self, source: str, target: str) -> bool:
        """Whether a link goes to where the flow has been."""
        return source == target or (source, target) in self.back


def flow(nodes: Iterable[str], links: Iterable[tuple[str, str]], start: str) -> Layering:
    """The flow of a graph from its start; what cannot be reached from there comes after."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from((start, *nodes))
    graph.add_edges_from((source, target) for source, target in links if source != target)
    ends = {node for node in graph if not graph.out_degree(node)}
    seen = {node: index for index, node in enumerate(nx.dfs_preorder_nodes(graph))}
    back = _back_edges(graph)
    graph.remove_edges_from(back)
    order = tuple(nx.lexicographical_topological_sort(graph, seen.__getitem__))
    return Layering(order, _layers(graph, order, start), back, _longest_path(graph, order, start, ends))


def _back_edges(graph: "nx.DiGraph[str]") -> frozenset[tuple[str, str]]:
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


def _longest_path(graph: "nx.DiGraph[str]", order: tuple[str, ...], start: str, ends: set[str]) -> tuple[str, ...]:
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


MAX_PASSING = 40_000  # items; lines beyond it go around the side, where their length costs nothing
LOOP, LOOP_STEP = 14.0, 10.0  # how far a line from a box to itself stands out, and the next one beyond it

_BOX_MARGIN, _LABEL_MARGIN, _LINE_MARGIN = 20.0, 9.0, 11.0


@dataclass(frozen=True, slots=True)
class RowItem:
    """What stands in a row: a box, a label, or the place where a line passes. The margins are part of its reach."""

    row: int
    left: float
    right: float
    size: Size


@dataclass(frozen=True, slots=True)
class Rows:
    """Items in rows, each row in its order from left to right."""

    items: tuple[RowItem, ...]
    rows: tuple[tuple[int, ...], ...]
    box: Mapping[str, int]  # the item of each box
    chains: Mapping[int, tuple[int, ...]]  # the items each line passes, from the upper box to the lower one
    around: tuple[int, ...]  # the links led around the side
    spine: frozenset[int]  # the links kept straight before all others


def rows(boxes: Mapping[str, Size], links: Sequence[LayoutEdge], flow: Layering) -> Rows:
    """Put boxes into the rows of their layers, and lines into the rows between."""
    items: list[RowItem] = []
    reach = {name: _reach([links[index].label for index in own]) for name, own in loops(links).items()}
    box = {name: _add(items, _box(boxes[name], flow.layer[name], reach.get(name, 0.0))) for name in flow.order}
    passing, around = _split_edges(links, flow)
    chains = {index: _chain(index, links, flow, items, box) for index in passing}
    height = 2 * max(flow.layer.values()) + 1
    ordered: list[list[int]] = [[] for _ in range(height)]
    for index in _initial_order(flow, links, box, chains):
        ordered[items[index].row].append(index)
    return Rows(tuple(items), tuple(map(tuple, ordered)), box, chains, around, _main_edges(links, flow))


def _add(items: list[RowItem], item: RowItem) -> int:
    items.append(item)
    return len(items) - 1


def loops(links: Sequence[LayoutEdge]) -> dict[str, list[int]]:
    """The links from each box to itself."""
    found: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        if link.source == link.target:
            found.setdefault(link.source, []).append(index)
    return found


def _reach(looping: Sequence[Size]) -> float:
    """How far lines from a box to itself stand out of it, side by side, with their labels outside of them all."""
    return LOOP + LOOP_STEP * len(looping) + max(label.width for label in looping) if looping else 0.0


def _box(size: Size, layer: int, reach: float) -> RowItem:
    half = size.width / 2 + _BOX_MARGIN
    return RowItem(2 * layer, half, half + reach, size)


def _split_edges(links: Sequence[LayoutEdge], flow: Layering) -> tuple[list[int], tuple[int, ...]]:
    """The links that pass through the rows, and those that go around: ways back, and the longest of too many."""
    onward = [i for i, link in enumerate(links) if not flow.leads_back(link.source, link.target)]
    room, passing = MAX_PASSING, []
    for index in sorted(onward, key=lambda i: _span(links[i], flow)):
        room -= 2 * _span(links[index], flow) - 1
        if room >= 0:
            passing.append(index)
    through = set(passing)
    around = (i for i, link in enumerate(links) if i not in through and link.source != link.target)
    return sorted(passing), tuple(around)


def _span(link: LayoutEdge, flow: Layering) -> int:
    return flow.layer[link.target] - flow.layer[link.source]


def _chain(
    index: int, links: Sequence[LayoutEdge], flow: Layering, items: list[RowItem], box: Mapping[str, int]
) -> tuple[int, ...]:
    link = links[index]
    first, last = 2 * flow.layer[link.source] + 1, 2 * flow.layer[link.target]
    label = _add(items, _passing(first, link.label))
    return (
        box[link.source],
        label,
        *(_add(items, _passing(row, NO_SIZE)) for row in range(first + 1, last)),
        box[link.target],
    )


def _passing(row: int, label: Size) -> RowItem:
    half = label.width / 2 + _LABEL_MARGIN if label.width else _LINE_MARGIN
    return RowItem(row, half, half, label)


def _initial_order(
    flow: Layering, links: Sequence[LayoutEdge], box: Mapping[str, int], chains: Mapping[int, tuple[int, ...]]
) -> list[int]:
    """All items as a walk meets them that follows the spine first: the first guess of the order in the rows."""
    leaving: dict[str, list[int]] = {}
    main = set(flow.spine)
    for index in sorted(chains, key=lambda i: not {links[i].source, links[i].target} <= main):
        leaving.setdefault(links[index].source, []).append(index)
    met = []
    for name in (*flow.spine, *(name for name in flow.order if name not in main)):
        met.append(box[name])
        for index in leaving.get(name, ()):
            met += chains[index][1:-1]
    return met


def _main_edges(links: Sequence[LayoutEdge], flow: Layering) -> frozenset[int]:
    steps = dict.fromkeys(pairwise(flow.spine), -1)
    for index, link in reversed(list(enumerate(links))):
        if (link.source, link.target) in steps:
            steps[link.source, link.target] = index
    return frozenset(steps.values())


_SWEEPS = 12
_MAX_SWEEP_WORK = 1_500_000  # lines looked at in all sweeps together

Neighbors = Mapping[int, Sequence[int]]
Order = list[list[int]]


def ordered(rows: Rows) -> tuple[tuple[int, ...], ...]:
    """The rows in the order with the fewest crossings that a number of sweeps has come upon."""
    above, below = neighbours(rows)
    order = [list(row) for row in rows.rows]
    best, fewest = order, crossings(order, below)
    for sweep in range(_rounds(rows)):
        if not fewest:
            break
        order = _sweep(order, above, below, down=sweep % 2 == 0)
        count = crossings(order, below)
        if count < fewest:
            best, fewest = order, count
    return tuple(map(tuple, best))


def neighbours(rows: Rows) -> tuple[Neighbors, Neighbors]:
    """The items each item is joined with in the row above, and in the row below."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in rows.chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def crossings(order: Sequence[Sequence[int]], below: Neighbors) -> int:
    """How many pairs of lines cross between the rows."""
    return sum(_between(upper, lower, below) for upper, lower in pairwise(order))


def _between(upper: Sequence[int], lower: Sequence[int], below: Neighbors) -> int:
    at = {item: index for index, item in enumerate(lower)}
    seen: list[int] = []
    count = 0
    for item in upper:
        ends = sorted(at[other] for other in below.get(item, ()))
        count += sum(len(seen) - bisect_right(seen, end) for end in ends)
        for end in ends:
            insort(seen, end)
    return count


def _rounds(rows: Rows) -> int:
    lines = sum(map(len, rows.chains.values())) or 1
    return max(2, min(_SWEEPS, _MAX_SWEEP_WORK // lines))


def _sweep(order: Order, above: Neighbors, below: Neighbors, *, down: bool) -> Order:
    """One pass: each row sorted by the mean place of its neighbours in the row before."""
    towards = above if down else below
    swept: Order = []
    at: dict[int, float] = {}
    for row in order if down else reversed(order):
        here = _places(row)
        swept.append(sorted(row, key=lambda item: _mean(item, towards, at, here)))
        at = _places(swept[-1])
    return swept if down else swept[::-1]


def _places(row: Sequence[int]) -> dict[int, float]:
    return {item: (place + 0.5) / len(row) for place, item in enumerate(row)}


def _mean(item: int, towards: Neighbors, at: Mapping[int, float], here: Mapping[int, float]) -> float:
    joined = towards.get(item)
    return sum(at[other] for other in joined) / len(joined) if joined else here[item]


_ROUNDS = 60
_ARRIVING = 6  # how much more the end of a line counts than its beginning
_MAX_MOVES = 2_000_000  # moves in all rounds together

Pair = tuple[int, int]


def columns(rows: Rows, order: Sequence[Sequence[int]]) -> list[float]:
    """The x of every item."""
    column = _align(rows, order)
    apart = _distances(rows, order, column)
    settled = _Settling(column, apart, rows)
    return [settled.x[column[item]] for item in range(len(rows.items))]


def _align(rows: Rows, order: Sequence[Sequence[int]]) -> list[int]:
    """The column of every item: the topmost item it hangs under by straight lines."""
    place = {item: index for row in order for index, item in enumerate(row)}
    column = list(range(len(rows.items)))
    hanging = _straight_edges(rows, place)
    for row in order:
        for item in row:
            if item in hanging:
                column[item] = column[hanging[item]]
    return column


def _straight_edges(rows: Rows, place: Mapping[int, int]) -> dict[int, int]:
    """Which item hangs straight under which: the better claim first, and never two that cross."""
    hanging: dict[int, int] = {}
    taken: set[int] = set()
    accepted: dict[int, list[Pair]] = {}
    for upper, lower in _claims(rows):
        between = accepted.setdefault(rows.items[upper].row, [])
        pair = (place[upper], place[lower])
        if upper not in taken and lower not in hanging and _fits(pair, between):
            between.insert(bisect(between, pair), pair)
            hanging[lower] = upper
            taken.add(upper)
    return hanging


def _fits(pair: Pair, accepted: Sequence[Pair]) -> bool:
    at = bisect(accepted, pair)
    return (at == 0 or accepted[at - 1][1] < pair[1]) and (at == len(accepted) or pair[1] < accepted[at][1])


def _claims(rows: Rows) -> Iterator[Pair]:
    """Pairs of joined items that want to be straight: the spine, the inside of long lines, then lone ways."""
    spine = [rows.chains[index] for index in sorted(rows.spine) if index in rows.chains]
    inside = [chain[1:-1] for chain in rows.chains.values()]
    for chain in (*spine, *inside):
        yield from pairwise(chain)
    out, into = _degrees(rows)
    for chain in rows.chains.values():
        if out[chain[0]] == 1:
            yield chain[0], chain[1]
        if into[chain[-1]] == 1:
            yield chain[-2], chain[-1]


def _degrees(rows: Rows) -> tuple[list[int], list[int]]:
    out, into = [0] * len(rows.items), [0] * len(rows.items)
    for chain in rows.chains.values():
        out[chain[0]] += 1
        into[chain[-1]] += 1
    return out, into


def _distances(rows: Rows, order: Sequence[Sequence[int]], column: Sequence[int]) -> "nx.DiGraph[int]":
    """From each column to those right of it, with the least distance their items need."""
    apart: nx.DiGraph[int] = nx.DiGraph()
    apart.add_nodes_from(column)
    for row in order:
        for left, right in pairwise(row):
            ends = column[left], column[right]
            least = rows.items[left].right + rows.items[right].left
            if not apart.has_edge(*ends) or apart.edges[ends]["least"] < least:
                apart.add_edge(*ends, least=least)
    return apart


class _Settling:
    """Columns that start as far left as they can and move by turns to the middle of what they are joined with."""

    def __init__(self, column: Sequence[int], apart: "nx.DiGraph[int]", rows: Rows) -> None:
        self.left = {c: [(o, d["least"]) for o, d in apart.pred[c].items()] for c in apart}
        self.right = {c: [(o, d["least"]) for o, d in apart.succ[c].items()] for c in apart}
        self.pulls = _pulls(column, rows.chains.values())
        order = list(nx.topological_sort(apart))
        self.x: dict[int, float] = {}
        for c in order:
            self.x[c] = max((self.x[other] + least for other, least in self.left[c]), default=0.0)
        self._settle(order)

    def _settle(self, order: list[int]) -> None:
        moving = [c for c in order if c in self.pulls]
        aside = [c for c in order if c not in self.pulls and not self.right[c]]
        self.x |= dict.fromkeys(aside, inf)  # joined with nothing: they make room first, and follow at the end
        moves = sum(len(self.pulls[c]) for c in moving) or 1
        for _ in range(max(3, min(_ROUNDS, _MAX_MOVES // moves))):
            before = [self.x[c] for c in moving]
            for c in (*reversed(moving), *moving):
                self._move(c)
            if all(abs(self.x[c] - x) < 1 for c, x in zip(moving, before, strict=True)):
                break
        for c in aside:
            self.x[c] = max((self.x[other] + least for other, least in self.left[c]), default=0.0)

    def _move(self, c: int) -> None:
        pulls = self.pulls[c]
        wanted = sum(self.x[other] for other in pulls) / len(pulls)
        least = max((self.x[other] + gap for other, gap in self.left[c]), default=-inf)
        most = min((self.x[other] - gap for other, gap in self.right[c]), default=inf)
        self.x[c] = max(least, min(most, wanted))


def _pulls(column: Sequence[int], chains: Iterable[Sequence[int]]) -> dict[int, list[int]]:
    """The columns each column is joined with; a line is drawn to where it arrives, so that it bends but once."""
    pulls: dict[int, list[int]] = {}
    for chain in chains:
        for upper, lower in pairwise(chain):
            one, other = column[upper], column[lower]
            if one != other:
                pulls.setdefault(one, []).extend([other] * (_ARRIVING if lower == chain[-1] else 1))
                pulls.setdefault(other, []).append(one)
    return pulls

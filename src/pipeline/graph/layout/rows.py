"""The rows of a layered picture: boxes in the even rows, labels in the odd ones, lines passing through both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.graph.layout.flow import Flow
from pipeline.graph.layout.geometry import NOTHING, Link, Size

MAX_PASSING = 40_000  # items; lines beyond it go around the side, where their length costs nothing
LOOP, LOOP_STEP = 14.0, 10.0  # how far a line from a box to itself stands out, and the next one beyond it

_BOX_MARGIN, _LABEL_MARGIN, _LINE_MARGIN = 20.0, 9.0, 11.0


@dataclass(frozen=True, slots=True)
class Item:
    """What stands in a row: a box, a label, or the place where a line passes. The margins are part of its reach."""

    row: int
    left: float
    right: float
    size: Size


@dataclass(frozen=True, slots=True)
class Rows:
    """Items in rows, each row in its order from left to right."""

    items: tuple[Item, ...]
    rows: tuple[tuple[int, ...], ...]
    box: Mapping[str, int]  # the item of each box
    chains: Mapping[int, tuple[int, ...]]  # the items each line passes, from the upper box to the lower one
    around: tuple[int, ...]  # the links led around the side
    spine: frozenset[int]  # the links kept straight before all others


def rows(boxes: Mapping[str, Size], links: Sequence[Link], flow: Flow) -> Rows:
    """Put boxes into the rows of their layers, and lines into the rows between."""
    items: list[Item] = []
    reach = {name: _reach([links[index].label for index in own]) for name, own in loops(links).items()}
    box = {name: _add(items, _box(boxes[name], flow.layer[name], reach.get(name, 0.0))) for name in flow.order}
    passing, around = _divided(links, flow)
    chains = {index: _chain(index, links, flow, items, box) for index in passing}
    height = 2 * max(flow.layer.values()) + 1
    ordered: list[list[int]] = [[] for _ in range(height)]
    for index in _from_the_start(flow, links, box, chains):
        ordered[items[index].row].append(index)
    return Rows(tuple(items), tuple(map(tuple, ordered)), box, chains, around, _spine(links, flow))


def _add(items: list[Item], item: Item) -> int:
    items.append(item)
    return len(items) - 1


def loops(links: Sequence[Link]) -> dict[str, list[int]]:
    """The links from each box to itself."""
    found: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        if link.source == link.target:
            found.setdefault(link.source, []).append(index)
    return found


def _reach(looping: Sequence[Size]) -> float:
    """How far lines from a box to itself stand out of it, side by side, with their labels outside of them all."""
    return LOOP + LOOP_STEP * len(looping) + max(label.width for label in looping) if looping else 0.0


def _box(size: Size, layer: int, reach: float) -> Item:
    half = size.width / 2 + _BOX_MARGIN
    return Item(2 * layer, half, half + reach, size)


def _divided(links: Sequence[Link], flow: Flow) -> tuple[list[int], tuple[int, ...]]:
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


def _span(link: Link, flow: Flow) -> int:
    return flow.layer[link.target] - flow.layer[link.source]


def _chain(index: int, links: Sequence[Link], flow: Flow, items: list[Item], box: Mapping[str, int]) -> tuple[int, ...]:
    link = links[index]
    first, last = 2 * flow.layer[link.source] + 1, 2 * flow.layer[link.target]
    label = _add(items, _passing(first, link.label))
    return (
        box[link.source],
        label,
        *(_add(items, _passing(row, NOTHING)) for row in range(first + 1, last)),
        box[link.target],
    )


def _passing(row: int, label: Size) -> Item:
    half = label.width / 2 + _LABEL_MARGIN if label.width else _LINE_MARGIN
    return Item(row, half, half, label)


def _from_the_start(
    flow: Flow, links: Sequence[Link], box: Mapping[str, int], chains: Mapping[int, tuple[int, ...]]
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


def _spine(links: Sequence[Link], flow: Flow) -> frozenset[int]:
    steps = dict.fromkeys(pairwise(flow.spine), -1)
    for index, link in reversed(list(enumerate(links))):
        if (link.source, link.target) in steps:
            steps[link.source, link.target] = index
    return frozenset(steps.values())

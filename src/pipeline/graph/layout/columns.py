"""Where the items of each row stand from left to right.

Lines that should be straight bind their items into columns, which then settle near what they are joined with. Columns
never change places: an item keeps its place in its row, at a distance at least.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

import networkx as nx

from pipeline.graph.layout.rows import Rows

_ROUNDS = 60
_ARRIVING = 6  # how much more the end of a line counts than its beginning
_WORK = 2_000_000  # moves in all rounds together

Pair = tuple[int, int]


def columns(rows: Rows, order: Sequence[Sequence[int]]) -> list[float]:
    """The x of every item."""
    column = _bound(rows, order)
    apart = _distances(rows, order, column)
    settled = _Settling(column, apart, rows)
    return [settled.x[column[item]] for item in range(len(rows.items))]


def _bound(rows: Rows, order: Sequence[Sequence[int]]) -> list[int]:
    """The column of every item: the topmost item it hangs under by straight lines."""
    place = {item: index for row in order for index, item in enumerate(row)}
    column = list(range(len(rows.items)))
    hanging = _straight(rows, place)
    for row in order:
        for item in row:
            if item in hanging:
                column[item] = column[hanging[item]]
    return column


def _straight(rows: Rows, place: Mapping[int, int]) -> dict[int, int]:
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
        for _ in range(max(3, min(_ROUNDS, _WORK // moves))):
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

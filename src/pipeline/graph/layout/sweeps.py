"""The order of the items in each row: sweeps down and up the rows that put every item near its neighbours."""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pipeline.graph.layout.rows import Rows

_SWEEPS = 12
_WORK = 1_500_000  # lines looked at in all sweeps together

Neighbours = Mapping[int, Sequence[int]]
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


def neighbours(rows: Rows) -> tuple[Neighbours, Neighbours]:
    """The items each item is joined with in the row above, and in the row below."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in rows.chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def crossings(order: Sequence[Sequence[int]], below: Neighbours) -> int:
    """How many pairs of lines cross between the rows."""
    return sum(_between(upper, lower, below) for upper, lower in pairwise(order))


def _between(upper: Sequence[int], lower: Sequence[int], below: Neighbours) -> int:
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
    return max(2, min(_SWEEPS, _WORK // lines))


def _sweep(order: Order, above: Neighbours, below: Neighbours, *, down: bool) -> Order:
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


def _mean(item: int, towards: Neighbours, at: Mapping[int, float], here: Mapping[int, float]) -> float:
    joined = towards.get(item)
    return sum(at[other] for other in joined) / len(joined) if joined else here[item]

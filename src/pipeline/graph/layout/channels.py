"""Tracks for the pieces of lines that run across, in the strips above and below the rows of boxes.

Two pieces in one strip share a track only where they do not touch. Of those that turn the same way the outer one runs
higher, so that they do not cross.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.graph.layout.lanes import Lane
from pipeline.graph.layout.ports import Ports, Stops
from pipeline.graph.layout.rows import Rows

BENT = 22.0  # a smaller step aside is one soft bend that needs no track

_TRACKS = 40  # in one strip; what comes after shares
_APART = 8.0


class Strip(NamedTuple):
    """The space beside a row of boxes."""

    row: int
    below: bool


class Run(NamedTuple):
    """A piece of a line that runs across."""

    strip: Strip
    start: float
    end: float
    link: int


Tracks = Mapping[Strip, Mapping[int, int]]  # the track of each line in each strip


def strip_between(upper: int, lower: int) -> Strip:
    """The strip in which a line from one row to a lower one steps aside."""
    return Strip(lower, below=False) if upper % 2 else Strip(upper, below=True)


def tracks(rows: Rows, x: Sequence[float], stops: Stops, lanes: Sequence[Lane], ports: Ports) -> Tracks:
    """A track for every piece that needs one."""
    by_strip: dict[Strip, list[Run]] = {}
    for run in (*_onward(rows, x, stops, ports), *_around(rows, lanes, ports)):
        by_strip.setdefault(run.strip, []).append(run)
    return {strip: _assigned(runs) for strip, runs in by_strip.items()}


def _onward(rows: Rows, x: Sequence[float], stops: Stops, ports: Ports) -> Iterator[Run]:
    for link, chain in stops.items():
        across = [ports.leaving[link], *(x[item] for item in chain[1:-1]), ports.entering[link]]
        for index in range(len(chain) - 1):
            start, end = across[index], across[index + 1]
            if abs(start - end) > BENT:
                strip = strip_between(rows.items[chain[index]].row, rows.items[chain[index + 1]].row)
                yield Run(strip, start, end, link)


def _around(rows: Rows, lanes: Iterable[Lane], ports: Ports) -> Iterator[Run]:
    for lane in lanes:
        if not lane.source_open:
            yield Run(Strip(rows.items[lane.source].row, below=True), ports.leaving[lane.link], lane.x, lane.link)
        if not lane.target_open:
            yield Run(Strip(rows.items[lane.target].row, below=False), lane.x, ports.entering[lane.link], lane.link)


def _assigned(runs: Sequence[Run]) -> Mapping[int, int]:
    rightward = sorted((run for run in runs if run.end > run.start), key=lambda run: -run.start)
    leftward = sorted((run for run in runs if run.end <= run.start), key=lambda run: run.start)
    taken: list[tuple[float, float]] = []
    found: dict[int, int] = {}
    for run in (*rightward, *leftward):
        first, last = sorted((run.start, run.end))
        track = _free(taken, first, last)
        found[run.link] = track
        low, high = taken[track] if track < len(taken) else (first, last)
        taken[track : track + 1] = [(min(low, first), max(high, last))]
    return found


def _free(taken: Sequence[tuple[float, float]], first: float, last: float) -> int:
    for track, (low, high) in enumerate(taken):
        if last + _APART < low or high + _APART < first:
            return track
    return len(taken) if len(taken) < _TRACKS else _TRACKS - 1

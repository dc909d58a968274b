"""How high the rows are and how far apart: above and below each row of boxes lies a strip where lines may run across."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.graph.geometry import Link
from pipeline.graph.lanes import Lane
from pipeline.graph.rows import Rows

_BELOW, _ABOVE = 16.0, 24.0  # room to bend under a row of boxes, and for the arrowhead above one
_TRACK = 10.0

Tracks = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Strips:
    """The y of every row, and of the tracks on which lanes leave or enter a row that hides their box."""

    top: Sequence[float]
    bottom: Sequence[float]
    leaving: Mapping[int, float]  # by link
    entering: Mapping[int, float]
    end: float


def strips(rows: Rows, order: Sequence[Sequence[int]], lanes: Sequence[Lane], links: Sequence[Link]) -> Strips:
    """Stack the rows, with a track for each lane that needs one."""
    under = _tracks((rows.items[lane.source].row, lane.link) for lane in lanes if not lane.source_open)
    over = _tracks((rows.items[lane.target].row, lane.link) for lane in lanes if not lane.target_open)
    top, bottom, end = _stacked(_heights(rows, order, lanes, links), under, over)
    leaving = {link: bottom[row] + _TRACK * at for row, tracks in under.items() for at, link in enumerate(tracks, 1)}
    entering = {link: top[row] - _ABOVE + 8 - _TRACK * at for row, on in over.items() for at, link in enumerate(on)}
    return Strips(top, bottom, leaving, entering, end)


def _tracks(needed: Iterable[tuple[int, int]]) -> Tracks:
    tracks: dict[int, list[int]] = {}
    for row, link in needed:
        tracks.setdefault(row, []).append(link)
    return tracks


def _heights(
    rows: Rows, order: Sequence[Sequence[int]], lanes: Sequence[Lane], links: Sequence[Link]
) -> Sequence[float]:
    heights = [max((rows.items[item].size.height for item in row), default=0.0) for row in order]
    labels = [(lane.label_row, links[lane.link].label.height) for lane in lanes]
    labels += [(rows.items[rows.box[ln.source]].row, ln.label.height) for ln in links if ln.source == ln.target]
    for row, height in labels:
        heights[row] = max(heights[row], height)
    return heights


def _stacked(heights: Sequence[float], under: Tracks, over: Tracks) -> tuple[list[float], list[float], float]:
    top, bottom, y = [], [], 0.0
    for number, height in enumerate(heights):
        boxes = number % 2 == 0
        y += (_ABOVE if number else 0) + _TRACK * len(over.get(number, ())) if boxes else 0
        top.append(y)
        y += height
        bottom.append(y)
        last = number == len(heights) - 1
        y += (0 if last else _BELOW) + _TRACK * len(under.get(number, ())) if boxes else 0
    return top, bottom, y

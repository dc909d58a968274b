"""How high the rows are and how far apart: between them lie strips, with tracks for what runs across."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.graph.layout.channels import Strip, Tracks
from pipeline.graph.layout.geometry import Link
from pipeline.graph.layout.lanes import Lane
from pipeline.graph.layout.rows import Rows, loops

_TRACK = 7.0
_FIRST, _AFTER = 11.0, 8.0  # before the first track of a strip, and after the last
_ARROW = 9.0  # more room above a row of boxes


@dataclass(frozen=True, slots=True)
class Strips:
    """The y of every row, and of every track that a line has in a strip."""

    top: Sequence[float]
    bottom: Sequence[float]
    track: Mapping[tuple[Strip, int], float]
    end: float


def heights(rows: Rows, order: Sequence[Sequence[int]], lanes: Sequence[Lane], links: Sequence[Link]) -> list[float]:
    """The height of every row; a row between boxes that holds no label has none."""
    found = [max((rows.items[item].size.height for item in row), default=0.0) for row in order]
    labels = [(lane.label_row, links[lane.link].label.height) for lane in lanes]
    for name, own in loops(links).items():
        labels.append((rows.items[rows.box[name]].row, sum(links[index].label.height for index in own)))
    for row, height in labels:
        found[row] = max(found[row], height)
    return found


def stacked(row_heights: Sequence[float], tracks: Tracks) -> Strips:
    """Put the rows below each other, with as much space between them as their tracks need."""
    top: list[float] = []
    bottom: list[float] = []
    strip_top: dict[Strip, float] = {}
    y, last = 0.0, len(row_heights) - 1
    for row, height in enumerate(row_heights):
        above, below = Strip(row, below=False), Strip(row, below=True)
        strip_top[above] = y
        y += _height(above, tracks, needed=row > 0)
        top.append(y)
        y += height
        bottom.append(y)
        strip_top[below] = y
        y += _height(below, tracks, needed=row < last)
    return Strips(top, bottom, _track_places(tracks, strip_top), y)


def _height(strip: Strip, tracks: Tracks, *, needed: bool) -> float:
    used = max(tracks.get(strip, {}).values(), default=0)
    if strip.row % 2 or not (needed or strip in tracks):
        return 0
    return _FIRST + used * _TRACK + _AFTER + (0 if strip.below else _ARROW)


def _track_places(tracks: Tracks, strip_top: Mapping[Strip, float]) -> Mapping[tuple[Strip, int], float]:
    return {
        (strip, link): strip_top[strip] + _FIRST + _TRACK * track
        for strip, lines in tracks.items()
        for link, track in lines.items()
    }

"""The strips above and below the rows of boxes: the tracks in them for what runs across, and how high all of it is.

Two pieces in one strip share a track only where they do not touch. Of those that turn the same way the outer one runs
higher, so that they do not cross.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pipeline.graph.layout.geometry import Link
from pipeline.graph.layout.lanes import Lane
from pipeline.graph.layout.ports import Ports, Stops
from pipeline.graph.layout.rows import Rows, loops

_BENT = 22.0  # a smaller step aside is one soft bend that needs no track
_TRACKS = 40  # in one strip; what comes after shares
_APART = 8.0
_TRACK = 7.0
_FIRST, _AFTER = 11.0, 8.0  # before the first track of a strip, and after the last
_ARROW = 9.0  # more room above a row of boxes


class Strip(NamedTuple):
    """The space beside a row of boxes."""

    row: int
    below: bool


class Piece(NamedTuple):
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
    by_strip: dict[Strip, list[Piece]] = {}
    for piece in (*_onward(rows, x, stops, ports), *_around(rows, lanes, ports)):
        by_strip.setdefault(piece.strip, []).append(piece)
    return {strip: _assigned(pieces) for strip, pieces in by_strip.items()}


def _onward(rows: Rows, x: Sequence[float], stops: Stops, ports: Ports) -> Iterator[Piece]:
    for link, chain in stops.items():
        across = [ports.leaving[link], *(x[item] for item in chain[1:-1]), ports.entering[link]]
        for (start, end), (upper, lower) in zip(pairwise(across), pairwise(chain), strict=True):
            if abs(start - end) > _BENT:
                yield Piece(strip_between(rows.items[upper].row, rows.items[lower].row), start, end, link)


def _around(rows: Rows, lanes: Iterable[Lane], ports: Ports) -> Iterator[Piece]:
    for lane in lanes:
        if not lane.source_open:
            yield Piece(Strip(rows.items[lane.source].row, below=True), ports.leaving[lane.link], lane.x, lane.link)
        if not lane.target_open:
            yield Piece(Strip(rows.items[lane.target].row, below=False), lane.x, ports.entering[lane.link], lane.link)


def _assigned(pieces: Sequence[Piece]) -> Mapping[int, int]:
    rightward = sorted((piece for piece in pieces if piece.end > piece.start), key=lambda piece: -piece.start)
    leftward = sorted((piece for piece in pieces if piece.end <= piece.start), key=lambda piece: piece.start)
    taken: list[tuple[float, float]] = []
    found: dict[int, int] = {}
    for piece in (*rightward, *leftward):
        first, last = sorted((piece.start, piece.end))
        track = _free(taken, first, last)
        found[piece.link] = track
        low, high = taken[track] if track < len(taken) else (first, last)
        taken[track : track + 1] = [(min(low, first), max(high, last))]
    return found


def _free(taken: Sequence[tuple[float, float]], first: float, last: float) -> int:
    for track, (low, high) in enumerate(taken):
        if last + _APART < low or high + _APART < first:
            return track
    return len(taken) if len(taken) < _TRACKS else _TRACKS - 1


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

"""Where the edges of a drawing run: the second half of a layered layout. No edge runs through a box or a foreign label.

`layers` gives every box a row and a column. The edges are then routed orthogonally:

1. An edge that leads back goes around the boxes in a *lane* at the left or right side of the picture.
2. An edge that leads down passes the rows at its own items. It meets its boxes at *ports*, which keep a distance.
3. Above and below every row of boxes is a *channel*, where edges run across. Each horizontal segment gets a *track*
   there; two segments share a track only if they do not touch.
4. The rows are stacked with as much space between them as their tracks need, which gives every point its y.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

from pipeline.graph.layers import (
    LOOP,
    LOOP_STEP,
    LayoutEdge,
    Rows,
    Size,
    assign_columns,
    assign_layers,
    build_rows,
    reduce_crossings,
    self_loops,
)

_LEFT, _RIGHT = -1, 1

_LANE_GAP = 18.0  # between a lane and what it passes
_PORT_GAP = 14.0  # between two edges at one side of a box
_PORT_SPREAD = 0.36  # how far from the middle of a box edges may meet it, as a part of its width
_SOFT_BEND = 22.0  # a smaller step aside is drawn as one soft bend, which needs no track
_MAX_TRACKS = 40  # in one channel; further segments share the last one
_SEGMENT_GAP = 8.0  # between two segments on one track
_TRACK_HEIGHT = 7.0
_BEFORE_TRACKS, _AFTER_TRACKS = 11.0, 8.0
_ARROW_ROOM = 9.0  # more height above a row of boxes


class Point(NamedTuple):
    """A point; the y axis points down."""

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
    def center(self) -> Point:
        """Its middle."""
        return Point(self.x + self.width / 2, self.y + self.height / 2)

    @classmethod
    def around(cls, center: Point, size: Size) -> "Box":
        """Return the box of a size around a point."""
        return cls(center.x - size.width / 2, center.y - size.height / 2, size.width, size.height)


@dataclass(frozen=True, slots=True)
class EdgePath:
    """The course of an edge: straight between points that share a coordinate, else one soft bend."""

    points: tuple[Point, ...]
    label: Box | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The place of every box, and one path for each edge, in their order."""

    size: Size
    boxes: Mapping[str, Box]
    paths: tuple[EdgePath, ...]


def compute_layout(boxes: Mapping[str, Size], edges: Sequence[LayoutEdge], start: str) -> Layout:
    """Place boxes and route edges. `start` and the ends of all edges must be among the boxes."""
    layering = assign_layers(boxes, ((edge.source, edge.target) for edge in edges), start)
    rows = reduce_crossings(build_rows(boxes, edges, layering))
    router = _Router(rows, edges, assign_columns(rows))
    placed = {name: router.box(rows.box[name]) for name in boxes}
    return Layout(Size(router.width, router.height), placed, router.paths())


class Channel(NamedTuple):
    """The space above or below a row of boxes."""

    row: int
    below: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """The vertical line of an edge that goes around.

    It meets a box from the side if nothing else is there (`open`), else through the channel by the row of the box.
    """

    edge: int
    side: int
    x: float
    source: int  # an item, like `target`
    target: int
    label_row: int
    source_open: bool
    target_open: bool


def _assign_lanes(rows: Rows, edges: Sequence[LayoutEdge], x: Sequence[float]) -> tuple[list[Lane], float, float]:
    """Lay lanes from the inside to the outside; return them and how far the picture then reaches left and right."""
    items, boxes = rows.items, set(rows.box.values())
    reach = {  # of each row; a lane extends it
        _LEFT: [max((items[i].left - x[i] for i in row), default=-inf) for row in rows.rows],
        _RIGHT: [max((items[i].right + x[i] for i in row), default=-inf) for row in rows.rows],
    }
    outermost = {
        _LEFT: {next(i for i in row if i in boxes) for row in rows.rows[::2]},
        _RIGHT: {next(i for i in reversed(row) if i in boxes) for row in rows.rows[::2]},
    }
    ends = {index: (rows.box[edges[index].source], rows.box[edges[index].target]) for index in rows.around}

    def is_open(item: int, side: int) -> bool:
        has_loops = side == _RIGHT and items[item].right > items[item].left
        return item in outermost[side] and not has_loops

    def cost(index: int, side: int) -> tuple[int, int, float]:
        """Rate a side for an edge: how many of its ends are blocked, how many items it crosses, how far it goes."""
        closed, crossed, distance = 0, 0, 0.0
        for item in ends[index]:
            row = rows.rows[items[item].row]
            place = row.index(item)
            closed += not is_open(item, side)
            crossed += place if side == _LEFT else len(row) - 1 - place
            distance += reach[side][items[item].row] - x[item] * side
        return closed, crossed, distance

    lanes = []
    for index in sorted(ends, key=lambda index: abs(items[ends[index][0]].row - items[ends[index][1]].row)):
        source, target = ends[index]
        start, end = items[source].row, items[target].row
        side = min((_RIGHT, _LEFT), key=lambda side: cost(index, side))
        label_row = start - 1 if end < start else start + 1
        first, last = min(start, end), max(start, end)
        half = edges[index].label.width / 2
        taken = reach[side]
        lane = max(max(taken[first : last + 1]) + _LANE_GAP, taken[label_row] + _LANE_GAP + half)
        taken[first : last + 1] = [lane] * (last + 1 - first)
        taken[label_row] = lane + half
        lanes.append(
            Lane(index, side, lane * side, source, target, label_row, is_open(source, side), is_open(target, side))
        )
    return lanes, max(reach[_LEFT]), max(reach[_RIGHT])


class _Router:
    """Routes the edges between boxes that have their rows and columns; an edge is known by its number."""

    def __init__(self, rows: Rows, edges: Sequence[LayoutEdge], x: Sequence[float]) -> None:
        self.rows, self.edges = rows, edges
        lanes, left, right = _assign_lanes(rows, edges, x)
        self.width = left + right
        self.x = [one + left for one in x]
        self.lanes = [replace(lane, x=lane.x + left) for lane in lanes]
        self.loops = self_loops(edges)
        self.row_heights = self._row_heights()
        # An edge does not have to keep to its column in a row without height.
        self.stops = {
            edge: [first, *(item for item in passed if self.row_heights[rows.items[item].row]), last]
            for edge, (first, *passed, last) in rows.chains.items()
        }
        self.leaving, self.entering = self._assign_ports()
        self.tracks = self._assign_tracks()
        self.top: list[float] = []  # of each row
        self.bottom: list[float] = []
        self.track_y: dict[tuple[Channel, int], float] = {}
        self.height = self._stack_rows()

    def row(self, item: int) -> int:
        """Return the row of an item."""
        return self.rows.items[item].row

    def box(self, item: int) -> Box:
        """Return the rectangle of a box or label."""
        return Box.around(Point(self.x[item], self._middle(self.row(item))), self.rows.items[item].size)

    def paths(self) -> tuple[EdgePath, ...]:
        """Return the path of every edge, in their order."""
        side_ports = self._side_ports()
        paths = {edge: self._downward_path(edge) for edge in self.stops}
        paths |= {lane.edge: self._lane_path(lane, side_ports) for lane in self.lanes}
        paths |= dict(self._self_loop_paths())
        return tuple(paths[edge] for edge in range(len(self.edges)))

    def _row_heights(self) -> list[float]:
        """Return the height of every row, which also contains the labels of lanes and self-loops."""
        heights = [max((self.rows.items[item].size.height for item in row), default=0.0) for row in self.rows.rows]
        labels = [(lane.label_row, self.edges[lane.edge].label.height) for lane in self.lanes]
        for name, loops in self.loops.items():
            labels.append((self.row(self.rows.box[name]), sum(self.edges[edge].label.height for edge in loops)))
        for row, height in labels:
            heights[row] = max(heights[row], height)
        return heights

    def _assign_ports(self) -> tuple[dict[int, float], dict[int, float]]:
        """Return the x at which edges leave the lower side and enter the upper side of boxes."""
        leaving = [(stops[0], self.x[stops[1]], edge) for edge, stops in self.stops.items()]
        leaving += [(lane.source, lane.x, lane.edge) for lane in self.lanes if not lane.source_open]
        left = self._spread_ports(leaving)
        entering = [
            (last, self.x[passed[-1]] if passed else left[edge], edge)
            for edge, (_, *passed, last) in self.stops.items()
        ]
        entering += [(lane.target, lane.x, lane.edge) for lane in self.lanes if not lane.target_open]
        return left, self._spread_ports(entering)

    def _spread_ports(self, origins: Iterable[tuple[int, float, int]]) -> dict[int, float]:
        """Place ports as close as possible to where their edges come from, but on the box and apart from each other.

        Each of the `origins` is the item of a box, the x that an edge comes from, and the edge.
        """
        by_box: dict[int, list[tuple[float, int]]] = {}
        for item, wanted, edge in origins:
            by_box.setdefault(item, []).append((wanted, edge))
        ports: dict[int, float] = {}
        for item, wanted_by in by_box.items():
            reach = self.rows.items[item].size.width * _PORT_SPREAD
            lowest, highest = self.x[item] - reach, self.x[item] + reach
            gap = min(_PORT_GAP, (highest - lowest) / max(1, len(wanted_by) - 1))
            in_order = sorted(wanted_by)
            for wanted, edge in in_order:
                ports[edge] = max(wanted, lowest)
                lowest = ports[edge] + gap
            for _, edge in reversed(in_order):
                ports[edge] = min(ports[edge], highest)
                highest = ports[edge] - gap
        return ports

    def _assign_tracks(self) -> dict[Channel, dict[int, int]]:
        """Return the track of every edge that runs across in a channel."""
        segments: dict[Channel, list[tuple[float, float, int]]] = defaultdict(list)
        for edge, stops in self.stops.items():
            across = [self.leaving[edge], *(self.x[item] for item in stops[1:-1]), self.entering[edge]]
            for (start, end), (upper, lower) in zip(pairwise(across), pairwise(stops), strict=True):
                if abs(start - end) > _SOFT_BEND:
                    segments[self._channel_between(upper, lower)].append((start, end, edge))
        for lane in self.lanes:
            if not lane.source_open:
                segments[Channel(self.row(lane.source), below=True)].append(
                    (self.leaving[lane.edge], lane.x, lane.edge)
                )
            if not lane.target_open:
                segments[Channel(self.row(lane.target), below=False)].append(
                    (lane.x, self.entering[lane.edge], lane.edge)
                )
        return {channel: _pack_tracks(found) for channel, found in segments.items()}

    def _channel_between(self, upper: int, lower: int) -> Channel:
        """Return the channel in which an edge from one item to a lower one runs across."""
        row = self.row(upper)
        return Channel(self.row(lower), below=False) if row % 2 else Channel(row, below=True)

    def _stack_rows(self) -> float:
        """Set the y of all rows and tracks; return the height of the picture."""
        y = 0.0
        last = len(self.row_heights) - 1
        for row, height in enumerate(self.row_heights):
            y = self._place_channel(Channel(row, below=False), y, needed=row > 0)
            self.top.append(y)
            y += height
            self.bottom.append(y)
            y = self._place_channel(Channel(row, below=True), y, needed=row < last)
        return y

    def _place_channel(self, channel: Channel, y: float, *, needed: bool) -> float:
        """Set the y of the tracks in a channel that begins at y; return where it ends."""
        tracks = self.tracks.get(channel, {})
        for edge, track in tracks.items():
            self.track_y[channel, edge] = y + _BEFORE_TRACKS + _TRACK_HEIGHT * track
        if channel.row % 2 or not (needed or tracks):
            return y
        highest = max(tracks.values(), default=0)
        return y + (_BEFORE_TRACKS + highest * _TRACK_HEIGHT + _AFTER_TRACKS + (0 if channel.below else _ARROW_ROOM))

    def _middle(self, row: int) -> float:
        return (self.top[row] + self.bottom[row]) / 2

    def _downward_path(self, edge: int) -> EdgePath:
        stops = self.stops[edge]
        points = [Point(self.leaving[edge], self.box(stops[0]).bottom)]
        for upper, lower in pairwise(stops):
            start, end = points[-1].x, self.x[lower] if lower != stops[-1] else self.entering[edge]
            track = self.track_y.get((self._channel_between(upper, lower), edge))
            points.append(Point(start, self.bottom[self.row(upper)]))
            if track is not None:
                points += (Point(start, track), Point(end, track))
            points.append(Point(end, self.top[self.row(lower)]))
        points.append(Point(points[-1].x, self.box(stops[-1]).y))
        label = self.box(self.rows.chains[edge][1]) if self.edges[edge].label.width else None
        return EdgePath(_simplify(points), label)

    def _lane_path(self, lane: Lane, side_ports: Mapping[tuple[int, int], float]) -> EdgePath:
        source, target = self.box(lane.source), self.box(lane.target)
        if lane.source_open:
            y = side_ports[lane.edge, lane.source]
            points = [Point(source.right if lane.side == _RIGHT else source.x, y), Point(lane.x, y)]
        else:
            x, y = self.leaving[lane.edge], self.track_y[Channel(self.row(lane.source), below=True), lane.edge]
            points = [Point(x, source.bottom), Point(x, y), Point(lane.x, y)]
        if lane.target_open:
            y = side_ports[lane.edge, lane.target]
            points += [Point(lane.x, y), Point(target.right if lane.side == _RIGHT else target.x, y)]
        else:
            x, y = self.entering[lane.edge], self.track_y[Channel(self.row(lane.target), below=False), lane.edge]
            points += [Point(lane.x, y), Point(x, y), Point(x, target.y)]
        size = self.edges[lane.edge].label
        label = Box.around(Point(lane.x, self._middle(lane.label_row)), size) if size.width else None
        return EdgePath(_simplify(points), label)

    def _side_ports(self) -> dict[tuple[int, int], float]:
        """Return the y at which lanes meet the sides of boxes, by edge and item, so that they do not cross there."""
        met: dict[tuple[int, int], list[tuple[bool, float, int]]] = {}
        for lane in self.lanes:
            for item, other, is_open in (
                (lane.source, lane.target, lane.source_open),
                (lane.target, lane.source, lane.target_open),
            ):
                if is_open:
                    down = self.row(other) > self.row(item)
                    outward = lane.x * lane.side
                    met.setdefault((item, lane.side), []).append((down, -outward if down else outward, lane.edge))
        ports: dict[tuple[int, int], float] = {}
        for (item, _), ends in met.items():
            box = self.box(item)
            step = min(_PORT_GAP, box.height / 2 / len(ends))
            first = box.center.y - step * (len(ends) - 1) / 2
            ports |= {(edge, item): first + step * index for index, (_, _, edge) in enumerate(sorted(ends))}
        return ports

    def _self_loop_paths(self) -> Iterator[tuple[int, EdgePath]]:
        """Yield self-loops, at the right of their box, each around the one before, and their labels outside of all."""
        for name, loops in self.loops.items():
            box = self.box(self.rows.box[name])
            label_x = box.right + LOOP + LOOP_STEP * (len(loops) - 1) + 4
            label_y = box.center.y - sum(self.edges[edge].label.height for edge in loops) / 2
            for index, edge in enumerate(loops):
                x = box.right + LOOP + LOOP_STEP * index
                part = (index + 1) / (len(loops) + 1)
                upper, lower = (box.center.y + sign * part * box.height / 2 for sign in (-1, 1))
                points = Point(box.right, lower), Point(x, lower), Point(x, upper), Point(box.right, upper)
                size = self.edges[edge].label
                yield edge, EdgePath(points, Box(label_x, label_y, *size) if size.width else None)
                label_y += size.height


def _pack_tracks(segments: Iterable[tuple[float, float, int]]) -> dict[int, int]:
    """Return the track of each segment's edge.

    Of segments that turn the same way the outer one runs higher, so that they do not cross.
    """
    rightward = sorted((segment for segment in segments if segment[1] > segment[0]), key=lambda segment: -segment[0])
    leftward = sorted((segment for segment in segments if segment[1] <= segment[0]), key=lambda segment: segment[0])
    taken: list[tuple[float, float]] = []  # of each track, the part in use
    tracks: dict[int, int] = {}
    for start, end, edge in (*rightward, *leftward):
        first, last = min(start, end), max(start, end)
        free = (
            track for track, (low, high) in enumerate(taken) if last + _SEGMENT_GAP < low or high + _SEGMENT_GAP < first
        )
        track = next(free, min(len(taken), _MAX_TRACKS - 1))
        low, high = taken[track] if track < len(taken) else (first, last)
        taken[track : track + 1] = [(min(low, first), max(high, last))]
        tracks[edge] = track
    return tracks


def _simplify(points: Iterable[Point]) -> tuple[Point, ...]:
    """Drop the points that add nothing to a line."""
    kept: list[Point] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and (kept[-2].x == kept[-1].x == point.x or kept[-2].y == kept[-1].y == point.y):
            kept.pop()
        kept.append(point)
    return tuple(kept)

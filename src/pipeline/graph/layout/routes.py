"""The lines themselves: the points each passes from the box it leaves to the box it enters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.graph.layout.geometry import Box, Link, Point, Route, around
from pipeline.graph.layout.lanes import RIGHT, Lane
from pipeline.graph.layout.ports import Ports, Stops
from pipeline.graph.layout.rows import LOOP, LOOP_STEP, Rows, loops
from pipeline.graph.layout.strips import Strip, Strips, strip_between

_APART = 14.0  # between two lines at one side of a box


@dataclass(frozen=True, slots=True)
class Ground:
    """Everything in its place, before the lines are led."""

    rows: Rows
    links: Sequence[Link]
    x: Sequence[float]
    stops: Stops
    lanes: Sequence[Lane]
    ports: Ports
    strips: Strips

    def box(self, item: int) -> Box:
        """The rectangle of a box or label."""
        return around(Point(self.x[item], self.middle(self.row(item))), self.rows.items[item].size)

    def row(self, item: int) -> int:
        """The row an item stands in."""
        return self.rows.items[item].row

    def middle(self, row: int) -> float:
        """The y in the middle of a row."""
        return (self.strips.top[row] + self.strips.bottom[row]) / 2


def routes(ground: Ground) -> tuple[Route, ...]:
    """A route for every link, in their order."""
    sides = _side_ports(ground)
    found = {link: _onward(ground, link) for link in ground.stops}
    found |= {lane.link: _around(ground, lane, sides) for lane in ground.lanes}
    found |= dict(_loops(ground))
    return tuple(found[index] for index in range(len(ground.links)))


def _onward(ground: Ground, link: int) -> Route:
    stops = ground.stops[link]
    points = [Point(ground.ports.leaving[link], ground.box(stops[0]).bottom)]
    for upper, lower in pairwise(stops):
        x = ground.x[lower] if lower != stops[-1] else ground.ports.entering[link]
        points += _step(ground, link, points[-1].x, x, (ground.row(upper), ground.row(lower)))
    points.append(Point(points[-1].x, ground.box(stops[-1]).y))
    label = ground.box(ground.rows.chains[link][1]) if ground.links[link].label.width else None
    return Route(_simple(points), label, back=False)


def _step(ground: Ground, link: int, start: float, end: float, rows: tuple[int, int]) -> Iterator[Point]:
    """From the lower edge of a row to the upper edge of one below, by the line's track if it has one."""
    track = ground.strips.track.get((strip_between(*rows), link))
    yield Point(start, ground.strips.bottom[rows[0]])
    if track is not None:
        yield from (Point(start, track), Point(end, track))
    yield Point(end, ground.strips.top[rows[1]])


def _around(ground: Ground, lane: Lane, sides: Mapping[tuple[int, int], float]) -> Route:
    first, last = ground.box(lane.source), ground.box(lane.target)
    if lane.source_open:
        leaving = _aside(first, lane, sides[lane.link, lane.source])
    else:
        track = ground.strips.track[Strip(ground.row(lane.source), below=True), lane.link]
        leaving = _across(Point(ground.ports.leaving[lane.link], first.bottom), lane.x, track)
    if lane.target_open:
        entering = _aside(last, lane, sides[lane.link, lane.target])
    else:
        track = ground.strips.track[Strip(ground.row(lane.target), below=False), lane.link]
        entering = _across(Point(ground.ports.entering[lane.link], last.y), lane.x, track)
    back = ground.row(lane.source) > ground.row(lane.target)
    return Route(_simple((*leaving, *reversed(entering))), _lane_label(ground, lane), back)


def _aside(box: Box, lane: Lane, y: float) -> tuple[Point, ...]:
    return Point(box.right if lane.side == RIGHT else box.x, y), Point(lane.x, y)


def _across(port: Point, lane: float, track: float) -> tuple[Point, ...]:
    return port, Point(port.x, track), Point(lane, track)


def _lane_label(ground: Ground, lane: Lane) -> Box | None:
    size = ground.links[lane.link].label
    return around(Point(lane.x, ground.middle(lane.label_row)), size) if size.width else None


def _side_ports(ground: Ground) -> dict[tuple[int, int], float]:
    """The y at which lanes meet the sides of boxes, in an order in which they do not cross each other."""
    met: dict[tuple[int, int], list[tuple[bool, float, int]]] = {}
    for lane in ground.lanes:
        ends = (lane.source, lane.target, lane.source_open), (lane.target, lane.source, lane.target_open)
        for item, other, opened in ends:
            down = ground.row(other) > ground.row(item)
            outward = lane.x * lane.side
            if opened:
                met.setdefault((item, lane.side), []).append((down, -outward if down else outward, lane.link))
    return {(link, item): y for (item, _), ends in met.items() for link, y in _stacked(ground.box(item), ends)}


def _stacked(box: Box, ends: list[tuple[bool, float, int]]) -> Iterator[tuple[int, float]]:
    step = min(_APART, box.height / 2 / len(ends))
    first = box.centre.y - step * (len(ends) - 1) / 2
    return ((link, first + step * index) for index, (_, _, link) in enumerate(sorted(ends)))


def _loops(ground: Ground) -> Iterator[tuple[int, Route]]:
    """Lines from a box to itself, at its right side, each around the one before; their labels are outside of all."""
    for name, own in loops(ground.links).items():
        box = ground.box(ground.rows.box[name])
        labels = [ground.links[index].label for index in own]
        x = box.right + LOOP + LOOP_STEP * (len(own) - 1) + 4
        y = box.centre.y - sum(label.height for label in labels) / 2
        for place, (index, label) in enumerate(zip(own, labels, strict=True), 1):
            points = _loop(box, box.right + LOOP + LOOP_STEP * (place - 1), place / (len(own) + 1))
            yield index, Route(points, Box(x, y, *label) if label.width else None, back=True)
            y += label.height


def _loop(box: Box, x: float, part: float) -> tuple[Point, ...]:
    upper, lower = (box.centre.y + sign * part * box.height / 2 for sign in (-1, 1))
    return Point(box.right, lower), Point(x, lower), Point(x, upper), Point(box.right, upper)


def _simple(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points without those that add nothing to the line."""
    kept: list[Point] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and (kept[-2].x == kept[-1].x == point.x or kept[-2].y == kept[-1].y == point.y):
            kept.pop()
        kept.append(point)
    return tuple(kept)

"""The lines themselves: where each leaves its box, which places it passes, and where it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.graph.geometry import Box, Link, Point, Route, around
from pipeline.graph.lanes import RIGHT, Lane
from pipeline.graph.rows import LOOP, Rows
from pipeline.graph.strips import Strips

_PORT = 14.0  # between two lines at one side of a box
_SPREAD = 0.32  # how far from the middle of a box lines may meet it, as a part of its width

Ports = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Ground:
    """Everything in its place, before the lines are led."""

    rows: Rows
    links: Sequence[Link]
    x: Sequence[float]
    strips: Strips
    lanes: Sequence[Lane]

    def box(self, item: int) -> Box:
        """The rectangle of a box or label."""
        row = self.rows.items[item].row
        middle = (self.strips.top[row] + self.strips.bottom[row]) / 2
        return around(Point(self.x[item], middle), self.rows.items[item].size)

    def stops(self, link: int) -> list[int]:
        """The items a line really bends at: a row without height is no obstacle."""
        first, *passed, last = self.rows.chains[link]
        return [first, *(item for item in passed if self._high(self.rows.items[item].row)), last]

    def _high(self, row: int) -> bool:
        return self.strips.bottom[row] > self.strips.top[row]


def routes(ground: Ground) -> tuple[Route, ...]:
    """A route for every link, in their order."""
    stops = {link: ground.stops(link) for link in ground.rows.chains}
    below = _ports_below(ground, stops)
    above = _ports_above(ground, stops, below)
    found = {link: _onward(ground, link, stops[link], below[link], above[link]) for link in stops}
    found |= _around(ground, below, above)
    found |= _loops(ground)
    return tuple(found[index] for index in range(len(ground.links)))


def _ports_below(ground: Ground, stops: Mapping[int, Sequence[int]]) -> Ports:
    wanted = [(chain[0], ground.x[chain[1]], link) for link, chain in stops.items()]
    wanted += [(lane.source, lane.x, lane.link) for lane in ground.lanes if not lane.source_open]
    return _spread(ground, wanted)


def _ports_above(ground: Ground, stops: Mapping[int, Sequence[int]], below: Ports) -> Ports:
    wanted = []
    for link, chain in stops.items():
        direct = len(chain) == 2  # noqa: PLR2004 - nothing between its two ends
        wanted.append((chain[-1], below[link] if direct else ground.x[chain[-2]], link))
    wanted += [(lane.target, lane.x, lane.link) for lane in ground.lanes if not lane.target_open]
    return _spread(ground, wanted)


def _spread(ground: Ground, wanted: Sequence[tuple[int, float, int]]) -> Ports:
    """Where lines meet the upper or lower side of their boxes: near where they come from, and not all in one place."""
    by_box: dict[int, list[tuple[float, int]]] = {}
    for item, x, link in wanted:
        by_box.setdefault(item, []).append((x, link))
    ports: dict[int, float] = {}
    for item, lines in by_box.items():
        reach = ground.rows.items[item].size.width * _SPREAD
        lines.sort()
        places = _apart([x for x, _ in lines], ground.x[item] - reach, ground.x[item] + reach)
        ports |= {link: place for (_, link), place in zip(lines, places, strict=True)}
    return ports


def _apart(wanted: Sequence[float], least: float, most: float) -> list[float]:
    gap = min(_PORT, (most - least) / max(1, len(wanted) - 1))
    places: list[float] = []
    for x in wanted:
        places.append(max(x, places[-1] + gap if places else least))
    for index in reversed(range(len(places))):
        places[index] = min(places[index], most)
        most = places[index] - gap
    return places


def _onward(ground: Ground, link: int, stops: Sequence[int], out: float, into: float) -> Route:
    top, bottom = ground.strips.top, ground.strips.bottom
    first, *passed, last = ((item, ground.rows.items[item].row) for item in stops)
    points = [Point(out, ground.box(first[0]).bottom), Point(out, bottom[first[1]])]
    for item, row in passed:
        points += (Point(ground.x[item], top[row]), Point(ground.x[item], bottom[row]))
    points += (Point(into, top[last[1]]), Point(into, ground.box(last[0]).y))
    label = ground.box(ground.rows.chains[link][1]) if ground.links[link].label.width else None
    return Route(_simple(points), label, back=False)


def _around(ground: Ground, below: Ports, above: Ports) -> dict[int, Route]:
    sides = _side_ports(ground)
    found = {}
    for lane in ground.lanes:
        start, end = ground.box(lane.source), ground.box(lane.target)
        leaving = _side(start, lane, sides[lane.link, lane.source]) if lane.source_open else _strip(
            Point(below[lane.link], start.bottom), lane.x, ground.strips.leaving[lane.link]
        )
        entering = _side(end, lane, sides[lane.link, lane.target]) if lane.target_open else _strip(
            Point(above[lane.link], end.y), lane.x, ground.strips.entering[lane.link]
        )
        points = (*leaving, *reversed(entering))
        back = ground.rows.items[lane.source].row > ground.rows.items[lane.target].row
        found[lane.link] = Route(_simple(points), _lane_label(ground, lane), back)
    return found


def _side(box: Box, lane: Lane, y: float) -> tuple[Point, ...]:
    return Point(box.right if lane.side == RIGHT else box.x, y), Point(lane.x, y)


def _strip(port: Point, lane: float, track: float) -> tuple[Point, ...]:
    return port, Point(port.x, track), Point(lane, track)


def _lane_label(ground: Ground, lane: Lane) -> Box | None:
    size = ground.links[lane.link].label
    middle = (ground.strips.top[lane.label_row] + ground.strips.bottom[lane.label_row]) / 2
    return around(Point(lane.x, middle), size) if size.width else None


def _side_ports(ground: Ground) -> dict[tuple[int, int], float]:
    """The y at which lanes meet the sides of boxes, in an order in which they do not cross each other."""
    met: dict[tuple[int, int], list[tuple[bool, float, int]]] = {}
    for lane in ground.lanes:
        for item, other, opened in (
            (lane.source, lane.target, lane.source_open),
            (lane.target, lane.source, lane.target_open),
        ):
            down = ground.rows.items[other].row > ground.rows.items[item].row
            outward = lane.x * lane.side
            if opened:
                met.setdefault((item, lane.side), []).append((down, -outward if down else outward, lane.link))
    return {(link, item): y for (item, _), ends in met.items() for link, y in _stacked(ground.box(item), ends)}


def _stacked(box: Box, ends: list[tuple[bool, float, int]]) -> list[tuple[int, float]]:
    step = min(_PORT, box.height / 2 / len(ends))
    first = box.centre.y - step * (len(ends) - 1) / 2
    return [(link, first + step * index) for index, (_, _, link) in enumerate(sorted(ends))]


def _loops(ground: Ground) -> dict[int, Route]:
    """Lines from a box to itself, at its right side, each outside of the one before."""
    found: dict[int, Route] = {}
    reach: dict[str, float] = {}
    for index, link in enumerate(ground.links):
        if link.source == link.target:
            box = ground.box(ground.rows.box[link.source])
            out = reach.get(link.source, 0.0)
            found[index] = _loop(box, out, link)
            reach[link.source] = out + LOOP + link.label.width
    return found


def _loop(box: Box, out: float, link: Link) -> Route:
    x, middle = box.right + out + LOOP * 2 / 3, box.centre.y
    away = min(box.height / 2 - 4, 9 + out / LOOP)
    upper, lower = middle - away, middle + away
    points = (Point(box.right, lower), Point(x, lower), Point(x, upper), Point(box.right, upper))
    label = Box(x + 4, middle - link.label.height / 2, *link.label) if link.label.width else None
    return Route(points, label, back=True)


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

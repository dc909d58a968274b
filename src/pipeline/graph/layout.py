"""Where everything of a drawing goes: boxes in layers, lines that cross no box, labels that cover nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pipeline.graph.layers import (
    LOOP,
    LOOP_STEP,
    Box,
    EdgePath,
    Layout,
    LayoutEdge,
    Point,
    Rows,
    Size,
    around,
    columns,
    flow,
    loops,
    ordered,
    rows,
)

LEFT, RIGHT = -1, 1

_GAP = 18.0  # between a lane and what it passes
_MAX_LANE_WORK = 3_000_000  # rows looked at for all lanes together


@dataclass(frozen=True, slots=True)
class Lane:
    """A line along one side. An end that is open meets its box from the side, else from the strip by its row."""

    link: int
    side: int
    x: float
    source: int  # the items at its ends
    target: int
    label_row: int
    source_open: bool
    target_open: bool


class Lanes:
    """The lanes of a picture, laid from the inside to the outside. `reach` is how far each row extends by side."""

    def __init__(
        self, rows: Rows, order: Sequence[Sequence[int]], x: Sequence[float], links: Sequence[LayoutEdge]
    ) -> None:
        self.rows, self.x, self.links = rows, x, links
        self.place = {item: index for row in order for index, item in enumerate(row)}
        self.order = order
        self.reach = {side: [self._extent(row, side) for row in order] for side in (LEFT, RIGHT)}
        boxes = set(rows.box.values())
        self.outermost = {
            LEFT: {next((i for i in row if i in boxes), -1) for row in order},
            RIGHT: {next((i for i in reversed(row) if i in boxes), -1) for row in order},
        }
        self.edge = {side: max(self.reach[side]) for side in (LEFT, RIGHT)}
        self.far = False
        self.lanes = self._laid()

    def _extent(self, row: Sequence[int], side: int) -> float:
        items = self.rows.items
        reach = (self.x[i] * side + (items[i].right if side == RIGHT else items[i].left) for i in row)
        return max(reach, default=float("-inf"))

    def _laid(self) -> list[Lane]:
        around = sorted(self.rows.around, key=self._span)
        self.far = sum(map(self._span, around)) > _MAX_LANE_WORK
        return [self._lay(index) for index in around]

    def _span(self, index: int) -> int:
        source, target = self._ends(index)
        return abs(self.rows.items[source].row - self.rows.items[target].row)

    def _ends(self, index: int) -> tuple[int, int]:
        link = self.links[index]
        return self.rows.box[link.source], self.rows.box[link.target]

    def _lay(self, index: int) -> Lane:
        source, target = self._ends(index)
        here, there = self.rows.items[source].row, self.rows.items[target].row
        label_row = here - 1 if there < here else here + 1
        side = min((RIGHT, LEFT), key=lambda side: self._cost(source, target, side))
        x = self._take(side, min(here, there), max(here, there), label_row, self.links[index].label.width / 2)
        opened = (self._open(source, side), self._open(target, side))
        return Lane(index, side, x * side, source, target, label_row, *opened)

    def _cost(self, source: int, target: int, side: int) -> tuple[int, int, float]:
        """How little a side suits a line: boxes in the way, lines in the way, the distance to go."""
        closed = sum(not self._open(item, side) for item in (source, target))
        crossed = sum(self._beyond(item, side) for item in (source, target))
        away = sum(self.reach[side][self.rows.items[item].row] - self.x[item] * side for item in (source, target))
        return closed, crossed, away

    def _open(self, item: int, side: int) -> bool:
        looping = self.rows.items[item].right > self.rows.items[item].left and side == RIGHT
        return item in self.outermost[side] and not looping

    def _beyond(self, item: int, side: int) -> int:
        row = self.order[self.rows.items[item].row]
        return self.place[item] if side == LEFT else len(row) - 1 - self.place[item]

    def _take(self, side: int, first: int, last: int, label_row: int, half: float) -> float:
        """Room for a line past these rows, in the direction of the side."""
        reach = self.reach[side]
        if self.far:
            x = self.edge[side] + _GAP + half
        else:
            x = max(max(reach[first : last + 1]) + _GAP, reach[label_row] + _GAP + half)
            reach[first : last + 1] = [x] * (last + 1 - first)
            reach[label_row] = x + half
        self.edge[side] = max(self.edge[side], x + half)
        return x


_PORT_GAP = 14.0
_SPREAD = 0.36  # how far from the middle of a box lines may meet it, as a part of its width

Stops = Mapping[int, Sequence[int]]
Wish = tuple[int, float, int]  # an item, the x its line comes from, the line


@dataclass(frozen=True, slots=True)
class Ports:
    """The x at which each line leaves the box above and enters the box below, by link."""

    leaving: Mapping[int, float]
    entering: Mapping[int, float]


def ports(rows: Rows, x: Sequence[float], stops: Stops, lanes: Sequence[Lane]) -> Ports:
    """Find a place for every line that meets a box from above or below."""
    leaving = [(chain[0], x[chain[1]], link) for link, chain in stops.items()]
    leaving += [(lane.source, lane.x, lane.link) for lane in lanes if not lane.source_open]
    left = _spread(rows, x, leaving)
    entering = [(last, x[passed[-1]] if passed else left[link], link) for link, (_, *passed, last) in stops.items()]
    entering += [(lane.target, lane.x, lane.link) for lane in lanes if not lane.target_open]
    return Ports(left, _spread(rows, x, entering))


def _spread(rows: Rows, x: Sequence[float], wishes: Sequence[Wish]) -> Mapping[int, float]:
    by_box: dict[int, list[tuple[float, int]]] = {}
    for item, wanted, link in wishes:
        by_box.setdefault(item, []).append((wanted, link))
    found: dict[int, float] = {}
    for item, lines in by_box.items():
        reach = rows.items[item].size.width * _SPREAD
        lines.sort()
        places = _apart([wanted for wanted, _ in lines], x[item] - reach, x[item] + reach)
        found |= {link: place for (_, link), place in zip(lines, places, strict=True)}
    return found


def _apart(wanted: Sequence[float], least: float, most: float) -> list[float]:
    gap = min(_PORT_GAP, (most - least) / max(1, len(wanted) - 1))
    places: list[float] = []
    for x in wanted:
        places.append(max(x, places[-1] + gap if places else least))
    for index in reversed(range(len(places))):
        places[index] = min(places[index], most)
        most = places[index] - gap
    return places


_BENT = 22.0  # a smaller step aside is one soft bend that needs no track
_TRACKS = 40  # in one strip; what comes after shares
_SEGMENT_GAP = 8.0
_TRACK = 7.0
_FIRST, _AFTER = 11.0, 8.0  # before the first track of a strip, and after the last
_ARROW = 9.0  # more room above a row of boxes


class Channel(NamedTuple):
    """The space beside a row of boxes."""

    row: int
    below: bool


class Segment(NamedTuple):
    """A piece of a line that runs across."""

    strip: Channel
    start: float
    end: float
    link: int


Tracks = Mapping[Channel, Mapping[int, int]]  # the track of each line in each strip


def strip_between(upper: int, lower: int) -> Channel:
    """The strip in which a line from one row to a lower one steps aside."""
    return Channel(lower, below=False) if upper % 2 else Channel(upper, below=True)


def tracks(rows: Rows, x: Sequence[float], stops: Stops, lanes: Sequence[Lane], ports: Ports) -> Tracks:
    """A track for every piece that needs one."""
    by_strip: dict[Channel, list[Segment]] = {}
    for piece in (*_forward_segments(rows, x, stops, ports), *_lane_segments(rows, lanes, ports)):
        by_strip.setdefault(piece.strip, []).append(piece)
    return {strip: _assigned(pieces) for strip, pieces in by_strip.items()}


def _forward_segments(rows: Rows, x: Sequence[float], stops: Stops, ports: Ports) -> Iterator[Segment]:
    for link, chain in stops.items():
        across = [ports.leaving[link], *(x[item] for item in chain[1:-1]), ports.entering[link]]
        for (start, end), (upper, lower) in zip(pairwise(across), pairwise(chain), strict=True):
            if abs(start - end) > _BENT:
                yield Segment(strip_between(rows.items[upper].row, rows.items[lower].row), start, end, link)


def _lane_segments(rows: Rows, lanes: Iterable[Lane], ports: Ports) -> Iterator[Segment]:
    for lane in lanes:
        if not lane.source_open:
            yield Segment(Channel(rows.items[lane.source].row, below=True), ports.leaving[lane.link], lane.x, lane.link)
        if not lane.target_open:
            yield Segment(
                Channel(rows.items[lane.target].row, below=False), lane.x, ports.entering[lane.link], lane.link
            )


def _assigned(pieces: Sequence[Segment]) -> Mapping[int, int]:
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
        if last + _SEGMENT_GAP < low or high + _SEGMENT_GAP < first:
            return track
    return len(taken) if len(taken) < _TRACKS else _TRACKS - 1


@dataclass(frozen=True, slots=True)
class RowPositions:
    """The y of every row, and of every track that a line has in a strip."""

    top: Sequence[float]
    bottom: Sequence[float]
    track: Mapping[tuple[Channel, int], float]
    end: float


def heights(
    rows: Rows, order: Sequence[Sequence[int]], lanes: Sequence[Lane], links: Sequence[LayoutEdge]
) -> list[float]:
    """The height of every row; a row between boxes that holds no label has none."""
    found = [max((rows.items[item].size.height for item in row), default=0.0) for row in order]
    labels = [(lane.label_row, links[lane.link].label.height) for lane in lanes]
    for name, own in loops(links).items():
        labels.append((rows.items[rows.box[name]].row, sum(links[index].label.height for index in own)))
    for row, height in labels:
        found[row] = max(found[row], height)
    return found


def stacked(row_heights: Sequence[float], tracks: Tracks) -> RowPositions:
    """Put the rows below each other, with as much space between them as their tracks need."""
    top: list[float] = []
    bottom: list[float] = []
    strip_top: dict[Channel, float] = {}
    y, last = 0.0, len(row_heights) - 1
    for row, height in enumerate(row_heights):
        above, below = Channel(row, below=False), Channel(row, below=True)
        strip_top[above] = y
        y += _channel_height(above, tracks, needed=row > 0)
        top.append(y)
        y += height
        bottom.append(y)
        strip_top[below] = y
        y += _channel_height(below, tracks, needed=row < last)
    return RowPositions(top, bottom, _track_places(tracks, strip_top), y)


def _channel_height(strip: Channel, tracks: Tracks, *, needed: bool) -> float:
    used = max(tracks.get(strip, {}).values(), default=0)
    if strip.row % 2 or not (needed or strip in tracks):
        return 0
    return _FIRST + used * _TRACK + _AFTER + (0 if strip.below else _ARROW)


def _track_places(tracks: Tracks, strip_top: Mapping[Channel, float]) -> Mapping[tuple[Channel, int], float]:
    return {
        (strip, link): strip_top[strip] + _FIRST + _TRACK * track
        for strip, lines in tracks.items()
        for link, track in lines.items()
    }


_SIDE_PORT_GAP = 14.0  # between two lines at one side of a box


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything in its place, before the lines are led."""

    rows: Rows
    links: Sequence[LayoutEdge]
    x: Sequence[float]
    stops: Stops
    lanes: Sequence[Lane]
    ports: Ports
    strips: RowPositions

    def box(self, item: int) -> Box:
        """The rectangle of a box or label."""
        return around(Point(self.x[item], self.middle(self.row(item))), self.rows.items[item].size)

    def row(self, item: int) -> int:
        """The row an item stands in."""
        return self.rows.items[item].row

    def middle(self, row: int) -> float:
        """The y in the middle of a row."""
        return (self.strips.top[row] + self.strips.bottom[row]) / 2


def routes(ground: Placement) -> tuple[EdgePath, ...]:
    """A route for every link, in their order."""
    sides = _side_ports(ground)
    found = {link: _forward_path(ground, link) for link in ground.stops}
    found |= {lane.link: _lane_path(ground, lane, sides) for lane in ground.lanes}
    found |= dict(_self_loop_paths(ground))
    return tuple(found[index] for index in range(len(ground.links)))


def _forward_path(ground: Placement, link: int) -> EdgePath:
    stops = ground.stops[link]
    points = [Point(ground.ports.leaving[link], ground.box(stops[0]).bottom)]
    for upper, lower in pairwise(stops):
        x = ground.x[lower] if lower != stops[-1] else ground.ports.entering[link]
        points += _step(ground, link, points[-1].x, x, (ground.row(upper), ground.row(lower)))
    points.append(Point(points[-1].x, ground.box(stops[-1]).y))
    label = ground.box(ground.rows.chains[link][1]) if ground.links[link].label.width else None
    return EdgePath(_simple(points), label, back=False)


def _step(ground: Placement, link: int, start: float, end: float, rows: tuple[int, int]) -> Iterator[Point]:
    """From the lower edge of a row to the upper edge of one below, by the line's track if it has one."""
    track = ground.strips.track.get((strip_between(*rows), link))
    yield Point(start, ground.strips.bottom[rows[0]])
    if track is not None:
        yield from (Point(start, track), Point(end, track))
    yield Point(end, ground.strips.top[rows[1]])


def _lane_path(ground: Placement, lane: Lane, sides: Mapping[tuple[int, int], float]) -> EdgePath:
    first, last = ground.box(lane.source), ground.box(lane.target)
    if lane.source_open:
        leaving = _aside(first, lane, sides[lane.link, lane.source])
    else:
        track = ground.strips.track[Channel(ground.row(lane.source), below=True), lane.link]
        leaving = _across(Point(ground.ports.leaving[lane.link], first.bottom), lane.x, track)
    if lane.target_open:
        entering = _aside(last, lane, sides[lane.link, lane.target])
    else:
        track = ground.strips.track[Channel(ground.row(lane.target), below=False), lane.link]
        entering = _across(Point(ground.ports.entering[lane.link], last.y), lane.x, track)
    back = ground.row(lane.source) > ground.row(lane.target)
    return EdgePath(_simple((*leaving, *reversed(entering))), _lane_label(ground, lane), back)


def _aside(box: Box, lane: Lane, y: float) -> tuple[Point, ...]:
    return Point(box.right if lane.side == RIGHT else box.x, y), Point(lane.x, y)


def _across(port: Point, lane: float, track: float) -> tuple[Point, ...]:
    return port, Point(port.x, track), Point(lane, track)


def _lane_label(ground: Placement, lane: Lane) -> Box | None:
    size = ground.links[lane.link].label
    return around(Point(lane.x, ground.middle(lane.label_row)), size) if size.width else None


def _side_ports(ground: Placement) -> dict[tuple[int, int], float]:
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
    step = min(_SIDE_PORT_GAP, box.height / 2 / len(ends))
    first = box.centre.y - step * (len(ends) - 1) / 2
    return ((link, first + step * index) for index, (_, _, link) in enumerate(sorted(ends)))


def _self_loop_paths(ground: Placement) -> Iterator[tuple[int, EdgePath]]:
    """Lines from a box to itself, at its right side, each around the one before; their labels are outside of all."""
    for name, own in loops(ground.links).items():
        box = ground.box(ground.rows.box[name])
        labels = [ground.links[index].label for index in own]
        x = box.right + LOOP + LOOP_STEP * (len(own) - 1) + 4
        y = box.centre.y - sum(label.height for label in labels) / 2
        for place, (index, label) in enumerate(zip(own, labels, strict=True), 1):
            points = _self_loop(box, box.right + LOOP + LOOP_STEP * (place - 1), place / (len(own) + 1))
            yield index, EdgePath(points, Box(x, y, *label) if label.width else None, back=True)
            y += label.height


def _self_loop(box: Box, x: float, part: float) -> tuple[Point, ...]:
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


def layout(boxes: Mapping[str, Size], links: Sequence[LayoutEdge], start: str) -> Layout:
    """Place boxes and lead lines. `start` and the ends of all links must be among the boxes."""
    filled = rows(boxes, links, flow(boxes, ((link.source, link.target) for link in links), start))
    order = ordered(filled)
    from_middle = columns(filled, order)
    side = Lanes(filled, order, from_middle, links)
    left = side.edge[LEFT]
    lanes = [replace(lane, x=lane.x + left) for lane in side.lanes]
    high = heights(filled, order, lanes, links)
    ground = _placement(filled, links, [x + left for x in from_middle], lanes, high)
    placed = {name: ground.box(filled.box[name]) for name in boxes}
    return Layout(Size(left + side.edge[RIGHT], ground.strips.end), placed, routes(ground))


def _placement(
    filled: Rows, links: Sequence[LayoutEdge], x: Sequence[float], lanes: Sequence[Lane], high: Sequence[float]
) -> Placement:
    stops = {link: _stops(filled, chain, high) for link, chain in filled.chains.items()}
    doors = ports(filled, x, stops, lanes)
    strips = stacked(high, tracks(filled, x, stops, lanes, doors))
    return Placement(filled, links, x, stops, lanes, doors, strips)


def _stops(filled: Rows, chain: Sequence[int], high: Sequence[float]) -> list[int]:
    """The items a line really passes: a row without height is no obstacle."""
    return [chain[0], *(item for item in chain[1:-1] if high[filled.items[item].row]), chain[-1]]

"""A route as the path of a line with round corners, and as its arrowhead."""

from collections.abc import Sequence

from pipeline.graph.draw.shapes import number
from pipeline.graph.layout.geometry import Point

_RADIUS = 12.0
_HEAD, _HALF = 9.0, 4.2  # length and half the breadth of an arrowhead


def path(points: Sequence[Point]) -> str:
    """The path of a line, which stops inside its arrowhead."""
    *most, last = points
    before = most[-1]
    along = _direction(before, last)
    ended = [*most, Point(last.x - along.x * _HEAD / 2, last.y - along.y * _HEAD / 2)]
    steps = [f"M{_at(ended[0])}"]
    for index in range(1, len(ended)):
        after = ended[index + 1] if index + 1 < len(ended) else None
        steps.append(_step(ended[index - 1], ended[index], after))
    return "".join(steps)


def head(points: Sequence[Point]) -> str:
    """The arrowhead at the end of a line."""
    tip = points[-1]
    along = _direction(points[-2], tip)
    base = Point(tip.x - along.x * _HEAD, tip.y - along.y * _HEAD)
    across = Point(-along.y * _HALF, along.x * _HALF)
    left, right = (Point(base.x + sign * across.x, base.y + sign * across.y) for sign in (1, -1))
    return f"M{_at(tip)}L{_at(left)}L{_at(right)}Z"


def _step(start: Point, end: Point, after: Point | None) -> str:
    if start.x != end.x and start.y != end.y:
        middle = (start.y + end.y) / 2
        return f"C{_at(Point(start.x, middle))} {_at(Point(end.x, middle))} {_at(end)}"
    if after is None or not _corner(start, end, after):
        return f"L{_at(end)}"
    radius = min(_RADIUS, _length(start, end) / 2, _length(end, after) / 2)
    before, beyond = _towards(end, start, radius), _towards(end, after, radius)
    return f"L{_at(before)}Q{_at(end)} {_at(beyond)}"


def _corner(start: Point, end: Point, after: Point) -> bool:
    return (start.x == end.x) == (end.y == after.y) and (end.x == after.x or end.y == after.y)


def _direction(start: Point, end: Point) -> Point:
    """Which way a piece of line points at its end; a bent one ends upright."""
    if start.y == end.y:
        return Point(1.0 if end.x > start.x else -1.0, 0.0)
    return Point(0.0, 1.0 if end.y > start.y else -1.0)


def _length(start: Point, end: Point) -> float:
    return abs(start.x - end.x) + abs(start.y - end.y)


def _towards(start: Point, end: Point, distance: float) -> Point:
    part = distance / (_length(start, end) or 1)
    return Point(start.x + (end.x - start.x) * part, start.y + (end.y - start.y) * part)


def _at(point: Point) -> str:
    return f"{number(point.x)} {number(point.y)}"

"""The elements of an SVG picture: the shapes and icons of stages, lines and arrowheads."""

from collections.abc import Sequence

from pipeline.graph.layout import Box, Point
from pipeline.text import escape_xml, one_line

BOLD = 1.07  # how much wider bold text is
ICON = 16.0  # the width and height of an icon

_CORNER_RADIUS = 12.0
_HEAD_LENGTH, _HEAD_HALF = 9.0, 4.2
_ICONS = {
    "llm": "M8 1.5 9.6 6.4 14.5 8 9.6 9.6 8 14.5 6.4 9.6 1.5 8 6.4 6.4Z",
    "review": "M11 6.5a4.5 4.5 0 1 1-9 0a4.5 4.5 0 0 1 9 0ZM9.8 9.8 14.5 14.5",
    "tool": "M2 3.5 6.5 8 2 12.5M8.5 12.5H14",
    "human": "M11 4.8a3 3 0 1 1-6 0a3 3 0 0 1 6 0ZM2.5 14.5c0-6.4 11-6.4 11 0",
    "decision": "M8 14.5V9M8 9C8 5.5 3 6.5 3 2M8 9C8 5.5 13 6.5 13 2M1 4 3 1.8 5 4M11 4 13 1.8 15 4",
    "triage": "M2 2.5H14L9.5 8.5V13.5L6.5 12V8.5Z",
    "parallel": "M3 2V14M8 2V14M13 2V14",
    "workspace": "M4 4.5V11.5M6 3a2 2 0 1 1-4 0a2 2 0 0 1 4 0ZM6 13a2 2 0 1 1-4 0a2 2 0 0 1 4 0Z"
    "M14 5a2 2 0 1 1-4 0a2 2 0 0 1 4 0ZM12 7C12 10 4 8.5 4 11",
    "exit": "M3.5 3.5H12.5V12.5H3.5Z",
    "missing": "M8 2V9.5M8 12.5V14",
}


def format_number(value: float) -> str:
    """Format a coordinate to a tenth."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # adding 0.0 makes a negative zero positive


def draw_tooltip(content: str) -> str:
    """Draw a title, which shows when the pointer rests on its element."""
    return f"<title>{escape_xml(one_line(content))}</title>"


def draw_text_line(content: str, at: Point, css: str) -> str:
    """Draw a line of text that starts at a point or is centered there, as its class says."""
    return f'<text class="{css}" x="{format_number(at.x)}" y="{format_number(at.y)}">{escape_xml(content)}</text>'


def draw_icon(name: str, corner: Point) -> str:
    """Draw the icon of a kind of stage with its upper left corner at a point."""
    at = f"translate({format_number(corner.x)} {format_number(corner.y)})"
    return f'<path class="sign" transform="{at}" d="{_ICONS[name]}"/>'


def draw_rectangle(box: Box, radius: float, css: str) -> str:
    """Draw a rectangle with round corners."""
    x, y, width, height = map(format_number, box)
    return f'<rect class="{css}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{format_number(radius)}"/>'


def draw_shape(family: str, box: Box) -> str:
    """Draw the outline of a stage; each kind has its own, to be told apart without color."""
    match family:
        case "tool":  # with a bar at either side, like a subroutine
            x, right, y, height = map(format_number, (box.x + 6, box.right - 6, box.y, box.height))
            bars = f"M{x} {y}v{height}M{right} {y}v{height}"
            return draw_rectangle(box, 2, "shape") + f'<path class="trim" d="{bars}"/>'
        case "human":  # an octagon
            return _draw_polygon(
                (box.x, box.y + 12),
                (box.x + 12, box.y),
                (box.right - 12, box.y),
                (box.right, box.y + 12),
                (box.right, box.bottom - 12),
                (box.right - 12, box.bottom),
                (box.x + 12, box.bottom),
                (box.x, box.bottom - 12),
            )
        case "decision":  # a hexagon
            return _draw_polygon(
                (box.x, box.center.y),
                (box.x + 18, box.y),
                (box.right - 18, box.y),
                (box.right, box.center.y),
                (box.right - 18, box.bottom),
                (box.x + 18, box.bottom),
            )
        case "triage":  # a funnel
            return _draw_polygon(
                (box.x, box.y), (box.right, box.y), (box.right - 12, box.bottom), (box.x + 12, box.bottom)
            )
        case "workspace":  # a cylinder
            x, right, top, bottom = map(format_number, (box.x, box.right, box.y + 4, box.bottom - 4))
            arc = f"A{format_number(box.width / 2)} 4 0 0"
            body = f"M{x} {top}{arc} 1 {right} {top}V{bottom}{arc} 1 {x} {bottom}Z"
            return f'<path class="shape" d="{body}"/><path class="trim" d="M{x} {top}{arc} 0 {right} {top}"/>'
        case "exit":  # a pill
            return draw_rectangle(box, box.height / 2, "shape")
    return draw_rectangle(box, 10, "shape")


def _draw_polygon(*corners: tuple[float, float]) -> str:
    points = " ".join(f"{format_number(x)},{format_number(y)}" for x, y in corners)
    return f'<polygon class="shape" points="{points}"/>'


def draw_line(points: Sequence[Point]) -> str:
    """Draw a line with round corners and an arrowhead at its end."""
    *others, tip = points
    if others[-1].y == tip.y:
        along = Point(1.0 if tip.x > others[-1].x else -1.0, 0.0)
    else:  # a soft bend ends vertically, too
        along = Point(0.0, 1.0 if tip.y > others[-1].y else -1.0)
    inside_head = Point(tip.x - along.x * _HEAD_LENGTH / 2, tip.y - along.y * _HEAD_LENGTH / 2)
    points = [*others, inside_head]
    steps = [f"M{_coordinates(points[0])}"]
    for start, end, following in zip(points, points[1:], (*points[2:], None), strict=False):
        steps.append(_line_step(start, end, following))
    base = Point(tip.x - along.x * _HEAD_LENGTH, tip.y - along.y * _HEAD_LENGTH)
    across = Point(-along.y * _HEAD_HALF, along.x * _HEAD_HALF)
    left, right = (Point(base.x + sign * across.x, base.y + sign * across.y) for sign in (1, -1))
    head = f"M{_coordinates(tip)}L{_coordinates(left)}L{_coordinates(right)}Z"
    return f'<path class="line" d="{"".join(steps)}"/><path class="head" d="{head}"/>'


def _line_step(start: Point, end: Point, following: Point | None) -> str:
    """Return the commands from one point to the next, or to the end of the rounded corner there."""
    if start.x != end.x and start.y != end.y:
        middle = (start.y + end.y) / 2
        return f"C{_coordinates(Point(start.x, middle))} {_coordinates(Point(end.x, middle))} {_coordinates(end)}"
    is_corner = following and (end.y == following.y if start.x == end.x else end.x == following.x)
    if not following or not is_corner:
        return f"L{_coordinates(end)}"
    radius = min(_CORNER_RADIUS, _distance(start, end) / 2, _distance(end, following) / 2)
    before, after = _toward(end, start, radius), _toward(end, following, radius)
    return f"L{_coordinates(before)}Q{_coordinates(end)} {_coordinates(after)}"


def _distance(start: Point, end: Point) -> float:
    return abs(start.x - end.x) + abs(start.y - end.y)


def _toward(start: Point, end: Point, distance: float) -> Point:
    part = distance / (_distance(start, end) or 1)
    return Point(start.x + (end.x - start.x) * part, start.y + (end.y - start.y) * part)


def _coordinates(point: Point) -> str:
    return f"{format_number(point.x)} {format_number(point.y)}"

"""The outline and the sign of each kind of stage, so that kinds are told apart without colour."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pipeline.graph.layout.geometry import Box, Point

ICON = 16.0  # the side of the square a sign is drawn in


def number(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")  # adding 0.0 makes a negative zero positive


def outline(family: str, box: Box) -> str:
    """The elements that draw a stage's shape."""
    return _OUTLINES.get(family, _rounded)(box)


def icon(name: str, corner: Point) -> str:
    """The sign of a kind, with its upper left corner at a point."""
    path = _ICONS.get(name)
    at = f"translate({number(corner.x)} {number(corner.y)})"
    return f'<path class="sign" transform="{at}" d="{path}"/>' if path else ""


def rectangle(box: Box, radius: float, css: str) -> str:
    """A rectangle with round corners."""
    place = f'x="{number(box.x)}" y="{number(box.y)}" width="{number(box.width)}" height="{number(box.height)}"'
    return f'<rect class="{css}" {place} rx="{number(radius)}"/>'


def _rounded(box: Box) -> str:
    return rectangle(box, 10, "shape")


def _barred(box: Box) -> str:
    """A box with a bar at either side: a routine that is called."""
    bars = "".join(f"M{number(x)} {number(box.y)}v{number(box.height)}" for x in (box.x + 6, box.right - 6))
    return rectangle(box, 2, "shape") + f'<path class="trim" d="{bars}"/>'


def _octagon(box: Box) -> str:
    return _polygon(box, 12, 12)


def _hexagon(box: Box) -> str:
    return _polygon(box, 18, box.height / 2)


def _polygon(box: Box, across: float, down: float) -> str:
    """A box with its corners cut off."""
    x, y, right, bottom = box.x, box.y, box.right, box.bottom
    upper = [(x, y + down), (x + across, y), (right - across, y), (right, y + down)]
    lower = [(right, bottom - down), (right - across, bottom), (x + across, bottom), (x, bottom - down)]
    return f'<polygon class="shape" points="{_points([*upper, *lower])}"/>'


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in dict.fromkeys(places))


def _funnel(box: Box) -> str:
    """A box that is narrower at its foot: much goes in, and some of it comes out."""
    corners = [(box.x, box.y), (box.right, box.y), (box.right - 12, box.bottom), (box.x + 12, box.bottom)]
    return f'<polygon class="shape" points="{_points(corners)}"/>'


def _cylinder(box: Box) -> str:
    x, right, top, bottom = (number(v) for v in (box.x, box.right, box.y + 4, box.bottom - 4))
    arc = f"A{number(box.width / 2)} 4 0 0"
    body = f"M{x} {top}{arc} 1 {right} {top}V{bottom}{arc} 1 {x} {bottom}Z"
    return f'<path class="shape" d="{body}"/><path class="trim" d="M{x} {top}{arc} 0 {right} {top}"/>'


def _pill(box: Box) -> str:
    return rectangle(box, box.height / 2, "shape")


_OUTLINES: Mapping[str, Callable[[Box], str]] = MappingProxyType(
    {
        "llm": _rounded,
        "tool": _barred,
        "human": _octagon,
        "decision": _hexagon,
        "triage": _funnel,
        "parallel": _rounded,
        "workspace": _cylinder,
        "exit": _pill,
    }
)
_ICONS: Mapping[str, str] = MappingProxyType(
    {
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
)

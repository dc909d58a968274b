"""How wide a text is in a picture whose font nobody knows: a generous guess, so that nothing sticks out."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from pipeline.graph.chart import clean, shorten
from pipeline.graph.layers import Box, Point

BOLD = 1.07  # how much wider bold letters are

_NARROW = frozenset("iljtfrI.,:;!|'`()[]{}·/ -")
_WIDE = frozenset("mwMW@%—…")
_CAPITAL, _SMALL = 0.7, 0.58  # in parts of the font's size


def text_width(text: str, size: float) -> float:
    """How many units a line of text takes at a font size."""
    return sum(map(_character_width, text)) * size


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    if character.isascii():
        return _CAPITAL if character.isupper() else _SMALL
    return _foreign(character)


def _foreign(character: str) -> float:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in ("W", "F") else 0.7


def fit(text: str, size: float, width: float) -> str:
    """A text cut with an ellipsis where it would be wider."""
    room = width / size
    for index, character in enumerate(text):
        room -= _character_width(character)
        if room < 0:
            return _cut(text[: index + 1], width / size)
    return text


def _cut(text: str, room: float) -> str:
    room -= _character_width("…")
    kept = len(text)
    taken = sum(map(_character_width, text))
    while kept and taken > room:
        kept -= 1
        taken -= _character_width(text[kept])
    return text[:kept].rstrip() + "…"


def lines(text: str, size: float, width: float, most: int) -> list[str]:
    """A text broken between words into at most so many lines, the last one cut."""
    broken = list(_wrapped(text[: int(most * width / size * 4)].split(" "), size, width, most))
    return [fit(line, size, width) for line in broken]


def _wrapped(words: Iterable[str], size: float, width: float, most: int) -> Iterator[str]:
    line, done = "", 0
    for word in words:
        longer = f"{line} {word}".lstrip()
        if line and done < most - 1 and text_width(longer, size) > width:
            yield line
            line, done = word, done + 1
        else:
            line = longer
    if line:
        yield line


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


MAX_TOOLTIP = 300  # characters of what shows when the pointer rests on something

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # by XML 1.0, in any spelling
_BREAKS = str.maketrans({"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})


def escape(content: str) -> str:
    """A text as the content of an element or the value of an attribute."""
    return html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", content), quote=True).translate(_BREAKS)


def note(content: str) -> str:
    """A title: what an element says of itself when asked."""
    return f"<title>{escape(shorten(clean(content), MAX_TOOLTIP))}</title>"


def text(content: str, at: Point, css: str) -> str:
    """A line of text that starts at a point, or stands around it, as its class says."""
    return f'<text class="{css}" x="{number(at.x)}" y="{number(at.y)}">{escape(content)}</text>'


_RADIUS = 12.0
_HEAD, _HALF = 9.0, 4.2  # length and half the breadth of an arrowhead


def path(points: Sequence[Point]) -> str:
    """The path of a line, which stops inside its arrowhead."""
    *most, last = points
    before = most[-1]
    along = _direction(before, last)
    ended = [*most, Point(last.x - along.x * _HEAD / 2, last.y - along.y * _HEAD / 2)]
    steps = [f"M{_coordinates(ended[0])}"]
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
    return f"M{_coordinates(tip)}L{_coordinates(left)}L{_coordinates(right)}Z"


def _step(start: Point, end: Point, after: Point | None) -> str:
    if start.x != end.x and start.y != end.y:
        middle = (start.y + end.y) / 2
        return f"C{_coordinates(Point(start.x, middle))} {_coordinates(Point(end.x, middle))} {_coordinates(end)}"
    if after is None or not _corner(start, end, after):
        return f"L{_coordinates(end)}"
    radius = min(_RADIUS, _length(start, end) / 2, _length(end, after) / 2)
    before, beyond = _towards(end, start, radius), _towards(end, after, radius)
    return f"L{_coordinates(before)}Q{_coordinates(end)} {_coordinates(beyond)}"


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


def _coordinates(point: Point) -> str:
    return f"{number(point.x)} {number(point.y)}"

"""The boxes of the picture: a stage with its sign, name and kind; a parallel stage around its branches."""

from collections.abc import Iterator, Mapping, Sequence

from pipeline.graph.draw.chart import Node
from pipeline.graph.draw.letters import BOLD, fit, text_width
from pipeline.graph.draw.marks import NOTHING_KNOWN, Marks, draw_sign, linked, mark_of
from pipeline.graph.draw.markup import escape, note, text
from pipeline.graph.draw.shapes import ICON, icon, number, outline
from pipeline.graph.draw.wording import clean
from pipeline.graph.layout.geometry import Box, Point, Size

START = Size(16, 16)

_NAME, _ABOUT = 14.0, 11.0  # font sizes
_HEIGHT, _EXIT_HEIGHT, _INNER_HEIGHT, _HEADER = 50.0, 42.0, 46.0, 40.0
_LEAST, _MOST = 132.0, 250.0  # how wide a box may be
_BESIDE = 16 + ICON + 9 + 18  # what stands left and right of the text
_PADDING, _GAP = 14.0, 12.0  # inside a container
_ACROSS = 3  # branches side by side


def sizes(nodes: Sequence[Node]) -> Mapping[str, Size]:
    """How large each box has to be; all that hold no other are equally wide, which is calmer to look at."""
    plain = [node for node in nodes if not node.inner and node.family != "exit"]
    width = max(map(_wanted, plain), default=_LEAST)
    return {node.id: _size(node, width) for node in nodes}


def _size(node: Node, width: float) -> Size:
    if node.inner:
        return _container(node)
    return Size(width, _HEIGHT) if node.family != "exit" else Size(_wanted(node), _EXIT_HEIGHT)


def _wanted(node: Node) -> float:
    name = text_width(clean(node.id)[:100], _NAME) * BOLD
    about = text_width(node.about, _ABOUT)
    wanted = min(_MOST, _BESIDE + max(name, about))
    return wanted + 8 if node.family == "exit" else max(_LEAST, wanted)


def _container(node: Node) -> Size:
    across = min(_ACROSS, len(node.inner))
    down = -(-len(node.inner) // across)
    inside = max(map(_wanted, node.inner)) * across + _GAP * (across - 1)
    width = max(inside, text_width(f"{clean(node.id)[:60]}  {node.about}", _NAME) + ICON)
    return Size(width + 2 * _PADDING, _HEADER + down * (_INNER_HEIGHT + _GAP) - _GAP + _PADDING)


def draw_node(node: Node, box: Box, marks: Marks = NOTHING_KNOWN) -> str:
    """A stage, with the branches it holds, and how a run stands there."""
    inside = "".join(draw_node(inner, place, marks) for inner, place in _places(node, box))
    mark = mark_of(marks, node.id)
    drawn = (_header(node, box) if node.inner else _words(node, box)) + draw_sign(mark, box)
    special = (one.replace(" ", "-") for one in node.marks if one in _MARKS)
    css = " ".join(filter(None, ("stage", node.family, *special, mark.css)))
    said = f"{node.id}: {node.about}" + (f", {mark.words}" if mark.words else "")
    group = f'<g class="{css}" data-stage="{escape(node.id)}">{note(said)}{outline(node.family, box)}{drawn}</g>'
    return f"{linked(group, mark)}{inside}\n"


_MARKS = frozenset(("review", "goal gate"))
_SLANTED = frozenset(("decision", "triage"))  # shapes whose sides leave less room


def _places(node: Node, box: Box) -> Iterator[tuple[Node, Box]]:
    across = min(_ACROSS, len(node.inner)) or 1
    width = (box.width - 2 * _PADDING - _GAP * (across - 1)) / across
    for index, inner in enumerate(node.inner):
        down, right = divmod(index, across)
        x = box.x + _PADDING + right * (width + _GAP)
        yield inner, Box(x, box.y + _HEADER + down * (_INNER_HEIGHT + _GAP), width, _INNER_HEIGHT)


def _words(node: Node, box: Box) -> str:
    """The sign at the left, the name and what kind of stage it is beside it."""
    sign = Point(box.x + (20 if node.family in _SLANTED else 16), box.centre.y - ICON / 2)
    x, room = sign.x + ICON + 9, box.width - _BESIDE + 8
    name = fit(clean(node.id), _NAME * BOLD, room)
    if name == node.about:
        return icon(_sign(node), sign) + text(name, Point(x, box.centre.y + 5), "name")
    y = box.centre.y + (2 if node.family == "workspace" else 0)  # below the rim of its shape
    about = text(fit(node.about, _ABOUT, room), Point(x, y + 13), "about")
    return icon(_sign(node), sign) + text(name, Point(x, y - 3), "name") + about


def _header(node: Node, box: Box) -> str:
    sign = Point(box.x + _PADDING, box.y + 12)
    name = fit(clean(node.id), _NAME, box.width * 0.6)
    x = sign.x + ICON + 9
    about = f'<tspan class="about" dx="8">{escape(node.about)}</tspan>'
    line = f'<text class="name" x="{number(x)}" y="{number(box.y + 25)}">{escape(name)}{about}</text>'
    return icon(_sign(node), sign) + line


def _sign(node: Node) -> str:
    return "review" if "review" in node.marks else node.family


def draw_start(box: Box) -> str:
    """The dot where a run begins."""
    at = f'cx="{number(box.centre.x)}" cy="{number(box.centre.y)}"'
    return f'<g class="start"><title>start</title><circle {at} r="{number(box.width / 2)}"/></g>\n'

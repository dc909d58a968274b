"""A workflow as a picture: text, Mermaid, Graphviz or SVG."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.graph.chart import (
    DARK,
    DARK_PAGE,
    LIGHT,
    LIGHT_PAGE,
    Arrow,
    BoxColors,
    Chart,
    ChartNode,
    PageColors,
    chart,
    clean,
    shorten,
)
from pipeline.graph.layers import NO_SIZE, Box, EdgePath, LayoutEdge, Point, Size
from pipeline.graph.layout import layout
from pipeline.graph.svg_elements import (
    BOLD,
    ICON,
    escape,
    fit,
    head,
    icon,
    lines,
    note,
    number,
    outline,
    path,
    rectangle,
    text,
    text_width,
)
from pipeline.language.edges import EdgeRole
from pipeline.language.model import Workflow

ArrowKey = tuple[str, str, EdgeRole]  # where a line comes from, where it leads, and as what

_BADGE_FONT, _BADGE_HEIGHT = 11.0, 18.0
_BADGE_BOLD = 1.15  # how much wider bold letters are


@dataclass(frozen=True, slots=True)
class StageMark:
    """How a run stands at a stage."""

    css: str
    words: str  # what the pointer is told
    sign: str = ""  # what stands at the corner of the box
    href: str = ""  # where the box leads


@dataclass(frozen=True, slots=True)
class RunOverlay:
    """How a run stands everywhere: at its stages, and how often each way was taken."""

    stages: Mapping[str, StageMark] = field(default_factory=dict)
    taken: Mapping[ArrowKey, int] = field(default_factory=dict)
    latest: ArrowKey | None = None  # the way that was taken last

    def css(self, way: ArrowKey) -> str:
        """The classes of a line."""
        return (" taken" if self.taken.get(way) else "") + (" latest" if way == self.latest else "")

    def times(self, way: ArrowKey) -> str:
        """How often a way was taken, for its note."""
        times = self.taken.get(way, 0)
        return f" (taken {times} times)" if times > 1 else " (taken once)" if times else ""


NO_OVERLAY = RunOverlay()
_UNMARKED = StageMark("", "")


def mark_of(marks: RunOverlay, stage: str) -> StageMark:
    """The mark of a stage; an empty one where there is none."""
    return marks.stages.get(stage, _UNMARKED)


def draw_sign(mark: StageMark, box: Box) -> str:
    """The sign of a mark, across the upper right corner of a box."""
    if not mark.sign:
        return ""
    width = text_width(mark.sign, _BADGE_FONT) * _BADGE_BOLD + 14
    place = Box(box.right - width + 6, box.y - _BADGE_HEIGHT / 2, width, _BADGE_HEIGHT)
    words = text(mark.sign, Point(place.centre.x, place.centre.y + 4), "sign-words")
    return f'<g class="badge">{rectangle(place, _BADGE_HEIGHT / 2, "plate")}{words}</g>'


def linked(drawn: str, mark: StageMark) -> str:
    """A drawing that leads where its mark says."""
    return f'<a href="{escape(mark.href)}">{drawn}</a>' if mark.href else drawn


_FONT_FAMILY = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_BASE = (
    f".awf text{{font-family:{_FONT_FAMILY};unicode-bidi:plaintext}}",
    ".awf .title{font-size:19px;font-weight:650}",
    ".awf .description{font-size:12.5px}",
    ".awf .name{font-size:14px;font-weight:600}",
    ".awf .about{font-size:11px;font-weight:400;opacity:.8}",
    ".awf .label{font-size:11.5px;text-anchor:middle}",
    ".awf .shape{stroke-width:1.5}",
    ".awf .goal-gate>.shape{stroke-width:3}",
    ".awf .missing>.shape{stroke-dasharray:5 4}",
    ".awf .trim,.awf .sign{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}",
    ".awf .line{fill:none;stroke-width:1.6;stroke-linecap:round}",
    ".awf .retry-target>.line,.awf .branch>.line{stroke-dasharray:2 5}",
)


def stylesheet(families: Iterable[str]) -> str:
    """The style of a picture that holds these kinds of stages."""
    kinds = sorted(families)
    light = "".join((*_BASE, *_page_rules(LIGHT_PAGE), *_box_rules(LIGHT, kinds)))
    dark = "".join((*_page_rules(DARK_PAGE), *_box_rules(DARK, kinds)))
    return f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>\n"


def _page_rules(page: PageColors) -> Iterator[str]:
    yield f".awf .card{{fill:{page.card};stroke:{page.border}}}.awf .ground{{fill:{page.card}}}"
    yield f".awf .title{{fill:{page.ink}}}.awf .description{{fill:{page.quiet}}}.awf .label{{fill:{page.ink}}}"
    yield f".awf .line{{stroke:{page.line}}}.awf .head{{fill:{page.line}}}.awf .start{{fill:{page.ink}}}"


def _box_rules(paints: Mapping[str, BoxColors], families: Iterable[str]) -> Iterator[str]:
    for family in families:
        paint, own = paints[family], f".awf .{family}>"
        yield f"{own}.shape{{fill:{paint.fill};stroke:{paint.stroke}}}"
        yield f"{own}.trim,{own}.sign{{stroke:{paint.stroke if family != 'exit' else paint.ink}}}"
        yield f"{own}text{{fill:{paint.ink}}}"


_LABEL_FONT, _LABEL_LEADING = 11.5, 15.0
_WIDEST = 170.0
_MAX_LABELS = 3  # ways that share a line and are named on it


def words(line: Arrow) -> list[str]:
    """What a line's label says, row by row."""
    shown = line.labels[:_MAX_LABELS]
    rows = [row for label in shown for row in lines(label, _LABEL_FONT, _measure(label), 2)]
    more = len(line.labels) - len(shown)
    return [*rows, f"and {more} more"] if more else rows


def _measure(label: str) -> float:
    """How wide to set a label, so that two rows are about equally long."""
    half = text_width(label[:100], _LABEL_FONT) * 0.56
    return _WIDEST if half * 2 > _WIDEST * 2 or half * 1.8 <= _WIDEST else half


def label_size(line: Arrow) -> Size:
    """How much room a line's label takes."""
    rows = words(line)
    if not rows:
        return NO_SIZE
    return Size(max(text_width(row, _LABEL_FONT) for row in rows) + 12, len(rows) * _LABEL_LEADING + 4)


def draw_line(line: Arrow, route: EdgePath, marks: RunOverlay = NO_OVERLAY) -> str:
    """A line with its arrowhead and label, and whether a run took it."""
    way = (line.source, line.target, line.role)
    css = " ".join(("edge", line.role.value.replace("_", "-"), *(["back"] if route.back else []))) + marks.css(way)
    ends = f'data-from="{escape(line.source)}" data-to="{escape(line.target)}"'
    drawn = f'<path class="line" d="{path(route.points)}"/><path class="head" d="{head(route.points)}"/>'
    label = _draw_label(words(line), route.label) if route.label else ""
    return f'<g class="{css}" {ends}>{note(_arrow_tooltip(line) + marks.times(way))}{drawn}{label}</g>\n'


def draw_entry(route: EdgePath) -> str:
    """The line from the dot to the first stage."""
    drawn = f'<path class="line" d="{path(route.points)}"/><path class="head" d="{head(route.points)}"/>'
    return f'<g class="edge entry">{drawn}</g>\n'


def _draw_label(rows: list[str], box: Box) -> str:
    baseline = box.y + _LABEL_LEADING - 1.5
    said = (
        text(row, Point(box.centre.x, baseline + index * _LABEL_LEADING), "label") for index, row in enumerate(rows)
    )
    return rectangle(box, 7, "ground") + "".join(said)


def _arrow_tooltip(line: Arrow) -> str:
    written = " | ".join(line.written) or ", ".join(line.labels)
    return f"{clean(line.source)[:60]} → {clean(line.target)[:60]}" + (f": {written[:400]}" if written else "")


START_SIZE = Size(16, 16)

_NAME, _ABOUT = 14.0, 11.0  # font sizes
_HEIGHT, _EXIT_HEIGHT, _INNER_HEIGHT, _HEADER = 50.0, 42.0, 46.0, 40.0
_MIN_WIDTH, _MAX_WIDTH = 132.0, 250.0  # how wide a box may be
_BESIDE = 16 + ICON + 9 + 18  # what stands left and right of the text
_PADDING, _GAP = 14.0, 12.0  # inside a container
_ACROSS = 3  # branches side by side


def sizes(nodes: Sequence[ChartNode]) -> Mapping[str, Size]:
    """How large each box has to be; all that hold no other are equally wide, which is calmer to look at."""
    plain = [node for node in nodes if not node.inner and node.family != "exit"]
    width = max(map(_wanted, plain), default=_MIN_WIDTH)
    return {node.id: _size(node, width) for node in nodes}


def _size(node: ChartNode, width: float) -> Size:
    if node.inner:
        return _container(node)
    return Size(width, _HEIGHT) if node.family != "exit" else Size(_wanted(node), _EXIT_HEIGHT)


def _wanted(node: ChartNode) -> float:
    name = text_width(clean(node.id)[:100], _NAME) * BOLD
    about = text_width(node.about, _ABOUT)
    wanted = min(_MAX_WIDTH, _BESIDE + max(name, about))
    return wanted + 8 if node.family == "exit" else max(_MIN_WIDTH, wanted)


def _container(node: ChartNode) -> Size:
    across = min(_ACROSS, len(node.inner))
    down = -(-len(node.inner) // across)
    inside = max(map(_wanted, node.inner)) * across + _GAP * (across - 1)
    width = max(inside, text_width(f"{clean(node.id)[:60]}  {node.about}", _NAME) + ICON)
    return Size(width + 2 * _PADDING, _HEADER + down * (_INNER_HEIGHT + _GAP) - _GAP + _PADDING)


def draw_node(node: ChartNode, box: Box, marks: RunOverlay = NO_OVERLAY) -> str:
    """A stage, with the branches it holds, and how a run stands there."""
    inside = "".join(draw_node(inner, place, marks) for inner, place in _places(node, box))
    mark = mark_of(marks, node.id)
    drawn = (_header(node, box) if node.inner else _box_text(node, box)) + draw_sign(mark, box)
    special = (one.replace(" ", "-") for one in node.marks if one in _MARKS)
    css = " ".join(filter(None, ("stage", node.family, *special, mark.css)))
    said = f"{node.id}: {node.about}" + (f", {mark.words}" if mark.words else "")
    group = f'<g class="{css}" data-stage="{escape(node.id)}">{note(said)}{outline(node.family, box)}{drawn}</g>'
    return f"{linked(group, mark)}{inside}\n"


_MARKS = frozenset(("review", "goal gate"))
_SLANTED = frozenset(("decision", "triage"))  # shapes whose sides leave less room


def _places(node: ChartNode, box: Box) -> Iterator[tuple[ChartNode, Box]]:
    across = min(_ACROSS, len(node.inner)) or 1
    width = (box.width - 2 * _PADDING - _GAP * (across - 1)) / across
    for index, inner in enumerate(node.inner):
        down, right = divmod(index, across)
        x = box.x + _PADDING + right * (width + _GAP)
        yield inner, Box(x, box.y + _HEADER + down * (_INNER_HEIGHT + _GAP), width, _INNER_HEIGHT)


def _box_text(node: ChartNode, box: Box) -> str:
    """The sign at the left, the name and what kind of stage it is beside it."""
    sign = Point(box.x + (20 if node.family in _SLANTED else 16), box.centre.y - ICON / 2)
    x, room = sign.x + ICON + 9, box.width - _BESIDE + 8
    name = fit(clean(node.id), _NAME * BOLD, room)
    if name == node.about:
        return icon(_sign(node), sign) + text(name, Point(x, box.centre.y + 5), "name")
    y = box.centre.y + (2 if node.family == "workspace" else 0)  # below the rim of its shape
    about = text(fit(node.about, _ABOUT, room), Point(x, y + 13), "about")
    return icon(_sign(node), sign) + text(name, Point(x, y - 3), "name") + about


def _header(node: ChartNode, box: Box) -> str:
    sign = Point(box.x + _PADDING, box.y + 12)
    name = fit(clean(node.id), _NAME, box.width * 0.6)
    x = sign.x + ICON + 9
    about = f'<tspan class="about" dx="8">{escape(node.about)}</tspan>'
    line = f'<text class="name" x="{number(x)}" y="{number(box.y + 25)}">{escape(name)}{about}</text>'
    return icon(_sign(node), sign) + line


def _sign(node: ChartNode) -> str:
    return "review" if "review" in node.marks else node.family


def draw_start(box: Box) -> str:
    """The dot where a run begins."""
    at = f'cx="{number(box.centre.x)}" cy="{number(box.centre.y)}"'
    return f'<g class="start"><title>start</title><circle {at} r="{number(box.width / 2)}"/></g>\n'


_ENTRY = "start"


@dataclass(frozen=True, slots=True)
class PlacedChart:
    """A chart with the place of everything on it."""

    chart: Chart
    size: Size
    start: Box
    entry: EdgePath
    nodes: tuple[tuple[ChartNode, Box], ...]
    lines: tuple[tuple[Arrow, EdgePath], ...]


def place_chart(workflow: Workflow) -> PlacedChart:
    """The boxes and lines of a workflow, in their places."""
    drawn = chart(workflow)
    names = {node.id: f"n{index}" for index, node in enumerate(drawn.nodes)}
    boxes = {_ENTRY: START_SIZE} | {names[node]: size for node, size in sizes(drawn.nodes).items()}
    links = [LayoutEdge(_ENTRY, names[drawn.outer(drawn.start)])]
    links += [
        LayoutEdge(names[drawn.outer(ln.source)], names[drawn.outer(ln.target)], label_size(ln)) for ln in drawn.lines
    ]
    placed = layout(boxes, links, _ENTRY)
    entry, *routes = placed.routes
    return PlacedChart(
        chart=drawn,
        size=placed.size,
        start=placed.boxes[_ENTRY],
        entry=entry,
        nodes=tuple((node, placed.boxes[names[node.id]]) for node in drawn.nodes),
        lines=tuple(zip(drawn.lines, routes, strict=True)),
    )


_OVERLAY_MARGIN = 14.0  # signs reach over the corners of their boxes


def draw_run(placed: PlacedChart, marks: RunOverlay) -> str:
    """The picture, for a page that brings the style: there is none in it, so that a strict policy can stay strict."""
    width, height = placed.size.width + 2 * _OVERLAY_MARGIN, placed.size.height + 2 * _OVERLAY_MARGIN
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    about = f'role="group" aria-label="{escape(f"The stages of {placed.chart.name}")}"'
    margin, drawn = number(_OVERLAY_MARGIN), "".join(_overlay_body(placed, marks))
    body = f'<g transform="translate({margin} {margin})">\n{drawn}</g>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="awf" {about} {size}>\n{body}</svg>\n'


def _was_taken(line: Arrow, marks: RunOverlay) -> bool:
    return (line.source, line.target, line.role) in marks.taken


def _overlay_body(placed: PlacedChart, marks: RunOverlay) -> Iterator[str]:
    """What was not taken below what was, and the boxes above both."""
    yield draw_entry(placed.entry)
    for line, route in sorted(placed.lines, key=lambda one: _was_taken(one[0], marks)):
        yield draw_line(line, route, marks)
    yield draw_start(placed.start)
    for node, box in placed.nodes:
        yield draw_node(node, box, marks)


_MARGIN = 28.0
_MIN_PICTURE_WIDTH = 420.0  # units across, so that the description is not broken into a column
_TITLE, _DESCRIPTION, _LEADING = 19.0, 12.5, 17.0


def draw_svg(workflow: Workflow) -> str:
    """The picture, with a class and the id of the stage on everything a page may want to colour."""
    placed = place_chart(workflow)
    drawn = placed.chart
    width = max(_MIN_PICTURE_WIDTH, placed.size.width) + 2 * _MARGIN
    heading = list(_heading(drawn, width - 2 * _MARGIN))
    top = _MARGIN + _TITLE + len(heading) * _LEADING
    height = top + placed.size.height + _MARGIN
    left = (width - placed.size.width) / 2
    body = f'<g transform="translate({number(left)} {number(top)})">\n{"".join(_body(placed))}</g>\n'
    card = rectangle(Box(0.5, 0.5, width - 1, height - 1), 14, "card")
    return f"{_opening(drawn, width, height)}{card}\n{''.join(heading)}{body}</svg>\n"


def _opening(drawn: Chart, width: float, height: float) -> str:
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    families = {node.family for node in drawn.every}
    about = f"<title>{escape(shorten(drawn.name, 200))}</title>\n<desc>{escape(_described(drawn))}</desc>\n"
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="awf" role="img" {size}>\n'
    return f"{opening}{about}{stylesheet(families)}"


def _described(drawn: Chart) -> str:
    stages = ", ".join(shorten(node.id, 40) for node in drawn.nodes[:50])
    return shorten(f"{drawn.description} Stages: {stages}.".strip(), 2000)


def _heading(drawn: Chart, width: float) -> Iterator[str]:
    y = _MARGIN + _TITLE * 0.6
    yield text(fit(drawn.name, _TITLE * BOLD, width), Point(_MARGIN, y), "title") + "\n"
    for index, row in enumerate(lines(drawn.description, _DESCRIPTION, width, 3), 1):
        yield text(row, Point(_MARGIN, y + 4 + index * _LEADING), "description") + "\n"


def _body(placed: PlacedChart) -> Iterator[str]:
    """The lines below the boxes: a line never hides a stage."""
    yield draw_entry(placed.entry)
    for line, route in placed.lines:
        yield draw_line(line, route)
    yield draw_start(placed.start)
    for node, box in placed.nodes:
        yield draw_node(node, box)

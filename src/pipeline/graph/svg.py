"""A workflow as an SVG picture, on its own or with the progress of a run on it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.graph.chart import (
    DARK,
    DARK_PAGE,
    LIGHT,
    LIGHT_PAGE,
    Arrow,
    ArrowKey,
    BoxColors,
    Chart,
    ChartNode,
    PageColors,
    build_chart,
)
from pipeline.graph.layers import NO_SIZE, LayoutEdge, Size
from pipeline.graph.layout import Box, EdgePath, Point, compute_layout
from pipeline.graph.svg_elements import (
    BOLD,
    ICON,
    draw_icon,
    draw_line,
    draw_rectangle,
    draw_shape,
    draw_text_line,
    draw_tooltip,
    format_number,
)
from pipeline.language.model import Workflow
from pipeline.text import drawn_width, escape_xml, sanitize_line, truncate, truncate_drawn, wrap_drawn

_MARGIN = 28.0
_MIN_PICTURE_WIDTH = 420.0  # so that the description is not broken into a column
_TITLE_FONT, _DESCRIPTION_FONT, _LEADING = 19.0, 12.5, 17.0
_RUN_MARGIN = 14.0  # badges reach over the corners of their boxes

_ENTRY = "start"  # the dot before the first stage
_ENTRY_SIZE = Size(16, 16)
_NAME_FONT, _SUBTITLE_FONT = 14.0, 11.0
_HEIGHT, _EXIT_HEIGHT = 50.0, 42.0
_MIN_WIDTH, _MAX_WIDTH = 132.0, 250.0
_BESIDE_TEXT = 16 + ICON + 9 + 18  # left and right of the text in a box
_SLANTED = ("decision", "triage")  # shapes whose sides leave less room for text

_HEADER, _BRANCH_HEIGHT = 40.0, 46.0
_PADDING, _GAP = 14.0, 12.0  # inside a parallel stage
_MAX_ACROSS = 3  # branches side by side

_LABEL_FONT, _LABEL_LEADING = 11.5, 15.0
_MAX_LABEL_WIDTH = 170.0
_MAX_LABELS = 3  # on one arrow

_BADGE_FONT, _BADGE_HEIGHT = 11.0, 18.0
_BADGE_BOLD = 1.15

_FONT_FAMILY = "ui-sans-serif,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
# Every rule names the class of the picture, so that none applies to a page around it.
_BASE_RULES = (
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
    ".awf .retry-target>.line,.awf .branch>.line,.awf .loop>.line{stroke-dasharray:2 5}",
)


@dataclass(frozen=True, slots=True)
class StageMark:
    """What a run did at a stage."""

    css: str = ""
    tooltip: str = ""
    badge: str = ""  # at the corner of the box
    href: str = ""


@dataclass(frozen=True, slots=True)
class RunOverlay:
    """The progress of a run: what it did at its stages, and how often it followed each arrow."""

    stages: Mapping[str, StageMark] = field(default_factory=dict)
    taken: Mapping[ArrowKey, int] = field(default_factory=dict)
    latest: ArrowKey | None = None


@dataclass(frozen=True, slots=True)
class PlacedChart:
    """A chart and the place of everything on it, for any number of pictures."""

    chart: Chart
    size: Size
    start: Box
    entry: EdgePath
    nodes: tuple[tuple[ChartNode, Box], ...]
    arrows: tuple[tuple[Arrow, EdgePath], ...]


def place_chart(workflow: Workflow) -> PlacedChart:
    """Lay out the boxes and arrows of a workflow."""
    chart = build_chart(workflow)
    names = {node.id: f"n{index}" for index, node in enumerate(chart.nodes)}
    sizes = {_ENTRY: _ENTRY_SIZE} | {names[node]: size for node, size in _box_sizes(chart.nodes).items()}
    edges = [LayoutEdge(_ENTRY, names[chart.outer(chart.start)])]
    for arrow in chart.arrows:
        source, target = names[chart.outer(arrow.source)], names[chart.outer(arrow.target)]
        edges.append(LayoutEdge(source, target, _label_size(arrow)))
    layout = compute_layout(sizes, edges, _ENTRY)
    entry, *paths = layout.paths
    return PlacedChart(
        chart=chart,
        size=layout.size,
        start=layout.boxes[_ENTRY],
        entry=entry,
        nodes=tuple((node, layout.boxes[names[node.id]]) for node in chart.nodes),
        arrows=tuple(zip(chart.arrows, paths, strict=True)),
    )


def draw_svg(workflow: Workflow) -> str:
    """Draw a picture that needs no script, font or other file, in light and dark colors."""
    placed = place_chart(workflow)
    chart = placed.chart
    width = max(_MIN_PICTURE_WIDTH, placed.size.width) + 2 * _MARGIN
    title = truncate_drawn(chart.name, _TITLE_FONT * BOLD, width - 2 * _MARGIN)
    description = wrap_drawn(chart.description, _DESCRIPTION_FONT, width - 2 * _MARGIN, 3)
    baseline = _MARGIN + _TITLE_FONT * 0.6
    heading = [draw_text_line(title, Point(_MARGIN, baseline), "title")]
    for index, row in enumerate(description, 1):
        heading.append(draw_text_line(row, Point(_MARGIN, baseline + 4 + index * _LEADING), "description"))
    top = _MARGIN + _TITLE_FONT + len(heading) * _LEADING
    height = top + placed.size.height + _MARGIN
    stages = ", ".join(truncate(node.id, 40) for node in chart.nodes[:50])
    spoken = truncate(f"{chart.description} Stages: {stages}.".strip(), 2000)
    content = (
        f"<title>{escape_xml(truncate(chart.name, 200))}</title>",
        f"<desc>{escape_xml(spoken)}</desc>",
        _stylesheet({node.family for node in chart.all_nodes}),
        draw_rectangle(Box(0.5, 0.5, width - 1, height - 1), 14, "card"),
        *heading,
        _draw_chart(placed, RunOverlay(), Point((width - placed.size.width) / 2, top)),
    )
    return _draw_document('role="img"', Size(width, height), "\n".join(content))


def draw_run(placed: PlacedChart, overlay: RunOverlay) -> str:
    """Draw the progress of a run, without a stylesheet: the page brings it, since its policy may forbid any other."""
    size = Size(placed.size.width + 2 * _RUN_MARGIN, placed.size.height + 2 * _RUN_MARGIN)
    attributes = f'role="group" aria-label="{escape_xml(f"The stages of {placed.chart.name}")}"'
    return _draw_document(attributes, size, _draw_chart(placed, overlay, Point(_RUN_MARGIN, _RUN_MARGIN)))


def _draw_document(attributes: str, size: Size, content: str) -> str:
    width, height = map(format_number, size)
    attributes += f' width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="awf" {attributes}>\n{content}\n</svg>\n'


def _draw_chart(placed: PlacedChart, overlay: RunOverlay, at: Point) -> str:
    """Draw the boxes above the arrows, and the arrows that the run took above the others."""
    arrows = sorted(placed.arrows, key=lambda each: each[0].key in overlay.taken)
    cx, cy, radius = map(format_number, (*placed.start.center, placed.start.width / 2))
    parts = [
        f'<g class="edge entry">{draw_line(placed.entry.points)}</g>\n',
        *(_draw_arrow(arrow, path, overlay) for arrow, path in arrows),
        f'<g class="start"><title>start</title><circle cx="{cx}" cy="{cy}" r="{radius}"/></g>\n',
        *(_draw_node(node, box, overlay) for node, box in placed.nodes),
    ]
    return f'<g transform="translate({format_number(at.x)} {format_number(at.y)})">\n{"".join(parts)}</g>'


def _box_sizes(nodes: Sequence[ChartNode]) -> dict[str, Size]:
    """Return the size of every box. Plain boxes are equally wide, which is calmer to look at."""
    plain = (_box_width(node) for node in nodes if not node.branches and node.family != "exit")
    width = max(plain, default=_MIN_WIDTH)
    sizes: dict[str, Size] = {}
    for node in nodes:
        if node.branches:
            across = min(_MAX_ACROSS, len(node.branches))
            down = -(-len(node.branches) // across)
            inside = max(map(_box_width, node.branches)) * across + _GAP * (across - 1)
            header = drawn_width(f"{sanitize_line(node.id)[:60]}  {node.subtitle}", _NAME_FONT) + ICON
            height = _HEADER + down * (_BRANCH_HEIGHT + _GAP) - _GAP + _PADDING
            sizes[node.id] = Size(max(inside, header) + 2 * _PADDING, height)
        elif node.family == "exit":
            sizes[node.id] = Size(_box_width(node), _EXIT_HEIGHT)
        else:
            sizes[node.id] = Size(width, _HEIGHT)
    return sizes


def _box_width(node: ChartNode) -> float:
    name = drawn_width(sanitize_line(node.id)[:100], _NAME_FONT) * BOLD
    width = min(_MAX_WIDTH, _BESIDE_TEXT + max(name, drawn_width(node.subtitle, _SUBTITLE_FONT)))
    return width + 8 if node.family == "exit" else max(_MIN_WIDTH, width)


def _draw_node(node: ChartNode, box: Box, overlay: RunOverlay) -> str:
    """Draw a stage with its mark, and the branches inside it."""
    mark = overlay.stages.get(node.id, StageMark())
    traits = (trait.replace(" ", "-") for trait in node.traits if trait in ("review", "goal gate"))
    css = " ".join(filter(None, ("stage", node.family, *traits, mark.css)))
    tooltip = f"{node.id}: {node.subtitle}" + (f", {mark.tooltip}" if mark.tooltip else "")
    content = draw_tooltip(tooltip) + draw_shape(node.family, box)
    content += (_draw_header(node, box) if node.branches else _draw_box_text(node, box)) + _draw_badge(mark, box)
    drawn = f'<g class="{css}" data-stage="{escape_xml(node.id)}">{content}</g>'
    if mark.href:
        drawn = f'<a href="{escape_xml(mark.href)}">{drawn}</a>'
    across = min(_MAX_ACROSS, len(node.branches)) or 1
    width = (box.width - 2 * _PADDING - _GAP * (across - 1)) / across
    for index, branch in enumerate(node.branches):
        row, column = divmod(index, across)
        x = box.x + _PADDING + column * (width + _GAP)
        y = box.y + _HEADER + row * (_BRANCH_HEIGHT + _GAP)
        drawn += _draw_node(branch, Box(x, y, width, _BRANCH_HEIGHT), overlay)
    return f"{drawn}\n"


def _draw_box_text(node: ChartNode, box: Box) -> str:
    """Draw the icon at the left, and the name and kind beside it."""
    icon = Point(box.x + (20 if node.family in _SLANTED else 16), box.center.y - ICON / 2)
    x, room = icon.x + ICON + 9, box.width - _BESIDE_TEXT + 8
    name = truncate_drawn(sanitize_line(node.id), _NAME_FONT * BOLD, room)
    drawn = draw_icon(_icon_name(node), icon)
    if name == node.subtitle:
        return drawn + draw_text_line(name, Point(x, box.center.y + 5), "name")
    y = box.center.y + (2 if node.family == "workspace" else 0)  # below the rim of the cylinder
    subtitle = truncate_drawn(node.subtitle, _SUBTITLE_FONT, room)
    return drawn + draw_text_line(name, Point(x, y - 3), "name") + draw_text_line(subtitle, Point(x, y + 13), "about")


def _draw_header(node: ChartNode, box: Box) -> str:
    icon = Point(box.x + _PADDING, box.y + 12)
    x, y = format_number(icon.x + ICON + 9), format_number(box.y + 25)
    name = escape_xml(truncate_drawn(sanitize_line(node.id), _NAME_FONT, box.width * 0.6))
    subtitle = f'<tspan class="about" dx="8">{escape_xml(node.subtitle)}</tspan>'
    return draw_icon(_icon_name(node), icon) + f'<text class="name" x="{x}" y="{y}">{name}{subtitle}</text>'


def _icon_name(node: ChartNode) -> str:
    return "review" if "review" in node.traits else node.family


def _draw_badge(mark: StageMark, box: Box) -> str:
    """Draw the badge of a mark across the upper right corner of a box."""
    if not mark.badge:
        return ""
    width = drawn_width(mark.badge, _BADGE_FONT) * _BADGE_BOLD + 14
    plate = Box(box.right - width + 6, box.y - _BADGE_HEIGHT / 2, width, _BADGE_HEIGHT)
    text = draw_text_line(mark.badge, Point(plate.center.x, plate.center.y + 4), "sign-words")
    return f'<g class="badge">{draw_rectangle(plate, _BADGE_HEIGHT / 2, "plate")}{text}</g>'


def _draw_arrow(arrow: Arrow, path: EdgePath, overlay: RunOverlay) -> str:
    """Draw an arrow with its label, and whether the run took it."""
    times = overlay.taken.get(arrow.key, 0)
    css = f"edge {arrow.role.value.replace('_', '-')}" + " back" * arrow.back
    css += " taken" * (times > 0) + " latest" * (arrow.key == overlay.latest)
    condition = (" | ".join(arrow.conditions) or ", ".join(arrow.labels))[:400]
    tooltip = f"{sanitize_line(arrow.source)[:60]} → {sanitize_line(arrow.target)[:60]}"
    tooltip += f": {condition}" if condition else ""
    if times:
        tooltip += f" (taken {times} times)" if times > 1 else " (taken once)"
    content = draw_tooltip(tooltip) + draw_line(path.points)
    if path.label:
        x, y = path.label.center.x, path.label.y + _LABEL_LEADING - 1.5
        content += draw_rectangle(path.label, 7, "ground")
        for index, row in enumerate(_label_rows(arrow)):
            content += draw_text_line(row, Point(x, y + index * _LABEL_LEADING), "label")
    ends = f'data-from="{escape_xml(arrow.source)}" data-to="{escape_xml(arrow.target)}"'
    return f'<g class="{css}" {ends}>{content}</g>\n'


def _label_size(arrow: Arrow) -> Size:
    rows = _label_rows(arrow)
    if not rows:
        return NO_SIZE
    return Size(max(drawn_width(row, _LABEL_FONT) for row in rows) + 12, len(rows) * _LABEL_LEADING + 4)


def _label_rows(arrow: Arrow) -> list[str]:
    """Return the rows of an arrow's label: up to two for each condition, of about the same length."""
    rows: list[str] = []
    for label in arrow.labels[:_MAX_LABELS]:
        half = drawn_width(label[:100], _LABEL_FONT) * 0.56
        fits_two_rows = half <= _MAX_LABEL_WIDTH < half * 1.8
        rows += wrap_drawn(label, _LABEL_FONT, half if fits_two_rows else _MAX_LABEL_WIDTH, 2)
    more = len(arrow.labels) - _MAX_LABELS
    return [*rows, f"and {more} more"] if more > 0 else rows


def _stylesheet(families: Iterable[str]) -> str:
    """Return the style of a picture with these kinds of stages, in light and dark."""
    kinds = sorted(families)
    light = "".join((*_BASE_RULES, *_color_rules(LIGHT_PAGE, LIGHT, kinds)))
    dark = "".join(_color_rules(DARK_PAGE, DARK, kinds))
    return f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def _color_rules(page: PageColors, boxes: Mapping[str, BoxColors], families: Iterable[str]) -> Iterator[str]:
    yield f".awf .card{{fill:{page.card};stroke:{page.border}}}.awf .ground{{fill:{page.card}}}"
    yield f".awf .title{{fill:{page.ink}}}.awf .description{{fill:{page.quiet}}}.awf .label{{fill:{page.ink}}}"
    yield f".awf .line{{stroke:{page.line}}}.awf .head{{fill:{page.line}}}.awf .start{{fill:{page.ink}}}"
    for family in families:
        colors, selector = boxes[family], f".awf .{family}>"
        yield f"{selector}.shape{{fill:{colors.fill};stroke:{colors.stroke}}}"
        yield f"{selector}.trim,{selector}.sign{{stroke:{colors.stroke if family != 'exit' else colors.ink}}}"
        yield f"{selector}text{{fill:{colors.ink}}}"

"""The lines of the picture, with their labels."""

from pipeline.graph.draw.chart import Line
from pipeline.graph.draw.letters import lines, text_width
from pipeline.graph.draw.marks import NOTHING_KNOWN, Marks
from pipeline.graph.draw.markup import escape, note, text
from pipeline.graph.draw.paths import head, path
from pipeline.graph.draw.shapes import rectangle
from pipeline.graph.draw.wording import clean
from pipeline.graph.layout.geometry import NOTHING, Box, Point, Route, Size

_FONT, _LEADING = 11.5, 15.0
_WIDEST = 170.0
_LABELS = 3  # ways that share a line and are named on it


def words(line: Line) -> list[str]:
    """What a line's label says, row by row."""
    shown = line.labels[:_LABELS]
    rows = [row for label in shown for row in lines(label, _FONT, _measure(label), 2)]
    more = len(line.labels) - len(shown)
    return [*rows, f"and {more} more"] if more else rows


def _measure(label: str) -> float:
    """How wide to set a label, so that two rows are about equally long."""
    half = text_width(label[:100], _FONT) * 0.56
    return _WIDEST if half * 2 > _WIDEST * 2 or half * 1.8 <= _WIDEST else half


def label_size(line: Line) -> Size:
    """How much room a line's label takes."""
    rows = words(line)
    if not rows:
        return NOTHING
    return Size(max(text_width(row, _FONT) for row in rows) + 12, len(rows) * _LEADING + 4)


def draw_line(line: Line, route: Route, marks: Marks = NOTHING_KNOWN) -> str:
    """A line with its arrowhead and label, and whether a run took it."""
    way = (line.source, line.target, line.role)
    css = " ".join(("edge", line.role.value.replace("_", "-"), *(["back"] if route.back else []))) + marks.css(way)
    ends = f'data-from="{escape(line.source)}" data-to="{escape(line.target)}"'
    drawn = f'<path class="line" d="{path(route.points)}"/><path class="head" d="{head(route.points)}"/>'
    label = _label(words(line), route.label) if route.label else ""
    return f'<g class="{css}" {ends}>{note(_about(line) + marks.times(way))}{drawn}{label}</g>\n'


def draw_entry(route: Route) -> str:
    """The line from the dot to the first stage."""
    drawn = f'<path class="line" d="{path(route.points)}"/><path class="head" d="{head(route.points)}"/>'
    return f'<g class="edge entry">{drawn}</g>\n'


def _label(rows: list[str], box: Box) -> str:
    baseline = box.y + _LEADING - 1.5
    said = (text(row, Point(box.centre.x, baseline + index * _LEADING), "label") for index, row in enumerate(rows))
    return rectangle(box, 7, "ground") + "".join(said)


def _about(line: Line) -> str:
    written = " | ".join(line.written) or ", ".join(line.labels)
    return f"{clean(line.source)[:60]} → {clean(line.target)[:60]}" + (f": {written[:400]}" if written else "")

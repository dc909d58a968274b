"""The picture of a run: its workflow, marked with how the run stands. It has no colours; the page brings them."""

from collections.abc import Iterator

from pipeline.graph.draw.arranged import Arranged
from pipeline.graph.draw.arrows import draw_entry, draw_line
from pipeline.graph.draw.boxes import draw_node, draw_start
from pipeline.graph.draw.chart import Line
from pipeline.graph.draw.marks import Marks
from pipeline.graph.draw.markup import escape
from pipeline.graph.draw.shapes import number

_MARGIN = 14.0  # signs reach over the corners of their boxes


def draw_run(placed: Arranged, marks: Marks) -> str:
    """The picture, for a page that brings the style: there is none in it, so that a strict policy can stay strict."""
    width, height = placed.size.width + 2 * _MARGIN, placed.size.height + 2 * _MARGIN
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    about = f'role="group" aria-label="{escape(f"The stages of {placed.chart.name}")}"'
    body = f'<g transform="translate({number(_MARGIN)} {number(_MARGIN)})">\n{"".join(_body(placed, marks))}</g>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="awf" {about} {size}>\n{body}</svg>\n'


def _was_taken(line: Line, marks: Marks) -> bool:
    return (line.source, line.target, line.role) in marks.taken


def _body(placed: Arranged, marks: Marks) -> Iterator[str]:
    """What was not taken below what was, and the boxes above both."""
    yield draw_entry(placed.entry)
    for line, route in sorted(placed.lines, key=lambda one: _was_taken(one[0], marks)):
        yield draw_line(line, route, marks)
    yield draw_start(placed.start)
    for node, box in placed.nodes:
        yield draw_node(node, box, marks)

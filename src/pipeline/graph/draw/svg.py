"""A workflow as one picture that needs nothing else: no script, no font, no second file."""

from collections.abc import Iterator

from pipeline.graph.draw.arranged import Arranged, arranged
from pipeline.graph.draw.arrows import draw_entry, draw_line
from pipeline.graph.draw.boxes import draw_node, draw_start
from pipeline.graph.draw.chart import Chart
from pipeline.graph.draw.letters import BOLD, fit, lines
from pipeline.graph.draw.markup import escape, text
from pipeline.graph.draw.shapes import number, rectangle
from pipeline.graph.draw.stylesheet import stylesheet
from pipeline.graph.draw.wording import shorten
from pipeline.graph.layout.geometry import Box, Point
from pipeline.language.model import Workflow

_MARGIN = 28.0
_LEAST = 420.0  # units across, so that the description is not broken into a column
_TITLE, _DESCRIPTION, _LEADING = 19.0, 12.5, 17.0


def draw_svg(workflow: Workflow) -> str:
    """The picture, with a class and the id of the stage on everything a page may want to colour."""
    placed = arranged(workflow)
    drawn = placed.chart
    width = max(_LEAST, placed.size.width) + 2 * _MARGIN
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


def _body(placed: Arranged) -> Iterator[str]:
    """The lines below the boxes: a line never hides a stage."""
    yield draw_entry(placed.entry)
    for line, route in placed.lines:
        yield draw_line(line, route)
    yield draw_start(placed.start)
    for node, box in placed.nodes:
        yield draw_node(node, box)

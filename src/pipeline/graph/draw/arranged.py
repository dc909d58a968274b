"""A workflow's boxes and lines in their places, which is most of the work of a picture: they are the same in each."""

from dataclasses import dataclass

from pipeline.graph.draw.arrows import label_size
from pipeline.graph.draw.boxes import START, sizes
from pipeline.graph.draw.chart import Chart, Line, Node, chart
from pipeline.graph.layout.geometry import Box, Link, Route, Size
from pipeline.graph.layout.layered import layout
from pipeline.language.model import Workflow

_ENTRY = "start"


@dataclass(frozen=True, slots=True)
class Arranged:
    """A chart with the place of everything on it."""

    chart: Chart
    size: Size
    start: Box
    entry: Route
    nodes: tuple[tuple[Node, Box], ...]
    lines: tuple[tuple[Line, Route], ...]


def arranged(workflow: Workflow) -> Arranged:
    """The boxes and lines of a workflow, in their places."""
    drawn = chart(workflow)
    names = {node.id: f"n{index}" for index, node in enumerate(drawn.nodes)}
    boxes = {_ENTRY: START} | {names[node]: size for node, size in sizes(drawn.nodes).items()}
    links = [Link(_ENTRY, names[drawn.outer(drawn.start)])]
    links += [Link(names[drawn.outer(ln.source)], names[drawn.outer(ln.target)], label_size(ln)) for ln in drawn.lines]
    placed = layout(boxes, links, _ENTRY)
    entry, *routes = placed.routes
    return Arranged(
        chart=drawn,
        size=placed.size,
        start=placed.boxes[_ENTRY],
        entry=entry,
        nodes=tuple((node, placed.boxes[names[node.id]]) for node in drawn.nodes),
        lines=tuple(zip(drawn.lines, routes, strict=True)),
    )

"""A layered layout in the manner of Sugiyama: boxes from top to bottom, lines that cross no box, labels with room.

Boxes stand in rows by how far they are from the start; labels have rows of their own in between. A line onward passes
through every row between its ends in a place of its own; a line back goes around in a lane at the side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.graph.columns import columns
from pipeline.graph.flow import flow
from pipeline.graph.geometry import Layout, Link, Size
from pipeline.graph.lanes import LEFT, RIGHT, Lanes
from pipeline.graph.routes import Ground, routes
from pipeline.graph.rows import rows
from pipeline.graph.strips import strips
from pipeline.graph.sweeps import ordered


def layout(boxes: Mapping[str, Size], links: Sequence[Link], start: str) -> Layout:
    """Place boxes and lead lines. `start` and the ends of all links must be among the boxes."""
    ground, size = _ground(boxes, links, start)
    placed = {name: ground.box(item) for name, item in ground.rows.box.items()}
    return Layout(size, {name: placed[name] for name in boxes}, routes(ground))


def _ground(boxes: Mapping[str, Size], links: Sequence[Link], start: str) -> tuple[Ground, Size]:
    filled = rows(boxes, links, flow(boxes, ((link.source, link.target) for link in links), start))
    order = ordered(filled)
    x = columns(filled, order)
    side = Lanes(filled, order, x, links)
    heights = strips(filled, order, side.lanes, links)
    left = side.edge[LEFT]
    lanes = [replace(lane, x=lane.x + left) for lane in side.lanes]
    size = Size(left + side.edge[RIGHT], heights.end)
    return Ground(filled, links, [each + left for each in x], heights, lanes), size

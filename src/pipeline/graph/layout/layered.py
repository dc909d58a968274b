"""A layered layout in the manner of Sugiyama: boxes from top to bottom, lines that cross no box, labels with room.

Boxes stand in rows by how far they are from the start; labels have rows of their own in between. A line onward passes
through every row between its ends in a place of its own; a line back goes around in a lane at the side. What runs
across does so in the strips between the rows, where nothing stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.graph.layout.columns import columns
from pipeline.graph.layout.flow import flow
from pipeline.graph.layout.geometry import Layout, Link, Size
from pipeline.graph.layout.lanes import LEFT, RIGHT, Lane, Lanes
from pipeline.graph.layout.ports import ports
from pipeline.graph.layout.routes import Ground, routes
from pipeline.graph.layout.rows import Rows, rows
from pipeline.graph.layout.strips import heights, stacked, tracks
from pipeline.graph.layout.sweeps import ordered


def layout(boxes: Mapping[str, Size], links: Sequence[Link], start: str) -> Layout:
    """Place boxes and lead lines. `start` and the ends of all links must be among the boxes."""
    filled = rows(boxes, links, flow(boxes, ((link.source, link.target) for link in links), start))
    order = ordered(filled)
    from_middle = columns(filled, order)
    side = Lanes(filled, order, from_middle, links)
    left = side.edge[LEFT]
    lanes = [replace(lane, x=lane.x + left) for lane in side.lanes]
    high = heights(filled, order, lanes, links)
    ground = _ground(filled, links, [x + left for x in from_middle], lanes, high)
    placed = {name: ground.box(filled.box[name]) for name in boxes}
    return Layout(Size(left + side.edge[RIGHT], ground.strips.end), placed, routes(ground))


def _ground(
    filled: Rows, links: Sequence[Link], x: Sequence[float], lanes: Sequence[Lane], high: Sequence[float]
) -> Ground:
    stops = {link: _stops(filled, chain, high) for link, chain in filled.chains.items()}
    doors = ports(filled, x, stops, lanes)
    strips = stacked(high, tracks(filled, x, stops, lanes, doors))
    return Ground(filled, links, x, stops, lanes, doors, strips)


def _stops(filled: Rows, chain: Sequence[int], high: Sequence[float]) -> list[int]:
    """The items a line really passes: a row without height is no obstacle."""
    return [chain[0], *(item for item in chain[1:-1] if high[filled.items[item].row]), chain[-1]]

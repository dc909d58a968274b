"""The layout: what may never happen, whatever the graph."""

import random
from itertools import chain as flattened
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph.layers import NO_SIZE, Box, EdgePath, Layout, LayoutEdge, Size, flow
from pipeline.graph.layout import layout

SIZE = Size(140, 50)
LABEL = Size(70, 18)

Graph = tuple[dict[str, Size], list[LayoutEdge]]


def boxes(count: int) -> dict[str, Size]:
    return {f"s{index}": SIZE for index in range(count)}


def chain(count: int) -> list[LayoutEdge]:
    return [LayoutEdge(f"s{index}", f"s{index + 1}") for index in range(count - 1)]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small graphs with loops, self-loops, parallel lines, unreachable and lonely boxes, with and without labels."""
    count = draw(st.integers(1, 12))
    sizes = st.builds(Size, st.integers(16, 400), st.integers(16, 150))
    names = st.integers(0, count - 1).map("s{}".format)
    labels = st.sampled_from([NO_SIZE, LABEL, Size(170, 34)])
    links = draw(st.lists(st.builds(LayoutEdge, names, names, labels), max_size=30))
    return {f"s{index}": draw(sizes) for index in range(count)}, links


def pieces(route: EdgePath) -> list[Box]:
    """The rectangles a line stays inside of."""
    return [Box(min(a.x, b.x), min(a.y, b.y), abs(a.x - b.x), abs(a.y - b.y)) for a, b in pairwise(route.points)]


def shrunk(box: Box) -> Box:
    return Box(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1)


def crossed(placed: Layout, links: list[LayoutEdge]) -> list[tuple[LayoutEdge, str]]:
    """The lines that run through a box, be it one of their own."""
    return [
        (link, name)
        for link, route in zip(links, placed.routes, strict=True)
        for piece in pieces(route)
        for name, box in placed.boxes.items()
        if piece.overlaps(shrunk(box))
    ]


@given(graphs())
@settings(deadline=None)
def test_no_two_boxes_overlap(graph: Graph) -> None:
    """Boxes keep their distance."""
    placed = layout(*graph, "s0")
    assert placed.boxes.keys() == graph[0].keys()
    assert not [pair for pair in combinations(placed.boxes.values(), 2) if pair[0].overlaps(pair[1])]


@given(graphs())
@settings(deadline=None)
def test_no_line_runs_through_a_box(graph: Graph) -> None:
    """Lines, bends and lanes stay out of every box."""
    assert not crossed(layout(*graph, "s0"), graph[1])


@given(graphs())
@settings(deadline=None)
def test_labels_overlap_neither_boxes_nor_each_other(graph: Graph) -> None:
    """Every label has its own room."""
    placed = layout(*graph, "s0")
    labels = [route.label for route in placed.routes if route.label]
    assert len(labels) == sum(link.label != NO_SIZE for link in graph[1])
    assert not [
        pair for pair in combinations([*labels, *placed.boxes.values()], 2) if pair[0].overlaps(shrunk(pair[1]))
    ]


@given(graphs())
@settings(deadline=None)
def test_no_line_runs_through_a_foreign_label(graph: Graph) -> None:
    """A label is crossed by its own line alone."""
    routes = layout(*graph, "s0").routes
    through = [
        (one, other)
        for one in routes
        for other in routes
        if one is not other and other.label and any(piece.overlaps(shrunk(other.label)) for piece in pieces(one))
    ]
    assert not through


@given(graphs())
@settings(deadline=None)
def test_everything_is_inside_of_the_picture(graph: Graph) -> None:
    """The size covers boxes, labels and lines."""
    placed = layout(*graph, "s0")
    drawn = [
        *placed.boxes.values(),
        *(r.label for r in placed.routes if r.label),
        *flattened.from_iterable(map(pieces, placed.routes)),
    ]
    for box in drawn:
        assert -0.01 <= box.x <= box.right <= placed.size.width + 0.01
        assert -0.01 <= box.y <= box.bottom <= placed.size.height + 0.01


@given(graphs())
@settings(deadline=None)
def test_lines_onward_go_down(graph: Graph) -> None:
    """A line that does not lead back leaves its box below and enters the next from above."""
    sizes, links = graph
    placed = layout(sizes, links, "s0")
    for link, route in zip(links, placed.routes, strict=True):
        upper, lower = placed.boxes[link.source], placed.boxes[link.target]
        assert route.back or upper.bottom < lower.y
        assert route.back == (link.source == link.target or lower.bottom < upper.y)


@given(graphs())
@settings(deadline=None)
def test_lines_run_from_box_to_box(graph: Graph) -> None:
    """A line begins at the edge of its first box and ends at the edge of its last."""
    placed = layout(*graph, "s0")
    for link, route in zip(graph[1], placed.routes, strict=True):
        for name, point in ((link.source, route.points[0]), (link.target, route.points[-1])):
            box = placed.boxes[name]
            assert box.x - 0.01 <= point.x <= box.right + 0.01
            assert box.y - 0.01 <= point.y <= box.bottom + 0.01
            assert point.x in (box.x, box.right) or point.y in (box.y, box.bottom)


@given(graphs())
@settings(deadline=None, max_examples=30)
def test_the_same_graph_has_the_same_layout(graph: Graph) -> None:
    """Nothing depends on chance."""
    assert layout(*graph, "s0") == layout(*graph, "s0")


@given(graphs())
@settings(deadline=None)
def test_every_link_leads_on_or_back(graph: Graph) -> None:
    """The flow's layers rise along every link that does not lead back."""
    sizes, links = graph
    found = flow(sizes, [(link.source, link.target) for link in links], "s0")
    assert sorted(found.order) == sorted(sizes)
    for link in links:
        assert found.leads_back(link.source, link.target) or found.layer[link.source] < found.layer[link.target]


def test_a_chain_stands_in_one_column() -> None:
    """Where nothing branches the picture is straight."""
    placed = layout(boxes(6), chain(6), "s0")
    assert len({box.centre.x for box in placed.boxes.values()}) == 1
    assert all(len(route.points) == 2 for route in placed.routes)


def test_the_longest_way_to_an_end_is_straight() -> None:
    """The main way keeps its column; what hangs beside it makes room."""
    links = [*chain(5), LayoutEdge("s1", "s5", LABEL), LayoutEdge("s5", "s1"), LayoutEdge("s2", "s5", LABEL)]
    placed = layout(boxes(6), links, "s0")
    assert len({placed.boxes[f"s{index}"].centre.x for index in range(5)}) == 1


def test_a_way_back_goes_around_the_side() -> None:
    """A loop leaves and enters at the sides of its boxes, outside of all that lies between."""
    placed = layout(boxes(4), [*chain(4), LayoutEdge("s3", "s0")], "s0")
    lane = placed.routes[-1]
    assert lane.back
    assert max(point.x for point in lane.points) > max(box.right for box in placed.boxes.values())


@pytest.mark.parametrize(
    "extra", [[], [(0, index) for index in range(2, 3000)], [(index, 0) for index in range(2, 3000)]]
)
def test_a_long_chain_is_laid_out(extra: list[tuple[int, int]]) -> None:
    """Thousands of boxes need neither a deep stack nor much time, even with as many long lines."""
    links = [*chain(3000), *(LayoutEdge(f"s{one}", f"s{other}") for one, other in extra)]
    assert len(layout(boxes(3000), links, "s0").routes) == len(links)


def test_a_random_graph_is_laid_out() -> None:
    """Two hundred boxes with many loops are no trouble."""
    chance = random.Random(7)  # noqa: S311 - the same graph every time
    links = [LayoutEdge(f"s{chance.randrange(200)}", f"s{chance.randrange(200)}", LABEL) for _ in range(500)]
    assert len(layout(boxes(200), links, "s0").boxes) == 200

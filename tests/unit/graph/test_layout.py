"""What a layout guarantees for every graph, and what it looks like for simple ones."""

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph.layers import NO_SIZE, LayoutEdge, Size, assign_layers
from pipeline.graph.layout import Box, EdgePath, compute_layout

SIZE = Size(140, 50)
LABEL = Size(70, 18)

Graph = tuple[dict[str, Size], list[LayoutEdge]]


def boxes(count: int) -> dict[str, Size]:
    return {f"s{index}": SIZE for index in range(count)}


def chain(count: int) -> list[LayoutEdge]:
    return [LayoutEdge(f"s{index}", f"s{index + 1}") for index in range(count - 1)]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small graphs with cycles, self-loops, parallel edges and unreachable boxes, with and without labels."""
    count = draw(st.integers(1, 12))
    sizes = st.builds(Size, st.integers(16, 400), st.integers(16, 150))
    names = st.integers(0, count - 1).map("s{}".format)
    labels = st.sampled_from([NO_SIZE, LABEL, Size(170, 34)])
    edges = draw(st.lists(st.builds(LayoutEdge, names, names, labels), max_size=30))
    return {f"s{index}": draw(sizes) for index in range(count)}, edges


def segments(path: EdgePath) -> list[Box]:
    """The rectangles that contain a path."""
    return [Box(min(a.x, b.x), min(a.y, b.y), abs(a.x - b.x), abs(a.y - b.y)) for a, b in pairwise(path.points)]


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share more than half a unit at their borders."""
    return (
        one.x < other.right - 0.5
        and other.x + 0.5 < one.right
        and one.y < other.bottom - 0.5
        and other.y + 0.5 < one.bottom
    )


@given(graphs())
@settings(deadline=None)
def test_boxes_and_labels_keep_apart(graph: Graph) -> None:
    """No box or label overlaps another, and every label has a place."""
    placed = compute_layout(*graph, "s0")
    labels = [path.label for path in placed.paths if path.label]
    assert placed.boxes.keys() == graph[0].keys()
    assert len(labels) == sum(edge.label != NO_SIZE for edge in graph[1])
    assert not [pair for pair in combinations([*labels, *placed.boxes.values()], 2) if overlap(*pair)]


@given(graphs())
@settings(deadline=None)
def test_edges_avoid_boxes_and_foreign_labels(graph: Graph) -> None:
    """An edge runs through no box, not even its own, and through no label but its own."""
    placed = compute_layout(*graph, "s0")
    for path in placed.paths:
        foreign = [other.label for other in placed.paths if other is not path and other.label]
        obstacles = [*placed.boxes.values(), *foreign]
        assert not [box for segment in segments(path) for box in obstacles if overlap(segment, box)]


@given(graphs())
@settings(deadline=None)
def test_everything_is_inside_the_picture(graph: Graph) -> None:
    """The size covers boxes, labels and edges."""
    placed = compute_layout(*graph, "s0")
    labels = [path.label for path in placed.paths if path.label]
    for box in [*placed.boxes.values(), *labels, *(segment for path in placed.paths for segment in segments(path))]:
        assert -0.01 <= box.x <= box.right <= placed.size.width + 0.01
        assert -0.01 <= box.y <= box.bottom <= placed.size.height + 0.01


@given(graphs())
@settings(deadline=None)
def test_edges_join_their_boxes(graph: Graph) -> None:
    """An edge runs from border to border, and down unless it leads back."""
    placed = compute_layout(*graph, "s0")
    layering = assign_layers(graph[0], [(edge.source, edge.target) for edge in graph[1]], "s0")
    for edge, path in zip(graph[1], placed.paths, strict=True):
        source, target = placed.boxes[edge.source], placed.boxes[edge.target]
        for box, point in ((source, path.points[0]), (target, path.points[-1])):
            assert box.x - 0.01 <= point.x <= box.right + 0.01
            assert box.y - 0.01 <= point.y <= box.bottom + 0.01
            assert point.x in (box.x, box.right) or point.y in (box.y, box.bottom)
        leads_back = (edge.source, edge.target) in layering.back
        assert target.bottom < source.y or source == target if leads_back else source.bottom < target.y


@given(graphs())
@settings(deadline=None, max_examples=30)
def test_a_layout_is_deterministic(graph: Graph) -> None:
    """The same graph has the same layout."""
    assert compute_layout(*graph, "s0") == compute_layout(*graph, "s0")


@given(graphs())
@settings(deadline=None)
def test_edges_lead_to_a_later_layer_or_back(graph: Graph) -> None:
    """The layers rise along every edge that does not lead back."""
    sizes, edges = graph
    layering = assign_layers(sizes, [(edge.source, edge.target) for edge in edges], "s0")
    assert sorted(layering.order) == sorted(sizes)
    for edge in edges:
        leads_back = (edge.source, edge.target) in layering.back
        assert leads_back or layering.layer[edge.source] < layering.layer[edge.target]


def test_a_chain_is_one_column() -> None:
    """Without branches the picture is straight."""
    placed = compute_layout(boxes(6), chain(6), "s0")
    assert len({box.center.x for box in placed.boxes.values()}) == 1
    assert all(len(path.points) == 2 for path in placed.paths)


def test_the_main_path_is_straight() -> None:
    """The longest path to an end keeps its column; other boxes make room."""
    edges = [*chain(5), LayoutEdge("s1", "s5", LABEL), LayoutEdge("s5", "s1"), LayoutEdge("s2", "s5", LABEL)]
    placed = compute_layout(boxes(6), edges, "s0")
    assert len({placed.boxes[f"s{index}"].center.x for index in range(5)}) == 1


def test_an_edge_back_goes_around() -> None:
    """Its lane is outside of all boxes between its ends."""
    placed = compute_layout(boxes(4), [*chain(4), LayoutEdge("s3", "s0")], "s0")
    lane = placed.paths[-1]
    assert max(point.x for point in lane.points) > max(box.right for box in placed.boxes.values())


@pytest.mark.parametrize(
    "extra", [[], [(0, index) for index in range(2, 3000)], [(index, 0) for index in range(2, 3000)]]
)
def test_thousands_of_boxes(extra: list[tuple[int, int]]) -> None:
    """A long chain needs no deep stack and little time, even with as many long edges."""
    edges = [*chain(3000), *(LayoutEdge(f"s{one}", f"s{other}") for one, other in extra)]
    assert len(compute_layout(boxes(3000), edges, "s0").paths) == len(edges)


def test_a_dense_graph() -> None:
    """Two hundred boxes with five hundred edges among them are laid out."""
    chance = random.Random(7)  # noqa: S311 - the same graph every time
    edges = [LayoutEdge(f"s{chance.randrange(200)}", f"s{chance.randrange(200)}", LABEL) for _ in range(500)]
    assert len(compute_layout(boxes(200), edges, "s0").boxes) == 200

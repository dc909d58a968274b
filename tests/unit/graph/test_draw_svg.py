"""A workflow as a picture."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph.layers import Box
from pipeline.graph.svg import draw_svg
from pipeline.graph.svg_elements import fit, lines, text_width
from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import Workflow

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "desc", "style", "g", "rect", "path", "polygon", "circle", "text", "tspan"}


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)  # noqa: S314 - it is our own


def groups(picture: ET.Element, css: str) -> Iterator[ET.Element]:
    return (group for group in picture.iter(f"{SVG}g") if css in group.get("class", "").split())


def rectangle(element: ET.Element) -> Box:
    return Box(*(float(element.get(name, "nan")) for name in ("x", "y", "width", "height")))


def test_every_stage_and_every_way_can_be_found(shipped: Workflow) -> None:
    """A page colours stages and ways by their ids and classes."""
    picture = parsed(draw_svg(shipped))
    stages = {group.get("data-stage"): group.get("class", "").split() for group in groups(picture, "stage")}
    assert stages.keys() == shipped.by_id.keys()
    assert all(shipped.by_id[str(name)].kind.partition(".")[0] in css for name, css in stages.items())
    ways = {(group.get("data-from"), group.get("data-to")) for group in groups(picture, "edge")} - {(None, None)}
    assert ways == {(edge.source, edge.target) for edge in edges(shipped) if edge.role is not EdgeRole.BRANCH}


def test_the_picture_says_what_it_is(shipped: Workflow) -> None:
    """A reader who cannot see it hears its name and description."""
    picture = parsed(draw_svg(shipped))
    assert picture.get("role") == "img"
    assert picture.findtext(f"{SVG}title") == shipped.name
    assert shipped.description in (picture.findtext(f"{SVG}desc") or "")


def test_it_needs_nothing_else(shipped: Workflow) -> None:
    """No script, no font, no image, no address."""
    drawn = draw_svg(shipped)
    assert {element.tag.removeprefix(SVG) for element in parsed(drawn).iter()} <= ELEMENTS
    assert re.findall(r"url\(|@import|href|https?://[^\"]+", drawn) == ["http://www.w3.org/2000/svg"]


def test_labels_keep_apart(shipped: Workflow) -> None:
    """No label lies on another one."""
    picture = parsed(draw_svg(shipped))
    labels = [rectangle(element) for element in picture.iter(f"{SVG}rect") if element.get("class") == "ground"]
    assert labels
    assert not [pair for pair in combinations(labels, 2) if pair[0].overlaps(pair[1])]


def test_a_workflow_with_errors_is_drawn(crooked: Workflow) -> None:
    """Nothing that the file names is left out; each stage stands in one place."""
    picture = parsed(draw_svg(crooked))
    stages = [group.get("data-stage") for group in groups(picture, "stage")]
    assert sorted(map(str, stages)) == ["a", "b", "exit", "fan", "gone", "lonely", "nowhere", "second"]
    assert {group.get("data-stage") for group in groups(picture, "missing")} == {"gone", "nowhere"}


def test_hostile_text_stays_text(hostile: Workflow) -> None:
    """Markup in names is shown, not obeyed; what is shown is bounded; ids can still be told apart."""
    picture = parsed(draw_svg(hostile))
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} <= ELEMENTS
    assert max(len(element.text or "") for element in picture.iter() if element.tag != f"{SVG}style") <= 2000
    assert len({group.get("data-stage") for group in groups(picture, "stage")}) == len(hostile.stages)
    assert float(picture.get("width", "inf")) < 5000


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=5))
@settings(deadline=None)
def test_any_text_makes_well_formed_xml(made_of: Callable[[Iterable[str]], Workflow], texts: list[str]) -> None:
    """Whatever an author wrote, the picture can be parsed."""
    picture = parsed(draw_svg(made_of(texts)))
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} <= ELEMENTS


def test_the_same_workflow_gives_the_same_picture(shipped: Workflow) -> None:
    """Nothing depends on chance."""
    assert draw_svg(shipped) == draw_svg(shipped)


def test_five_thousand_stages_are_drawn(chain: Workflow) -> None:
    """A long workflow needs no deep stack."""
    assert draw_svg(chain).count("data-stage") == 5000


@given(st.text(max_size=200), st.integers(20, 400))
def test_a_fitted_text_is_no_wider_than_its_room(text: str, width: int) -> None:
    """What does not fit is cut."""
    assert text_width(fit(text, 12, width), 12) <= width + 0.01


@given(st.text(max_size=200), st.integers(1, 4))
def test_a_text_is_broken_into_few_lines(text: str, most: int) -> None:
    """Never more lines than asked for, and none too wide."""
    broken = lines(text, 12, 100, most)
    assert len(broken) <= most
    assert all(text_width(line, 12) <= 100.01 for line in broken)

"""A workflow as an SVG picture, and a run on it."""

import re
from collections.abc import Callable, Iterable, Iterator
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.graph.svg import PlacedChart, RunOverlay, StageMark, draw_run, draw_svg, place_chart
from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import ExitStage, Workflow
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "desc", "style", "g", "rect", "path", "polygon", "circle", "text", "tspan"}
SHIP = """
workflow "Ship" {
  version 2
  start "build"
  stage "build" kind="tool" command="true"
  stage "gate" kind="decision" { route when="findings() > 0" to="build"; route when="true" to="exit"; }
  stage "exit" kind="exit"
  transition from="build" to="gate"
}
"""


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)  # noqa: S314 - it is our own


def groups(picture: ET.Element, css: str) -> Iterator[ET.Element]:
    return (group for group in picture.iter(f"{SVG}g") if css in group.get("class", "").split())


def test_every_stage_and_every_transition_can_be_found(shipped: Workflow) -> None:
    """A page finds stages and transitions by their ids and classes."""
    picture = parsed(draw_svg(shipped))
    stages = {group.get("data-stage"): group.get("class", "").split() for group in groups(picture, "stage")}
    assert stages.keys() == shipped.by_id.keys()
    assert all(shipped.by_id[str(name)].kind.partition(".")[0] in css for name, css in stages.items())
    drawn = {(group.get("data-from"), group.get("data-to")) for group in groups(picture, "edge")} - {(None, None)}
    assert drawn == {(edge.source, edge.target) for edge in edges(shipped) if edge.role is not EdgeRole.BRANCH}


def test_a_screen_reader_gets_the_name_and_description(shipped: Workflow) -> None:
    """The picture has a role, a title and a description."""
    picture = parsed(draw_svg(shipped))
    assert picture.get("role") == "img"
    assert picture.findtext(f"{SVG}title") == shipped.name
    assert shipped.description in (picture.findtext(f"{SVG}desc") or "")


def test_a_picture_is_self_contained(shipped: Workflow) -> None:
    """It has no script, font, image or address, and looks the same every time."""
    drawn = draw_svg(shipped)
    assert {element.tag.removeprefix(SVG) for element in parsed(drawn).iter()} <= ELEMENTS
    assert re.findall(r"url\(|@import|href|https?://[^\"]+", drawn) == ["http://www.w3.org/2000/svg"]
    assert draw_svg(shipped) == drawn


def test_irregular_transitions_are_dashed() -> None:
    """What the text drawing dashes is dashed here, too."""
    drawn = draw_svg(Workflow(name="W", version=2, start="end", stages=(ExitStage(id="end"),)))
    dashed = re.search(r"\.awf ([^{}]*)\{stroke-dasharray:2 5\}", drawn)
    assert dashed
    assert all(f".{role.replace('_', '-')}>.line" in dashed[1] for role in ("retry_target", "branch", "loop"))


def test_a_workflow_with_errors_is_drawn(crooked: Workflow) -> None:
    """Nothing that the file names is left out; every stage is in one place."""
    picture = parsed(draw_svg(crooked))
    stages = [group.get("data-stage") for group in groups(picture, "stage")]
    assert sorted(map(str, stages)) == ["a", "b", "exit", "fan", "gone", "lonely", "nowhere", "second"]
    assert {group.get("data-stage") for group in groups(picture, "missing")} == {"gone", "nowhere"}


def test_a_triage_is_drawn(triage: Workflow) -> None:
    """It has colors for light and dark, and both transitions are labeled."""
    drawn = draw_svg(triage)
    assert '<g class="stage triage" data-stage="sort">' in drawn
    assert drawn.count(".awf .triage>.shape") == 2
    assert ">apply</text>" in drawn
    assert ">done</text>" in drawn


def test_hostile_text_stays_text(hostile: Workflow) -> None:
    """Markup in names is shown and not interpreted, its length is bounded, and ids stay distinct."""
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


def test_five_thousand_stages_are_drawn(chain: Workflow) -> None:
    """A long workflow needs no deep stack."""
    assert draw_svg(chain).count("data-stage") == 5000


@pytest.fixture
def placed() -> PlacedChart:
    """A workflow with a transition back, laid out."""
    workflow = parse_workflow(SourceText("ship.awf.kdl", SHIP)).workflow
    assert workflow
    return place_chart(workflow)


def test_a_run_marks_stages_and_arrows(placed: PlacedChart) -> None:
    """A mark is a class, a badge, a tooltip and a link; everything else is drawn as usual."""
    key = ("build", "gate", EdgeRole.TRANSITION)
    mark = StageMark("good", "success, 2 visits", "✓ ×2", "/visits?stage=build&at=3")
    picture = parsed(draw_run(placed, RunOverlay({"build": mark}, {key: 2}, key)))
    link = picture.find(f".//{SVG}a")
    assert link is not None
    assert link.get("href") == "/visits?stage=build&at=3"
    stage = link.find(f"{SVG}g")
    assert stage is not None
    assert stage.get("class") == "stage tool good"
    assert "✓ ×2" in "".join(stage.itertext())
    assert "success, 2 visits" in "".join(stage.itertext())
    classes = {each.get("data-to"): each.get("class") or "" for each in picture.iter(f"{SVG}g") if each.get("data-to")}
    assert classes["gate"].endswith("taken latest")
    assert "taken" not in classes["exit"]
    assert {each.get("data-stage") for each in groups(picture, "stage")} == {"build", "gate", "exit"}


def test_the_picture_of_a_run_brings_no_style(placed: PlacedChart) -> None:
    """A page with a strict policy can contain it: it has no style, script or handler."""
    drawn = draw_run(placed, RunOverlay())
    assert "<style" not in drawn
    assert "style=" not in drawn
    assert "<script" not in drawn


def test_marks_are_text(placed: PlacedChart) -> None:
    """Nothing in a mark is interpreted as markup."""
    hostile = "<script>alert(1)</script>\"'&"
    picture = parsed(draw_run(placed, RunOverlay({"build": StageMark("good", hostile, hostile, hostile)})))
    assert picture.find(f".//{SVG}script") is None
    link = picture.find(f".//{SVG}a")
    assert link is not None
    assert link.get("href") == hostile

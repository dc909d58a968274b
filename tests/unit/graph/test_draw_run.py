"""The picture of a run: the workflow's, marked with how the run stands."""

from xml.etree import ElementTree as ET

import pytest

from pipeline.graph.svg import PlacedChart, RunOverlay, StageMark, draw_run, draw_svg, place_chart
from pipeline.language.edges import EdgeRole
from pipeline.language.model import Workflow
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText

SOURCE = """
workflow "Ship" {
  version 2
  start "build"
  stage "build" kind="tool" command="true"
  stage "gate" kind="decision" { route when="findings() > 0" to="build"; route when="true" to="exit"; }
  stage "exit" kind="exit"
  transition from="build" to="gate"
}
"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def workflow() -> Workflow:
    """A workflow with a way back."""
    found = parse_workflow(SourceText("ship.awf.kdl", SOURCE)).workflow
    assert found
    return found


@pytest.fixture
def placed(workflow: Workflow) -> PlacedChart:
    """The same, in its places."""
    return place_chart(workflow)


def parsed(placed: PlacedChart, marks: RunOverlay) -> ET.Element:
    """The picture, as well-formed as a page needs it."""
    return ET.fromstring(draw_run(placed, marks))  # noqa: S314 - our own text


def test_stages_and_ways_are_marked(placed: PlacedChart) -> None:
    """A mark is a class, a sign at the corner, words for the pointer, and a link; what is not marked is as it was."""
    marks = RunOverlay(
        stages={"build": StageMark("good", "success, 2 visits", "✓ ×2", "/visits?stage=build&at=3")},
        taken={("build", "gate", EdgeRole.TRANSITION): 2},
        latest=("build", "gate", EdgeRole.TRANSITION),
    )
    picture = parsed(placed, marks)
    link = picture.find(f".//{SVG}a")
    assert link is not None
    assert link.get("href") == "/visits?stage=build&at=3"
    stage = link.find(f"{SVG}g")
    assert stage is not None
    assert stage.get("class") == "stage tool good"
    assert "✓ ×2" in "".join(stage.itertext())
    assert "success, 2 visits" in "".join(stage.itertext())
    classes = {one.get("data-to"): one.get("class") or "" for one in picture.iter(f"{SVG}g") if one.get("data-from")}
    assert classes["gate"].endswith("taken latest")
    assert "taken" not in classes["exit"]


def test_it_brings_no_style(placed: PlacedChart) -> None:
    """A page with a strict policy can hold it: neither a style nor a script nor a handler is in it."""
    drawn = draw_run(placed, RunOverlay())
    assert "<style" not in drawn
    assert "style=" not in drawn
    assert "<script" not in drawn


def test_marks_are_data(placed: PlacedChart) -> None:
    """Whatever a mark says is text, and no markup."""
    evil = "<script>alert(1)</script>\"'&"
    picture = parsed(placed, RunOverlay(stages={"build": StageMark("good", evil, evil, evil)}))
    assert picture.find(f".//{SVG}script") is None
    link = picture.find(f".//{SVG}a")
    assert link is not None
    assert link.get("href") == evil


def test_an_unmarked_picture_is_the_workflows(workflow: Workflow, placed: PlacedChart) -> None:
    """Without marks the stages and ways are those of the workflow's own picture."""
    of_run, own = parsed(placed, RunOverlay()), ET.fromstring(draw_svg(workflow))  # noqa: S314 - our own text
    for name in ("data-stage", "data-from"):
        ours, theirs = ([one.get(name) for one in each.iter() if one.get(name)] for each in (of_run, own))
        assert sorted(map(str, ours)) == sorted(map(str, theirs))

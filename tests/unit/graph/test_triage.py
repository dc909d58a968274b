"""A triage has a shape of its own in every picture, and both of its ways are named."""

import pytest

from pipeline.graph.export import draw_dot, draw_mermaid
from pipeline.graph.svg import draw_svg
from pipeline.graph.text import draw_text
from pipeline.language.model import ExitStage, LlmStage, TriageStage, TriageTarget, Workflow


@pytest.fixture
def workflow() -> Workflow:
    """A triage with somewhere to go."""
    sort = TriageStage(id="sort", apply=TriageTarget(to="fix"), done=TriageTarget(to="end"))
    return Workflow(
        name="W", version=2, start="sort", stages=(sort, LlmStage(id="fix", prompt="x"), ExitStage(id="end"))
    )


def test_in_text(workflow: Workflow) -> None:
    """A sign that no other kind has."""
    rows = draw_text(workflow).splitlines()
    assert any(row.startswith("▽ sort") and row.endswith("triage · start") for row in rows)
    assert any(row.startswith("├─ apply ") and row.endswith("→ fix") for row in rows)
    assert any(row.startswith("╰─ done ") and row.endswith("→ end") for row in rows)


def test_in_mermaid(workflow: Workflow) -> None:
    """A trapezoid that stands on its shorter side."""
    drawn = draw_mermaid(workflow)
    assert 'n0[\\"sort<br/>triage"/]:::kind_triage' in drawn
    assert "classDef kind_triage " in drawn
    assert '"apply"' in drawn
    assert '"done"' in drawn


def test_in_dot(workflow: Workflow) -> None:
    """The same shape."""
    drawn = draw_dot(workflow)
    assert "shape=invtrapezium" in drawn
    assert 'label="apply"' in drawn
    assert 'label="done"' in drawn


def test_in_svg(workflow: Workflow) -> None:
    """A funnel, with a sign and colours for light and dark."""
    drawn = draw_svg(workflow)
    assert '<g class="stage triage" data-stage="sort">' in drawn
    assert drawn.count(".awf .triage>.shape") == 2
    assert ">apply</text>" in drawn
    assert ">done</text>" in drawn

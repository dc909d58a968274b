"""A workflow as plain text."""

from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pipeline.graph.text import draw_text
from pipeline.language.model import Workflow
from pipeline.text import display_width, is_control


def test_the_shipped_workflows_read_well(shipped: Workflow, snapshot: SnapshotAssertion) -> None:
    """Each fits a terminal of eighty columns."""
    drawn = draw_text(shipped)
    assert drawn == snapshot
    assert max(map(display_width, drawn.splitlines())) <= 80


def test_a_workflow_with_errors_is_drawn(crooked: Workflow, snapshot: SnapshotAssertion) -> None:
    """Nothing that the file names is left out."""
    assert draw_text(crooked) == snapshot


def test_a_triage_is_drawn(triage: Workflow) -> None:
    """It has a sign of its own, and both transitions are labeled."""
    rows = draw_text(triage).splitlines()
    assert any(row.startswith("▽ sort") and row.endswith("triage · start") for row in rows)
    assert any(row.startswith("├─ apply ") and row.endswith("→ fix") for row in rows)
    assert any(row.startswith("╰─ done ") and row.endswith("→ end") for row in rows)


def test_hostile_text_is_truncated(hostile: Workflow) -> None:
    """Long names, labels and conditions fit the terminal."""
    assert max(map(display_width, draw_text(hostile).splitlines())) <= 80


def test_nothing_controls_the_terminal(hostile: Workflow) -> None:
    """Control characters and direction marks are replaced."""
    assert not any(is_control(character) for character in draw_text(hostile) if character != "\n")


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_any_text_is_drawn(made_of: Callable[[Iterable[str]], Workflow], texts: list[str]) -> None:
    """Every line keeps within its width, whatever the author wrote."""
    assert max(map(display_width, draw_text(made_of(texts)).splitlines())) <= 80


def test_five_thousand_stages_are_drawn(chain: Workflow) -> None:
    """A long workflow needs no deep stack."""
    assert draw_text(chain).count("\n") > 9_999

"""A workflow as plain text."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pipeline.graph.chart import clean, columns, condition, shorten
from pipeline.graph.text import draw_text
from pipeline.language.expressions import parse_expression
from pipeline.language.model import Workflow


def test_the_shipped_workflows_read_well(shipped: Workflow, snapshot: SnapshotAssertion) -> None:
    """Each fits a terminal of eighty columns."""
    drawn = draw_text(shipped)
    assert drawn == snapshot
    assert max(map(columns, drawn.splitlines())) <= 80


def test_a_workflow_with_errors_is_drawn(crooked: Workflow, snapshot: SnapshotAssertion) -> None:
    """Nothing that the file names is left out."""
    assert draw_text(crooked) == snapshot


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_the_picture_is_no_wider_than_asked(hostile: Workflow, width: int) -> None:
    """Long names, labels and conditions are cut."""
    assert max(map(columns, draw_text(hostile, width).splitlines())) <= width


def test_nothing_in_it_commands_a_terminal(hostile: Workflow) -> None:
    """Control characters and direction marks are shown as such."""
    assert all(character.isprintable() or character == "\n" for character in draw_text(hostile))


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_any_text_is_drawn(made_of: Callable[[Iterable[str]], Workflow], texts: list[str]) -> None:
    """Every line keeps within its width, whatever the author wrote."""
    assert max(map(columns, draw_text(made_of(texts)).splitlines())) <= 80


def test_five_thousand_stages_are_drawn(chain: Workflow) -> None:
    """A long workflow needs no deep stack."""
    assert draw_text(chain).count("\n") > 9_999


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('outcome("here") == "success"', "success"),
        ('outcome("here") != "partial_success"', "not partial success"),
        ('outcome("there") == "fail"', "there: fail"),
        ("findings() > 0", "findings > 0"),
        ('findings("there") >= 2', "there findings ≥ 2"),
        ('visits("here") <= 3', "visits ≤ 3"),
        ('visits("there") < 3', "there visits < 3"),
        ('verdict() == "PASS"', "verdict PASS"),
        ('verdict() != "PASS"', "verdict not PASS"),
        ('context("key") == "a b"', 'key = "a b"'),
        ('output("plan.size") != "big"', "plan.size ≠ big"),
        ('exists("plan.size")', "plan.size exists"),
        ('!exists("plan.size")', "no plan.size"),
        ("!(findings() > 0)", "not (findings > 0)"),
        ('findings() > 0 && (verdict() == "FAIL" || false)', "findings > 0 and (verdict FAIL or false)"),
        ("(findings() > 0) == true", "(findings > 0) = true"),
    ],
)
def test_conditions_read_as_words(text: str, words: str) -> None:
    """A condition is worded as seen from the stage it leads away from."""
    assert condition(parse_expression(text).tree, "here") == words


@given(st.text(), st.integers(1, 50))
def test_a_shortened_text_keeps_within_its_width(text: str, width: int) -> None:
    """Wide and combining characters count for what they take."""
    assert columns(shorten(clean(text), width)) <= width

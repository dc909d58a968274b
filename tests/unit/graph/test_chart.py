"""Boxes, arrows and their labels."""

import pytest

from pipeline.graph.chart import build_chart, condition_label
from pipeline.language.expressions import parse_expression
from pipeline.language.model import Workflow


def test_a_stage_is_drawn_once(crooked: Workflow) -> None:
    """A branch is inside the first parallel stage that runs it; a parallel stage is never inside another."""
    chart = build_chart(crooked)
    assert {node.id: [branch.id for branch in node.branches] for node in chart.nodes if node.branches} == {
        "fan": ["b"],
        "second": ["a"],
    }
    assert sorted(node.id for node in chart.all_nodes) == [
        "a",
        "b",
        "exit",
        "fan",
        "gone",
        "lonely",
        "nowhere",
        "second",
    ]


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
    """A condition is worded as seen from the stage that the arrow leaves."""
    assert condition_label(parse_expression(text).tree, "here") == words

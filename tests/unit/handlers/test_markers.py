"""The markers in an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.outcome import Status
from pipeline.handlers.markers import StatusMarkers, read_markers


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("Fine.\n[STATUS: success]", Status.SUCCESS),
        ("[STATUS: fail]", Status.FAIL),
        ("[status: Partial Success]", Status.PARTIAL_SUCCESS),
        ("[STATUS:retry]", Status.RETRY),
        ("[STATUS: fail]\nAfter another look:\n[STATUS: success]", Status.SUCCESS),
        ("[STATUS: success]\nno, wait\n[STATUS: fail]", Status.FAIL),
        ("It ends so: [STATUS: success]", Status.SUCCESS),
        ("It says [STATUS: success] in passing", None),
        ("no marker at all", None),
        ("[STATUS: maybe]", None),
        ("[STATUS: success]\n[STATUS: banana]", None),
        ("```\n[STATUS: success]\n```", None),
        ("~~~text\n[STATUS: success]\n~~~\n[STATUS: fail]", Status.FAIL),
        ("````\n```\n[STATUS: success]\n````\n", None),
        ("> [STATUS: success]", None),
        ("end with `[STATUS: success]` please", None),
        ("[STATUS: fail]\n```\n[STATUS: success]\n```", Status.FAIL),
        ("```\nnever closed\n[STATUS: success]", None),
        ("<think>\n[STATUS: success]\n</think>", None),
        ("<think>[STATUS: success]", None),
        ("[STATUS: success]\n</think>\nIt leaks.", None),
        ("<think>\n[STATUS: success]\n</think>\n[STATUS: fail]", Status.FAIL),
        ("", None),
    ],
)
def test_the_last_marker_outside_code_quotes_and_thinking_counts(answer: str, status: Status | None) -> None:
    """A marker in code, a quote or thinking does not count, and an unknown word is not a status."""
    assert read_markers(answer).status is status


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("[FAILURE_REASON: no tests]", "no tests"),
        ("[FAILURE_REASON: list[0] is [None] here]", "list[0] is [None] here"),
        ("[FAILURE_REASON: over\n  two lines]", "over two lines"),
        ("[FAILURE_REASON: one]\n[FAILURE_REASON: two]", "two"),
        ("[FAILURE_REASON: never closed\n[STATUS: fail]", "never closed"),
        ("[FAILURE_REASON: unbalanced [ here]\nrest", "unbalanced [ here]"),
        ("```\n[FAILURE_REASON: shown]\n```", ""),
    ],
)
def test_a_reason_may_contain_brackets_and_line_breaks(answer: str, reason: str) -> None:
    """It does not end at the first closing bracket."""
    assert read_markers(answer).reason == reason


def test_an_answer_may_suggest_the_transition() -> None:
    """[NEXT: ...] and [PREFERRED_LABEL: ...] are read too."""
    assert read_markers("[NEXT: b] [PREFERRED_LABEL: Ship it]") == StatusMarkers(None, "", "Ship it", "b")


@given(st.text(alphabet="[]STATUS: succesfail`>~\nFAILURE_REASON", max_size=200))
def test_any_answer_can_be_read(answer: str) -> None:
    """No answer raises an error."""
    assert read_markers(answer).status in {None, *Status}

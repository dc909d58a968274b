"""Findings known one by one in a summary: all of them, after their reports, within the budget where it can be."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import ledgers
from tests.unit.summary.conftest import Report, Summary

from pipeline.engine.context import Context
from pipeline.findings.model import Finding
from pipeline.findings.worklist import HEADING, worklist
from pipeline.summary.render import SMALLEST_BUDGET, render
from pipeline.summary.report_index import ReportIndex

JSON = '{"reviewer": "review", "findings": []}'
GAP = 2


def of(found: list[Finding]) -> Callable[[int], str]:
    return lambda room: worklist(found, room)


def test_a_report_whose_findings_are_listed_refers_to_them(report: Report, summary: Summary) -> None:
    """3.1: a report with ids is told by them; its raw text is not shown again, neither there nor among the values."""
    told = report(response=JSON, findingIds=["fnd_1", "fnd_2"])
    text = summary({"review.findings": [told], "review.response": JSON, "other": "kept"})
    assert "2 findings, listed by number under 'Findings by file'." in text
    assert JSON not in text
    assert "- other: kept" in text


@pytest.mark.parametrize("ids", [[], None, "fnd_1", 3])
def test_a_report_without_ids_is_shown_by_its_text(report: Report, summary: Summary, ids: object) -> None:
    """004-23: whatever else stands under the name, what a report says is shown."""
    assert "src/a.py:1: wrong" in summary([report(findingIds=ids)])


def test_the_whole_response_is_kept_beside_what_is_shown(report: Report) -> None:
    """004-23: the display may be shorter, the data may not."""
    (group,) = ReportIndex().groups(Context({"review.findings": [report(response=JSON, findingIds=["fnd_1"])]}))
    assert group.newest.full_response == JSON


def test_an_entry_that_is_no_report_is_shown_as_it_is() -> None:
    """No entry is refused."""
    (group,) = ReportIndex().groups(Context({"review.findings": ["some words"]}))
    assert (group.newest.response, group.newest.full_response) == ("some words", "some words")


def test_the_findings_come_last(report: Report, summary: Summary) -> None:
    """004-30: "the findings below" in a prompt points at what directly precedes it."""
    text = summary([report()], items=lambda _: "## Findings by file\n\n- #1")
    assert text.endswith("## Findings by file\n\n- #1")
    assert text.index("## Outstanding Review Findings") < text.index("## Findings by file")


def test_without_findings_nothing_is_taken_from_the_budget(report: Report, summary: Summary) -> None:
    """A section with nothing to say costs nothing."""
    assert summary([report()], items=lambda _: "") == summary([report()])


@settings(max_examples=25, deadline=None)
@given(ledgers(most=6), st.integers(0, 12_000), st.integers(0, 5000))
def test_the_summary_keeps_its_budget_and_every_finding_its_line(found: list[Finding], budget: int, words: int) -> None:
    """004-23, 4.3: within the budget where the lines leave the rest its least; each finding is there in any case."""
    entry = {"stageId": "rev", "status": "fail", "failureReason": "bad", "response": "w " * words, "findingIds": []}
    context = Context({"review.findings": [entry], "value": "v" * words})
    text = render(
        context,
        ReportIndex().groups(context),
        goal="g",
        workflow="w",
        past=(),
        budget=budget,
        findings_path="/f.json",
        items=of(found),
    )
    least = len(worklist(found, 0)) + GAP + SMALLEST_BUDGET if found else SMALLEST_BUDGET
    assert len(text) <= max(budget, least)
    assert all(f"- #{finding.number} (" in text for finding in found)
    assert (HEADING in text) is bool(found)

"""Listed lines of work in a summary: all of them, after the reports, within the budget if possible."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import ledgers
from tests.unit.summary.conftest import Report, Summary

from pipeline.engine.context import Context
from pipeline.findings.fix_prompt import HEADING, findings_section
from pipeline.findings.lines import Line
from pipeline.findings.model import Finding
from pipeline.summary.render import SMALLEST_BUDGET, render
from pipeline.summary.report_index import ReportIndex

JSON = '{"reviewer": "review", "findings": []}'
GAP = 2


def lines_of(found: list[Finding], size: int) -> list[Line]:
    """Return the findings as lines of work with up to this many members each."""
    groups = [found[start : start + size] for start in range(0, len(found), size)]
    return [
        Line(group[0].id, group[0].number, tuple(replace(one, line=group[0].id) for one in group)) for group in groups
    ]


def test_a_report_with_listed_findings_refers_to_them(report: Report, summary: Summary) -> None:
    """3.1: its raw text is shown neither in the report nor among the values."""
    listed = report(response=JSON, findingIds=["fnd_1", "fnd_2"])
    text = summary({"review.findings": [listed], "review.response": JSON, "other": "kept"})
    assert "2 findings, listed by number below." in text
    assert JSON not in text
    assert "- other: kept" in text


@pytest.mark.parametrize("ids", [[], None, "fnd_1", 3])
def test_a_report_without_finding_ids_shows_its_text(report: Report, summary: Summary, ids: object) -> None:
    """004-23: an empty or malformed list of ids hides nothing."""
    assert "src/a.py:1: wrong" in summary([report(findingIds=ids)])


def test_the_full_response_is_kept(report: Report) -> None:
    """004-23: the text that is shown may be shorter, the data may not."""
    (group,) = ReportIndex("review.findings").groups(
        Context({"review.findings": [report(response=JSON, findingIds=["fnd_1"])]})
    )
    assert group.newest.full_response == JSON


def test_an_entry_that_is_not_a_report_is_shown_unchanged() -> None:
    """No entry is refused."""
    (group,) = ReportIndex("review.findings").groups(Context({"review.findings": ["some words"]}))
    assert (group.newest.response, group.newest.full_response) == ("some words", "some words")


def test_the_findings_come_last(report: Report, summary: Summary) -> None:
    """004-30: "the findings below" in a prompt points at what directly precedes it."""
    text = summary([report()], items=lambda _: "## Findings by file\n\n- #1")
    assert text.endswith("## Findings by file\n\n- #1")
    assert text.index("## Outstanding Review Findings") < text.index("## Findings by file")


def test_without_findings_the_budget_is_unchanged(report: Report, summary: Summary) -> None:
    """An empty section costs nothing."""
    assert summary([report()], items=lambda _: "") == summary([report()])


@settings(max_examples=25, deadline=None)
@given(ledgers(most=6), st.integers(1, 3), st.integers(0, 12_000), st.integers(0, 5000))
def test_the_summary_keeps_its_budget_and_every_line_of_work_its_title(
    found: list[Finding], size: int, budget: int, words: int
) -> None:
    """004-23, 4.3: the rest keeps its minimum, and every line of work is named in any case."""
    lines = lines_of(found, size)
    entry = {"stageId": "rev", "status": "fail", "failureReason": "bad", "response": "w " * words, "findingIds": []}
    context = Context({"review.findings": [entry], "value": "v" * words})
    text = render(
        context,
        ReportIndex("review.findings").groups(context),
        goal="g",
        workflow="w",
        past=(),
        budget=budget,
        findings_path="/f.json",
        items=lambda room: findings_section(lines, room),
    )
    least = len(findings_section(lines, 0)) + GAP + SMALLEST_BUDGET if lines else SMALLEST_BUDGET
    assert len(text) <= max(budget, least)
    assert all(f"- #{line.number} (" in text for line in lines)
    assert (HEADING in text) is bool(lines)

"""Findings as Markdown: what is open and what is missing is always said, and text from outside is never markup."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import AT, FIRST, REVIEW, SECOND, assessed, finding, look
from tests.unit.findings.strategies import texts
from tests.unit.markdown_shape import shape

from pipeline.findings.events import Coverage, Disposition, FindingRaised, ItemOutcome, Look, Pattern
from pipeline.findings.formats import FORMATS
from pipeline.findings.formats.markdown import write_review
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Evidence, Finding, FindingState, Gate, Location, PassId, ReportStatus, Suppression
from pipeline.findings.reviews import review
from pipeline.text import sanitize_line

EVIL = 'a`b|c\n# d <script>alert(1)</script> \x1b[31m"e" \u202ef ![x](http://x.invalid) @all ```'


def passed(id: PassId, *findings: Finding, **more: Any) -> list[Any]:
    """A pass and what it raised."""
    raised = [FindingRaised(at=AT, finding=replace(one, pass_id=id)) for one in findings]
    return [assessed(id, finding_ids=tuple(one.id for one in findings), **more), *raised]


def coverage(*looks: Look, **more: Any) -> Coverage:
    return Coverage(looks=looks, **more)


def page_of(events: list[Any]) -> str:
    """The report of the last review."""
    return write_review(review(Ledger(events)))


def export(events: list[Any]) -> str:
    """All findings, without a report around them."""
    ledger = Ledger(events)
    return FORMATS["markdown"].write(ledger.findings.values(), ledger)


def section(page: str, heading: str) -> list[str]:
    """The lines of a section of the report."""
    _, _, rest = page.partition(f"\n## {heading}")
    return [line for line in rest.partition("\n## ")[0].splitlines()[1:] if line]


def numbers(lines: list[str]) -> list[str]:
    """The numbers of the findings that are listed."""
    return [re.findall(r"no\. (\d+)", line)[0] for line in lines]


def test_findings_are_grouped_and_gaps_come_first() -> None:
    """What was dismissed is listed apart, and a reviewer who did not answer is named at the top."""
    states = (FindingState.OPEN, FindingState.WONT_FIX, FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED)
    found = [finding(number, state=state, gate=Gate.MUST) for number, state in enumerate(states, 1)]
    text = export(passed(FIRST, *found, coverage=coverage(look("b", ReportStatus.MALFORMED, problem="cut off"))))
    assert re.findall("^## (.*) ", text, re.MULTILINE) == [
        "Must fix",
        "Claimed to be fixed",
        "Fixed",
        "Suppressed, not gating",
    ]
    assert text.index("Verdict: ") < text.index("b: cut off") < text.index("## Must fix")


def test_an_incomplete_pass_is_not_called_a_pass() -> None:
    """A report without any finding fails if a reviewer did not answer."""
    events = passed(FIRST, coverage=coverage(look("qa", ReportStatus.MISSING)))
    for text in (export(events), page_of(events)):
        assert "**FAIL" in text
        assert "**PASS" not in text
        assert "- **Incomplete**: qa: " in text


def test_a_review_lists_every_open_finding_about_its_target() -> None:
    """It lists claimed fixes and what earlier reviews left open, says what does not count, and counts the rest."""
    states = (FindingState.OPEN, FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED, FindingState.FALSE_POSITIVE)
    elsewhere = finding(1, locations=(Location(path="src/other.py", start=1),))
    found = [finding(number, state=state) for number, state in enumerate(states, 3)]
    events = passed(FIRST, elsewhere, finding(2), paths=("src/a.py", "src/other.py"), review="00000000")
    page = page_of(events + passed(SECOND, *found, finding(7, pre_existing=True), paths=("src/a.py",)))
    lines = section(page, "Still open (4)")
    assert numbers(lines[:4]) == ["2", "3", "4", "7"]
    assert ["does not count it" in line for line in lines[:4]] == [False, False, False, True]
    assert lines[4].startswith("1 more is open")


def test_a_review_that_left_nothing_open_says_so() -> None:
    """So does one that filtered nothing."""
    page = page_of(passed(FIRST, finding(state=FindingState.VERIFIED_FIXED)))
    assert [line[:8] for line in section(page, "Still open")] == ["Nothing "]
    assert [line[:8] for line in section(page, "Filtered or demoted")] == ["Nothing "]


def test_a_reviewer_that_did_not_rule_or_look_is_named() -> None:
    """A number without a ruling and a reviewer that has not seen the last tree are told above the findings."""
    events = passed(FIRST, finding(), tree="1" * 40, run="r", coverage=coverage(look("qa"), look()))
    events += passed(SECOND, tree="2" * 40, run="r", coverage=coverage(look(unruled=(1,))))
    before = page_of(events).partition("\n## ")[0]
    assert "correctness did not rule on" in before
    assert "looked at, up to these very files, by qa" in before


def test_every_look_of_a_review_has_a_row() -> None:
    """It has its stage, its items and what was wrong with the answer, and what was filtered is listed below."""
    entries = (
        ItemOutcome(input_id="qa#1", disposition=Disposition.SURVIVING, reason="", title="kept"),
        ItemOutcome(input_id="qa#2", disposition=Disposition.FILTERED, reason="too unsure", title="perhaps"),
    )
    malformed = look("ops", ReportStatus.MALFORMED, problem="cut off", stage="b")
    events = passed(FIRST, run="r", visit=1, coverage=coverage(look("qa", stage="a")), entries=entries)
    page = page_of(events + passed(SECOND, run="r", visit=1, coverage=coverage(malformed)))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section(page, "Reviewers")[2:]]
    assert [(row[0], row[1], row[4], row[5]) for row in rows] == [("qa", "a", "2", ""), ("ops", "b", "0", "cut off")]
    (line,) = section(page, "Filtered or demoted")
    assert "perhaps: too unsure" in line


def test_members_of_a_line_of_work_name_each_other() -> None:
    """Each finding has its own text, and below it those of the other reviewers of the defect."""
    first = finding(reviewer="qa", title="Lock leaks")
    page = page_of(passed(FIRST, first, finding(2, reviewer="ops", title="Never released", line=first.id)))
    assert section(page, "Suggested (2)").count("ops: Never released") == 1
    assert section(page, "Suggested (2)").count("qa: Lock leaks") == 1


def evil(text: str) -> list[Any]:
    """A review with this text wherever a text can be."""
    hidden = ItemOutcome(input_id="a#1", disposition=Disposition.FILTERED, reason=text, title=text)
    said: dict[str, Any] = {
        "title": text,
        "impact": text,
        "fix": text,
        "severity_text": text,
        "reviewer": text,
        "locations": (Location(path=text),),
        "evidence": (Evidence(quote=text),),
        "line": finding().id,
    }
    return passed(
        FIRST,
        finding(1, **said),
        finding(2, **said, state=FindingState.WONT_FIX, suppression=Suppression(by=text, reason=text)),
        review=REVIEW,
        task=text,
        branch=text,
        base=text,
        head=text,
        target=text,
        coverage=coverage(
            look(text, ReportStatus.MALFORMED, problem=text, stage=text),
            look(f"{text}2", verdict="SHIP", argument=text, unruled=(1,)),
            residual_risks=(text,),
            testing_gaps=(text,),
        ),
        entries=(hidden,),
        patterns=(Pattern(id="P1", name=text, location=text, rationale=text),),
    )


@settings(deadline=None, max_examples=60)
@given(texts(least=1, most=40).filter(lambda text: bool(text.strip() and sanitize_line(text))) | st.just(EVIL))
def test_no_text_becomes_markup(text: str) -> None:
    """Whatever a review said, its report has the same headings, lists and tables as for a harmless word."""
    assert shape(page_of(evil(text))) == shape(page_of(evil("word")))


@pytest.mark.parametrize("text", ["# h", "- l", "1. n", "---", "===", "> q", "```", "[a]: b", "<b>", "|-|", "\n\n# h"])
def test_no_line_of_markup_becomes_markup(text: str) -> None:
    """The same holds for what begins a block, in a report and in an export."""
    assert shape(page_of(evil(text))) == shape(page_of(evil("word")))
    assert shape(export(evil(text))) == shape(export(evil("word")))

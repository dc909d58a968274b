"""What reviews and tools reported: everything that was said is in the report, or the report says that it is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import PassId, ReportStatus, ReviewerReport, Severity
from pipeline.findings.reports import (
    describe_faults,
    plain_report,
    report_in_answers,
    report_in_file,
    with_failure,
)
from pipeline.language.model import FindingsFormat, LlmStage, ToolStage

ROOT = Path("/project")
REV = LlmStage(id="rev", prompt="x", auto_status=True)
FIX = LlmStage(id="fix", prompt="x")
TESTS = ToolStage(id="tests", command="false")
LINT = ToolStage(id="lint", command="true", findings=FindingsFormat.SARIF)


def item(title: str = "It is never checked", **more: Any) -> dict[str, Any]:
    return {
        "title": title,
        "severity": "P1",
        "file": "a.py",
        "line": 2,
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "confidence": 100,
        "evidence": ["a.py:2 -- two = compute(one)"],
        "pre_existing": False,
        **more,
    }


def found(*items: dict[str, Any]) -> str:
    return json.dumps({"reviewer": "rev", "findings": list(items), "residual_risks": [], "testing_gaps": []})


def read(*answers: str) -> ReviewerReport:
    report = report_in_answers(REV, answers, ROOT)
    assert report is not None
    return report


def test_prose_is_not_a_report() -> None:
    """Its status comes from its markers."""
    assert report_in_answers(REV, ["I like it. [STATUS: success]"], ROOT) is None


def test_a_second_answer_adds_to_the_first() -> None:
    """Asked again, a review takes nothing back; what it reports twice is one finding, the worse of the two."""
    report = read(found(item("One"), item("Two", severity="P0")), found(item("Two", line=4), item("Three")))
    assert sorted((one.title, one.severity) for one in report.findings) == [
        ("One", "high"),
        ("Three", "high"),
        ("Two", "critical"),
    ]
    assert len({one.input_id for one in report.findings}) == 3


@pytest.mark.parametrize("cut", [0, 1])
def test_what_only_an_answer_that_is_cut_off_names_is_kept_as_unreadable(cut: int) -> None:
    """Whichever of the two answers it is."""
    answers = [found(item("One")), found(item("Two"))]
    answers[cut] = answers[cut][:-40]
    report = read(*answers)
    assert [one.title for one in report.findings] == [["Two"], ["One"]][cut]
    assert [one.title for one in report.unreadable] == [["One"], ["Two"]][cut]


def test_all_faults_of_all_items_are_named() -> None:
    """A review that is asked again learns everything that is wrong at once."""
    faults = describe_faults(read(found(item(""), item(file="", evidence=[]))))
    assert all(fault in faults for fault in ("rev#1: `title`", "rev#2: ", "`file`"))
    assert describe_faults(read(found(item()))) == ""


def test_a_report_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid report beyond the limit is malformed, never clean."""
    run = {"tool": {"driver": {"name": "lint"}}, "results": []}
    (tmp_path / "given").write_text(json.dumps({"version": "2.1.0", "runs": [run]}) + " " * 2000)
    assert report_in_file(LINT, tmp_path / "given", tmp_path).status is ReportStatus.EMPTY
    monkeypatch.setattr("pipeline.findings.reports.MAX_REPORT", 1024)
    assert report_in_file(LINT, tmp_path / "given", tmp_path).status is ReportStatus.MALFORMED


@pytest.mark.parametrize("stage", [REV, LINT], ids=["review", "tool"])
@pytest.mark.parametrize(
    ("kind", "status"), [(FailureClass.PROTOCOL, ReportStatus.MALFORMED), (FailureClass.AGENT, ReportStatus.MISSING)]
)
def test_a_reviewer_without_its_report_is_missing(
    stage: LlmStage | ToolStage, kind: FailureClass, status: ReportStatus
) -> None:
    """Only reviews and tools that are asked for one owe it."""
    outcome = Outcome(status=Status.FAIL, failure=Failure(kind=kind, digest="no word"))
    report = plain_report(stage, "W", outcome, Ledger())
    assert report is not None
    assert (report.reviewer, report.status) == (stage.id, status)
    assert plain_report(FIX, "W", outcome, Ledger()) is None


@pytest.mark.parametrize("stage", [REV, TESTS], ids=["review", "tool"])
def test_a_failure_in_prose_is_one_finding_named_after_its_stage(stage: LlmStage | ToolStage) -> None:
    """0-02: the reason is its title, the whole text its body, and it covers nothing else."""
    outcome = Outcome(status=Status.FAIL, reason="it leaks", response="It leaks.\nBadly.")
    report = plain_report(stage, "W", outcome, Ledger())
    assert report is not None
    (one,) = report.findings
    assert (report.status, report.covered) == (ReportStatus.RETURNED, ())
    assert (one.title, one.impact, one.severity) == ("it leaks", "It leaks.\nBadly.", Severity.HIGH)
    assert (one.tool_ids, one.by_tool) == ({"stage/v1": f"W/{stage.id}"}, stage is TESTS)


@pytest.mark.parametrize("kind", [FailureClass.AGENT, FailureClass.INTERNAL, FailureClass.SPAWN_ERROR])
def test_an_error_of_a_tool_is_not_a_finding(kind: FailureClass) -> None:
    """0-02: nothing was checked, so nothing was found."""
    outcome = Outcome(status=Status.FAIL, failure=Failure(kind=kind))
    assert plain_report(TESTS, "W", outcome, Ledger()) is None


def test_a_pass_in_prose_is_recorded_if_there_is_something_to_withdraw() -> None:
    """0-03: an answer that was owed, or a finding that it reported."""
    outcome, owing = Outcome(status=Status.SUCCESS), Ledger()
    assert plain_report(REV, "W", outcome, owing) is None
    owing.unanswered["rev"] = PassId("REV-1")
    report = plain_report(REV, "W", outcome, owing)
    assert report is not None
    assert (report.status, report.covered) == (ReportStatus.EMPTY, None)


def test_a_failed_review_without_findings_has_an_item() -> None:
    """The failure itself: an empty list is not clean."""
    outcome = Outcome(status=Status.FAIL, source=StatusSource.MARKER, reason="it leaks", response="[STATUS: fail]")
    report = with_failure(read(found()), outcome)
    assert (report.status, [one.title for one in report.unreadable]) == (ReportStatus.RETURNED, ["it leaks"])

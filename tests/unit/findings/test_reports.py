"""What reviews and tools reported: everything that was said is in the report, or the report says that it is not."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.drafts import readable, unreadable

from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource
from pipeline.findings.assessments import problem_of
from pipeline.findings.model import STAGE, Report, ReportStatus, Severity
from pipeline.findings.reports import (
    PLAIN,
    logged_report,
    report_of_failure,
    report_of_review,
    report_of_tool,
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


def found(*items: dict[str, Any], **more: Any) -> str:
    given = {"reviewer": "rev", "findings": list(items), "reviewed": ["a.py: all of it"]}
    return json.dumps({**given, "residual_risks": [], "testing_gaps": [], **more})


def read(*answers: str) -> Report:
    report = report_of_review(REV, answers, ROOT)
    assert report is not None
    return report


def of_failure(stage: LlmStage | ToolStage, outcome: Outcome) -> Report:
    report = report_of_failure(stage, "W", outcome)
    assert report is not None
    return report


def test_prose_is_not_a_report() -> None:
    """Its status comes from its markers."""
    assert report_of_review(REV, ["I like it. [STATUS: success]"], ROOT) is None


def test_a_second_answer_adds_to_the_first() -> None:
    """Asked again, a review takes nothing back; what it reports twice is one finding, the worse of the two."""
    report = read(found(item("One"), item("Two", severity="P0")), found(item("Two", line=4), item("Three")))
    assert sorted((one.title, one.severity) for one in readable(report)) == [
        ("One", "high"),
        ("Three", "high"),
        ("Two", "critical"),
    ]
    assert len({one.input_id for one in readable(report)}) == 3


@pytest.mark.parametrize("cut", [0, 1])
def test_what_only_an_answer_that_is_cut_off_names_is_kept_as_unreadable(cut: int) -> None:
    """Whichever of the two answers it is."""
    answers = [found(item("One")), found(item("Two"))]
    answers[cut] = answers[cut][:-40]
    report = read(*answers)
    assert [one.title for one in readable(report)] == [["Two"], ["One"]][cut]
    assert [one.title for one in unreadable(report)] == [["One"], ["Two"]][cut]


def test_a_second_answer_adds_rulings_and_decides_whether_an_empty_list_is_believed() -> None:
    """What the first answer said is kept, and its doubt is gone once the second one says what was examined."""
    empty = found(reviewed=[], rulings=[{"number": 1, "ruling": "fixed"}])
    assert read(empty).doubt
    both = read(empty, found(rulings=[{"number": 2, "ruling": "upheld", "reason": "so"}]))
    assert both.doubt == ""
    assert [(said.number, said.word) for said in both.rulings] == [(1, "fixed"), (2, "upheld")]
    assert read(empty, empty).doubt


def test_all_faults_of_all_items_are_named() -> None:
    """A review that is asked again learns everything that is wrong at once."""
    faults = problem_of(read(found(item(""), item(file="", evidence=[]))))
    assert all(fault in faults for fault in ("rev#1: `title`", "rev#2: ", "`file`"))
    assert problem_of(read(found(item()))) == ""


def test_many_faults_are_counted() -> None:
    """Twenty are enough to see what is wrong."""
    problem = problem_of(read(found(*(item("", line=line) for line in range(1, 31)))))
    assert (problem.count("`title`"), problem.endswith("and 10 more")) == (20, True)


def test_an_answer_that_cannot_be_read_says_why() -> None:
    """It is no report with an empty list."""
    report = read(found(item())[:-40])
    assert report.status is ReportStatus.MALFORMED
    assert problem_of(report) == report.problem != ""


def test_a_report_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid report beyond the limit is malformed, never clean."""
    run = {"tool": {"driver": {"name": "lint"}}, "results": []}
    (tmp_path / "given").write_text(json.dumps({"version": "2.1.0", "runs": [run]}) + " " * 2000)
    assert report_of_tool(LINT, tmp_path / "given", tmp_path).status is ReportStatus.EMPTY
    monkeypatch.setattr("pipeline.findings.reports.MAX_REPORT", 1024)
    assert report_of_tool(LINT, tmp_path / "given", tmp_path).status is ReportStatus.MALFORMED


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        (None, ("report", "stdout.log"), "report"),
        (FailureClass.EXIT_NONZERO, ("stdout.log",), "stdout.log"),
        (FailureClass.TIMEOUT, ("report", "stdout.log"), None),
        (None, (), None),
    ],
)
def test_the_report_of_a_command_is_its_file_or_its_output(
    tmp_path: Path, kind: FailureClass | None, written: tuple[str, ...], expected: str | None
) -> None:
    """One that did not come to its end has none: what it wrote may be half of it."""
    for name in written:
        (tmp_path / name).write_text("x")
    failure = Failure(kind=kind) if kind else None
    outcome = Outcome(status=Status.FAIL, failure=failure, logs={"stdout": "stdout.log"})
    file = logged_report(outcome, tmp_path)
    assert (file.name if file else None) == expected
    assert logged_report(Outcome(status=Status.FAIL), tmp_path) is None


@pytest.mark.parametrize("stage", [REV, LINT], ids=["review", "tool"])
@pytest.mark.parametrize(
    ("kind", "status"), [(FailureClass.PROTOCOL, ReportStatus.MALFORMED), (FailureClass.AGENT, ReportStatus.MISSING)]
)
def test_a_reviewer_without_its_report_is_missing(
    stage: LlmStage | ToolStage, kind: FailureClass, status: ReportStatus
) -> None:
    """Only reviews and tools that are asked for one owe it."""
    outcome = Outcome(status=Status.FAIL, failure=Failure(kind=kind, digest="no word"))
    report = of_failure(stage, outcome)
    assert (report.reviewer, report.status) == (stage.id, status)
    assert report_of_failure(FIX, "W", outcome) is None


@pytest.mark.parametrize("stage", [REV, TESTS], ids=["review", "tool"])
def test_a_failure_in_prose_is_one_finding_named_after_its_stage(stage: LlmStage | ToolStage) -> None:
    """0-02: the reason is its title, the whole text its body, and it covers nothing else."""
    report = of_failure(stage, Outcome(status=Status.FAIL, reason="it leaks", response="It leaks.\nBadly."))
    (one,) = readable(report)
    assert (report.status, report.covered, report.format) == (ReportStatus.RETURNED, (), PLAIN)
    assert (one.title, one.impact, one.severity) == ("it leaks", "It leaks.\nBadly.", Severity.HIGH)
    assert (one.tool_ids, one.by_tool) == ({STAGE: f"W/{stage.id}"}, stage is TESTS)


@pytest.mark.parametrize("stage", [REV, TESTS], ids=["review", "tool"])
def test_a_success_without_a_report_says_that_the_stage_did_not_fail_and_nothing_else(
    stage: LlmStage | ToolStage,
) -> None:
    """0-03: it checked for the one finding that is made of its own failure."""
    report = of_failure(stage, Outcome(status=Status.SUCCESS))
    assert (report.status, report.drafts, report.checked) == (
        ReportStatus.EMPTY,
        (),
        frozenset({f"W/{stage.id}"}),
    )


@pytest.mark.parametrize("kind", [FailureClass.AGENT, FailureClass.INTERNAL, FailureClass.SPAWN_ERROR])
def test_an_error_of_a_tool_is_not_a_finding(kind: FailureClass) -> None:
    """0-02: nothing was checked, so nothing was found."""
    outcome = Outcome(status=Status.FAIL, failure=Failure(kind=kind))
    assert report_of_failure(TESTS, "W", outcome) is None


def test_a_failed_review_without_findings_has_an_item() -> None:
    """The failure itself: an empty list is not clean. Beside a finding the failure is explained by it."""
    outcome = Outcome(status=Status.FAIL, source=StatusSource.MARKER, reason="it leaks", response="[STATUS: fail]")
    report = with_failure(read(found()), outcome)
    assert (report.status, [one.title for one in unreadable(report)]) == (ReportStatus.RETURNED, ["it leaks"])
    explained = read(found(item(severity="P3")))
    assert with_failure(explained, outcome) is explained

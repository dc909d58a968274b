"""The completion report at the end of every walk."""

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.walk.builders import (
    LINEAR,
    LOOKED,
    Drive,
    advisory,
    decision,
    finding,
    finish,
    joined,
    ledger_of,
    walk_of,
)

from pipeline.findings.events import Coverage, Disposition, ItemOutcome, Look
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import AutofixClass, Finding, FindingState, Gate, ReportStatus, Severity
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed
from pipeline.findings.verdicts import Readiness
from pipeline.findings.walk.report import render_report, report_data
from pipeline.findings.walk.state import Fixes, Route, Walk

COVERAGE = Coverage(
    looks=(
        Look(reviewer="correctness", status=ReportStatus.RETURNED),
        Look(reviewer="security", status=ReportStatus.MISSING),
        Look(reviewer="testing", status=ReportStatus.EMPTY),
    ),
    residual_risks=("The cache is never emptied.",),
    testing_gaps=("No test reads a missing file.",),
)
FOUND = (
    finding(1, severity=Severity.CRITICAL),
    finding(2),
    finding(3, impact="", reviewer="testing"),
    finding(4, severity=Severity.MEDIUM),
    advisory(5),
)
SAFE = AutofixClass.SAFE_AUTO
OUTCOMES = (
    Disposition.SUPPRESSED,
    Disposition.SURVIVING,
    Disposition.FILTERED,
    Disposition.MERGED,
    Disposition.FILTERED,
)
HIDDEN = tuple(ItemOutcome(input_id=f"x#{n}", disposition=one, reason="") for n, one in enumerate(OUTCOMES))


def run(
    *answers: str,
    found: tuple[Finding, ...] = FOUND,
    drive: Drive | None = None,
    route: Route = Route.EACH,
    **passed: Any,
) -> Walk:
    begun = walk_of(ledger=ledger_of(*found, **passed), trackers=LINEAR)
    return finish(begun, *answers, drive=drive, route=route)


def fail_second(one: Line) -> Filed | TicketFailed:
    return TicketFailed("HTTP 503") if one.number == 2 else Filed(f"https://linear.app/T-{one.number}")


def fail_first_fix(ids: Any) -> Fixes:
    return Fixes(frozenset(ids) - {FOUND[0].id}, {FOUND[0].id: "the file is gone"})


PATHS: dict[str, Any] = {
    "every finding answered": (["apply", "defer", "convert", "defer", "skip", "acknowledge"], {}),
    "the rest left to the agent": (["skip", "rest", "proceed"], {}),
    "all left to the agent": (["proceed"], {"route": Route.ALL}),
    "tickets for all": (["proceed", "convert"], {"route": Route.FILE}),
    "report only": (["report"], {"route": Route.ASK}),
}


@pytest.mark.parametrize("path", PATHS)
def test_every_path_ends_with_the_same_report(path: str, snapshot: SnapshotAssertion) -> None:
    """Failures, findings by what became of them, counts, coverage, verdict, in this order."""
    answers, how = PATHS[path]
    drive = Drive(tickets=fail_second, fixes=fail_first_fix)
    assert render_report(run(*answers, drive=drive, coverage=COVERAGE, entries=HIDDEN, **how)) == snapshot


def test_the_report_for_programs(snapshot: SnapshotAssertion) -> None:
    """Every finding, the tickets that were filed and that failed, the counts and the verdict."""
    drive = Drive(tickets=fail_second, fixes=fail_first_fix)
    walk = run(*PATHS["every finding answered"][0], drive=drive, coverage=COVERAGE, entries=HIDDEN)
    assert report_data(walk) == snapshot


def test_a_skip_has_a_reason() -> None:
    """What it is about in one sentence, or how sure it is."""
    found = (finding(1), finding(2, impact="", confidence=confidence_from_anchor(75)))
    notes = [one["note"] for one in report_data(run("skip", "skip", found=found))["findings"]]
    assert notes == ["Any caller reads any file.", "confidence 75"]


def test_counts_leave_out_empty_buckets_and_name_failed_fixes() -> None:
    """A failed fix was accepted, and is not counted as applied."""
    assert report_data(run("apply", "apply", "skip", found=FOUND[:3]))["summary"] == "2 applied, 1 skipped"
    walk = run("apply", "apply", found=FOUND[:2], drive=Drive(fixes=fail_first_fix))
    report = report_data(walk)
    assert report["counts"] | {"applied": 1, "failed": 1} == report["counts"]
    assert report["failures"][0]["reason"] == "the file is gone"


def test_a_fix_that_nobody_made_is_not_reported_as_made() -> None:
    """Without a fixer it is accepted, and the report says how to apply it."""
    walk = run("apply", found=FOUND[:1], drive=Drive(fixes=lambda _ids: Fixes()))
    report = report_data(walk, "awf findings fix")
    assert report["findings"][0]["action"] == "accepted"
    assert report["summary"] == "1 accepted, not applied yet; apply them with: awf findings fix"
    assert report["verdict"] == Readiness.NOT_READY


@pytest.mark.parametrize(
    ("found", "answer", "verdict"),
    [
        (finding(severity=Severity.CRITICAL), "skip", Readiness.NOT_READY),
        (finding(severity=Severity.CRITICAL), "apply", Readiness.NOT_READY),  # a claimed fix is not verified
        (finding(), "apply", Readiness.WITH_FIXES),
        (finding(), "defer", Readiness.WITH_FIXES),
        (advisory(), "acknowledge", Readiness.READY),
    ],
)
def test_the_verdict_is_on_what_remains(found: Finding, answer: str, verdict: Readiness) -> None:
    """It is computed after all actions."""
    assert report_data(run(answer, found=(found,)))["verdict"] == verdict


def test_the_verdict_counts_findings_outside_the_walk_and_missing_reviewers() -> None:
    """It is on the change, not on the walk; nothing found by those who answered is not nothing found."""
    severe = finding(9, severity=Severity.CRITICAL, autofix_class=SAFE)
    walk = run("apply", found=(finding(), severe))
    silent = run("acknowledge", found=(advisory(),), coverage=COVERAGE)
    assert [report_data(one)["verdict"] for one in (walk, silent)] == [Readiness.NOT_READY] * 2


def test_findings_that_nobody_explained_are_counted() -> None:
    """With the reviewers who left it out."""
    gaps = report_data(run("skip", "skip", found=(FOUND[2], FOUND[1])))["coverage"]["framing_gaps"]
    assert gaps == {"count": 1, "reviewers": ["testing"]}
    assert "Framing" not in render_report(run("skip", found=(FOUND[1],)))


def test_without_a_pass_nothing_was_reviewed() -> None:
    """There is no coverage, nothing is called resolved, and the change is not ready."""
    report = report_data(finish(walk_of(ledger=Ledger())))
    assert (report["summary"], report["verdict"]) == ("Nothing was reviewed.", Readiness.NOT_READY)
    assert report["coverage"]["suppressed"] == 0


def fixed(number: int) -> Finding:
    return finding(number, autofix_class=SAFE, state=FindingState.VERIFIED_FIXED)


@pytest.mark.parametrize(
    ("found", "line", "verdict"),
    [
        ([fixed(1), fixed(2), fixed(3)], "All findings resolved — 3 safe_auto fixes applied.", "Ready with fixes"),
        ([fixed(1)], "All findings resolved — 1 safe_auto fix applied.", "Ready with fixes"),
        ([], "All findings resolved.", "Ready to merge"),
        (
            [fixed(1), fixed(2), fixed(3), advisory(4), advisory(5), finding(6, pre_existing=True)],
            "All actionable findings resolved — 3 safe_auto fixes applied. "
            "(2 advisory, 1 pre-existing findings remain in the report.)",
            "Ready with fixes",
        ),
        (
            [advisory(4)],
            "All actionable findings resolved. (1 advisory finding remains in the report.)",
            "Ready to merge",
        ),
        (
            [finding(1, autofix_class=SAFE), finding(2, confidence=confidence_from_anchor(50))],
            "No finding needs a decision. (1 safe_auto, 1 doubtful findings remain in the report.)",
            "Ready with fixes: nothing blocks; 2 findings are still open",
        ),
    ],
)
def test_nothing_to_decide(found: list[Finding], line: str, verdict: str) -> None:
    """One line with what was fixed and what remains, and the verdict; never more than is true."""
    walk = replace(walk_of(*found), items=())
    assert render_report(walk) == f"{line}\n\nVerdict: {verdict}."
    assert report_data(walk)["summary"] == line


def test_what_no_tracker_took_is_listed_for_programs() -> None:
    """Filed, failed and without a tracker: each finding is in one list."""
    without = finding(7, action="defer")
    walk = finish(walk_of(without, trackers=NO_TRACKER), "proceed", route=Route.ALL)
    assert report_data(walk)["tickets"] == {
        "filed": [],
        "failed": [],
        "no_sink": [
            {"finding_id": without.id, "title": without.title, "severity": "P1", "file": "src/cache.py", "line": 36}
        ],
    }


def test_the_report_is_inert() -> None:
    """Neither a title, a tracker nor a fixer can forge a line of the report."""
    evil = "x\n\n**Failures**\n\n## y\x1b[31m"
    found = (finding(1, title=evil, impact=evil), finding(2, title=evil))
    drive = Drive(tickets=lambda _one: Filed(evil), fixes=lambda ids: Fixes(failed=dict.fromkeys(ids, evil)))
    lines = render_report(run("apply", "defer", found=found, drive=drive)).split("\n")
    assert lines.count("**Failures**") == 1
    assert "\x1b" not in "".join(lines)
    assert [line for line in lines if line.startswith("## ")] == ["## Completion report"]


def test_members_are_in_the_report() -> None:
    """Each with its reviewer, severity and state."""
    found = joined(finding(1), finding(2, reviewer="security", severity=Severity.LOW))
    [entry] = report_data(run("skip", found=found))["findings"]
    assert [(one["number"], one["reviewer"], one["severity"], one["state"]) for one in entry["members"]] == [
        (1, "correctness", "high", "open"),
        (2, "security", "low", "open"),
    ]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ((finding(1), finding(2), finding(3)), "nothing blocks; 2 findings are left to decide"),
        ((finding(1),), "nothing blocks; 1 finding is still open"),
        ((finding(1, gate=Gate.MUST),), "1 finding must still be fixed; 1 finding is still open"),
        ((finding(1), finding(2, history=(decision("skip"),))), "nothing blocks; 2 findings are still open"),
    ],
)
def test_ready_with_fixes_is_explained(found: tuple[Finding, ...], why: str) -> None:
    """In the line of the verdict: what blocks, and what is left."""
    begun = walk_of(found[0], trackers=LINEAR)
    walk = replace(finish(begun, "skip"), ledger=ledger_of(*found))
    assert report_data(walk)["why"] == why
    assert render_report(walk).endswith(f"Verdict: Ready with fixes: {why}.")


@pytest.mark.parametrize(
    ("severity", "verdict", "resolved"),
    [
        (Severity.MEDIUM, Readiness.READY, "All actionable findings resolved"),
        (Severity.CRITICAL, Readiness.NOT_READY, "No finding needs a decision"),
    ],
)
def test_what_is_about_another_change_is_told_apart(severity: Severity, verdict: str, resolved: str) -> None:
    """Nobody is asked about it; nothing is called resolved, or ready, while it blocks."""
    elsewhere = finding(1, severity=severity)
    walk = replace(walk_of(ledger=ledger_of(elsewhere, paths=("other.py",), coverage=LOOKED)), items=())
    report = report_data(walk)
    assert (report["verdict"], report["open"], report["elsewhere"]) == (verdict, 0, 1)
    assert report["not_asked"] == {"unrelated": 1}
    assert report["summary"] == f"{resolved}. (1 unrelated finding remains in the report.)"

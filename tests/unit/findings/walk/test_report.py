"""The report at the end of every walk."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.walk.made import AT, ISSUES, LINEAR, Drive, advisory, done, finding, items, vote, walk_of

from pipeline.findings.events import Coverage, Disposition, ItemOutcome, Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import AutofixClass, Finding, FindingState, ReportStatus, Severity
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed
from pipeline.findings.verdicts import Readiness
from pipeline.findings.walk.machine import begin
from pipeline.findings.walk.present import Fixes, Route, Walk, WalkContext, walk_context
from pipeline.findings.walk.report import counts, document, markdown

COVERAGE = Coverage(
    reviewers={"correctness": ReportStatus.RETURNED, "security": ReportStatus.MISSING, "testing": ReportStatus.EMPTY},
    residual_risks=("The cache is never emptied.",),
    testing_gaps=("No test reads a missing file.",),
)
FOUND = (
    finding(1, severity=Severity.CRITICAL),
    finding(2),
    finding(3, impact="", votes=(vote("testing"),), sources=("testing",)),
    finding(4, severity=Severity.MEDIUM),
    advisory(5),
)
SAFE = AutofixClass.SAFE_AUTO


def over(*answers: str, found: tuple[Finding, ...] = FOUND, drive: Drive | None = None, **how: Any) -> Walk:
    about = WalkContext(found, how.pop("coverage", None), how.pop("suppressed", 0))
    walk = begin(items(*found, sinks=LINEAR), LINEAR, about, **how)
    return (drive or Drive()).run(walk, answers)


def told(*answers: str, **how: Any) -> str:
    return markdown(done(over(*answers, **how)).report)


def two_failures(one: Finding) -> Filed | TicketFailed:
    return TicketFailed("HTTP 503") if one.number == 2 else Filed(f"https://linear.app/T-{one.number}")


def failed_fix(ids: Any) -> Fixes:
    return Fixes(frozenset(ids) - {FOUND[0].id}, {FOUND[0].id: "the file is gone"})


WAYS: dict[str, Any] = {
    "every finding answered": (["apply", "defer", "convert", "defer", "skip", "acknowledge"], {}),
    "the rest left to the agent": (["skip", "rest", "proceed"], {}),
    "all left to the agent": (["proceed"], {"route": Route.ALL}),
    "tickets for all": (["proceed", "convert"], {"route": Route.FILE}),
    "report only": (["report"], {"route": None}),
}


@pytest.mark.parametrize("way", WAYS)
def test_002_60_every_way_ends_with_the_same_report(way: str, snapshot: SnapshotAssertion) -> None:
    """002-60, 002-61, 002-62, 002-63, 002-65: failures, entries by action, counts, coverage, verdict."""
    answers, how = WAYS[way]
    drive = Drive(tickets=two_failures, fixes=failed_fix)
    assert told(*answers, drive=drive, coverage=COVERAGE, suppressed=3, **how) == snapshot


def test_002_60_the_order_of_the_sections() -> None:
    """002-60: failures come first, the verdict last."""
    drive = Drive(tickets=two_failures)
    text = told(*WAYS["every finding answered"][0], drive=drive, coverage=COVERAGE)
    marks = [
        "**Failures**",
        "**Applied",
        "**Deferred",
        "**Skipped",
        "**Acknowledged",
        "1 applied,",
        "**Coverage**",
        "Verdict:",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_002_60_the_same_for_programs(snapshot: SnapshotAssertion) -> None:
    """002-60, 002-72: every finding, the tickets that were filed and that failed, the counts and the verdict."""
    drive = Drive(tickets=two_failures, fixes=failed_fix)
    walk = over(*WAYS["every finding answered"][0], drive=drive, coverage=COVERAGE, suppressed=3)
    assert document(done(walk).report) == snapshot


def test_002_61_a_skip_has_a_reason() -> None:
    """002-61: what it is about in one sentence, or how sure it is."""
    text = told("skip", "skip", found=(finding(1), finding(2, impact="", confidence=confidence_from_anchor(75))))
    assert "- P1 Path traversal in loadUserFromCache — Skipped: Any caller reads any file.\n" in text
    assert "- P1 Path traversal in loadUserFromCache — Skipped: confidence 75\n" in text


def test_002_62_counts_leave_out_what_there_is_none_of() -> None:
    """002-62: such as `2 applied, 1 skipped`."""
    assert counts(done(over("apply", "apply", "skip", found=FOUND[:3])).report) == "2 applied, 1 skipped"


def test_002_63_a_fix_that_failed_is_called_out() -> None:
    """002-63: above the findings with its reason, and in the counts."""
    text = told("apply", "apply", found=FOUND[:2], drive=Drive(fixes=failed_fix))
    assert "- P0 Path traversal in loadUserFromCache — fix failed: the file is gone\n" in text
    assert "— Applied: the fix failed\n" in text
    assert "2 applied (1 failed)" in text


def test_a_fix_that_nobody_made_is_not_told_as_made() -> None:
    """002-51: accepted is not applied; without a fixer the report says so, and the finding still counts."""
    text = told("apply", found=FOUND[:1], drive=Drive(fixes=lambda _ids: Fixes()))
    assert "— Applied: src/cache.py:36-37, staged and not made yet\n" in text
    assert text.endswith("Verdict: Not ready.")


@pytest.mark.parametrize(
    ("found", "answers", "verdict"),
    [
        ((finding(severity=Severity.CRITICAL),), ["skip"], Readiness.NOT_READY),
        ((finding(severity=Severity.CRITICAL),), ["apply"], Readiness.NOT_READY),  # claimed is not verified
        ((finding(),), ["apply"], Readiness.WITH_FIXES),
        ((finding(),), ["defer"], Readiness.WITH_FIXES),
        ((advisory(),), ["acknowledge"], Readiness.READY),
    ],
)
def test_002_64_the_verdict_is_on_what_remains(
    found: tuple[Finding, ...], answers: list[str], verdict: Readiness
) -> None:
    """002-64: computed after all actions, by the one rule for all verdicts."""
    assert done(over(*answers, found=found)).report.verdict is verdict


def test_002_52_a_fix_is_a_claim_until_it_is_checked() -> None:
    """002-52: the fixer's word alone does not make a change ready."""
    grave = finding(severity=Severity.CRITICAL, requires_verification=True)
    told = done(over("apply", found=(grave,))).report
    assert (told.lines[0].note, told.verdict) == ("src/cache.py:36-37", Readiness.NOT_READY)


def test_002_64_findings_that_were_not_asked_about_count_too() -> None:
    """002-64: the verdict is on the change, not on the walk."""
    grave = finding(9, severity=Severity.CRITICAL, autofix_class=SAFE)
    walk = Drive().run(begin(items(finding()), ISSUES, WalkContext((finding(), grave))), ["apply"])
    assert done(walk).report.verdict is Readiness.NOT_READY


def test_002_64_a_missing_reviewer_is_never_a_clean_verdict() -> None:
    """002-64: nothing found by those who answered is not nothing found."""
    assert done(over("acknowledge", found=(advisory(),), coverage=COVERAGE)).report.verdict is Readiness.NOT_READY


def test_002_65_findings_that_nobody_explained_are_counted() -> None:
    """002-65: with the reviewers who left it out."""
    text = told("skip", "skip", found=(FOUND[2], FOUND[1]))
    assert "- Framing-enrichment gaps: 1 (testing)\n" in text
    assert "Framing" not in told("skip", found=(FOUND[1],))


def test_002_65_what_nobody_was_shown_is_counted_from_the_last_pass() -> None:
    """002-65: suppressed and filtered items of the last pass."""
    fates = [Disposition.SURVIVING, Disposition.SUPPRESSED, Disposition.FILTERED, Disposition.MERGED]
    entries = tuple(ItemOutcome(input_id=f"x#{n}", disposition=fate, reason="") for n, fate in enumerate(fates))
    ledger = Ledger()
    for name in ("REV-1-a", "REV-2-b"):
        one = Pass.model_validate({"id": name, "started_at": AT, "coverage": COVERAGE, "entries": entries})
        ledger.apply(PassRecorded(at=AT, assessment=one))
        entries = entries[:3]
    assert (walk_context(ledger).suppressed, walk_context(ledger).coverage) == (2, COVERAGE)


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
            "Ready with fixes",
        ),
    ],
)
def test_002_66_nothing_to_decide(found: list[Finding], line: str, verdict: str) -> None:
    """002-66: one line, with what was repaired and what remains, and the verdict; never more than is true."""
    report = done(begin((), LINEAR, WalkContext(tuple(found)))).report
    assert markdown(report) == f"{line}\n\nVerdict: {verdict}."
    assert document(report)["summary"] == line


def test_002_72_what_no_tracker_took_is_listed_for_programs() -> None:
    """002-72: filed, failed and without a sink, each finding in one list."""
    without = finding(7, votes=(vote("x", "defer"),))
    walk = Drive().run(walk_of(without, sinks=NO_TRACKER, route=Route.ALL), ["proceed"])
    assert document(done(walk).report)["tickets"] == {
        "filed": [],
        "failed": [],
        "no_sink": [
            {"finding_id": without.id, "title": without.title, "severity": "P1", "file": "src/cache.py", "line": 36}
        ],
    }


def test_the_report_is_inert() -> None:
    """Section 7: neither a title, a tracker nor a fixer can forge a line of the report."""
    evil = "x\n\n**Failures**\n\n## y\x1b[31m"
    found = (finding(1, title=evil, impact=evil), finding(2, title=evil))
    drive = Drive(tickets=lambda _one: Filed(evil), fixes=lambda ids: Fixes(failed=dict.fromkeys(ids, evil)))
    lines = told("apply", "defer", found=found, drive=drive).split("\n")
    assert lines.count("**Failures**") == 1
    assert "\x1b" not in "".join(lines)
    assert [line for line in lines if line.startswith("## ")] == ["## Completion report"]

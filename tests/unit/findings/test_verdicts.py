"""The verdict of each rule as a whole table; an incomplete pass never passes."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import findings

from pipeline.engine.outcome import Status
from pipeline.findings.events import Coverage, ReviewerVerdict
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    Gate,
    GateDecision,
    PassId,
    ReportStatus,
    Severity,
)
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, file_verdict, stage_status, verdicts

COUNTING = (FindingState.OPEN, FindingState.REOPENED, FindingState.UNCERTAIN)
SETTLED = (FindingState.VERIFIED_FIXED, FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)


def one(severity: Severity = Severity.HIGH, state: FindingState = FindingState.OPEN, **more: Any) -> Finding:
    must = severity.rank <= Severity.HIGH.rank
    values: dict[str, Any] = {
        "id": FindingId("fnd_1"),
        "signature": "s",
        "title": "t",
        "category": Category.BUG,
        "severity": severity,
        "confidence": Confidence(value=75),
        "pass_id": PassId("p"),
        "created_at": "",
        "updated_at": "",
        "state": state,
        "gate": GateDecision(value=Gate.MUST if must else Gate.SUGGEST),
    }
    return Finding(**values | more)


def expected(*, critical: bool, breaking: bool, high: bool) -> Verdict:
    """The table of a verdict file, in words."""
    if critical:
        return Verdict.ABORT if breaking else Verdict.FAIL
    return Verdict.WARN if high else Verdict.PASS


@pytest.mark.parametrize("state", FindingState)
@pytest.mark.parametrize(("critical", "breaking", "high"), list(product((True, False), repeat=3)))
def test_the_table_of_verdicts(*, state: FindingState, critical: bool, breaking: bool, high: bool) -> None:
    """Every combination in every state: a claimed fix counts as a fix in the file, and not after verification."""
    found = [one(Severity.LOW, state)]
    found += [one(Severity.CRITICAL, state, system_breaking=breaking)] if critical else []
    found += [one(Severity.HIGH, state, system_breaking=breaking)] if high else []
    said, table = verdicts(found), expected(critical=critical, breaking=breaking, high=high)
    assert said.verdict is (table if state in COUNTING else Verdict.PASS)
    assert said.after_verification is (Verdict.PASS if state in SETTLED else table)


@pytest.mark.parametrize("state", SETTLED)
def test_closed_findings_do_not_count(state: FindingState) -> None:
    """They are in no verdict and no count."""
    said = verdicts([one(Severity.CRITICAL, state)])
    assert (said.shipping, said.readiness) == (Shipping.SHIP, Readiness.READY)
    assert set(said.summary.values()) == {0}


def test_a_claimed_fix_passes_in_the_file_and_nowhere_else() -> None:
    """A claim alone ships nothing and makes nothing ready."""
    said = verdicts([one(Severity.CRITICAL, FindingState.FIX_CLAIMED)])
    assert (said.verdict, said.after_verification) == (Verdict.PASS, Verdict.FAIL)
    assert (said.verdict, said.after_verification) == (Verdict.PASS, Verdict.FAIL)
    assert (said.shipping, said.readiness) == (Shipping.BLOCK_ON_MUSTS, Readiness.NOT_READY)
    assert said.summary["blocker"] == 0


def test_the_summary_counts_what_is_active_by_severity() -> None:
    """Open, reopened and uncertain findings, under the names of the file."""
    found = [
        one(severity, state)
        for severity in Severity
        for state in (FindingState.OPEN, FindingState.REOPENED, FindingState.WONT_FIX)
    ]
    assert verdicts(found).summary == {"blocker": 2, "high": 2, "medium": 2, "low": 2, "info": 2}


@pytest.mark.parametrize(
    ("found", "said", "shipping"),
    [
        ([], [], Shipping.SHIP),
        ([one(Severity.MEDIUM)], [], Shipping.SHIP),
        ([one()], [], Shipping.BLOCK_ON_MUSTS),
        ([], ["BLOCK"], Shipping.BLOCK_ON_REJECTION),
        ([one()], ["BLOCK"], Shipping.BLOCK_ON_MUSTS),
        ([], ["SHIP", "SHIP-WITH-TICKETS"], Shipping.SHIP),
    ],
)
def test_a_pass_ships_without_musts_and_without_a_reviewer_who_blocks(
    found: list[Finding], said: list[str], shipping: Shipping
) -> None:
    """A suggestion never blocks."""
    told = [ReviewerVerdict(reviewer=f"r{number}", verdict=word) for number, word in enumerate(said)]
    assert verdicts(found, said=told).shipping is shipping


def test_the_gate_decides_and_not_the_severity() -> None:
    """A must of low severity blocks and fails; a critical suggestion does neither."""
    low = one(Severity.LOW, gate=GateDecision(value=Gate.MUST, by="user"))
    grave = one(Severity.CRITICAL, gate=GateDecision(value=Gate.SUGGEST, by="user"))
    assert (verdicts([low]).shipping, stage_status([low])) == (Shipping.BLOCK_ON_MUSTS, Status.FAIL)
    assert (verdicts([grave]).shipping, stage_status([grave])) == (Shipping.SHIP, Status.PARTIAL_SUCCESS)
    assert verdicts([low]).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("found", "applied", "readiness"),
    [
        ([], False, Readiness.READY),
        ([], True, Readiness.WITH_FIXES),
        ([one(Severity.LOW)], False, Readiness.WITH_FIXES),
        ([one(Severity.LOW, autofix_class=AutofixClass.ADVISORY)], False, Readiness.READY),
        ([one(Severity.HIGH)], False, Readiness.WITH_FIXES),
        ([one(Severity.CRITICAL)], False, Readiness.NOT_READY),
        ([one(Severity.LOW, category=Category.REQUIREMENT)], False, Readiness.NOT_READY),
    ],
)
def test_the_table_of_readiness(*, found: list[Finding], applied: bool, readiness: Readiness) -> None:
    """A critical finding or an unmet requirement is not ready; fixes to make, or made, need another look."""
    assert verdicts(found, fixes_applied=applied).readiness is readiness


@pytest.mark.parametrize(
    ("found", "status"),
    [([], Status.SUCCESS), ([one(Severity.LOW)], Status.PARTIAL_SUCCESS), ([one(), one(Severity.LOW)], Status.FAIL)],
)
def test_the_status_of_a_stage(found: list[Finding], status: Status) -> None:
    """It fails with a must, partly succeeds with suggestions, and succeeds with nothing."""
    assert stage_status(found) is status


def test_findings_from_before_the_change_do_not_count() -> None:
    """They are in no verdict."""
    said = verdicts([one(Severity.CRITICAL, pre_existing=True, system_breaking=True)])
    assert (said.verdict, said.shipping, said.readiness) == (Verdict.PASS, Shipping.SHIP, Readiness.READY)


@pytest.mark.parametrize("status", [ReportStatus.MISSING, ReportStatus.MALFORMED])
def test_an_incomplete_pass_never_passes(status: ReportStatus) -> None:
    """With a reviewer missing or unreadable, no rule passes, whatever was found."""
    coverage = Coverage(reviewers={"qa": ReportStatus.EMPTY, "security": status})
    said = verdicts([], coverage)
    assert not said.complete
    assert said.verdict is not Verdict.PASS
    assert said.after_verification is not Verdict.PASS
    assert said.shipping is not Shipping.SHIP
    assert said.readiness is Readiness.NOT_READY


@settings(max_examples=40)
@given(st.lists(findings(), max_size=4))
def test_gaps_never_make_a_verdict_better(found: list[Finding]) -> None:
    """An incomplete pass is at most as good as the same pass when complete."""
    whole = verdicts(found, Coverage(reviewers={"a": ReportStatus.RETURNED}))
    gaps = verdicts(found, Coverage(reviewers={"a": ReportStatus.MISSING}))
    order = list(Verdict)
    assert order.index(gaps.verdict) >= order.index(whole.verdict)
    assert order.index(gaps.after_verification) >= order.index(whole.after_verification)
    assert list(Readiness).index(gaps.readiness) >= list(Readiness).index(whole.readiness)
    assert whole.shipping is Shipping.SHIP or gaps.shipping is whole.shipping


@settings(max_examples=40)
@given(st.lists(findings(), max_size=5))
def test_verification_never_finds_less_than_the_file_counts(found: list[Finding]) -> None:
    """The verdict after verification is never better than that of the file."""
    said = verdicts(found)
    assert list(Verdict).index(said.after_verification) >= list(Verdict).index(said.verdict)
    assert said.verdict is file_verdict(
        [finding for finding in found if finding.state.active and not finding.pre_existing]
    )

"""What findings come to by each rule of its own, as whole tables: nothing is clean that was not wholly looked at."""

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
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, file_verdict, verdicts

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
    """001-11, C-06: every combination in every state; fixed, verified and wont_fix never count in the file.

    Where the file counts a claimed fix as one, the verdict after verification does not.
    """
    found = [one(Severity.LOW, state)]
    found += [one(Severity.CRITICAL, state, system_breaking=breaking)] if critical else []
    found += [one(Severity.HIGH, state, system_breaking=breaking)] if high else []
    said, table = verdicts(found), expected(critical=critical, breaking=breaking, high=high)
    assert said.verdict is (table if state in COUNTING else Verdict.PASS)
    assert said.after_verification is (Verdict.PASS if state in SETTLED else table)
    assert said.abort is (state not in SETTLED and table is Verdict.ABORT)


@pytest.mark.parametrize("state", SETTLED)
def test_settled_findings_come_to_nothing(state: FindingState) -> None:
    """001-11, C-31: they neither count nor are counted."""
    said = verdicts([one(Severity.CRITICAL, state)])
    assert (said.shipping, said.readiness, said.status) == (Shipping.SHIP, Readiness.READY, Status.SUCCESS)
    assert set(said.summary.values()) == {0}


def test_a_claimed_fix_passes_in_the_file_and_nowhere_else() -> None:
    """C-06: a claim alone ships nothing and is no success of a stage."""
    said = verdicts([one(Severity.CRITICAL, FindingState.FIX_CLAIMED)])
    assert (said.verdict, said.after_verification) == (Verdict.PASS, Verdict.FAIL)
    assert (said.stated, said.gating) == (Verdict.PASS, Verdict.FAIL)
    assert (said.shipping, said.status) == (Shipping.BLOCK_ON_MUSTS, Status.FAIL)
    assert said.readiness is Readiness.NOT_READY
    assert said.summary["blocker"] == 0


def test_the_summary_counts_what_is_active_by_severity() -> None:
    """C-31: open, reopened and uncertain, under the names of the file."""
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
    """000-17: zero MUST and every reviewer ships; a suggestion never gates."""
    told = [ReviewerVerdict(reviewer=f"r{number}", verdict=word) for number, word in enumerate(said)]
    assert verdicts(found, said=told).shipping is shipping


def test_the_gate_decides_and_not_the_severity() -> None:
    """000-15, 000-28: a must of low severity blocks and fails; a critical suggestion does neither."""
    low = one(Severity.LOW, gate=GateDecision(value=Gate.MUST, by="user"))
    grave = one(Severity.CRITICAL, gate=GateDecision(value=Gate.SUGGEST, by="user"))
    assert (verdicts([low]).shipping, verdicts([low]).status) == (Shipping.BLOCK_ON_MUSTS, Status.FAIL)
    assert (verdicts([grave]).shipping, verdicts([grave]).status) == (Shipping.SHIP, Status.PARTIAL_SUCCESS)
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
    """3.2: a critical one or an unmet requirement is in the way; what can be acted on, or was, needs a look."""
    assert verdicts(found, fixes_applied=applied).readiness is readiness


@pytest.mark.parametrize(
    ("found", "status"),
    [([], Status.SUCCESS), ([one(Severity.LOW)], Status.PARTIAL_SUCCESS), ([one(), one(Severity.LOW)], Status.FAIL)],
)
def test_the_status_of_a_stage(found: list[Finding], status: Status) -> None:
    """3.2: fail on any must, partly good on suggestions alone, success on none."""
    assert verdicts(found).status is status


def test_what_was_there_before_the_change_is_told_elsewhere() -> None:
    """C-34: a pre-existing finding counts in none of the verdicts."""
    said = verdicts([one(Severity.CRITICAL, pre_existing=True, system_breaking=True)])
    assert (said.verdict, said.shipping, said.status) == (Verdict.PASS, Shipping.SHIP, Status.SUCCESS)


@pytest.mark.parametrize("status", [ReportStatus.MISSING, ReportStatus.MALFORMED])
def test_nothing_is_clean_while_somebody_did_not_answer(status: ReportStatus) -> None:
    """6.6: with a reviewer missing or unreadable, no rule says clean, whatever was found."""
    coverage = Coverage(reviewers={"qa": ReportStatus.EMPTY, "security": status})
    said = verdicts([], coverage)
    assert not said.complete
    assert said.stated is not Verdict.PASS
    assert said.gating is not Verdict.PASS
    assert said.shipping is not Shipping.SHIP
    assert said.readiness is Readiness.NOT_READY
    assert said.status is Status.FAIL


@settings(max_examples=40)
@given(st.lists(findings(), max_size=4))
def test_gaps_never_make_a_verdict_better(found: list[Finding]) -> None:
    """6.6, as a law: what is incomplete is at most as good as the same when it is complete."""
    whole = verdicts(found, Coverage(reviewers={"a": ReportStatus.RETURNED}))
    gaps = verdicts(found, Coverage(reviewers={"a": ReportStatus.MISSING}))
    order = list(Verdict)
    assert order.index(gaps.stated) >= order.index(whole.stated)
    assert order.index(gaps.gating) >= order.index(whole.gating)
    assert list(Readiness).index(gaps.readiness) >= list(Readiness).index(whole.readiness)
    assert whole.shipping is Shipping.SHIP or gaps.shipping is whole.shipping


@settings(max_examples=40)
@given(st.lists(findings(), max_size=5))
def test_verification_never_finds_less_than_the_file_counts(found: list[Finding]) -> None:
    """C-06, as a law: the verdict after verification is never better than that of the file."""
    said = verdicts(found)
    assert list(Verdict).index(said.after_verification) >= list(Verdict).index(said.verdict)
    assert said.verdict is file_verdict(
        [finding for finding in found if finding.state.active and not finding.pre_existing]
    )

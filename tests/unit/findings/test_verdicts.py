"""The verdict of each rule as a whole table; nothing passes that was not looked at."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import finding, look, looked
from tests.unit.findings.strategies import findings

from pipeline.findings import verdicts
from pipeline.findings.events import Coverage
from pipeline.findings.model import AutofixClass, Category, Finding, FindingState, Gate, ReportStatus, Severity
from pipeline.findings.verdicts import Readiness, Shipping, Verdict

ANSWERED = looked("a")
CLOSED = (FindingState.VERIFIED_FIXED, FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)


def one(severity: Severity = Severity.HIGH, state: FindingState = FindingState.OPEN, **more: Any) -> Finding:
    must = severity.rank <= Severity.HIGH.rank
    return finding(severity=severity, state=state, **{"gate": Gate.MUST if must else Gate.SUGGEST, **more})


def shipping(found: list[Finding], coverage: Coverage = ANSWERED, *, whole: bool = True) -> Shipping:
    return verdicts.shipping(found, coverage, whole=whole)


@pytest.mark.parametrize("state", FindingState)
@pytest.mark.parametrize(("critical", "breaking", "high"), list(product((True, False), repeat=3)))
def test_the_table_of_verdicts(*, state: FindingState, critical: bool, breaking: bool, high: bool) -> None:
    """Every combination in every state: a claimed fix is not closed, and what is uncertain blocks."""
    found = [one(Severity.LOW, state)]
    found += [one(Severity.CRITICAL, state, system_breaking=breaking)] if critical else []
    found += [one(Severity.HIGH, state, system_breaking=breaking)] if high else []
    if state in CLOSED:
        expected = Verdict.PASS
    elif critical:
        expected = Verdict.ABORT if breaking else Verdict.FAIL
    elif state is FindingState.UNCERTAIN:
        expected = Verdict.FAIL
    else:
        expected = Verdict.WARN if high else Verdict.PASS
    assert verdicts.verdict(found, ANSWERED) is expected


@pytest.mark.parametrize("state", CLOSED)
def test_closed_findings_do_not_count(state: FindingState) -> None:
    """They are in no verdict."""
    found = [one(Severity.CRITICAL, state)]
    assert shipping(found) is Shipping.SHIP
    assert verdicts.readiness(found, ANSWERED) is Readiness.READY


def test_a_claimed_fix_ships_nothing_and_makes_nothing_ready() -> None:
    """It counts as long as nobody has verified it."""
    found = [one(Severity.CRITICAL, FindingState.FIX_CLAIMED)]
    assert verdicts.verdict(found, ANSWERED) is Verdict.FAIL
    assert shipping(found) is Shipping.BLOCK_ON_MUSTS
    assert verdicts.readiness(found, ANSWERED) is Readiness.NOT_READY


def test_the_summary_counts_by_severity() -> None:
    """Under the names of a verdict file, each of them present."""
    found = [one(Severity.CRITICAL), one(Severity.CRITICAL), one(Severity.LOW)]
    assert verdicts.summary(found) == {"blocker": 2, "high": 0, "medium": 0, "low": 1, "info": 0}


@pytest.mark.parametrize(
    ("found", "said", "expected"),
    [
        ([], [], Shipping.SHIP),
        ([one(Severity.MEDIUM)], [], Shipping.SHIP),
        ([one()], [], Shipping.BLOCK_ON_MUSTS),
        ([one(state=FindingState.UNCERTAIN)], ["BLOCK"], Shipping.BLOCK_ON_REJECTION),
        ([one(), one(state=FindingState.UNCERTAIN)], ["BLOCK"], Shipping.BLOCK_ON_MUSTS),
        ([], ["SHIP", "SHIP-WITH-TICKETS"], Shipping.SHIP),
    ],
)
def test_a_pass_ships_without_musts_and_without_a_reviewer_who_blocks(
    found: list[Finding], said: list[str], expected: Shipping
) -> None:
    """000-17: a suggestion never blocks; a rejection is an uncertain finding."""
    looks = (look("a"), *(look(f"r{number}", verdict=word) for number, word in enumerate(said)))
    assert shipping(found, Coverage(looks=looks)) is expected


def test_what_was_not_looked_at_as_a_whole_does_not_ship() -> None:
    """Whatever the verdict on what was found."""
    assert verdicts.verdict([], ANSWERED) is Verdict.PASS
    assert shipping([], whole=False) is Shipping.BLOCK_ON_REJECTION


@pytest.mark.parametrize(
    ("severity", "gate", "expected"),
    [
        (Severity.LOW, Gate.MUST, (Shipping.BLOCK_ON_MUSTS, Verdict.PASS, True)),
        (Severity.CRITICAL, Gate.SUGGEST, (Shipping.BLOCK_ON_REJECTION, Verdict.FAIL, True)),
        (Severity.HIGH, Gate.SUGGEST, (Shipping.SHIP, Verdict.WARN, False)),
    ],
)
def test_neither_a_must_nor_a_critical_finding_ships(
    severity: Severity, gate: Gate, expected: tuple[Shipping, Verdict, bool]
) -> None:
    """The gate and the severity are independent, and each of them can block."""
    found = one(severity, gate=gate)
    assert (shipping([found]), verdicts.verdict([found], ANSWERED), verdicts.blocks(found)) == expected


@pytest.mark.parametrize(
    ("found", "fixed", "expected"),
    [
        ([], False, Readiness.READY),
        ([], True, Readiness.WITH_FIXES),
        ([one(Severity.LOW)], False, Readiness.WITH_FIXES),
        ([one(Severity.LOW, autofix_class=AutofixClass.ADVISORY)], False, Readiness.READY),
        ([one(Severity.HIGH)], False, Readiness.WITH_FIXES),
        ([one(Severity.CRITICAL)], False, Readiness.NOT_READY),
        ([one(Severity.LOW, FindingState.UNCERTAIN)], False, Readiness.NOT_READY),
        ([one(Severity.LOW, category=Category.REQUIREMENT)], False, Readiness.NOT_READY),
    ],
)
def test_the_table_of_readiness(*, found: list[Finding], fixed: bool, expected: Readiness) -> None:
    """A critical finding or an unmet requirement is not ready; fixes to make, or made, need another look."""
    assert verdicts.readiness(found, ANSWERED, fixed=fixed) is expected


def test_findings_from_before_the_change_do_not_count() -> None:
    """They are in no verdict."""
    found = [one(Severity.CRITICAL, pre_existing=True, system_breaking=True)]
    assert verdicts.verdict(found, ANSWERED) is Verdict.PASS
    assert shipping(found) is Shipping.SHIP
    assert verdicts.readiness(found, ANSWERED) is Readiness.READY


INCOMPLETE = (
    Coverage(),
    *(
        Coverage(looks=(look("qa", ReportStatus.EMPTY), look("security", status)))
        for status in ReportStatus
        if not status.answered
    ),
)


@pytest.mark.parametrize("coverage", INCOMPLETE, ids=["nobody", "partial", "malformed", "missing"])
def test_an_incomplete_review_never_passes(coverage: Coverage) -> None:
    """If nobody looked, or a reviewer is missing or unreadable, no rule passes, whatever was found."""
    assert verdicts.verdict([], coverage) is Verdict.FAIL
    assert shipping([], coverage) is Shipping.BLOCK_ON_REJECTION
    assert verdicts.readiness([], coverage) is Readiness.NOT_READY


@settings(max_examples=40)
@given(st.lists(findings(), max_size=4), findings())
def test_neither_one_more_finding_nor_a_gap_makes_a_verdict_milder(found: list[Finding], more: Finding) -> None:
    """One more finding, in whatever state, or one reviewer without an answer can only make it worse."""
    missing = Coverage(looks=(*ANSWERED.looks, look("b", ReportStatus.MISSING)))
    for worse, coverage in (([*found, more], ANSWERED), (found, missing)):
        assert verdicts.verdict(worse, coverage).rank >= verdicts.verdict(found, ANSWERED).rank
        ready = [verdicts.readiness(known, covered) for known, covered in ((worse, coverage), (found, ANSWERED))]
        assert list(Readiness).index(ready[0]) >= list(Readiness).index(ready[1])
        ships = [shipping(known, covered) for known, covered in ((worse, coverage), (found, ANSWERED))]
        assert ships[0] is not Shipping.SHIP or ships[1] is Shipping.SHIP


@settings(max_examples=40)
@given(st.lists(findings(), min_size=1, max_size=5))
def test_nothing_ships_that_fails(found: list[Finding]) -> None:
    """The words that follow from a verdict never contradict it."""
    if verdicts.verdict(found, ANSWERED).rank >= Verdict.FAIL.rank:
        assert shipping(found) is not Shipping.SHIP
        assert verdicts.readiness(found, ANSWERED) is Readiness.NOT_READY

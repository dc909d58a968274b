"""What is left to say of how the formats are brought together, each under its number."""

from dataclasses import replace

import pytest
from tests.unit.findings.passes import raw, run_pass
from tests.unit.findings.strategies import plain

from pipeline.findings.events import FindingRaised, ReviewerVerdict
from pipeline.findings.fix_prompt import findings_section
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Finding,
    FindingState,
    Gate,
    GateDecision,
    Lens,
    Location,
    Owner,
    Severity,
)
from pipeline.findings.scales import P_LEVEL, default_autofix
from pipeline.findings.trackers.ticket import NO_TRACKER
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, verdicts
from pipeline.findings.walk.machine import Action, recommend

AT = "2026-01-02T03:04:05Z"


def found(**told: object) -> Finding:
    """A finding with a claim's own particulars."""
    return plain(**told)


@pytest.mark.parametrize(
    ("severity", "level", "gate"),
    [
        (Severity.CRITICAL, "P0", Gate.MUST),
        (Severity.HIGH, "P1", Gate.MUST),
        (Severity.MEDIUM, "P2", Gate.SUGGEST),
        (Severity.LOW, "P3", Gate.SUGGEST),
    ],
)
def test_what_must_be_fixed_before_merging_gates(severity: Severity, level: str, gate: Gate) -> None:
    """003-17, C-09: P0 must and P1 should be fixed and gate, P2 and P3 do not; the severity stays what was said."""
    claim = raw(severity=severity, confidence=100)
    (draft,) = run_pass(claim).findings
    assert (P_LEVEL[severity], draft.gate.value, draft.severity) == (level, gate, severity)
    assert draft.gate.by == "policy"


@pytest.mark.parametrize(("anchor", "shown"), [(0, False), (25, False), (50, False), (75, True), (100, True)])
def test_what_is_only_a_guess_or_minor_is_not_reported(anchor: int, shown: bool) -> None:  # noqa: FBT001 - a table
    """003-15: from 75 on a finding is sure to matter; below it is kept in the pass and not shown."""
    done = run_pass(raw(severity=Severity.HIGH, confidence=anchor))
    assert (len(done.findings) == 1) is shown
    assert len(done.passed.entries) == 1


def test_a_class_and_an_owner_decide_who_acts() -> None:
    """003-19: a safe fix is never assumed, what needs a decision is a person's, and a release is no code work."""
    assert default_autofix("Do it", Severity.LOW) == (AutofixClass.GATED_AUTO, Owner.DOWNSTREAM_RESOLVER)
    assert default_autofix(None, Severity.LOW) == (AutofixClass.MANUAL, Owner.HUMAN)
    assert default_autofix("Do it", Severity.INFO) == (AutofixClass.ADVISORY, Owner.HUMAN)
    advisory = found(autofix_class=AutofixClass.ADVISORY, owner=Owner.RELEASE, fix="Roll it out slowly")
    assert recommend(advisory, NO_TRACKER) is Action.ACKNOWLEDGE


def test_each_verdict_is_made_of_the_findings_and_none_of_another() -> None:
    """C-10: one finding, three words, each by its own rule."""
    said = verdicts([found(severity=Severity.HIGH)])
    expected = (Verdict.WARN, Shipping.BLOCK_ON_MUSTS, Readiness.WITH_FIXES)
    assert (said.verdict, said.shipping, said.readiness) == expected
    blocked = verdicts([], said=[ReviewerVerdict(reviewer="a", verdict="BLOCK")])
    assert (blocked.verdict, blocked.shipping) == (Verdict.PASS, Shipping.BLOCK_ON_REJECTION)


def test_a_full_review_is_one_pass_over_all_lenses() -> None:
    """000-56: its record has the findings of every lens, and each finding says which lens it comes from."""
    claims = [
        raw(reviewer="security", line=3, n=1, title="Handle leaks", lens=Lens.CODE_REVIEW, confidence=100),
        raw(reviewer="tester", line=20, n=1, title="Race on start", lens=Lens.QA, confidence=100),
    ]
    done = run_pass(*claims, skill="full-review")
    ledger = Ledger(done.events)
    assert done.passed.skill == "full-review"
    assert set(done.passed.finding_ids) == set(ledger.findings)
    assert {finding.lens for finding in ledger} == {Lens.CODE_REVIEW, Lens.QA}


def test_nothing_is_revalidated_by_itself() -> None:
    """000-55: a pass that does not report a finding again leaves it claimed; somebody has to ask for a second look."""
    first = run_pass(raw(confidence=100))
    ledger = Ledger(first.events)
    (finding,) = ledger
    ledger.findings[finding.id] = replace(finding, state=FindingState.FIX_CLAIMED)
    for event in run_pass(ledger=ledger).events:
        ledger.apply(event)
    assert ledger.findings[finding.id].state is FindingState.FIX_CLAIMED


def test_what_is_to_be_fixed_first_comes_first() -> None:
    """001-20: by severity, and within one the surer first."""
    told = [
        ("d", Severity.MEDIUM, 100),
        ("c", Severity.HIGH, 75),
        ("b", Severity.HIGH, 100),
        ("a", Severity.CRITICAL, 75),
    ]
    gates = GateDecision(value=Gate.MUST)
    findings = [
        found(
            id=f"fnd_{name}",
            number=number,
            title=f"Title {name}",
            severity=severity,
            confidence=Confidence(value=sure),
            gate=gates,
            category=Category.BUG,
            locations=(Location(path="src/a.py", start=number),),
        )
        for number, (name, severity, sure) in enumerate(told, 1)
    ]
    text = findings_section(findings, 10_000)
    places = [text.index(f"Title {name}") for name in "abcd"]
    assert places == sorted(places)


def test_a_raised_finding_is_open() -> None:
    """C-03: what nobody has looked at yet counts."""
    (event,) = [one for one in run_pass(raw(confidence=100)).events if isinstance(one, FindingRaised)]
    assert event.finding.state.active

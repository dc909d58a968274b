"""The gate of a pass: what becomes a finding, what is only noted, and what must be fixed."""

from typing import Any

import pytest
from tests.unit.findings.ledgers import finding
from tests.unit.findings.passes import draft, run_pass

from pipeline.findings.events import Disposition
from pipeline.findings.gate import decide, gate
from pipeline.findings.model import AutofixClass, Confidence, FindingState, Gate, Severity


@pytest.mark.parametrize("severity", list(Severity))
@pytest.mark.parametrize("anchor", [0, 25, 50, 75, 100])
def test_a_finding_needs_75_and_a_critical_one_50(severity: Severity, anchor: int) -> None:
    """Agreement of several reviewers makes 50 enough for all."""
    one = draft(severity=severity, confidence=anchor)
    least = 50 if severity is Severity.CRITICAL else 75
    assert decide(one, agreed=False).is_kept == (anchor >= least)
    assert decide(one, agreed=True).is_kept == (anchor >= 50)


@pytest.mark.parametrize("value", [50, 60, 74, 75, 100])
def test_a_verdict_file_has_only_what_was_reported(value: int) -> None:
    """Its confidence is a fraction from 0.50, and nothing in it is filtered."""
    given = draft(severity=Severity.LOW, confidence=0)
    kept = decide(
        type(given)(**{**fields(given), "confidence": Confidence(value=value, scale="fraction")}), agreed=False
    )
    assert kept.is_kept


def fields(one: Any) -> dict[str, Any]:
    """The fields of a draft."""
    return {name: getattr(one, name) for name in one.__slots__}


@pytest.mark.parametrize(
    ("more", "disposition"),
    [
        ({"unreadable": "it has no title"}, Disposition.REJECTED),
        ({"suppressed": "noqa"}, Disposition.SUPPRESSED),
        ({"pre_existing": True, "confidence": 25}, Disposition.SURVIVING),
        ({"confidence": 25}, Disposition.FILTERED),
    ],
)
def test_everything_else_has_its_reason(more: dict[str, Any], disposition: Disposition) -> None:
    """Unreadable, suppressed and older items are kept apart before the gate."""
    result = decide(draft(**more), agreed=False)
    assert (result.disposition, bool(result.reason)) == (disposition, True)


@pytest.mark.parametrize(
    ("reviewer", "severity", "place"),
    [
        ("testing", Severity.LOW, "testing_gaps"),
        ("maintainability", Severity.MEDIUM, "residual_risks"),
        ("correctness", Severity.LOW, ""),
        ("testing", Severity.HIGH, ""),
    ],
)
def test_minor_advice_on_tests_or_maintenance_is_a_note(reviewer: str, severity: Severity, place: str) -> None:
    """It is listed with its file and line; what is severe, or about anything else, is a finding."""
    one = draft(reviewer, severity=severity, autofix_class=AutofixClass.ADVISORY, confidence=100)
    passed = run_pass(one).passed
    listed = {"testing_gaps": passed.coverage.testing_gaps, "residual_risks": passed.coverage.residual_risks}
    noted = "src/a.py:10 -- Lock is never released"
    assert {name for name, notes in listed.items() if noted in notes} == ({place} if place else set())
    assert bool(passed.finding_ids) == (not place)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"severity": Severity.CRITICAL}, Gate.MUST),
        ({"severity": Severity.HIGH}, Gate.MUST),
        ({"severity": Severity.MEDIUM}, Gate.SUGGEST),
        ({"severity": Severity.HIGH, "autofix_class": AutofixClass.ADVISORY}, Gate.SUGGEST),
        ({"severity": Severity.HIGH, "pre_existing": True}, Gate.SUGGEST),
        ({"severity": Severity.LOW, "state": FindingState.UNCERTAIN}, Gate.MUST),
        ({"severity": Severity.LOW, "unreadable": "no title", "pre_existing": True}, Gate.MUST),
    ],
)
def test_what_blocks_a_change(more: dict[str, Any], expected: Gate) -> None:
    """Severe findings of the change itself, and whatever nobody can judge."""
    assert gate(finding(**more)) is expected

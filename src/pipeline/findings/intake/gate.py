"""What agreement, age and confidence make of a finding: raised, set apart, demoted, kept back or let through.

The confidence gate comes late on purpose: two doubtful claims that agree are worth one that is not. What was there
before the change is set apart before it, and so is reported whatever its confidence.
"""

from collections.abc import Container
from dataclasses import dataclass
from functools import cache

from pipeline.findings.intake.policy import Policy
from pipeline.findings.model import AutofixClass, Confidence, Finding, Gate, GateDecision, Severity
from pipeline.findings.passes import Disposition
from pipeline.findings.scales import ANCHORS, anchor_of, of_anchor

LEAST = 75  # the anchor of a finding that is reported
LEAST_CRITICAL = 50  # a critical one must not be lost for a doubt
_PROMOTED = 50  # the least anchor that agreement raises
_SOFT = frozenset({"testing", "maintainability"})


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a finding, and why. What is not kept may leave a note beside the findings."""

    disposition: Disposition
    reason: str
    kept: bool = False  # whether it is a finding of this pass
    gap: str = ""  # among the gaps in the tests
    risk: str = ""  # among the risks that remain


_KEPT = Fate(Disposition.SURVIVING, "kept", kept=True)


def passes(severity: Severity, confidence: Confidence) -> bool:
    """Whether a finding is sure enough to be reported."""
    return confidence.value >= (LEAST_CRITICAL if severity is Severity.CRITICAL else LEAST)


def promoted(confidence: Confidence, agreement: int) -> Confidence:
    """One anchor more when independent reviewers agree; what is speculative stays so."""
    anchor = anchor_of(confidence)
    if agreement < 2 or anchor < _PROMOTED or anchor == ANCHORS[-1]:
        return confidence
    return of_anchor(ANCHORS[ANCHORS.index(anchor) + 1])


def fate(finding: Finding, policy: Policy) -> Fate:
    """What becomes of a merged finding."""
    if finding.unreadable:
        return Fate(Disposition.REJECTED, finding.unreadable, kept=True)
    if finding.suppression:
        reason = finding.suppression.reason or "no reason given"
        return Fate(Disposition.SUPPRESSED, f"its source suppresses it: {reason}", kept=True)
    if finding.pre_existing:
        return Fate(Disposition.SURVIVING, "set apart: it was there before the change", kept=True)
    if _soft(finding):
        return _demoted(finding, policy)
    if not passes(finding.severity, finding.confidence):
        least = LEAST_CRITICAL if finding.severity is Severity.CRITICAL else LEAST
        return Fate(Disposition.FILTERED, f"its confidence, {anchor_of(finding.confidence)}, is below {least}")
    return _KEPT


def gate_of(finding: Finding, policy: Policy, changed: Container[str] | None) -> GateDecision:
    """Whether a finding keeps the change from shipping; one outside the change never does."""
    if finding.unreadable:
        return _decision(Gate.MUST, policy.preset)
    place = finding.location
    worst = Severity.MEDIUM if policy.preset == "strict" else Severity.HIGH
    must = (
        finding.severity.rank <= worst.rank
        and not finding.pre_existing
        and finding.suppression is None
        and finding.autofix_class is not AutofixClass.ADVISORY
        and passes(finding.severity, finding.confidence)
        and (changed is None or place is None or place.path in changed)
    )
    return _decision(Gate.MUST if must else Gate.SUGGEST, policy.preset)


@cache
def _decision(gate: Gate, preset: str) -> GateDecision:
    """There are few, and many findings share each."""
    return GateDecision(value=gate, policy=preset)


def rank(finding: Finding) -> tuple[object, ...]:
    """What findings are sorted by: the worst and surest first, then by place."""
    place = finding.location
    where = (place.path, place.start or 0) if place else ("", 0)
    first = finding.votes[0]
    return (finding.severity.rank, -finding.confidence.value, *where, finding.title, first.reviewer, first.input_id)


def _soft(finding: Finding) -> bool:
    """Whether it is only advice of those who look at tests and upkeep, and not grave."""
    advice = finding.autofix_class is AutofixClass.ADVISORY and finding.severity.rank >= Severity.MEDIUM.rank
    return advice and all(_SOFT & _words(source) for source in finding.sources)


def _demoted(finding: Finding, policy: Policy) -> Fate:
    why = "advice on tests or upkeep, and not grave"
    if policy.mode == "headless":
        return Fate(Disposition.SUPPRESSED, f"{why}: nobody reads such notes in a headless pass")
    note = f"{finding.location.path_line if finding.location else 'no place'} -- {finding.title}"
    if any("testing" in _words(source) for source in finding.sources):
        return Fate(Disposition.DEMOTED, f"{why}: noted among the gaps in the tests", gap=note)
    return Fate(Disposition.DEMOTED, f"{why}: noted among the risks that remain", risk=note)


def _words(source: str) -> frozenset[str]:
    return frozenset(source.lower().split("-"))

"""The gate of a pass: which drafts become findings, which are only noted, and which must be fixed.

Nothing disappears: every item has an outcome with its reason in the pass.
"""

from dataclasses import dataclass

from pipeline.findings.events import Disposition
from pipeline.findings.model import AutofixClass, Confidence, Draft, Finding, FindingState, Gate, Severity
from pipeline.findings.scales import confidence_to_anchor

LEAST = 75  # the confidence of a finding that is reported
LEAST_CRITICAL = 50  # a critical finding must not be lost to a doubt
AGREED = 50  # what each of several reviewers must be sure of, so that they need not be surer
_SOFT_SOURCES = frozenset({"testing", "maintainability"})


@dataclass(frozen=True, slots=True)
class GateResult:
    """What becomes of a draft, and why."""

    disposition: Disposition
    reason: str

    @property
    def is_kept(self) -> bool:
        """Whether the draft is a finding."""
        return self.disposition not in (Disposition.FILTERED, Disposition.DEMOTED)


def decide(draft: Draft, *, agreed: bool) -> GateResult:
    """Return what becomes of a draft. `agreed` says whether other reviewers of the pass describe the same defect."""
    if draft.unreadable:
        return GateResult(Disposition.REJECTED, draft.unreadable)
    if draft.suppressed is not None:
        return GateResult(Disposition.SUPPRESSED, f"its source suppresses it: {draft.suppressed or 'no reason given'}")
    if draft.system_breaking:
        return GateResult(Disposition.SURVIVING, "kept: it is said to endanger the whole system")
    if draft.pre_existing:
        return GateResult(Disposition.SURVIVING, "set apart: it was there before the change")
    if _is_minor_advice(draft):
        section = "testing gaps" if is_about_tests(draft) else "residual risks"
        return GateResult(Disposition.DEMOTED, f"minor advice on tests or maintenance: listed under {section}")
    if is_confident(draft.severity, draft.confidence):
        return GateResult(Disposition.SURVIVING, "kept")
    anchor = confidence_to_anchor(draft.confidence)
    if agreed and anchor >= AGREED:
        return GateResult(Disposition.SURVIVING, f"kept: several reviewers agree, although its confidence is {anchor}")
    least = LEAST_CRITICAL if draft.severity is Severity.CRITICAL else LEAST
    return GateResult(Disposition.FILTERED, f"its confidence, {anchor}, is below {least}")


def is_grave(draft: Draft) -> bool:
    """Return whether a draft by itself keeps a commit from shipping."""
    if draft.state is not None and not draft.state.is_open:
        return False
    if draft.unreadable or draft.severity_text or draft.uncertain:
        return True
    excused = draft.pre_existing or draft.autofix_class is AutofixClass.ADVISORY
    return draft.severity.rank <= Severity.HIGH.rank and not excused and decide(draft, agreed=False).is_kept


def is_confident(severity: Severity, confidence: Confidence) -> bool:
    """Return whether a finding is sure enough to be reported."""
    if confidence.scale == "fraction":  # a verdict file has only findings that were reported
        return confidence.value >= LEAST_CRITICAL
    return confidence.value >= (LEAST_CRITICAL if severity is Severity.CRITICAL else LEAST)


def _is_minor_advice(draft: Draft) -> bool:
    if draft.autofix_class is not AutofixClass.ADVISORY or draft.severity.rank < Severity.MEDIUM.rank:
        return False
    return not _SOFT_SOURCES.isdisjoint(draft.reviewer.lower().split("-"))


def is_about_tests(draft: Draft) -> bool:
    """Return whether a draft is of a reviewer of tests."""
    return "testing" in draft.reviewer.lower().split("-")


def gate(finding: Finding) -> Gate:
    """Return whether a finding keeps the change from shipping."""
    if finding.unreadable or finding.state is FindingState.UNCERTAIN:
        return Gate.MUST
    severe = finding.severity.rank <= Severity.HIGH.rank
    excused = finding.pre_existing or finding.autofix_class is AutofixClass.ADVISORY
    return Gate.MUST if severe and not excused else Gate.SUGGEST


def importance(finding: Finding) -> tuple[bool, int, int, str, int, int]:
    """Return a sort key that puts first what matters most: gate, severity, confidence, then the place in the code."""
    location = finding.location
    return (
        finding.gate is not Gate.MUST,
        finding.severity.rank,
        -finding.confidence.value,
        location.path if location else "",
        (location.start if location else None) or 0,
        finding.number,
    )

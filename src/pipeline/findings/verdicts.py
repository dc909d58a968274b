"""The verdict: one function over everything that is open about a target, and the words that follow from it."""

from collections.abc import Iterable
from enum import StrEnum

from pipeline.findings.events import Coverage
from pipeline.findings.model import AutofixClass, Category, Finding, FindingState, Gate, Severity


class Verdict(StrEnum):
    """The verdict on a target, mildest first."""

    PASS = "PASS"  # noqa: S105 - not a password
    WARN = "WARN"
    FAIL = "FAIL"
    ABORT = "ABORT"  # a person must look before anything is fixed

    @property
    def rank(self) -> int:
        """0 for the mildest."""
        return list(Verdict).index(self)


class Shipping(StrEnum):
    """The verdict of a pass record."""

    SHIP = "ship"
    BLOCK_ON_MUSTS = "block-on-MUSTs"
    BLOCK_ON_REJECTION = "block-on-rejection"


class Readiness(StrEnum):
    """The verdict of a completion report."""

    READY = "Ready to merge"
    WITH_FIXES = "Ready with fixes"
    NOT_READY = "Not ready"


def verdict(findings: Iterable[Finding], coverage: Coverage) -> Verdict:
    """Return the verdict on a target, given its findings and who has looked at it.

    A finding counts until it is verified or dismissed: a claimed fix does, and what is uncertain blocks. What existed
    before the change does not count. Without a readable answer of everybody who was asked nothing passes.
    """
    counting = [finding for finding in findings if counts(finding)]
    if any(finding.system_breaking for finding in counting if finding.severity is Severity.CRITICAL):
        return Verdict.ABORT
    if not coverage.looks or not coverage.complete:
        return Verdict.FAIL
    if any(finding.severity is Severity.CRITICAL or finding.state is FindingState.UNCERTAIN for finding in counting):
        return Verdict.FAIL
    if any(finding.severity is Severity.HIGH for finding in counting):
        return Verdict.WARN
    return Verdict.PASS


def counts(finding: Finding) -> bool:
    """Return whether a finding counts against the change. What is uncertain does, even if it is said to be older."""
    return finding.state.is_open and (not finding.pre_existing or finding.state is FindingState.UNCERTAIN)


def blocks(finding: Finding) -> bool:
    """Return whether a finding by itself keeps the change from shipping, as long as it counts."""
    return finding.gate is Gate.MUST or finding.severity is Severity.CRITICAL or finding.state is FindingState.UNCERTAIN


def shipping(findings: Iterable[Finding], coverage: Coverage, *, whole: bool) -> Shipping:
    """Return the verdict of a pass record: what must be fixed, or else whatever keeps the change from shipping.

    `whole` says whether everyone looked at all of the change as it is.
    """
    sure = [finding for finding in findings if counts(finding) and finding.state is not FindingState.UNCERTAIN]
    if any(finding.gate is Gate.MUST for finding in sure):
        return Shipping.BLOCK_ON_MUSTS
    if verdict(findings, coverage).rank >= Verdict.FAIL.rank or not whole:
        return Shipping.BLOCK_ON_REJECTION
    return Shipping.SHIP


def readiness(findings: Iterable[Finding], coverage: Coverage, *, fixed: bool = False) -> Readiness:
    """Return whether a change can be merged. `fixed` says whether fixes were just made, which nobody has seen yet."""
    counting = [finding for finding in findings if counts(finding)]
    actionable = [finding for finding in counting if finding.autofix_class is not AutofixClass.ADVISORY]
    unmet = any(finding.category is Category.REQUIREMENT for finding in actionable)
    if unmet or verdict(counting, coverage).rank >= Verdict.FAIL.rank:
        return Readiness.NOT_READY
    return Readiness.WITH_FIXES if actionable or fixed else Readiness.READY


def summary(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings there are of each severity, as a verdict file names them."""
    found = dict.fromkeys(("blocker", "high", "medium", "low", "info"), 0)
    for finding in findings:
        found["blocker" if finding.severity is Severity.CRITICAL else str(finding.severity)] += 1
    return found

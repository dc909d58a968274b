"""The verdicts on findings: one rule each, none derived from another. An incomplete pass never passes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.engine.outcome import Status
from pipeline.findings.events import Coverage, Pass, ReviewerVerdict
from pipeline.findings.model import AutofixClass, Category, Finding, Gate, Severity

BLOCK = "BLOCK"
RECORD = "record"  # the key of a pass's `ext` with additional fields of its record
TREE_CHANGED = "x_tree_changed"


class Verdict(StrEnum):
    """The verdict of a verdict file, mildest first."""

    PASS = "PASS"  # noqa: S105 - not a password
    WARN = "WARN"
    FAIL = "FAIL"
    ABORT = "ABORT"  # a person must look before anything is fixed


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


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All verdicts on the same findings. Without a readable answer of every reviewer, each is a failure."""

    verdict: Verdict  # a claimed fix counts as a fix
    after_verification: Verdict  # a claimed fix does not count
    shipping: Shipping
    readiness: Readiness
    complete: bool  # whether every reviewer gave a readable answer
    summary: dict[str, int]  # active findings by severity, as a verdict file names them


def verdicts(
    findings: Iterable[Finding],
    coverage: Coverage | None = None,
    said: Sequence[ReviewerVerdict] = (),
    *,
    fixes_applied: bool = False,
    changed: bool = False,  # whether files changed while the reviewers worked
) -> Verdicts:
    """The verdicts on some findings. Those that existed before the change do not count. A BLOCK never passes."""
    own = [finding for finding in findings if not finding.pre_existing]
    active = [finding for finding in own if finding.state.active]
    unverified = [finding for finding in own if finding.state.needs_attention]
    complete = coverage is None or coverage.complete
    rejected = any(one.verdict == BLOCK for one in said)
    verdict, after_verification = file_verdict(active), file_verdict(unverified)
    if not complete or rejected:
        verdict, after_verification = at_least_fail(verdict), at_least_fail(after_verification)
    if any(finding.gate.value is Gate.MUST for finding in unverified):
        shipping = Shipping.BLOCK_ON_MUSTS
    elif not complete or rejected or changed:
        shipping = Shipping.BLOCK_ON_REJECTION
    else:
        shipping = Shipping.SHIP
    counts = Counter(finding.severity for finding in active)
    return Verdicts(
        verdict=verdict,
        after_verification=after_verification,
        shipping=shipping,
        readiness=(
            _readiness(unverified, fixes_applied=fixes_applied)
            if complete and not rejected and not changed
            else Readiness.NOT_READY
        ),
        complete=complete,
        summary={"blocker" if one is Severity.CRITICAL else str(one): counts[one] for one in Severity},
    )


def tree_changed(passed: Pass) -> bool:
    """Whether files changed while the reviewers of a pass worked."""
    extra = passed.ext.get(RECORD)
    return isinstance(extra, dict) and extra.get(TREE_CHANGED) is True


def at_least_fail(verdict: Verdict) -> Verdict:
    """The verdict when something was not reviewed."""
    return verdict if verdict is Verdict.ABORT else Verdict.FAIL


def file_verdict(active: Sequence[Finding]) -> Verdict:
    """The verdict of a verdict file, by the worst active finding."""
    critical = [finding for finding in active if finding.severity is Severity.CRITICAL]
    if any(finding.system_breaking for finding in critical):
        return Verdict.ABORT
    if critical:
        return Verdict.FAIL
    return Verdict.WARN if any(finding.severity is Severity.HIGH for finding in active) else Verdict.PASS


def stage_status(active: Sequence[Finding]) -> Status:
    """The status of a stage that found these."""
    if any(finding.gate.value is Gate.MUST for finding in active):
        return Status.FAIL
    return Status.PARTIAL_SUCCESS if active else Status.SUCCESS


def _readiness(active: Sequence[Finding], *, fixes_applied: bool) -> Readiness:
    """Not ready with a critical finding or an unmet requirement; fixes to make, or made, need another look."""
    actionable = [finding for finding in active if finding.autofix_class is not AutofixClass.ADVISORY]
    unmet = any(finding.category is Category.REQUIREMENT for finding in actionable)
    if unmet or any(finding.severity is Severity.CRITICAL for finding in active):
        return Readiness.NOT_READY
    return Readiness.WITH_FIXES if actionable or fixes_applied else Readiness.READY

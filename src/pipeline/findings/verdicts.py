"""What findings come to, by each rule of its own. No verdict is made from another; a pass with gaps is never clean."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pipeline.engine.outcome import Status
from pipeline.findings.events import Coverage, Pass, ReviewerVerdict
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import AutofixClass, Category, Finding, Gate, Severity

BLOCK = "BLOCK"
RECORD = "record"  # the key of a pass's `ext` with additional fields of its record
TREE_CHANGED = "x_tree_changed"


class Verdict(StrEnum):
    """What a verdict file says."""

    PASS = "PASS"  # noqa: S105 - no password
    WARN = "WARN"
    FAIL = "FAIL"
    ABORT = "ABORT"  # nobody but a person should touch it


class Shipping(StrEnum):
    """What a pass record says."""

    SHIP = "ship"
    BLOCK_ON_MUSTS = "block-on-MUSTs"
    BLOCK_ON_REJECTION = "block-on-rejection"


class Readiness(StrEnum):
    """What a completion report says."""

    READY = "Ready to merge"
    WITH_FIXES = "Ready with fixes"
    NOT_READY = "Not ready"


@dataclass(frozen=True, slots=True)
class Verdicts:
    """All of them, for the same findings."""

    verdict: Verdict  # a claimed fix counts as one, as the verdict file has it
    after_verification: Verdict  # a claimed fix counts as none until somebody has looked
    shipping: Shipping
    readiness: Readiness
    status: Status  # of a stage that found these
    complete: bool  # whether everybody who was asked answered
    summary: dict[str, int]  # what counts, by severity as the verdict file calls it

    @property
    def stated(self) -> Verdict:
        """The verdict for a file: FAIL at least where somebody did not answer."""
        return self._never_clean(self.verdict)

    @property
    def gating(self) -> Verdict:
        """The verdict for a condition: a claimed fix counts as none, and an incomplete pass is FAIL at least."""
        return self._never_clean(self.after_verification)

    def _never_clean(self, verdict: Verdict) -> Verdict:
        return verdict if self.complete else at_least_fail(verdict)

    @property
    def abort(self) -> bool:
        """Whether a person has to look before anything is fixed."""
        return self.after_verification is Verdict.ABORT


def verdicts(
    findings: Iterable[Finding],
    coverage: Coverage | None = None,
    said: Sequence[ReviewerVerdict] = (),
    *,
    fixes_applied: bool = False,
) -> Verdicts:
    """The verdicts on some findings. Those that were there before the change are told elsewhere and do not count."""
    own = [finding for finding in findings if not finding.pre_existing]
    active = [finding for finding in own if finding.state.active]
    unproven = [finding for finding in own if finding.state.needs_attention]
    complete = coverage is None or coverage.complete
    ships = shipping(unproven, said)
    return Verdicts(
        verdict=file_verdict(active),
        after_verification=file_verdict(unproven),
        shipping=ships if complete or ships is not Shipping.SHIP else Shipping.BLOCK_ON_REJECTION,
        readiness=readiness(unproven, fixes_applied=fixes_applied) if complete else Readiness.NOT_READY,
        status=stage_status(unproven) if complete else Status.FAIL,
        complete=complete,
        summary=summary(active),
    )


def ledger_verdicts(ledger: Ledger, passed: Pass | None = None) -> Verdicts:
    """The verdicts on all findings, given who answered in a pass, or in the last one."""
    last = passed or ledger.last
    found = verdicts(ledger, ledger.coverage(passed), last.reviewer_verdicts if last else ())
    if last and tree_changed(last) and found.shipping is Shipping.SHIP:
        return replace(found, shipping=Shipping.BLOCK_ON_REJECTION)
    return found


def tree_changed(passed: Pass) -> bool:
    """Whether files changed while the reviewers of a pass worked."""
    extra = passed.ext.get(RECORD)
    return isinstance(extra, dict) and extra.get(TREE_CHANGED) is True


def at_least_fail(verdict: Verdict) -> Verdict:
    """What a verdict is where something was not looked at."""
    return verdict if verdict is Verdict.ABORT else Verdict.FAIL


def file_verdict(active: Sequence[Finding]) -> Verdict:
    """By the worst that counts."""
    critical = [finding for finding in active if finding.severity is Severity.CRITICAL]
    if any(finding.system_breaking for finding in critical):
        return Verdict.ABORT
    if critical:
        return Verdict.FAIL
    return Verdict.WARN if any(finding.severity is Severity.HIGH for finding in active) else Verdict.PASS


def shipping(active: Iterable[Finding], said: Iterable[ReviewerVerdict] = ()) -> Shipping:
    """Nothing that must be fixed, and no reviewer who blocks."""
    if any(finding.gate.value is Gate.MUST for finding in active):
        return Shipping.BLOCK_ON_MUSTS
    if any(verdict.verdict == BLOCK for verdict in said):
        return Shipping.BLOCK_ON_REJECTION
    return Shipping.SHIP


def readiness(active: Sequence[Finding], *, fixes_applied: bool) -> Readiness:
    """A critical one, or a requirement that is not met, is in the way; what can be acted on, or was, needs a look."""
    actionable = [finding for finding in active if finding.autofix_class is not AutofixClass.ADVISORY]
    unmet = any(finding.category is Category.REQUIREMENT for finding in actionable)
    if unmet or any(finding.severity is Severity.CRITICAL for finding in active):
        return Readiness.NOT_READY
    return Readiness.WITH_FIXES if actionable or fixes_applied else Readiness.READY


def stage_status(active: Sequence[Finding]) -> Status:
    """What a stage ends with that found these."""
    if any(finding.gate.value is Gate.MUST for finding in active):
        return Status.FAIL
    return Status.PARTIAL_SUCCESS if active else Status.SUCCESS


def summary(active: Iterable[Finding]) -> dict[str, int]:
    """How many count, by severity."""
    names: dict[Severity, str] = {severity: str(severity) for severity in Severity} | {Severity.CRITICAL: "blocker"}
    counts = dict.fromkeys(names.values(), 0)
    for finding in active:
        counts[names[finding.severity]] += 1
    return counts

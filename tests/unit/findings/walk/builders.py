"""Findings to walk through, a driver that answers by keys, and trackers that do as they are told."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.findings.events import Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Finding,
    FindingId,
    Location,
    Owner,
    PassId,
    RawFinding,
    Severity,
    Vote,
)
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerContext, TrackerStatus
from pipeline.findings.walk.machine import (
    Fixes,
    Step,
    Validation,
    Walk,
    WalkItem,
    answer,
    begin,
    choices,
    findings_to_validate,
    record_fallback,
    record_fixes,
    record_ticket,
    record_validations,
)
from pipeline.findings.walk.session import open_walk

AT = "2026-01-02T03:04:05Z"
LINEAR = TrackerStatus("Linear", "high", named_sink_available=True, any_sink_available=True)
ISSUES = TrackerStatus("GitHub Issues", "low", named_sink_available=False, any_sink_available=True)


def finding(number: int = 1, **changes: Any) -> Finding:
    """A finding that needs a decision; its fix is ready."""
    given: dict[str, Any] = {
        "id": FindingId(f"fnd_{number:08x}"),
        "number": number,
        "signature": f"sha256:{number:064x}",
        "title": "Path traversal in loadUserFromCache",
        "impact": "Any caller reads any file. That is bad.",
        "fix": "Check the id before the path is built.",
        "category": Category.SECURITY,
        "severity": Severity.HIGH,
        "confidence": confidence_from_anchor(100),
        "autofix_class": AutofixClass.GATED_AUTO,
        "locations": (Location(path="src/cache.py", start=36, end=37),),
        "sources": ("correctness",),
        "pass_id": PassId("REV-1-abc"),
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**{**given, **changes})


def advisory(number: int = 1, **changes: Any) -> Finding:
    """A finding with nothing to fix."""
    given = {"autofix_class": AutofixClass.ADVISORY, "severity": Severity.LOW, "fix": None}
    return finding(number, **{**given, **changes})


def vote(reviewer: str, action: str = "", confidence: int = 75, **changes: Any) -> Vote:
    """What one reviewer said."""
    given: dict[str, Any] = {
        "severity": Severity.HIGH,
        "autofix_class": AutofixClass.MANUAL,
        "owner": Owner.HUMAN,
    }
    return Vote(reviewer=reviewer, action=action, confidence=confidence, **{**given, **changes})


def raw_finding(**changes: Any) -> RawFinding:
    """What one reviewer returned."""
    given: dict[str, Any] = {
        "input_id": "correctness#1",
        "reviewer": "correctness",
        "title": "Path traversal in loadUserFromCache",
        "severity": Severity.HIGH,
        "confidence": confidence_from_anchor(75),
        "category": Category.BUG,
        "impact": "Any file can be read.",
        "locations": (Location(path="src/cache.py", start=36),),
    }
    return RawFinding(**{**given, **changes})


def ledger_of(*findings: Finding, **passed: Any) -> Ledger:
    """A ledger with these findings, after a pass."""
    ledger = Ledger(
        [PassRecorded(at=AT, assessment=Pass.model_validate({"id": "REV-1-a", "started_at": AT, **passed}))]
    )
    ledger.findings.update({one.id: one for one in findings})
    return ledger


class FixedChain(TrackerChain):
    """Trackers with a given status."""

    def __init__(self, status: TrackerStatus) -> None:
        super().__init__(TrackerContext(Path(), Path(), {}), trackers={})
        self._status = status

    def status(self) -> TrackerStatus:
        return self._status


def items(*findings: Finding, trackers: TrackerStatus = ISSUES) -> tuple[WalkItem, ...]:
    """What is asked about these findings, advice as well."""
    return open_walk(ledger_of(*findings), FixedChain(trackers), advisory=True).items


def walk_of(*findings: Finding, trackers: TrackerStatus = ISSUES, **how: Any) -> Walk:
    """A walk through these findings."""
    return begin(items(*findings, trackers=trackers), trackers, ledger_of(*findings), **how)


def keys(walk: Walk) -> list[str]:
    """What can be answered."""
    return [str(key) for key in choices(walk)]


@dataclass
class Drive:
    """Drives walks: tickets, validations and fixes come out as given, and what was asked for is kept."""

    tickets: Callable[[Finding], Filed | TicketFailed] = lambda finding: Filed(f"T-{finding.number}")
    validate: Callable[[Finding], Validation | None] = lambda _finding: Validation(validated=True)
    trackers: list[TrackerStatus] = field(default_factory=list)  # what is left after each fall back
    fixes: Callable[[Sequence[FindingId]], Fixes] = lambda ids: Fixes(frozenset(ids))
    filed: list[tuple[int, str]] = field(default_factory=list)  # finding numbers, with the tracker
    validated: list[list[int]] = field(default_factory=list)
    fixed: list[list[int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def run(self, walk: Walk, answers: Iterable[str] = ()) -> Walk:
        """Answer questions as long as there are answers, and carry out everything else."""
        left = list(answers)
        while walk.step is not Step.DONE and (left or not choices(walk)):
            self.steps.append(walk.step)
            walk = answer(walk, left.pop(0)) if choices(walk) else self._carry_out(walk)
        assert not left, f"not asked: {left}"
        return walk

    def _carry_out(self, walk: Walk) -> Walk:
        match walk.step:
            case Step.FILING:
                self.filed.append((walk.item.finding.number, walk.tracker))
                return record_ticket(walk, self.tickets(walk.item.finding))
            case Step.FALLING_BACK:
                return record_fallback(walk, self.trackers.pop(0) if self.trackers else NO_TRACKER)
            case Step.VALIDATING:
                self.validated.append([one.number for one in findings_to_validate(walk)])
                results = {one.id: self.validate(one) for one in findings_to_validate(walk)}
                return record_validations(walk, {id: result for id, result in results.items() if result})
            case _:
                self.fixed.append([one.number for one in walk.accepted])
                return record_fixes(walk, self.fixes([one.id for one in walk.accepted]))

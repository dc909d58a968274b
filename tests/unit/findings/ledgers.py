"""Numbered findings, events about them and ledgers of them, in one line each."""

from typing import Any

from pipeline.findings.events import Coverage, FindingChanged, FindingRaised, Look, Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    Category,
    Change,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    PassId,
    ReportStatus,
    Severity,
    What,
)

AT, LATER = "2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z"
FIRST, SECOND = PassId("REV-1-a"), PassId("REV-2-b")
REVIEW = "0badcafe"


def finding(number: int = 1, **more: Any) -> Finding:
    """A finding of reviewer `correctness` in line `number` of src/a.py."""
    id = FindingId(f"fnd_{number:08x}")
    values: dict[str, Any] = {
        "id": id,
        "number": number,
        "line": id,
        "signature": f"sha256:{id}",
        "reviewer": "correctness",
        "title": f"Defect {number}",
        "category": Category.BUG,
        "severity": Severity.MEDIUM,
        "confidence": Confidence(value=75, scale="anchor"),
        "locations": (Location(path="src/a.py", start=number),),
        "pass_id": FIRST,
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**values | more)


def look(reviewer: str = "correctness", status: ReportStatus = ReportStatus.RETURNED, **more: Any) -> Look:
    """How one reviewer looked."""
    return Look(reviewer=reviewer, status=status, **more)


def looked(*reviewers: str) -> Coverage:
    """Reviewers that all answered; `correctness` if none is named."""
    return Coverage(looks=tuple(look(name) for name in reviewers or ("correctness",)))


def assessed(id: PassId = FIRST, at: str = AT, **more: Any) -> PassRecorded:
    """The event of a pass in which `correctness` answered."""
    values: dict[str, Any] = {"review": REVIEW, "coverage": looked()}
    return PassRecorded(at=at, assessment=Pass(id=id, started_at=at, **values | more))


def ledger_of(*findings: Finding, **more: Any) -> Ledger:
    """A ledger of one pass that raised these findings."""
    return Ledger([assessed(**more), *(FindingRaised(at=AT, finding=one) for one in findings)])


def changed(number: int, what: What, at: str = LATER, **more: Any) -> FindingChanged:
    """Somebody said something about a finding; by default its reviewer."""
    values: dict[str, Any] = {"who": "correctness", "by": Actor.REVALIDATE}
    fields = more.pop("fields", {})
    return FindingChanged(id=finding(number).id, change=Change(at=at, what=what, **values | more), fields=fields)


def turned(number: int, state: FindingState, pass_id: str = "", at: str = AT, **more: Any) -> FindingChanged:
    """A person gave a finding another state."""
    values: dict[str, Any] = {"who": "anna", "by": Actor.USER, "word": str(state)}
    return changed(number, What.TRIAGE, at, state=state, pass_id=pass_id, **values | more)


def seen(number: int, at: str = LATER, **more: Any) -> FindingChanged:
    """Its reviewer reported a finding again, in the second pass."""
    values: dict[str, Any] = {"by": Actor.ORCHESTRATOR, "pass_id": SECOND, "note": "exact"}
    return changed(number, What.SEEN, at, fields={"pass_id": SECOND}, **values | more)

"""Numbered findings, events about them and ledgers of them, in one line each."""

from typing import Any

from pipeline.findings.events import FindingRaised, Pass, PassRecorded, ReportedAgain, StateChanged
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    Observed,
    Owner,
    PassId,
    Severity,
    Strength,
    Vote,
)

AT, LATER = "2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z"
FIRST, SECOND = PassId("REV-1-a"), PassId("REV-2-b")


def finding(number: int = 1, **more: Any) -> Finding:
    id = f"fnd_{number:08x}"
    values: dict[str, Any] = {
        "id": FindingId(id),
        "number": number,
        "signature": f"sha256:{id}",
        "title": f"Defect {number}",
        "category": Category.BUG,
        "severity": Severity.MEDIUM,
        "confidence": Confidence(value=75),
        "locations": (Location(path="src/a.py", start=number),),
        "pass_id": FIRST,
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**values | more)


def vote(**more: Any) -> Vote:
    values: dict[str, Any] = {
        "reviewer": "lint",
        "severity": Severity.MEDIUM,
        "confidence": 50,
        "autofix_class": AutofixClass.MANUAL,
        "owner": Owner.HUMAN,
    }
    return Vote(**values | more)


def assessed(id: PassId = FIRST, at: str = AT, **more: Any) -> PassRecorded:
    return PassRecorded(at=at, assessment=Pass(id=id, started_at=at, **more))


def ledger_of(*findings: Finding, **more: Any) -> Ledger:
    return Ledger([assessed(**more), *(FindingRaised(at=AT, finding=one) for one in findings)])


def turned(number: int, state: FindingState, pass_id: str = "", at: str = AT) -> StateChanged:
    return StateChanged(at=at, id=finding(number).id, state=state, by="user", pass_id=pass_id)


def seen(number: int, at: str = LATER, observed: Observed = Observed.UNCHANGED) -> ReportedAgain:
    return ReportedAgain(at=at, id=finding(number).id, pass_id=SECOND, observed=observed, strength=Strength.EXACT)

"""Findings and ledgers for the tests of views."""

from typing import Any

from pipeline.findings.events import FindingRaised, Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, PassId

AT = "2026-06-01T00:00:00Z"
LATER = "2026-06-02T00:00:00Z"


def a_finding(number: int = 1, **fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": f"fnd_{number:08x}",
        "signature": f"sha256:{number}",
        "title": "A title",
        "impact": "It breaks.",
        "category": "bug",
        "severity": "high",
        "confidence": {"value": 75},
        "locations": [{"path": f"{number}.py", "start": 1}],
        "sources": ["qa"],
        "pass_id": "REV-1-abc",
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding.model_validate(known | fields)


def a_pass(number: int = 1, *found: Finding, **fields: Any) -> Pass:
    ids = tuple(str(finding.id) for finding in found)
    return Pass(id=PassId(f"REV-{number}-abc"), started_at=AT, finding_ids=ids, **fields)


def ledger_of(*found: Finding, passed: Pass | None = None) -> Ledger:
    """A ledger with these findings, raised in one pass."""
    passes = [PassRecorded(at=AT, assessment=passed)] if passed else []
    return Ledger([*passes, *(FindingRaised(at=AT, finding=finding) for finding in found)])

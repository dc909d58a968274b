"""Findings as objects for programs: a row of a list, and the whole record."""

from typing import Any

from pipeline.findings.model import Finding


def row(finding: Finding) -> dict[str, Any]:
    """A finding in a list."""
    place = finding.location
    return {
        "id": finding.id,
        "number": finding.number,
        "title": finding.title,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "severity": str(finding.severity),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "category": str(finding.category),
        "file": place.path if place else None,
        "line": place.start if place else None,
        "end_line": place.end if place else None,
        "sources": list(finding.sources),
        "lens": str(finding.lens),
        "agreement": finding.agreement,
        "attempts": len(finding.attempts),
        **({"may_be": list(finding.may_be)} if finding.may_be else {}),
    }


def whole(finding: Finding) -> dict[str, Any]:
    """All that is known of a finding."""
    return finding.model_dump(mode="json")

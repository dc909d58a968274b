"""SARIF 2.1.0 out: one run, one result for each finding, whatever became of it.

A dismissed finding is written as suppressed and never left out: a file without it would say that it is gone.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid5

from pipeline.findings.formats.sarif import (
    DRIVER,
    FALSE_POSITIVE,
    VERSION,
    WONT_FIX,
    SarifWords,
    concrete,
    mapping,
    properties_of,
    text,
)
from pipeline.findings.model import Category, Evidence, Finding, FindingState, Location, Observed
from pipeline.findings.scales import CATEGORY_LABEL, SECURITY_SEVERITY

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
BASE = "%SRCROOT%"
_SPACE = UUID("6f0e3f0c-7d0b-5b43-9d5e-0a6a1c0f2a11")  # of the guids made from our ids
_BASELINE = {
    Observed.NEW: "new",
    Observed.UNCHANGED: "unchanged",
    Observed.UPDATED: "updated",
    Observed.MOVED: "updated",
    Observed.ABSENT: "unchanged",  # SARIF's "absent" says that it is gone; that nobody reported it is no proof
}


def encode(findings: Iterable[Finding], *, version: str = "") -> str:
    """The findings as a SARIF file, in the order of their numbers. `version` is that of this program."""
    ordered = sorted(findings, key=lambda finding: (finding.number, finding.id))
    driver = {"name": DRIVER} | ({"version": version} if version else {}) | {"rules": _rules(ordered)}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {BASE: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in ordered],
    }
    log = {"$schema": SCHEMA, "version": VERSION, "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    words = SarifWords.of(finding.severity, finding.state)
    result = {
        "ruleId": rule_of(finding),
        "kind": words.kind,
        "level": words.level,
        "message": {"text": _message(finding)},
        "locations": [_location(location, _quote_at(finding, location)) for location in finding.locations],
        "relatedLocations": [_related(number, item) for number, item in enumerate(finding.evidence, 1) if item.path],
        "correlationGuid": str(uuid5(_SPACE, finding.id)),
        "partialFingerprints": {**finding.fingerprints, "awf/v1": finding.signature},
        "baselineState": _baseline(finding),
        "suppressions": _suppressions(finding),
        "fixes": concrete(_unknown(finding).get("fixes")) if finding.state.active else [],
        "properties": _properties(finding),
    }
    return {name: value for name, value in result.items() if value or name not in ("relatedLocations", "fixes")}


def rule_of(finding: Finding) -> str:
    """The rule of the tool that found it, or that of its category."""
    return text(_unknown(finding).get("ruleId")) or f"{DRIVER}/{finding.category}"


def _unknown(finding: Finding) -> Mapping[str, Any]:
    return mapping(finding.ext.get("sarif"))


def _rules(findings: list[Finding]) -> list[dict[str, Any]]:
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(rule_of(finding), finding)
    return [_rule(name, first[name]) for name in sorted(first)]


def _rule(name: str, finding: Finding) -> dict[str, Any]:
    told = mapping(_unknown(finding).get("rule"))
    described = text(mapping(told.get("shortDescription")).get("text")) or CATEGORY_LABEL[finding.category]
    rule: dict[str, Any] = {"id": name, "shortDescription": {"text": described}}
    if text(told.get("name")):
        rule["name"] = told["name"]
    if text(told.get("helpUri")).startswith("https://"):
        rule["helpUri"] = quote(told["helpUri"], safe=":/?#[]@!$&'()*+,;=%")
    return rule


def _message(finding: Finding) -> str:
    """Title and impact. A brace or a link in them is text, for a message with no arguments has no places for any."""
    return "\n\n".join(part for part in (finding.title, finding.impact) if part)


def _location(location: Location | Evidence, quoted: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path), "uriBaseId": BASE}}
    if location.start:
        physical["region"] = {"startLine": location.start}
    if location.start and location.end:
        physical["region"]["endLine"] = location.end
    if location.start and quoted:
        physical["region"]["snippet"] = {"text": quoted}
    logical = {"logicalLocations": [{"fullyQualifiedName": location.symbol}]} if location.symbol else {}
    return {"physicalLocation": physical} | logical


def _quote_at(finding: Finding, location: Location) -> str:
    where = (location.path, location.start)
    return next((item.quote for item in finding.evidence if item.quote and (item.path, item.start) == where), "")


def _related(number: int, evidence: Evidence) -> dict[str, Any]:
    said = {"message": {"text": evidence.raw}} if evidence.raw else {}
    return {"id": number} | _location(evidence, evidence.quote) | said


def _baseline(finding: Finding) -> str:
    if finding.state is FindingState.VERIFIED_FIXED:
        return "absent"
    return "updated" if finding.state is FindingState.REOPENED else _BASELINE[finding.observed]


def _suppressions(finding: Finding) -> list[dict[str, Any]]:
    """Empty for a finding that is to be shown: by SARIF's rules its state is then known, and not left open."""
    if not finding.state.dismissed:
        return []
    word = FALSE_POSITIVE if finding.state is FindingState.FALSE_POSITIVE else WONT_FIX
    kind = finding.suppression.kind if finding.suppression else "external"
    reason = finding.suppression.reason if finding.suppression else ""
    return [{"kind": kind, "status": "accepted", "justification": f"{word}: {reason}" if reason else word}]


def _properties(finding: Finding) -> dict[str, Any]:
    secure = finding.category is Category.SECURITY
    number = {"security-severity": SECURITY_SEVERITY[finding.severity]} if secure else {}
    fix = {"fix": finding.fix} if finding.fix else {}
    return properties_of(finding) | number | fix

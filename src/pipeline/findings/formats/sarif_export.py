"""SARIF 2.1.0 out: one run, with a result for every finding whatever its state.

A dismissed finding is written as suppressed and never left out: a file without it would say that it is gone.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid5

from pipeline import __version__
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import kept_keys, rule_id
from pipeline.findings.formats.sarif import (
    DRIVER,
    FALSE_POSITIVE,
    FORMAT,
    VERSION,
    WONT_FIX,
    SarifRule,
    SarifStatus,
    carried_properties,
    concrete_fixes,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Category, Finding, FindingState, Location, Observed
from pipeline.findings.scales import CATEGORY_LABEL, SECURITY_SEVERITY

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
BASE = "%SRCROOT%"
_GUID_NAMESPACE = UUID("6f0e3f0c-7d0b-5b43-9d5e-0a6a1c0f2a11")
_BASELINE = {
    Observed.NEW: "new",
    Observed.UNCHANGED: "unchanged",
    Observed.UPDATED: "updated",
    Observed.MOVED: "updated",
    Observed.ABSENT: "unchanged",  # SARIF's "absent" means that it is gone; not being reported does not prove that
}


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """The findings as a SARIF file, by number. The members of a cluster are in the properties of its result."""
    ordered = sorted(findings, key=lambda finding: (finding.number, finding.id))
    run = {
        "tool": {"driver": {"name": DRIVER, "version": __version__, "rules": _rules(ordered)}},
        "originalUriBaseIds": {BASE: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, ledger.members(finding.id)) for finding in ordered],
    }
    return strict_json.dumps({"$schema": SCHEMA, "version": VERSION, "runs": [run]}).decode()


def _rules(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(_rule_id(finding), finding)
    return [_rule(name, first[name]) for name in sorted(first)]


def _rule_id(finding: Finding) -> str:
    return rule_id(finding) or f"{DRIVER}/{finding.category}"


def _rule(name: str, finding: Finding) -> dict[str, Any]:
    kept = kept_keys(finding, FORMAT).get("rule")
    known = SarifRule.model_validate(kept if isinstance(kept, dict) else {})
    rule: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": known.short_description or CATEGORY_LABEL[finding.category]},
    }
    if known.name:
        rule["name"] = known.name
    if known.help_uri.startswith("https://"):
        rule["helpUri"] = quote(known.help_uri, safe=":/?#[]@!$&'()*+,;=%")
    return rule


def _result(finding: Finding, members: Iterable[Finding]) -> dict[str, Any]:
    status = SarifStatus.of(finding.severity, finding.state)
    result: dict[str, Any] = {
        "ruleId": _rule_id(finding),
        "kind": status.kind,
        "level": status.level,
        "message": {"text": "\n\n".join(filter(None, (finding.title, finding.impact)))},
        "locations": [_location(location, _quote_at(finding, location)) for location in finding.locations],
        "relatedLocations": [
            {"id": number} | _location(item, item.quote) | ({"message": {"text": item.raw}} if item.raw else {})
            for number, item in enumerate(finding.evidence, 1)
            if item.path
        ],
        "correlationGuid": str(uuid5(_GUID_NAMESPACE, finding.id)),
        "partialFingerprints": {**finding.fingerprints, "awf/v1": finding.signature},
        "baselineState": _baseline(finding),
        "suppressions": _suppressions(finding),
        "fixes": concrete_fixes(kept_keys(finding, FORMAT).get("fixes")) if finding.state.active else [],
        "properties": _properties(finding, members),
    }
    return {name: value for name, value in result.items() if value or name not in ("relatedLocations", "fixes")}


def _location(location: Location, quoted: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path), "uriBaseId": BASE}}
    if location.start:
        physical["region"] = {"startLine": location.start}
        if location.end:
            physical["region"]["endLine"] = location.end
        if quoted:
            physical["region"]["snippet"] = {"text": quoted}
    logical = {"logicalLocations": [{"fullyQualifiedName": location.symbol}]} if location.symbol else {}
    return {"physicalLocation": physical} | logical


def _quote_at(finding: Finding, location: Location) -> str:
    place = (location.path, location.start)
    return next((item.quote for item in finding.evidence if item.quote and (item.path, item.start) == place), "")


def _baseline(finding: Finding) -> str:
    if finding.state is FindingState.VERIFIED_FIXED:
        return "absent"
    return "updated" if finding.state is FindingState.REOPENED else _BASELINE[finding.observed]


def _suppressions(finding: Finding) -> list[dict[str, Any]]:
    """Empty for a finding that is not dismissed: to SARIF an empty list means "not suppressed", none "not known"."""
    if not finding.state.dismissed:
        return []
    word = FALSE_POSITIVE if finding.state is FindingState.FALSE_POSITIVE else WONT_FIX
    kind = finding.suppression.kind if finding.suppression else "external"
    reason = finding.suppression.reason if finding.suppression else ""
    return [{"kind": kind, "status": "accepted", "justification": f"{word}: {reason}" if reason else word}]


def _properties(finding: Finding, members: Iterable[Finding]) -> dict[str, Any]:
    bag = {
        "id": finding.id,
        "number": finding.number,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "tags": [str(finding.category)],
        **carried_properties(finding),
    }
    if finding.category is Category.SECURITY:
        bag["security-severity"] = SECURITY_SEVERITY[finding.severity]
    if finding.fix:
        bag["fix"] = finding.fix
    if joined := [_member(member) for member in members]:
        bag["members"] = joined
    return bag


def _member(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "title": finding.title,
        "impact": finding.impact,
        "severity": str(finding.severity),
        "sources": list(finding.sources),
    }

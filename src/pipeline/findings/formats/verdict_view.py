"""The verdict file, made from findings: what agents of a team read, and where they say what they did.

Its ids are positions and recognise nothing; findings that share one are shown under the gravest of them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.findings.fingerprints import line_range, verdict_id
from pipeline.findings.formats.record_view import NO_FIX, reason_absent
from pipeline.findings.formats.view_edits import SEAL, sealed
from pipeline.findings.model import Finding, FindingState, Severity
from pipeline.findings.scales import VERDICT_SEVERITY, VERDICT_STATUS, confidence_to_fraction
from pipeline.findings.verdicts import Verdict, Verdicts

FORMAT = "verdict"
TITLE = 120  # characters
KEYS = ("id", "domain", "severity", "confidence", "file", "lineRange", "title", "recommendation", "status")
BESIDE = ("x_finding", "x_system_breaking", "x_fix_absent")
SHADOWED = "x_shadowed"
SEALED = (*KEYS, *BESIDE)
OURS = frozenset({*SEALED, SHADOWED, SEAL})  # every name that has a meaning in an item
TOP = ("reviewId", "timestamp", "scope", "target", "mode", "verdict", "summary", "reportPath", "findings")
SHOWN = "x_findings"  # the findings' own ids, so that one which somebody took out is missed
SEALED_TOP = (*TOP[:-1], SHOWN)  # each finding has a seal of its own
OURS_TOP = frozenset({*TOP, SHOWN, SEAL})
COUNTING = ("open", "reopened")


def get(
    findings: Iterable[Finding],
    *,
    review_id: str,
    timestamp: str,
    scope: str,
    target: str,
    mode: str,
    report_path: str,
    verdicts: Verdicts,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The verdict file. `before` is the one that a verification goes on from."""
    going_on = before if mode == "verify" else None
    items = _items(findings, _by_finding(going_on), fresh=going_on is None)
    document = {
        "reviewId": review_id,
        "timestamp": timestamp,
        "scope": scope,
        "target": target,
        "mode": mode,
        "verdict": str(_verdict(verdicts.verdict, items, going_on)),
        "summary": dict(verdicts.summary),
        "reportPath": "" if mode == "quick" else report_path,
        "findings": items,
        SHOWN: [one["x_finding"] for first in items for one in (first, *shadowed(first))],
        **_unknown_top(going_on),
    }
    return sealed(document, SEALED_TOP)


def item(finding: Finding, status: str) -> dict[str, Any]:
    """One finding of the file, by itself and without a seal."""
    domain, path, lines = position(finding)
    said: dict[str, Any] = {
        "id": verdict_id(domain, path, lines),
        "domain": domain,
        "severity": VERDICT_SEVERITY[finding.severity],
        "confidence": confidence_to_fraction(finding.confidence),
        "file": path,
        "lineRange": None if lines == "0" else lines,
        "title": finding.title if len(finding.title) <= TITLE else finding.title[: TITLE - 1] + "…",
        "recommendation": finding.fix or _no_fix(finding),
        "status": status,
        "x_finding": str(finding.id),
        "x_system_breaking": finding.system_breaking if finding.severity is Severity.CRITICAL else None,
        "x_fix_absent": None if finding.fix else True,
    }
    unknown = {key: value for key, value in finding.ext.get(FORMAT, {}).items() if key not in OURS}
    return {**{key: value for key, value in said.items() if value is not None}, **unknown}


def position(finding: Finding) -> tuple[str, str, str]:
    """What an id is made of: who found it, the path and the lines."""
    domain = finding.sources[0] if finding.sources else str(finding.category)
    path = finding.location.path if finding.location else next((one.path for one in finding.evidence if one.path), "")
    return domain, path, line_range(finding.location)


def shadowed(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The findings that an item stands before."""
    others = item.get(SHADOWED)
    return [other for other in others if isinstance(other, dict)] if isinstance(others, list) else []


def _items(findings: Iterable[Finding], before: Mapping[str, str], *, fresh: bool) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        if _is_shown(finding, before, fresh=fresh):
            groups.setdefault(position(finding), []).append(finding)
    firsts = [sorted(group, key=_precedence) for group in groups.values()]
    return [_shown(group, before, fresh=fresh) for group in sorted(firsts, key=lambda group: _order(group[0]))]


def _shown(group: list[Finding], before: Mapping[str, str], *, fresh: bool) -> dict[str, Any]:
    first, *others = (sealed(item(finding, _status(finding, before, fresh=fresh)), SEALED) for finding in group)
    return {**first, SHADOWED: others} if others else first


def _is_shown(finding: Finding, before: Mapping[str, str], *, fresh: bool) -> bool:
    """A fresh file has what counts. One that is gone on from has what it had, and what counts by now."""
    if finding.pre_existing or finding.confidence.value == 0:
        return False
    return finding.state.active or (not fresh and finding.id in before)


def _status(finding: Finding, before: Mapping[str, str], *, fresh: bool) -> str:
    """What is in a fresh file is open; in one that is gone on from, what was not open and counts again came back."""
    if not finding.state.active:
        return VERDICT_STATUS[finding.state]
    return "open" if fresh or before.get(finding.id, "open") == "open" else "reopened"


def _precedence(finding: Finding) -> tuple[bool, int, float, str]:
    """Which of those that share an id is shown: one that is not settled, the gravest, the surest."""
    settled = finding.state is FindingState.VERIFIED_FIXED or finding.state.dismissed
    return settled, finding.severity.rank, -confidence_to_fraction(finding.confidence), finding.id


def _order(finding: Finding) -> tuple[int, float, str, int, str]:
    _, path, _ = position(finding)
    start = finding.location.start if finding.location else None
    return finding.severity.rank, -confidence_to_fraction(finding.confidence), path, start or 0, finding.id


def _by_finding(before: Mapping[str, Any] | None) -> dict[str, str]:
    """The status of each finding of a file, by the finding's own id."""
    items = [one for first in (before or {}).get("findings", ()) for one in (first, *shadowed(first))]
    return {one["x_finding"]: one.get("status", "open") for one in items if isinstance(one.get("x_finding"), str)}


def _verdict(verdict: Verdict, items: Iterable[Mapping[str, Any]], before: Mapping[str, Any] | None) -> Verdict:
    """A file that does not say what made it an abort stays one while any of its blockers counts."""
    if before is None or before.get("verdict") != Verdict.ABORT:
        return verdict
    blockers = [one for one in before["findings"] if one.get("severity") == "Blocker"]
    if any("x_system_breaking" in one for one in blockers):
        return verdict
    ids = {str(one.get("id")) for one in blockers}
    counting = any(one["id"] in ids and one["status"] in COUNTING for one in items)
    return Verdict.ABORT if counting else verdict


def _unknown_top(before: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (before or {}).items() if key not in OURS_TOP}


def _no_fix(finding: Finding) -> str:
    return NO_FIX + (finding.title if reason_absent(finding.impact, finding.title) else finding.impact)

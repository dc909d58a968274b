"""The record of a finding as a project keeps it, made from the finding. Triage and edits come back through it.

A record stands alone: what its scales cannot say is beside them, in fields whose names begin with `x_`.
"""

from collections.abc import Iterator
from typing import Any

from pipeline.findings.fingerprints import QUOTE, norm_title
from pipeline.findings.model import Actor, Change, Evidence, Finding, FindingState, Severity
from pipeline.findings.scales import RECORD_SEVERITY, RECORD_STATUS, confidence_to_word
from pipeline.findings.triage import STATE_OF

FORMAT = "record"
VERSION = 1
NO_FIX = "No concrete fix proposed; needs a decision: "
NO_REASON = "No reason was given beyond the title; see the evidence."
KEYS = (
    *("schemaVersion", "kind", "role", "authority", "type", "findingId", "reviewId", "task", "scope", "title"),
    *("category", "gate", "severity", "confidence", "evidence", "reasoning", "reproduction", "recommendation"),
    *("min_fix_scope", "suggested_regression_tests", "status", "triage_history", "signature", "sources", "lens"),
    *("agreement_count", "createdAt", "updatedAt"),
)
BESIDE = ("x_state", "x_severity", "x_fix_absent", "x_reasoning_absent", "x_system_breaking")
SEALED = (*KEYS, *BESIDE)  # the fields whose changes are told from those of an old file
REQUIRED = (
    *("findingId", "reviewId", "title", "category", "gate", "severity", "confidence", "evidence", "reasoning"),
    *("recommendation", "status", "triage_history", "signature", "sources", "lens"),
)
_TOLD = frozenset({"state", "seen", "decision"})  # the lines of a history that are triage


def get(finding: Finding) -> dict[str, Any]:
    """The record of a finding."""
    values = (
        *(VERSION, "entity", "claim", "computed", "review.finding", str(finding.id), str(finding.pass_id)),
        *(task_name(finding.task), finding.scope, finding.title, str(finding.category), str(finding.gate.value)),
        *(
            RECORD_SEVERITY[finding.severity],
            confidence_to_word(finding.confidence),
            refs(finding),
            _reasoning(finding),
        ),
        *(finding.reproduction, _recommendation(finding), finding.min_fix_scope or "", list(finding.regression_tests)),
        *(RECORD_STATUS[finding.state], list(_triage(finding)), finding.signature, list(finding.sources)),
        *(str(finding.lens), finding.agreement, finding.created_at, finding.updated_at),
    )
    unknown = {key: value for key, value in finding.ext.get(FORMAT, {}).items() if key not in (*KEYS, *BESIDE)}
    return {**dict(zip(KEYS, values, strict=True)), **_beside(finding), **unknown}


def task_name(task: str) -> str:
    """A task as records call it."""
    return task if not task or task.startswith("TASK-") else f"TASK-{task}"


def refs(finding: Finding) -> list[dict[str, Any]]:
    """What a finding rests on: its evidence, or else its places."""
    if finding.evidence:
        return [ref(item, finding) for item in finding.evidence]
    places = (Evidence(path=at.path, start=at.start, end=at.end, symbol=at.symbol) for at in finding.locations)
    return [ref(item, finding) for item in places]


def ref(evidence: Evidence, finding: Finding) -> dict[str, Any]:
    """One piece of evidence. One that names no file is about the finding's own place, or its task."""
    path = evidence.path or (
        finding.location.path if finding.location else task_name(finding.task) or finding.scope or finding.id
    )
    said: dict[str, Any] = {"path": path}
    if evidence.start is not None:
        said |= {"startLine": evidence.start, "endLine": evidence.end or evidence.start}
    said |= {"symbol": evidence.symbol} if evidence.symbol else {}
    quote = (evidence.quote or ("" if evidence.path else evidence.raw))[:QUOTE]
    return said | ({"quote": quote} if quote else {})


def reason_absent(impact: str, title: str) -> bool:
    """Whether a reason says no more than the title."""
    return not impact.strip() or norm_title(impact) == norm_title(title)


def _reasoning(finding: Finding) -> str:
    return NO_REASON if reason_absent(finding.impact, finding.title) else finding.impact


def _recommendation(finding: Finding) -> str:
    if finding.fix:
        return finding.fix
    return NO_FIX + (finding.title if reason_absent(finding.impact, finding.title) else finding.impact)


def _beside(finding: Finding) -> dict[str, Any]:
    """What the record's own scales cannot say."""
    said: dict[str, Any] = {
        "x_state": str(finding.state) if STATE_OF[RECORD_STATUS[finding.state]] is not finding.state else None,
        "x_severity": str(finding.severity) if finding.severity is Severity.INFO else None,
        "x_fix_absent": not finding.fix or None,
        "x_reasoning_absent": reason_absent(finding.impact, finding.title) or None,
        "x_system_breaking": finding.system_breaking or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def _triage(finding: Finding) -> Iterator[dict[str, Any]]:
    """The lines of a history that are triage, with the status that each left the finding in."""
    status = RECORD_STATUS[FindingState.OPEN]
    for change in finding.history:
        status = RECORD_STATUS[change.state] if change.state else status
        if change.what in _TOLD:
            yield _entry(change, status)


def _entry(change: Change, status: str) -> dict[str, Any]:
    known = change.by in set(Actor)
    entry = {"at": change.at, "status": status, "note": change.note, "by": change.by if known else "orchestrator"}
    return entry if known or not change.by else {**entry, "x_by": change.by}

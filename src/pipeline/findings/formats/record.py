"""The records of findings and passes, as a project keeps them: a lens, in which only what was changed is an edit.

What may not be changed is told, and stays as it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.events import FieldsEdited, LedgerEvent, Pass
from pipeline.findings.formats import record_triage
from pipeline.findings.formats.record_adopted import adopt
from pipeline.findings.formats.record_fields import FIELDS, read_fields
from pipeline.findings.formats.record_view import (
    BESIDE,
    FORMAT,
    KEYS,
    REQUIRED,
    SEALED,
    VERSION,
    get,
    task_name,
)
from pipeline.findings.formats.view_edits import SEAL, ViewEdits, changed, refused, same, seal_of
from pipeline.findings.model import Finding, Gate, Severity
from pipeline.findings.verdicts import Shipping

__all__ = [
    "BESIDE",
    "FORMAT",
    "KEYS",
    "SEALED",
    "TREE_CHANGED",
    "VERSION",
    "adopt",
    "get",
    "pass_record",
    "put",
    "tree_changed",
]

TREE_CHANGED = "x_tree_changed"
_OURS = frozenset(
    {
        *("schemaVersion", "kind", "role", "authority", "type", "findingId", "reviewId", "signature", "sources"),
        *("lens", "agreement_count", "createdAt", "title", "category", "confidence", "evidence", "reasoning"),
    }
)  # what no edit changes: it is the reviewers', or computed; `updatedAt` follows by itself


def put(finding: Finding, edited: Mapping[str, Any], at: str, by: str) -> ViewEdits:
    """What somebody, `by`, changed in a record, whoever the record says it was."""
    view = get(finding)
    touched = changed(edited, view, SEALED)
    readable = [key for key in touched if key in FIELDS and key not in _OURS]
    changes, unread = read_fields(edited, readable, finding, by)
    problems = [f"`{key}` is not for editing" for key in touched if key in _OURS]
    problems += [*unread, *_weaker(finding, changes), *(f"`{key}` is missing" for key in REQUIRED if key not in edited)]
    triage = record_triage.events(finding, edited, view, touched, _mark(edited), at, by)
    problems += triage.problems
    told = tuple(f"record of {finding.id}: {problem}; it was put back" for problem in problems)
    events = (*_edited(finding, changes | _unknown(finding, edited), at, by), *triage.events)
    return ViewEdits(events, told, refused(finding, problems, at, by))


def _weaker(finding: Finding, changes: dict[str, Any]) -> Iterator[str]:
    """Take out what would make less of a finding: that is for a person to decide."""
    if finding.gate.value is Gate.MUST and changes.get("gate", {}).get("value", Gate.MUST) != Gate.MUST:
        yield f"`gate` cannot become {changes.pop('gate')['value']}"
    if "severity" in changes and Severity(changes["severity"]).rank > finding.severity.rank:
        yield f"`severity` cannot become {changes.pop('severity')}"
    if finding.system_breaking and not changes.get("system_breaking", True):
        yield f"`x_system_breaking` cannot become {changes.pop('system_breaking')}"


def _unknown(finding: Finding, edited: Mapping[str, Any]) -> dict[str, Any]:
    unknown = {key: value for key, value in edited.items() if key not in SEALED and key != SEAL}
    return {} if same(unknown, finding.ext.get(FORMAT, {})) else {"ext": {FORMAT: unknown}}


def _edited(finding: Finding, changes: dict[str, Any], at: str, by: str) -> Iterator[LedgerEvent]:
    if changes:
        yield FieldsEdited(at=at, id=finding.id, by=by, changes=changes)


def _mark(edited: Mapping[str, Any]) -> str | None:
    seal = seal_of(edited, SEALED)
    return seal["triage_history"] if seal else None


def pass_record(passed: Pass, findings: Iterable[Finding], verdict: str) -> dict[str, Any]:
    """The record of a pass. The counts are those of its findings' gates; a pass with gaps does not ship."""
    known = {str(finding.id): finding for finding in findings}
    if lost := [id for id in passed.finding_ids if id not in known]:
        raise AwfError(f"pass {passed.id} speaks of finding {lost[0]}, which is not known")
    gates = [known[id].gate.value for id in passed.finding_ids]
    complete = passed.coverage.complete
    sound = complete and not tree_changed(passed)
    return {
        "schemaVersion": VERSION,
        "id": str(passed.id),
        "type": "review",
        "task": task_name(passed.task),
        "skill": passed.skill,
        "branch": passed.branch,
        "base": passed.base,
        "diff_sha": passed.head,
        "started_at": passed.started_at,
        "verdict": str(verdict) if sound or verdict != Shipping.SHIP else str(Shipping.BLOCK_ON_REJECTION),
        "must_count": gates.count(Gate.MUST),
        "suggest_count": gates.count(Gate.SUGGEST),
        "caller": passed.caller,
        "round": passed.round,
        "finding_ids": list(passed.finding_ids),
        "patterns": [pattern.model_dump() for pattern in passed.patterns],
        "reviewer_verdicts": [said.model_dump() for said in passed.reviewer_verdicts],
        **({} if complete else {"x_incomplete": dict(passed.coverage.problems)}),
        **passed.ext.get(FORMAT, {}),
    }


def tree_changed(passed: Pass) -> bool:
    """Whether the files changed while the reviewers of a pass worked."""
    told = passed.ext.get(FORMAT)
    return isinstance(told, dict) and told.get(TREE_CHANGED) is True

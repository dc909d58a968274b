"""What somebody changed in the record of a finding, as events. What may not be changed is told, and stays as it was."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.findings.codecs import record_triage
from pipeline.findings.codecs.lens import SEAL, Edits, changed, same, seal_of
from pipeline.findings.codecs.record_fields import RULES, Refused
from pipeline.findings.codecs.record_view import BESIDE, FORMAT, KEYS, get
from pipeline.findings.events import AnyEvent, Edited
from pipeline.findings.model import Finding

SEALED = (*KEYS, *BESIDE)  # the fields whose changes are told from those of an old file
REQUIRED = (
    *("findingId", "reviewId", "title", "category", "gate", "severity", "confidence", "evidence", "reasoning"),
    *("recommendation", "status", "triage_history", "signature", "sources", "lens"),
)
_OURS = frozenset(
    {
        *("schemaVersion", "kind", "role", "authority", "type", "findingId", "reviewId", "signature", "sources"),
        *("lens", "agreement_count", "createdAt"),
    }
)  # what no edit changes; `updatedAt` follows by itself


def put(finding: Finding, edited: Mapping[str, Any], at: str, by: str) -> Edits:
    """What somebody changed in a record. `by` is who, where the record does not say."""
    view = get(finding)
    touched = changed(edited, view, SEALED)
    changes, problems = _fields(finding, edited, touched, by)
    problems += [f"`{key}` is missing" for key in REQUIRED if key not in edited]
    triage = record_triage.events(finding, edited, view, touched, _mark(edited), at, by)
    told = [f"record of {finding.id}: {problem}; it was left as it is" for problem in (*problems, *triage.problems)]
    unknown = _unknown(finding, edited)
    return Edits((*_edited(finding, changes | unknown, at, by), *triage.events), tuple(told))


def _fields(
    finding: Finding, edited: Mapping[str, Any], touched: Sequence[str], by: str
) -> tuple[dict[str, Any], list[str]]:
    changes: dict[str, Any] = {}
    problems = [f"`{key}` is not for editing" for key in touched if key in _OURS]
    for key in touched:
        if key in RULES:
            match RULES[key](edited, finding, by):
                case Refused(reason):
                    problems.append(f"`{key}` {reason}")
                case value:
                    changes |= value
    return changes, problems


def _unknown(finding: Finding, edited: Mapping[str, Any]) -> dict[str, Any]:
    unknown = {key: value for key, value in edited.items() if key not in SEALED and key != SEAL}
    return {} if same(unknown, finding.ext.get(FORMAT, {})) else {"ext": {FORMAT: unknown}}


def _edited(finding: Finding, changes: dict[str, Any], at: str, by: str) -> Iterator[AnyEvent]:
    if changes:
        yield Edited(at=at, id=finding.id, by=by, changes=changes)


def _mark(edited: Mapping[str, Any]) -> str | None:
    seal = seal_of(edited, SEALED)
    return seal["triage_history"] if seal else None

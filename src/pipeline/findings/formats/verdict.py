"""The verdict file as a lens: a team's agents may say that a finding is fixed or will not be, and nothing else."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.findings.events import FieldsEdited, LedgerEvent
from pipeline.findings.fingerprints import verdict_id
from pipeline.findings.formats.verdict_import import decode, document_fault
from pipeline.findings.formats.verdict_view import (
    COUNTING,
    FORMAT,
    KEYS,
    OURS,
    SEALED,
    SEALED_TOP,
    SHOWN,
    get,
    item,
    position,
    shadowed,
)
from pipeline.findings.formats.view_edits import ViewEdits, changed, refused, same, seal_of
from pipeline.findings.formats.view_edits import digest as digest_of
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.scales import VERDICT_STATUS
from pipeline.findings.triage import agent_refusal, change_state

__all__ = ["FORMAT", "decode", "document_fault", "get", "item", "put"]

_STATUSES = frozenset(VERDICT_STATUS.values())
_TEAM = {"fixed": FindingState.FIX_CLAIMED, "wont_fix": FindingState.WONT_FIX}  # what a team's agent may say
NOTE = "note"  # where an agent says why it will not be fixed


def put(edited: Mapping[str, Any], findings: Iterable[Finding], *, at: str, by: str) -> ViewEdits:
    """What somebody changed in a verdict file. All but the legal moves of a status is told, and stays as it was."""
    known = _Known(findings)
    items = [one for first in edited["findings"] for one in (first, *shadowed(first))]
    found = [_item_edits(one, known, at, by) for one in items]
    problems = (*_top_problems(edited), *_taken_out(edited, items))
    return ViewEdits(
        tuple(event for edits in found for event in edits.events),
        (*problems, *(problem for edits in found for problem in edits.problems)),
        tuple(event for edits in found for event in edits.told),
    )


class _Known:
    """Findings by their own id, and by the position that the file calls them by."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._by_id = {str(finding.id): finding for finding in findings}
        self._by_position: dict[str, Finding] = {}
        for finding in self._by_id.values():
            self._by_position.setdefault(verdict_id(*position(finding)), finding)

    def find(self, one: Mapping[str, Any]) -> Finding | None:
        own = one.get("x_finding")
        if isinstance(own, str) and own in self._by_id:
            return self._by_id[own]
        position = one.get("id")
        return self._by_position.get(position) if isinstance(position, str) else None


def _top_problems(edited: Mapping[str, Any]) -> Iterator[str]:
    seal = seal_of(edited, SEALED_TOP)
    for key in SEALED_TOP:
        if seal is not None and digest_of(edited.get(key)) != seal[key]:
            yield f"verdict file: `{key}` is not for editing; it was put back"


def _taken_out(edited: Mapping[str, Any], items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A finding cannot be got rid of by taking it out."""
    shown = edited.get(SHOWN)
    there = {str(one.get("x_finding")) for one in items}
    for id in shown if isinstance(shown, list) else ():
        if str(id) not in there:
            yield f"verdict file: {id} was taken out; it was put back"


def _item_edits(one: Mapping[str, Any], known: _Known, at: str, by: str) -> ViewEdits:
    finding = known.find(one)
    if finding is None:
        return ViewEdits(problems=(f"verdict file: {one.get('id')!a} is no finding that is known; import it instead",))
    was = _status_before(one, finding)
    now = item(finding, was)
    touched = [key for key in changed(one, now, SEALED) if key != "status"]
    touched += [key for key in KEYS if key in now and key not in one]
    moved = _moved(one, finding, was, at, by)
    problems = [*(f"`{key}` is not for editing" for key in touched), *moved.problems]
    told = tuple(f"verdict file: {finding.id}: {problem}; it was put back" for problem in problems)
    return ViewEdits((*_kept(one, finding, at, by), *moved.events), told, refused(finding, problems, at, by))


def _status_before(one: Mapping[str, Any], finding: Finding) -> str:
    """The status as it was written: the one that the seal is of, or else the one that the finding has."""
    seal = seal_of(one, SEALED)
    if seal is not None:
        return next((status for status in sorted(_STATUSES) if digest_of(status) == seal["status"]), "open")
    status = VERDICT_STATUS[finding.state]
    return "open" if finding.state.active and one.get("status") == "open" else status


def _moved(one: Mapping[str, Any], finding: Finding, was: str, at: str, by: str) -> ViewEdits:
    status = one.get("status")
    if same(status, was) or (isinstance(status, str) and status == VERDICT_STATUS[finding.state]):
        return ViewEdits()
    move = f"{was}→{status}"
    if was not in COUNTING or not isinstance(status, str) or status not in _TEAM:
        return _illegal(move, "a team says `fixed` or `wont_fix` of what is open or reopened")
    if not finding.state.active:
        return _illegal(move, f"meanwhile it is {finding.state}")
    note = one.get(NOTE) if isinstance(one.get(NOTE), str) else ""
    if status == "wont_fix" and (why := agent_refusal(finding, "wont-fix", str(note), by)):
        return _illegal(move, why if str(note).strip() else f"{why}: write it beside the status, as `{NOTE}`")
    said = f"verdict file: {move}{f', {note}' if note else ''}"
    return ViewEdits((change_state(finding, _TEAM[status], at=at, by=by, note=said),))


def _illegal(move: str, why: str) -> ViewEdits:
    return ViewEdits(problems=(f"{move} is refused: {why}",))


def _kept(one: Mapping[str, Any], finding: Finding, at: str, by: str) -> Iterator[LedgerEvent]:
    """What somebody wrote beside the fields of the file is handed back."""
    unknown = {key: value for key, value in one.items() if key not in OURS}
    if not same(unknown, finding.ext.get(FORMAT, {})):
        yield FieldsEdited(at=at, id=finding.id, by=by, changes={"ext": {FORMAT: unknown}})

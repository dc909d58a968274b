"""What was changed in a file that shows findings, as ledger events and problems."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.findings.events import FieldsEdited, LedgerEvent
from pipeline.findings.model import Finding

_MAX_NOTE = 500  # characters


@dataclass(frozen=True, slots=True)
class ViewEdits:
    """The edits that may be applied, and the problems with the others, which are undone."""

    events: tuple[LedgerEvent, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[LedgerEvent, ...] = ()  # a line in the history of each finding with a refused edit
    outdated: bool = False  # whether fields were not read because the ledger has changed since the file was written

    @property
    def all(self) -> tuple[LedgerEvent, ...]:
        """Everything for the ledger."""
        return self.events + self.notes


def join_edits(parts: Sequence[ViewEdits]) -> ViewEdits:
    """The edits of several files, in order."""
    return ViewEdits(
        tuple(event for part in parts for event in part.events),
        tuple(problem for part in parts for problem in part.problems),
        tuple(note for part in parts for note in part.notes),
        any(part.outdated for part in parts),
    )


def refuse(finding: Finding, problems: Iterable[str], where: str, at: str, by: str) -> ViewEdits:
    """Problems with the edits of one finding: reported, and noted in its history."""
    found = list(problems)
    if not found:
        return ViewEdits()
    note = f"put back: {'; '.join(found)}"[:_MAX_NOTE]
    return ViewEdits(
        problems=tuple(f"{where}: {problem}; the edit does not count" for problem in found),
        notes=(FieldsEdited(at=at, id=finding.id, by=by, changes={}, note=note),),
    )


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. To Python, true is 1 as well."""
    return bool(one == other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

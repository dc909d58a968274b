"""What the lenses share: a view is written with a seal, and what differs from the seal was changed by somebody else.

A seal has a digest of each field as it was written. So an edit is told from a file that is only old, at any time.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

from pipeline.findings.events import FieldsEdited, LedgerEvent
from pipeline.findings.model import Finding

SEAL = "x_written"
_LONGEST = 500  # characters of such a line
_DIGITS = 6  # of the digest of one field
_SHORT = (str, int, type(None))
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ViewEdits:
    """What somebody changed in a view: what may be applied, and what may not, in words."""

    events: tuple[LedgerEvent, ...] = ()
    problems: tuple[str, ...] = ()
    told: tuple[LedgerEvent, ...] = ()  # what a refusal leaves in the history of its finding

    def __add__(self, other: "ViewEdits") -> "ViewEdits":
        """Both, in order."""
        return ViewEdits(self.events + other.events, self.problems + other.problems, self.told + other.told)

    @property
    def all(self) -> tuple[LedgerEvent, ...]:
        """Everything for the ledger."""
        return self.events + self.told


def refused(finding: Finding, problems: Sequence[str], at: str, by: str) -> tuple[LedgerEvent, ...]:
    """What refusals leave in the history of a finding: one line."""
    if not problems:
        return ()
    return (FieldsEdited(at=at, id=finding.id, by=by, changes={}, note=f"put back: {'; '.join(problems)}"[:_LONGEST]),)


def sealed(view: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """A view with the seal of some fields; one that is not there is sealed as such."""
    return {**view, SEAL: "".join(digest(view.get(key)) for key in keys)}


def seal_of(view: Mapping[str, Any], keys: Sequence[str]) -> dict[str, str] | None:
    """The digest of each field as it was written; None when the view has no seal of these fields."""
    seal = view.get(SEAL)
    if not isinstance(seal, str) or len(seal) != _DIGITS * len(keys):
        return None
    return {key: seal[at * _DIGITS : (at + 1) * _DIGITS] for at, key in enumerate(keys)}


def changed(view: Mapping[str, Any], now: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """The fields that somebody changed: that break the seal, if there is one, and are not what they would be now."""
    seal = seal_of(view, keys)
    return [
        key
        for key in keys
        if key in view and not same(view[key], now.get(key)) and (seal is None or seal[key] != digest(view[key]))
    ]


def appended(entries: Sequence[Any], ours: Sequence[Any], mark: str | None) -> list[Any] | None:
    """What was added at the end of a list that may only grow; None when what was there is no longer there."""
    if mark is None:
        return list(entries[len(ours) :]) if same(list(entries[: len(ours)]), list(ours)) else None
    if not any(digest(list(entries[:end])) == mark for end in range(len(entries), -1, -1)):
        return None
    return [entry for entry in entries if entry not in ours]


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1 there, as it is in Python."""
    return bool(one == other) and (isinstance(one, str) or _text(one) == _text(other))


def digest(value: Any) -> str:
    """A short digest of a JSON value, whatever the order of its keys."""
    if isinstance(value, _SHORT):
        return _word(value)
    return sha256(_text(value).encode()).hexdigest()[:_DIGITS]


@lru_cache(maxsize=4096, typed=True)
def _word(value: str | int | None) -> str:
    """The digest of a short value; a few words make up most fields of most findings."""
    return sha256(_text(value).encode()).hexdigest()[:_DIGITS]


def _text(value: Any) -> str:
    return _encoder.encode(value)

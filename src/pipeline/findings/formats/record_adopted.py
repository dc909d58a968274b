"""A finding from its record alone, as when a project is fetched anew: what the record says is all there is.

It comes in open, whatever the record says became of it: nobody here has looked. What it says stays in its history.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats.record_fields import FIELDS, read_fields
from pipeline.findings.formats.record_triage import is_time
from pipeline.findings.formats.record_view import FORMAT, NO_FIX, NO_REASON, REQUIRED, SEALED
from pipeline.findings.formats.view_edits import SEAL
from pipeline.findings.model import Change, Finding, Location
from pipeline.findings.scales import confidence_from_word
from pipeline.findings.triage import STATE_OF

_MOST = 1000  # reviewers, or lines of a history
_LONGEST = 500  # characters of such a line


def adopt(record: Mapping[str, Any], at: str) -> Finding | str:
    """The finding in a record, or why there is none. `at` is the time where the record gives none."""
    if lost := [key for key in REQUIRED if key not in record]:
        return f"`{lost[0]}` is missing"
    try:
        blank = _blank(record, at)
        there = [key for key in FIELDS if key in record and (key != "evidence" or record[key])]
        changes, problems = read_fields(record, there, blank, "policy")
        if problems:
            return problems[0]
        return Finding.model_validate(
            {**blank.model_dump(), **changes, **_absent(record), **_rest(record, changes, at)}
        )
    except (ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
        return f"it cannot be read ({type(error).__name__})"


def _blank(record: Mapping[str, Any], at: str) -> Finding:
    """What no rule of a field is about."""
    return Finding(
        id=record["findingId"],
        signature=record["signature"],
        pass_id=record["reviewId"],
        title=record["title"],
        category=record["category"],
        severity=record["severity"],
        confidence=confidence_from_word(record["confidence"]),
        sources=tuple(record["sources"]),
        lens=record["lens"],
        agreement=_agreement(record.get("agreement_count", 1)),
        created_at=_moment(record.get("createdAt"), at),
        updated_at=_moment(record.get("updatedAt"), at),
    )


def _absent(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record has to say though there was nothing to be said."""
    fix, reason = record["recommendation"], record["reasoning"]
    return {
        **({"fix": None} if record.get("x_fix_absent") is True and fix.startswith(NO_FIX) else {}),
        **({"impact": ""} if record.get("x_reasoning_absent") is True and reason == NO_REASON else {}),
    }


def _rest(record: Mapping[str, Any], changes: Mapping[str, Any], at: str) -> dict[str, Any]:
    unknown = {key: value for key, value in record.items() if key not in SEALED and key != SEAL}
    places = (
        Location(path=item["path"], start=item.get("start"), end=item.get("end"), symbol=item.get("symbol", ""))
        for item in changes.get("evidence", ())
    )
    return {
        "locations": tuple(dict.fromkeys(places)),
        "history": _history(record["triage_history"], record["status"], at),
        "ext": {FORMAT: unknown} if unknown else {},
    }


def _history(entries: Any, status: Any, at: str) -> tuple[Change, ...]:
    """What the record tells of its past, as words."""
    if not isinstance(entries, list) or status not in STATE_OF:
        raise TypeError("no history, or no status")
    told = [
        Change(
            at=_moment(entry["at"], at),
            what="seen",
            by=str(entry.get("x_by", entry["by"]))[:_LONGEST],
            note=f"{entry['status']}: {entry.get('note', '')}"[:_LONGEST],
        )
        for entry in entries[-_MOST:]
    ]
    claimed = f"its record says {status}; nobody here has looked" if status != "open" else ""
    return (*told, *((Change(at=at, what="seen", note=claimed),) if claimed else ()))


def _moment(value: Any, at: str) -> str:
    return value if isinstance(value, str) and is_time(value) else at


def _agreement(value: Any) -> int:
    return value if strict.is_int(value) and 1 <= value <= _MOST else 1

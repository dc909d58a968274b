"""A finding from its record alone, as when a project is fetched anew: what the record says is all there is."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pipeline.findings.codecs.lens import SEAL
from pipeline.findings.codecs.record_fields import FIELDS, read_fields
from pipeline.findings.codecs.record_triage import state_after
from pipeline.findings.codecs.record_view import FORMAT, NO_FIX, NO_REASON, REQUIRED, SEALED, STATE_OF
from pipeline.findings.model import Change, Finding, Location, State
from pipeline.findings.scales import RECORD_STATUS, of_word


def adopt(record: Mapping[str, Any]) -> Finding | str:
    """The finding in a record, or why there is none."""
    if lost := [key for key in REQUIRED if key not in record]:
        return f"`{lost[0]}` is missing"
    try:
        blank = _blank(record)
        there = [key for key in FIELDS if key in record and (key != "evidence" or record[key])]
        changes, problems = read_fields(record, there, blank, "policy")
        if problems:
            return problems[0]
        return Finding.model_validate({**blank.model_dump(), **changes, **_absent(record), **_rest(record, changes)})
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        return f"it cannot be read ({type(error).__name__})"


def _blank(record: Mapping[str, Any]) -> Finding:
    """What no rule of a field is about."""
    return Finding(
        id=record["findingId"],
        signature=record["signature"],
        pass_id=record["reviewId"],
        title=record["title"],
        category=record["category"],
        severity=record["severity"],
        confidence=of_word(record["confidence"]),
        sources=tuple(record["sources"]),
        lens=record["lens"],
        agreement=record.get("agreement_count", 1),
        created_at=record.get("createdAt", ""),
        updated_at=record.get("updatedAt", ""),
    )


def _absent(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record has to say though there was nothing to be said."""
    fix, reason = record["recommendation"], record["reasoning"]
    return {
        **({"fix": None} if record.get("x_fix_absent") is True and fix.startswith(NO_FIX) else {}),
        **({"impact": ""} if record.get("x_reasoning_absent") is True and reason == NO_REASON else {}),
    }


def _rest(record: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    unknown = {key: value for key, value in record.items() if key not in SEALED and key != SEAL}
    places = (
        Location(path=item["path"], start=item.get("start"), end=item.get("end"), symbol=item.get("symbol", ""))
        for item in changes.get("evidence", ())
    )
    return {
        "locations": tuple(dict.fromkeys(places)),
        "history": _history(record["triage_history"]),
        "state": _state(record),
        "ext": {FORMAT: unknown} if unknown else {},
    }


def _history(entries: list[dict[str, Any]]) -> tuple[Change, ...]:
    history: list[Change] = []
    state = State.OPEN
    for entry in entries:
        state = state_after(state, entry["status"])
        by, note = entry.get("x_by", entry["by"]), entry.get("note", "")
        history.append(Change(at=entry["at"], what="state", state=state, by=by, note=note))
    return tuple(history)


def _state(record: Mapping[str, Any]) -> State:
    finer = record.get("x_state")
    if finer in set(State) and RECORD_STATUS[State(finer)] == record["status"]:
        return State(finer)
    return STATE_OF[record["status"]]

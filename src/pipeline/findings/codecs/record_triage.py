"""What somebody decided in the record of a finding: its status and the history of its triage, which only grows.

Nobody but a person or a fresh look makes a finding fixed. What is decided is applied whole or not at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline.findings.codecs.lens import Edits, appended, turned
from pipeline.findings.codecs.record_view import STATE_OF
from pipeline.findings.events import Turned
from pipeline.findings.model import Actor, Finding, State
from pipeline.findings.scales import RECORD_STATUS

_CONFIRMING = (Actor.USER, Actor.REVALIDATE)
_GONE = (State.VERIFIED_FIXED, State.FIX_CLAIMED)


def events(
    finding: Finding,
    edited: Mapping[str, Any],
    view: Mapping[str, Any],
    touched: Sequence[str],
    mark: str | None,
    at: str,
    by: str,
) -> Edits:
    """What was decided. `mark` is the digest of the history as it was written, if it is known."""
    history = edited.get("triage_history", view["triage_history"])
    new = appended(history, view["triage_history"], mark) if isinstance(history, list) else None
    if new is None:
        return Edits(problems=("`triage_history` was rewritten or shortened: add to its end",))
    if faults := [fault for entry in new if (fault := _fault(entry))]:
        return Edits(problems=tuple(faults))
    if new:
        diverged = [entry for entry in view["triage_history"] if entry not in history]
        return _decided(finding, new, diverged, edited, at)
    return _restated(finding, edited, touched, at, by)


def state_after(state: State, status: str) -> State:
    """What a status makes of a state; one that says the same of it leaves it alone."""
    if RECORD_STATUS[state] == status:
        return state
    return State.REOPENED if status == "open" and state in _GONE else STATE_OF[status]


def _decided(
    finding: Finding, new: list[dict[str, Any]], diverged: Sequence[Any], edited: Mapping[str, Any], at: str
) -> Edits:
    if not diverged and edited.get("status", new[-1]["status"]) != new[-1]["status"]:
        return Edits(problems=(f"`status` and the last entry of `triage_history` ({new[-1]['status']}) differ",))
    ordered = sorted(new, key=lambda entry: _time(entry["at"])) if diverged else new
    state, told, problems = finding.state, list[Turned](), list[str]()
    for entry in ordered:
        if problem := _refused(state, entry["status"], entry["by"]):
            problems.append(problem)
        state = state_after(state, entry["status"])
        said_by, note = entry.get("x_by", entry["by"]), entry.get("note", "")
        told.append(turned(finding, state, at=entry["at"], by=said_by, note=note))
    if problems:
        return Edits(problems=tuple(problems))
    return Edits((*told, *_kept(finding, state, ordered[-1], diverged, at)))


def _kept(
    finding: Finding, state: State, last: Mapping[str, Any], diverged: Sequence[Mapping[str, Any]], at: str
) -> Iterable[Turned]:
    """What was decided here later than what somebody decided elsewhere stands."""
    later = [entry for entry in diverged if _time(entry["at"]) > _time(last["at"])]
    if not later or state is finding.state:
        return ()
    decided = later[-1]
    kept = Turned(
        at=at,
        id=finding.id,
        state=finding.state,
        by=decided.get("x_by", decided["by"]),
        note=f"kept: decided at {decided['at']}",
        suppression=finding.suppression,
    )
    return (kept,)


def _restated(finding: Finding, edited: Mapping[str, Any], touched: Sequence[str], at: str, by: str) -> Edits:
    """A status that was changed without a word in the history; or else a finer state."""
    if "status" in touched:
        status = edited["status"]
        if not isinstance(status, str) or status not in STATE_OF:
            return Edits(problems=(f"`status` is none of {', '.join(STATE_OF)}",))
        if problem := _refused(finding.state, status, by):
            return Edits(problems=(problem,))
        return Edits((turned(finding, state_after(finding.state, status), at=at, by=by, note="record edited"),))
    return _finer(finding, edited, at, by) if "x_state" in touched else Edits()


def _finer(finding: Finding, edited: Mapping[str, Any], at: str, by: str) -> Edits:
    state = edited["x_state"]
    if state not in set(State) or RECORD_STATUS[State(state)] != edited.get("status"):
        return Edits(problems=(f"`x_state` is no state of the status {edited.get('status')}",))
    return Edits((turned(finding, State(state), at=at, by=by, note="record edited"),))


def _refused(state: State, status: str, by: str) -> str:
    if status != "fixed" or state is State.VERIFIED_FIXED or by in _CONFIRMING:
        return ""
    return (
        f'`status` may not become "fixed" by {by}: only a fresh look or a person can say so; '
        'add an entry to `triage_history` that is by "revalidate" or "user"'
    )


def _fault(entry: Any) -> str:
    """What is wrong with an entry of the history."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("at", "status", "by")):
        return "an entry of `triage_history` lacks `at`, `status` or `by`"
    if entry["status"] not in STATE_OF:
        return f"an entry of `triage_history` has a `status` that is none of {', '.join(STATE_OF)}"
    if entry["by"] not in set(Actor):
        return f"an entry of `triage_history` is by none of {', '.join(Actor)}"
    if not all(isinstance(entry.get(key, ""), str) for key in ("note", "x_by")):
        return "an entry of `triage_history` has a `note` that is no text"
    return "" if _is_time(entry["at"]) else "an entry of `triage_history` has an `at` that is no ISO 8601 time"


def _is_time(text: str) -> bool:
    try:
        _time(text)
    except ValueError:
        return False
    return True


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

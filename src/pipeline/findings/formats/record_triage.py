"""What somebody decided in the record of a finding: its status and the history of its triage, which only grows.

The rules are those for agents, whoever an entry names. What is decided is applied whole or not at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pipeline.findings.events import StateChanged
from pipeline.findings.formats.view_edits import ViewEdits, appended
from pipeline.findings.model import Actor, Finding, FindingState
from pipeline.findings.scales import RECORD_STATUS
from pipeline.findings.triage import STATE_OF, agent_refusal, change_state, state_after


def events(
    finding: Finding,
    edited: Mapping[str, Any],
    view: Mapping[str, Any],
    touched: Sequence[str],
    mark: str | None,
    at: str,
    by: str,
) -> ViewEdits:
    """What was decided. `mark` is the digest of the history as it was written, if it is known."""
    history = edited.get("triage_history", view["triage_history"])
    new = appended(history, view["triage_history"], mark) if isinstance(history, list) else None
    if new is None:
        return ViewEdits(problems=("`triage_history` was rewritten or shortened: add to its end",))
    if faults := [fault for entry in new if (fault := _fault(entry))]:
        return ViewEdits(problems=tuple(faults))
    known = {_word(entry) for entry in view["triage_history"]}  # by whom is ours to say, so that it does not count
    new = [entry for entry in new if _word(entry) not in known]
    if new:
        theirs = {_word(entry) for entry in history if isinstance(entry, dict)}
        diverged = [entry for entry in view["triage_history"] if _word(entry) not in theirs]
        return _decided(finding, new, diverged, edited, at, by)
    return _restated(finding, edited, touched, at, by)


def _decided(
    finding: Finding, new: list[dict[str, Any]], diverged: Sequence[Any], edited: Mapping[str, Any], at: str, by: str
) -> ViewEdits:
    if not diverged and edited.get("status", new[-1]["status"]) != new[-1]["status"]:
        return ViewEdits(problems=(f"`status` and the last entry of `triage_history` ({new[-1]['status']}) differ",))
    ordered = sorted(new, key=lambda entry: _time(entry["at"])) if diverged else new
    then, told = finding, list[StateChanged]()
    for entry in ordered:
        note = entry.get("note", "")
        if problem := _refused(then, entry["status"], note, by):
            return ViewEdits(problems=(problem,))
        event = change_state(finding, state_after(then.state, entry["status"]), at=entry["at"], by=by, note=note)
        then = replace(then, state=event.state, suppression=event.suppression)
        told.append(event)
    return ViewEdits((*told, *_kept(finding, then.state, ordered[-1], diverged, at)))


def _kept(
    finding: Finding, state: FindingState, last: Mapping[str, Any], diverged: Sequence[Mapping[str, Any]], at: str
) -> Iterable[StateChanged]:
    """What was decided here later than what somebody decided elsewhere stands."""
    decided_at = min(_time(last["at"]), _time(at))
    later = [entry for entry in diverged if _time(entry["at"]) > decided_at]
    if not later or state is finding.state:
        return ()
    decided = later[-1]
    kept = StateChanged(
        at=at,
        id=finding.id,
        state=finding.state,
        by=decided.get("x_by", decided["by"]),
        note=f"kept: decided at {decided['at']}",
        suppression=finding.suppression,
    )
    return (kept,)


def _restated(finding: Finding, edited: Mapping[str, Any], touched: Sequence[str], at: str, by: str) -> ViewEdits:
    """A status that was changed without a word in the history; or else a finer state."""
    if "status" in touched:
        status = edited["status"]
        if not isinstance(status, str) or status not in STATE_OF:
            return ViewEdits(problems=(f"`status` is not one of {', '.join(STATE_OF)}",))
        if problem := _refused(finding, status, "", by):
            return ViewEdits(problems=(f"`status` {status}: {problem}",))
        return ViewEdits(
            (change_state(finding, state_after(finding.state, status), at=at, by=by, note="record edited"),)
        )
    return _finer(finding, edited, at, by) if "x_state" in touched else ViewEdits()


def _finer(finding: Finding, edited: Mapping[str, Any], at: str, by: str) -> ViewEdits:
    state = edited["x_state"]
    known = isinstance(state, str) and state in set(FindingState)
    if (
        not known
        or not FindingState(state).needs_attention
        or RECORD_STATUS[FindingState(state)] != edited.get("status")
    ):
        return ViewEdits(problems=(f"`x_state` is not a state of the status {edited.get('status')}",))
    return ViewEdits((change_state(finding, FindingState(state), at=at, by=by, note="record edited"),))


def _refused(finding: Finding, status: str, note: str, by: str) -> str:
    """Why an entry may not be applied. One that only adds a word to what is open may."""
    said_again = state_after(finding.state, status) is finding.state
    return "" if said_again and finding.state.active else agent_refusal(finding, status, note, by)


def _word(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(entry.get("at")), str(entry.get("status")), str(entry.get("note", ""))


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
    return "" if is_time(entry["at"]) else "an entry of `triage_history` has an `at` that is no ISO 8601 time"


def is_time(text: str) -> bool:
    """Whether a text is a moment that can be compared with others."""
    try:
        _time(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

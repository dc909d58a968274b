"""Decisions about findings: what people and agents may decide, which findings are one line of work, which come first.

Only a person takes back what a person decided, or dismisses what must be fixed. Editing a file that shows findings
gives the rights of an agent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

from pipeline.errors import AwfError
from pipeline.findings.events import FindingChanged
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.fingerprints import WINDOW, evidence_digest, line_hash, read_source
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, Finding, FindingId, FindingState, Suppression, What
from pipeline.findings.places import follow_findings
from pipeline.findings.rulings import changed, claimed_state
from pipeline.findings.verdicts import blocks

STATUSES = ("open", "false-positive", "wont-fix", "fixed")
"""What can be decided about a finding."""

_DISMISSALS = ("false-positive", "wont-fix")
_ALLOWED = MappingProxyType(
    {
        Actor.USER: frozenset(STATUSES),
        Actor.REVALIDATE: frozenset({"open"}),  # a reviewer rules in its answer, not in a command
        Actor.FINISH_TASK: frozenset({"open", *_DISMISSALS}),
        Actor.ORCHESTRATOR: frozenset({"open", *_DISMISSALS}),
    }
)
STATE_OF = MappingProxyType(
    {
        "open": FindingState.OPEN,
        "false-positive": FindingState.FALSE_POSITIVE,
        "wont-fix": FindingState.WONT_FIX,
        "fixed": FindingState.VERIFIED_FIXED,
    }
)
"""The state that a status means by itself."""

_OPENED = MappingProxyType(
    {
        FindingState.REOPENED: FindingState.REOPENED,
        FindingState.VERIFIED_FIXED: FindingState.REOPENED,
        FindingState.FIX_CLAIMED: FindingState.REOPENED,
    }
)  # what the status `open` makes of a state; of any other, `open`
_LINE_DIGEST = "line/v1:"  # the digest of a line of code; a dismissal of anything else cannot be looked up in a file


@dataclass(frozen=True, slots=True)
class TriageOutcome:
    """What is decided, one event for each finding of a line of work, and for every other name why not."""

    events: tuple[FindingChanged, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


def triage(
    ledger: Ledger,
    names: Iterable[str],
    status: str,
    *,
    note: str = "",
    by: Actor,
    at: str,
    expires: str = "",
    only: bool = False,
) -> TriageOutcome:
    """Decide about the lines of work of some findings, given by id, prefix, number or alias; `only` for those alone."""
    names = list(dict.fromkeys(names))
    error = _request_error(status, note, by, at, expires)
    if error:
        return TriageOutcome(refused=dict.fromkeys(names, error))
    until = date.fromisoformat(expires).isoformat() if expires else ""
    events: dict[FindingId, FindingChanged] = {}
    refused: dict[str, str] = {}
    for name in names:
        finding = ledger.find(name) if name else None
        if finding is None:
            refused[name] = "there is no such finding"
            continue
        members = (finding,) if only else _concerned(ledger.line(finding.id), finding, status)
        refusals = [reason for member in members if (reason := _refusal(member, status, by))]
        if status not in _DISMISSALS and all(state_after(one.state, status) is one.state for one in members):
            refusals.append(f"it is {finding.state} already")
        if refusals:
            refused[name] = refusals[0]
            continue
        for member in members:
            events[member.id] = decision(member, status, at=at, by=by, note=note, expires=until)
    return TriageOutcome(tuple(events.values()), refused)


def _concerned(line: Line, named: Finding, status: str) -> tuple[Finding, ...]:
    """Return the members of a line that a decision is about: those that it changes, and the one that was named."""
    others = (member for member in line.members if member.state is not state_after(member.state, status))
    if status == "open":
        others = (member for member in line.members if member.state.dismissed)
    return tuple({member.id: member for member in (named, *others)}.values())


def decision(
    finding: Finding, status: str, *, at: str, by: Actor, note: str, who: str = "", expires: str = ""
) -> FindingChanged:
    """Return the event of a status that somebody gave a finding. A dismissal is bound to the code it was made for."""
    state, suppression = state_after(finding.state, status), None
    if state.dismissed:
        suppression = Suppression(reason=note, by=by, expires=expires, digest=evidence_digest(finding))
    return changed(
        finding,
        at=at,
        what=What.TRIAGE,
        who=who or by,
        by=by,
        word=status,
        note=note,
        state=state,
        fields={"suppression": suppression.model_dump() if suppression else None},
    )


def state_after(state: FindingState, status: str) -> FindingState:
    """Return the state that a decision leads to; one that only repeats the present state leaves it alone."""
    return _OPENED.get(state, FindingState.OPEN) if status == "open" else STATE_OF[status]


def said_in_file(finding: Finding, status: str, note: str, *, at: str, who: str) -> FindingChanged | str | None:
    """Return what a changed status in a file means: an event, why it is refused, or None if it changes nothing.

    An agent that writes `fixed` claims a fix. One that writes `wont-fix` or `false-positive` dismisses a finding, if it
    may and gives a reason; any other it disputes.
    """
    if status not in STATUSES:
        return f"`status` is not one of {', '.join(STATUSES)}"
    agent = Actor.ORCHESTRATOR
    if status == "fixed":
        return _claim_in_file(finding, "fixed", note, at=at, who=who)
    if status in _DISMISSALS:
        if finding.state is STATE_OF[status]:
            return None
        if note.strip() and not _refusal(finding, status, agent):
            return decision(finding, status, at=at, by=agent, note=note, who=who)
        return _claim_in_file(finding, "wrong", note or f"{status} in {who}", at=at, who=who)
    if _dismissed_by_person(finding):
        return _refusal(finding, status, agent)
    if finding.state.active and not finding.disputed and not finding.claimed:
        return None
    # What nobody could judge stays uncertain, so that no claim that is taken back makes it a mere suggestion.
    state = finding.state if finding.state is FindingState.UNCERTAIN else FindingState.REOPENED
    return changed(finding, at=at, what=What.TRIAGE, who=who, by=agent, word=status, note=note, state=state)


def _claim_in_file(finding: Finding, word: str, note: str, *, at: str, who: str) -> FindingChanged | str | None:
    if not finding.state.is_open:
        return f"it is {finding.state}"
    claimed = finding.claimed or finding.state is FindingState.FIX_CLAIMED
    if {"fixed": claimed, "wrong": finding.disputed}[word]:
        return None
    state = claimed_state(finding, word)
    return changed(finding, at=at, what=What.CLAIM, who=who, by=Actor.FINISH_TASK, word=word, note=note, state=state)


def _request_error(status: str, note: str, by: Actor, at: str, expires: str) -> str:
    """Return what is wrong with a decision, whichever finding it is about; empty if nothing is."""
    if status not in STATUSES:
        return f"unknown status {status!a}; choose {', '.join(STATUSES)}"
    if status not in _ALLOWED[by]:
        return f"{by} may not decide {status}; only a person can"
    if status in _DISMISSALS and not note.strip():
        return "a dismissal needs a note that says why"
    if not expires:
        return ""
    if status not in _DISMISSALS:
        return f"only a dismissal can expire, and {status} is not one"
    try:
        until = date.fromisoformat(expires).isoformat()
    except ValueError:
        return f"{expires!a} is not a date such as 2026-12-31"
    return f"{expires} has passed already" if until < at[:10] else ""


def _refusal(finding: Finding, status: str, by: Actor) -> str:
    """Return why somebody may not decide this about a finding; empty if they may."""
    if by is Actor.USER:
        return ""
    if _dismissed_by_person(finding):
        return f"a person dismissed it as {finding.state}; only a person may take that back"
    if status == "open" and finding.state is FindingState.UNCERTAIN:
        return "it is uncertain; only a person may say that it is a defect"
    if status not in _DISMISSALS:
        return ""
    if not finding.state.active and not finding.state.dismissed:
        return f"it is {finding.state}; {by} may dismiss only what is open"
    return "it must be fixed; only a person may dismiss it" if blocks(finding) else ""


def _dismissed_by_person(finding: Finding) -> bool:
    """Return whether a person dismissed a finding, or nobody knows who did."""
    by = finding.suppression.by if finding.suppression else Actor.USER
    return finding.state.dismissed and by == Actor.USER


# --- lines of work ---------------------------------------------------------------------------------------------------


def merge_lines(
    ledger: Ledger, findings: Iterable[Finding], into: Finding, at: str, note: str = ""
) -> list[FindingChanged]:
    """Return the events that make findings, with everything in their lines of work, part of the line of another one."""
    target = ledger.line(into.id)
    events: dict[FindingId, FindingChanged] = {}
    for finding in findings:
        line = ledger.line(finding.id)
        if line.id == target.id:
            raise AwfError(
                f"{finding.id} is part of the line of work of #{target.number} already", help="nothing to merge"
            )
        events |= {member.id: _joined(member, target.id, at, note) for member in line.members}
    return list(events.values())


def split_findings(ledger: Ledger, findings: Iterable[Finding], at: str, note: str = "") -> list[FindingChanged]:
    """Return the events that give findings a line of work of their own.

    If the finding whose number the line has is split from it, the others go on under the number of the oldest of them.
    """
    events: list[FindingChanged] = []
    named = {finding.id: finding for finding in findings}
    for finding in named.values():
        line = ledger.line(finding.id)
        if len(line.members) == 1:
            raise AwfError(
                f"{finding.id} is a line of work of its own", help="awf findings show lists the members of one"
            )
        if line.id != finding.id:
            events.append(_joined(finding, finding.id, at, note))
            continue
        others = [member for member in line.members if member.id not in named]
        oldest = min(others, key=lambda member: member.number, default=finding)
        events += [_joined(member, oldest.id, at, note) for member in others]
    return events


def _joined(finding: Finding, line: FindingId, at: str, note: str) -> FindingChanged:
    return changed(
        finding, at=at, what=What.JOINED, who=Actor.USER, by=Actor.USER, note=note, ref=line, fields={"line": line}
    )


# --- dismissals that ended -------------------------------------------------------------------------------------------


class StaleReason(StrEnum):
    """Why a dismissal no longer serves its purpose."""

    CHANGED = "changed"  # the code it was made for is gone


def expire(ledger: Ledger, at: str) -> list[FindingChanged]:
    """Return the events that open findings again whose dismissal held until a day that has passed.

    Who dismissed them said so.
    """
    ended = (one for one in ledger.findings.values() if one.state.dismissed and one.suppression)
    return [
        changed(
            finding,
            at=at,
            what=What.TRIAGE,
            who=finding.suppression.by,
            by=Actor.ORCHESTRATOR,
            word="expired",
            note=f"its dismissal held until {finding.suppression.expires}",
            state=FindingState.REOPENED,
        )
        for finding in ended
        if finding.suppression and finding.suppression.expires and finding.suppression.expires < at[:10]
    ]


def find_stale_dismissals(
    ledger: Ledger, root: Path, environment: Mapping[str, str]
) -> dict[FindingId, dict[StaleReason, str]]:
    """Return the dismissed findings whose dismissal may be removed, and why. Nothing is changed."""
    dismissed = [finding for finding in ledger.findings.values() if finding.state.dismissed]
    line_hashes = cache(partial(_line_hashes, RepositoryFiles(root)))  # many findings are about the same files
    found: dict[FindingId, dict[StaleReason, str]] = {}
    for finding in follow_findings(dismissed, ledger, root, environment):
        suppression = finding.suppression or Suppression()
        of_code = suppression.digest.startswith(_LINE_DIGEST) and WINDOW in finding.fingerprints  # and not of a text
        code = suppression.digest.removeprefix(_LINE_DIGEST)
        reasons: dict[StaleReason, str] = {}
        if of_code and finding.location and code not in line_hashes(finding.location.path):
            reasons[StaleReason.CHANGED] = "the code it was made for is gone"
        if reasons:
            found[finding.id] = reasons
    return found


def _line_hashes(files: RepositoryFiles, path: str) -> frozenset[str]:
    """Return the hashes of the lines of a file; none if it is gone."""
    source = read_source(files, path)
    return frozenset(map(line_hash, source.places)) if source else frozenset()

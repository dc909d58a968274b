"""Decisions about findings: what people and agents may decide, which findings are one line of work, which come first.

Only a person takes back what a person decided, or dismisses what must be fixed. Editing a file that shows findings
gives the rights of an agent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pipeline.errors import AwfError
from pipeline.findings.events import FindingChanged
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.fingerprints import WINDOW, evidence_digest, line_hash, read_source
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory, line_maps
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, Finding, FindingId, FindingState, Severity, Suppression, What
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
    by: str,
    at: str,
    expires: str = "",
    only: bool = False,
) -> TriageOutcome:
    """Decide about the lines of work of some findings, given by id, prefix, number or alias; `only` for those alone."""
    events: dict[FindingId, FindingChanged] = {}
    refused: dict[str, str] = {}
    error = _request_error(status, note, by, at, expires)
    until = date.fromisoformat(expires).isoformat() if expires and not error else ""
    for name in dict.fromkeys(names):
        finding = ledger.find(name) if name else None
        if error or finding is None:
            refused[name] = error or "there is no such finding"
            continue
        members = (finding,) if only else _concerned(ledger.line(finding.id), finding, status)
        reasons = [next(_refusals(member, status, by), "") for member in members]
        if status in ("open", "fixed") and all(state_after(one.state, status) is one.state for one in members):
            reasons = [f"it is {finding.state} already"]
        if any(reasons):
            refused[name] = next(filter(None, reasons))
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
    finding: Finding, status: str, *, at: str, by: str, note: str, who: str = "", expires: str = ""
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
        by=Actor(by),
        word=status,
        note=note,
        state=state,
        fields={"suppression": suppression.model_dump() if suppression else None},
    )


def state_after(state: FindingState, status: str) -> FindingState:
    """Return the state that a decision leads to; one that only repeats the present state leaves it alone."""
    if status == "open" and state in (FindingState.OPEN, FindingState.REOPENED):
        return state
    if status == "open" and state in (FindingState.VERIFIED_FIXED, FindingState.FIX_CLAIMED):
        return FindingState.REOPENED
    return STATE_OF[status]


def said_in_file(
    finding: Finding, status: str, note: str, *, at: str, who: str, by: str = Actor.ORCHESTRATOR
) -> FindingChanged | str | None:
    """Return what a changed status in a file means: an event, why it is refused, or None if it changes nothing.

    An agent that writes `fixed` claims a fix. One that writes `wont-fix` or `false-positive` dismisses a finding, if it
    may and gives a reason; any other it disputes.
    """
    if status not in STATUSES:
        return f"`status` is not one of {', '.join(STATUSES)}"
    if status == "fixed":
        return _claim_in_file(finding, "fixed", note, at=at, who=who)
    person = finding.state.dismissed and (finding.suppression is None or finding.suppression.by == Actor.USER)
    if status == "open":
        if person:
            return f"a person dismissed it as {finding.state}; only a person may take that back"
        if finding.state.active and not finding.disputed and not finding.claimed:
            return None
        # What nobody could judge stays uncertain, so that no claim that is taken back makes it a mere suggestion.
        state = finding.state if finding.state is FindingState.UNCERTAIN else FindingState.REOPENED
        return changed(finding, at=at, what=What.TRIAGE, who=who, by=Actor(by), word=status, note=note, state=state)
    role = by if by in _ALLOWED and by != Actor.USER else Actor.ORCHESTRATOR
    if finding.state is STATE_OF[status]:
        return None
    if note.strip() and not next(_refusals(finding, status, role), ""):
        return decision(finding, status, at=at, by=role, note=note, who=who)
    return _claim_in_file(finding, "wrong", note or f"{status} in {who}", at=at, who=who)


def _claim_in_file(finding: Finding, word: str, note: str, *, at: str, who: str) -> FindingChanged | str | None:
    if not finding.state.is_open:
        return f"it is {finding.state}"
    if word == "fixed" and (finding.state is FindingState.FIX_CLAIMED or finding.claimed):
        return None
    if word == "wrong" and finding.disputed:
        return None
    state = claimed_state(finding, word)
    return changed(finding, at=at, what=What.CLAIM, who=who, by=Actor.FINISH_TASK, word=word, note=note, state=state)


def _request_error(status: str, note: str, by: str, at: str, expires: str) -> str:
    """Return what is wrong with a decision, whichever finding it is about; empty if nothing is."""
    if status not in STATUSES:
        return f"unknown status {status!a}; choose {', '.join(STATUSES)}"
    if by not in _ALLOWED:
        return f"unknown actor {by!a}; choose {', '.join(_ALLOWED)}"
    if status not in _ALLOWED[Actor(by)]:
        return f"{by} may not decide {status}; only a person can"
    if status in _DISMISSALS and not note.strip():
        return "a dismissal needs a note that says why"
    return _expiry_error(status, expires, at) if expires else ""


def _expiry_error(status: str, expires: str, at: str) -> str:
    if status not in _DISMISSALS:
        return f"only a dismissal can expire, and {status} is not one"
    try:
        until = date.fromisoformat(expires)
    except ValueError:
        return f"{expires!a} is not a date such as 2026-12-31"
    return f"{expires} has passed already" if until.isoformat() < at[:10] else ""


def _refusals(finding: Finding, status: str, by: str) -> Iterator[str]:
    """Yield why somebody may not decide this about a finding."""
    if by == Actor.USER:
        return
    if finding.state.dismissed and (finding.suppression is None or finding.suppression.by == Actor.USER):
        yield f"a person dismissed it as {finding.state}; only a person may take that back"
    if status == "open" and finding.state is FindingState.UNCERTAIN:
        yield "it is uncertain; only a person may say that it is a defect"
    if status not in _DISMISSALS:
        return
    if not finding.state.active and not finding.state.dismissed:
        yield f"it is {finding.state}; {by} may dismiss only what is open"
    if finding.system_breaking and finding.severity is Severity.CRITICAL:
        yield "it endangers the whole system; only a person may dismiss it"
    if blocks(finding):
        yield "it must be fixed; only a person may dismiss it"


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


# --- stale dismissals ------------------------------------------------------------------------------------------------


class StaleReason(StrEnum):
    """Why a dismissal no longer serves its purpose."""

    EXPIRED = "expired"  # its last day has passed
    CHANGED = "changed"  # the code it was made for is gone


def find_stale_dismissals(
    ledger: Ledger, root: Path, environment: Mapping[str, str], at: str
) -> dict[FindingId, dict[StaleReason, str]]:
    """Return the dismissed findings whose dismissal may be removed, and why. Nothing is changed."""
    is_gone = _code_is_gone(ledger, root, environment)
    found: dict[FindingId, dict[StaleReason, str]] = {}
    for finding in ledger.findings.values():
        if not finding.state.dismissed:
            continue
        reasons: dict[StaleReason, str] = {}
        expires = finding.suppression.expires if finding.suppression else ""
        if expires and at[: len(expires)] > expires:
            reasons[StaleReason.EXPIRED] = f"it expired on {expires}"
        if is_gone(finding):
            reasons[StaleReason.CHANGED] = "the code it was made for is gone"
        if reasons:
            found[finding.id] = reasons
    return found


def _code_is_gone(ledger: Ledger, root: Path, environment: Mapping[str, str]) -> Callable[[Finding], bool]:
    """Return the function that tells whether the line that was dismissed is nowhere in its file."""
    files = RepositoryFiles(root)
    maps = cache(lambda: line_maps(ledger, GitHistory(root, environment)))  # asks git, so only if a file is missing

    @cache
    def line_hashes(path: str) -> frozenset[str] | None:
        source = read_source(files, path)
        return None if source is None else frozenset(map(line_hash, source.places))

    def is_gone(finding: Finding) -> bool:
        digest = (finding.suppression and finding.suppression.digest) or evidence_digest(finding)
        if finding.location is None or WINDOW not in finding.fingerprints or not digest.startswith(_LINE_DIGEST):
            return False
        hashes = line_hashes(finding.location.path)
        lines = maps().get(finding.placed_in) if hashes is None else None
        if lines:
            hashes = line_hashes(lines.path(finding.location.path))
        return hashes is None or digest.removeprefix(_LINE_DIGEST) not in hashes

    return is_gone

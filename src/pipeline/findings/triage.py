"""Decisions about findings: what people and agents may decide, which findings are one, and which come first.

Only a person or a fresh look makes a finding fixed, and only a person takes back what a person decided or dismisses
what must be fixed. Editing a file that shows findings gives the rights of an agent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pipeline.errors import AwfError
from pipeline.findings.events import LinkAdded, LinkRemoved, StateChanged
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.fingerprints import WINDOW, evidence_digest, line_hash, read_source
from pipeline.findings.ledger import DUPLICATE_OF, Ledger, joined_to
from pipeline.findings.linemap import GitHistory, line_maps
from pipeline.findings.model import Actor, Finding, FindingId, FindingState, Gate, Link, PassId, Severity, Suppression
from pipeline.findings.scales import RECORD_STATUS

STATUSES = ("open", "false-positive", "wont-fix", "fixed")
"""What can be decided about a finding."""

_DISMISSALS = ("false-positive", "wont-fix")
_ALLOWED = MappingProxyType(
    {
        Actor.USER: frozenset(STATUSES),
        Actor.REVALIDATE: frozenset({"open", "false-positive", "fixed"}),
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
        "uncertain": FindingState.UNCERTAIN,
    }
)
"""The state that the status of a record means by itself."""

_LINE_DIGEST = "line/v1:"  # the digest of a line of code; a dismissal of anything else cannot be looked up in a file
_SIGHTINGS = ("raised", "seen", "absent", "state")  # the last of these says whether a dismissal was still needed


def importance(finding: Finding) -> tuple[bool, int, int, str, int, int]:
    """A sort key that puts first what matters most: gate, severity, confidence, then the place in the code."""
    location = finding.location
    return (
        finding.gate.value is not Gate.MUST,
        finding.severity.rank,
        -finding.confidence.value,
        location.path if location else "",
        (location.start if location else None) or 0,
        finding.number,
    )


@dataclass(frozen=True, slots=True)
class TriageOutcome:
    """What is decided, and for every other name why not."""

    events: tuple[StateChanged, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


def triage(
    ledger: Ledger, ids: Iterable[str], status: str, *, note: str = "", by: str, at: str, expires: str = ""
) -> TriageOutcome:
    """Decide about findings by id, prefix, number or alias, each of them once."""
    events: dict[str, StateChanged] = {}
    refused: dict[str, str] = {}
    error = _request_error(status, note, by, at, expires)
    until = date.fromisoformat(expires).isoformat() if expires and not error else ""
    for name in dict.fromkeys(ids):
        finding = ledger.find(name) if name else None
        if error:
            refused[name] = error
        elif finding is None:
            refused[name] = "there is no such finding"
        elif reason := next(_refusals(finding, status, by, person=by == Actor.USER), ""):
            refused[name] = reason
        else:
            state = state_after(finding.state, status)
            events.setdefault(finding.id, change_state(finding, state, at=at, by=by, note=note, expires=until))
    return TriageOutcome(tuple(events.values()), refused)


def agent_refusal(finding: Finding, status: str, note: str, by: str) -> str:
    """Why an agent may not decide this about a finding; empty if it may."""
    if status not in STATUSES:
        return f"`status` is not one of {', '.join(STATUSES)}"
    error = _rights_error(status, note, by, Actor.ORCHESTRATOR)
    return error or next(_refusals(finding, status, by, person=False), "")


def state_after(state: FindingState, status: str) -> FindingState:
    """The state that a decision leads to; one that only repeats the present state leaves it alone."""
    if RECORD_STATUS[state] == status:
        return state
    if status == "open" and state in (FindingState.VERIFIED_FIXED, FindingState.FIX_CLAIMED):
        return FindingState.REOPENED
    return STATE_OF[status]


def change_state(
    finding: Finding, state: FindingState, *, at: str, by: str, note: str, expires: str = ""
) -> StateChanged:
    """The event of a new state. A dismissal is bound to the code it was made for."""
    suppression = None
    if state.dismissed:
        suppression = Suppression(reason=note, by=by, expires=expires, digest=evidence_digest(finding))
    return StateChanged(at=at, id=finding.id, state=state, by=by, note=note, suppression=suppression)


def _request_error(status: str, note: str, by: str, at: str, expires: str) -> str:
    """What is wrong with a decision, whichever finding it is about."""
    if status not in STATUSES:
        return f"unknown status {status!a}; choose {', '.join(STATUSES)}"
    if by not in set(Actor):
        return f"unknown actor {by!a}; choose {', '.join(Actor)}"
    if error := _rights_error(status, note, by, Actor(by)):
        return error
    if not expires:
        return ""
    if status not in _DISMISSALS:
        return f"only a dismissal can expire, and {status} is not one"
    try:
        until = date.fromisoformat(expires)
    except ValueError:
        return f"{expires!a} is not a date such as 2026-12-31"
    return f"{expires} has passed already" if until.isoformat() < at[:10] else ""


def _rights_error(status: str, note: str, by: str, role: Actor) -> str:
    if status not in _ALLOWED[role]:
        who = "a fresh look or a person" if status == "fixed" else "a person"
        return f"{by} may not decide {status}; only {who} can"
    if status in _DISMISSALS and not note.strip():
        return "a dismissal needs a note that says why"
    return ""


def _refusals(finding: Finding, status: str, by: str, *, person: bool) -> Iterator[str]:
    """Why this may not be decided about this finding."""
    if leader := joined_to(finding):
        yield f"it is merged into {leader}; decide about that one"
    if status in ("open", "fixed") and state_after(finding.state, status) is finding.state:
        yield f"it is {finding.state} already"
    if person:
        return
    if finding.state.dismissed and (finding.suppression is None or finding.suppression.by == Actor.USER):
        yield f"a person dismissed it as {finding.state}; only a person may take that back"
    if status not in _DISMISSALS:
        return
    if not finding.state.active and not finding.state.dismissed:
        yield f"it is {finding.state}; {by} may dismiss only what is open"
    if finding.system_breaking and finding.severity is Severity.CRITICAL:
        yield "it endangers the whole system; only a person may dismiss it"
    if finding.gate.value is Gate.MUST:
        yield "it must be fixed; only a person may dismiss it"


def merge_findings(
    ledger: Ledger, findings: Iterable[Finding], into: Finding, at: str, note: str = ""
) -> list[LinkAdded | LinkRemoved]:
    """The events that make findings, with those merged into them before, part of another one.

    The other one must matter at least as much, and must still need attention if they do: merging dismisses nothing.
    """
    leader = ledger.findings[ledger.leader(into.id)]
    events: list[LinkAdded | LinkRemoved] = []
    for finding in findings:
        if other := joined_to(finding):
            raise AwfError(f"{finding.id} is already merged into {other}", help=f"awf findings split {finding.id}")
        if finding.id == leader.id:
            raise AwfError(f"{finding.id} cannot be merged into itself", help="name two different findings")
        if importance(finding)[:2] < importance(leader)[:2]:
            weight = f"{finding.gate.value}, {finding.severity}"
            swap = f"awf findings merge {leader.id} {finding.id}"
            raise AwfError(f"{finding.id} ({weight}) matters more than {leader.id}", help=f"merge them as: {swap}")
        if finding.state.needs_attention and not leader.state.needs_attention:
            help = "merge only findings that are both open, or decide about this one with: awf findings triage"
            raise AwfError(f"{finding.id} is {finding.state}, but {leader.id} is {leader.state}", help=help)
        moved = ledger.members(finding.id)
        link = Link(kind=DUPLICATE_OF, to=leader.id, note=note)
        events += _unlink(moved, at, note)
        events += [LinkAdded(at=at, id=one.id, link=link) for one in (finding, *moved)]
    return events


def split_findings(ledger: Ledger, findings: Iterable[Finding], at: str, note: str = "") -> list[LinkRemoved]:
    """The events that separate merged findings: one from the finding it is part of, or all that are part of it."""
    apart: dict[FindingId, Finding] = {}
    for finding in findings:
        merged = [finding] if joined_to(finding) else ledger.members(finding.id)
        if not merged:
            raise AwfError(f"{finding.id} is not merged with another finding", help="awf findings show lists members")
        apart |= {one.id: one for one in merged}
    return _unlink(list(apart.values()), at, note)


def _unlink(findings: Sequence[Finding], at: str, note: str) -> list[LinkRemoved]:
    links = ((one, Link(kind=DUPLICATE_OF, to=joined_to(one), note=note)) for one in findings)
    return [LinkRemoved(at=at, id=one.id, link=link) for one, link in links]


class StaleReason(StrEnum):
    """Why a dismissal no longer serves its purpose."""

    EXPIRED = "expired"  # its last day has passed
    CHANGED = "changed"  # the code it was made for is gone
    UNMATCHED = "unmatched"  # the last pass that could have reported the finding did not


def find_stale_dismissals(
    ledger: Ledger, root: Path, environment: Mapping[str, str], at: str
) -> dict[FindingId, dict[StaleReason, str]]:
    """The dismissed findings whose dismissal may be removed, and why, in words as well. Nothing is changed."""
    files = RepositoryFiles(root)
    maps = cache(lambda: line_maps(ledger, GitHistory(root, environment)))  # asks git, so only if a file is missing

    @cache
    def line_hashes(path: str) -> frozenset[str] | None:
        source = read_source(files, path)
        return None if source is None else frozenset(map(line_hash, source.places))

    def code_is_gone(finding: Finding) -> bool:
        digest = (finding.suppression and finding.suppression.digest) or evidence_digest(finding)
        if finding.location is None or WINDOW not in finding.fingerprints or not digest.startswith(_LINE_DIGEST):
            return False
        hashes = line_hashes(finding.location.path)
        if hashes is None and (lines := maps().get(finding.pass_id)):
            hashes = line_hashes(lines.path(finding.location.path))
        return hashes is None or digest.removeprefix(_LINE_DIGEST) not in hashes

    def reasons(finding: Finding) -> Iterator[tuple[StaleReason, str]]:
        expires = finding.suppression.expires if finding.suppression else ""
        if expires and at[: len(expires)] > expires:
            yield StaleReason.EXPIRED, f"it expired on {expires}"
        if code_is_gone(finding):
            yield StaleReason.CHANGED, "the code it was made for is gone"
        last = next((change for change in reversed(finding.history) if change.what in _SIGHTINGS), None)
        by_tool = any(vote.tool for vote in finding.votes)
        # In a run, reviewers are asked not to raise what was dismissed.
        if last and last.what == "absent" and (by_tool or not ledger.passes[PassId(last.pass_id)].run):
            yield StaleReason.UNMATCHED, f"{last.pass_id} covered the file and did not report it"

    found = {finding.id: dict(reasons(finding)) for finding in ledger if finding.state.dismissed}
    return {id: why for id, why in found.items() if why}

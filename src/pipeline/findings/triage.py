"""What people and agents may decide about findings. What is refused is refused for one finding, with the reason.

Only a person or a fresh look makes a finding fixed, and only a person takes back what a person decided, or dismisses
what must be fixed. Whoever edits a file that shows findings has the role of an agent.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType

from pipeline.findings.events import StateChanged
from pipeline.findings.fingerprints import evidence_digest
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.model import Actor, Finding, FindingState, Gate, Severity, Suppression
from pipeline.findings.scales import RECORD_STATUS

STATUSES = ("open", "false-positive", "wont-fix", "fixed")
"""What can be said of a finding."""

STATE_OF: Mapping[str, FindingState] = MappingProxyType(
    {
        "open": FindingState.OPEN,
        "false-positive": FindingState.FALSE_POSITIVE,
        "fixed": FindingState.VERIFIED_FIXED,
        "wont-fix": FindingState.WONT_FIX,
        "uncertain": FindingState.UNCERTAIN,
    }
)
"""The state that a status stands for by itself."""

_DISMISSALS = ("false-positive", "wont-fix")
_ALLOWED = MappingProxyType(
    {
        Actor.USER: frozenset(STATUSES),
        Actor.REVALIDATE: frozenset({"open", "false-positive", "fixed"}),
        Actor.FINISH_TASK: frozenset({"open", *_DISMISSALS}),
        Actor.ORCHESTRATOR: frozenset({"open", *_DISMISSALS}),
    }
)
_AGENT = _ALLOWED[Actor.ORCHESTRATOR]


@dataclass(frozen=True, slots=True)
class TriageOutcome:
    """What may be applied, and for every other name why not."""

    events: tuple[StateChanged, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


def triage(
    ledger: Ledger, ids: Iterable[str], status: str, *, note: str = "", by: str, at: str, expires: str = ""
) -> TriageOutcome:
    """Decide about findings by id, the beginning of one, number or alias; each of them once."""
    events: dict[str, StateChanged] = {}
    refused: dict[str, str] = {}
    fault = _fault(status, note, by, at, expires)
    until = date.fromisoformat(expires).isoformat() if expires and not fault else ""
    for name in dict.fromkeys(ids):
        finding = ledger.find(name) if name else None
        reason = fault or (
            next(_refusals(finding, status, by, person=by == Actor.USER), "") if finding else "there is no such finding"
        )
        if finding is None or reason:
            refused[name] = reason
        else:
            state = state_after(finding.state, status)
            events.setdefault(finding.id, change_state(finding, state, at=at, by=by, note=note, expires=until))
    return TriageOutcome(tuple(events.values()), refused)


def state_after(state: FindingState, status: str) -> FindingState:
    """The state that a status leads to; one that says what is so already leaves a finer state alone."""
    if RECORD_STATUS[state] == status:
        return state
    was_fixed = state in (FindingState.VERIFIED_FIXED, FindingState.FIX_CLAIMED)
    return FindingState.REOPENED if status == "open" and was_fixed else STATE_OF[status]


def change_state(
    finding: Finding, state: FindingState, *, at: str, by: str, note: str, expires: str = ""
) -> StateChanged:
    """The event that gives a finding another state; a dismissal is tied to the text that was dismissed."""
    suppression = None
    if state.dismissed:
        suppression = Suppression(reason=note, by=by, expires=expires, digest=evidence_digest(finding))
    return StateChanged(at=at, id=finding.id, state=state, by=by, note=note, suppression=suppression)


def agent_refusal(finding: Finding, status: str, note: str, by: str) -> str:
    """Why an agent may not say this of a finding; nothing when it may."""
    if status not in STATUSES:
        return f"`status` is not one of {', '.join(STATUSES)}"
    if status not in _AGENT:
        return f"{by} may not say that it is fixed: only a fresh look or a person can"
    if status in _DISMISSALS and not note.strip():
        return "a dismissal needs a note that says why"
    return next(_refusals(finding, status, by, person=False), "")


def _fault(status: str, note: str, by: str, at: str, expires: str) -> str:
    """What is wrong with a decision, whatever it is about."""
    if status not in STATUSES:
        return f"{status!a} is none of {', '.join(STATUSES)}"
    if by not in set(Actor):
        return f"{by!a} is none of {', '.join(Actor)}"
    if status == "fixed" and status not in _ALLOWED[Actor(by)]:
        return f"{by} may not say that it is fixed: only a fresh look or a person can"
    if status not in _ALLOWED[Actor(by)]:
        return f"{by} may not say {status}: that is for a person to decide"
    if status in _DISMISSALS and not note.strip():
        return "a dismissal needs a note that says why"
    return _bad_expiry(status, at, expires)


def _bad_expiry(status: str, at: str, expires: str) -> str:
    if not expires:
        return ""
    if status not in _DISMISSALS:
        return f"only a dismissal can expire, and {status} is none"
    try:
        until = date.fromisoformat(expires)
    except ValueError:
        return f"{expires!a} is no date such as 2026-12-31"
    return f"{expires} is over already" if until.isoformat() < at[:10] else ""


def _refusals(finding: Finding, status: str, by: str, *, person: bool) -> Iterator[str]:
    """Why somebody may not say this of a finding."""
    if whole := joined_to(finding):
        yield f"it was merged into {whole}; decide about that one"
    if status == "open" and state_after(finding.state, status) is finding.state:
        yield f"it is {finding.state} already"
    if status == "fixed" and state_after(finding.state, status) is finding.state:
        yield "it is known to be fixed already"
    if finding.state.dismissed and not person and (finding.suppression is None or finding.suppression.by == Actor.USER):
        yield f"a person dismissed it as {finding.state}; only a person may take that back"
    if status in _DISMISSALS and not person and not finding.state.active and not finding.state.dismissed:
        yield f"it is {finding.state}; {by} may dismiss only what is open"
    if status in _DISMISSALS and not person and finding.system_breaking and finding.severity is Severity.CRITICAL:
        yield "it endangers the whole system; only a person may dismiss it"
    if status in _DISMISSALS and not person and finding.gate.value is Gate.MUST:
        yield "it must be fixed; only a person may dismiss it"

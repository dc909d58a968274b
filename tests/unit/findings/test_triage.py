"""Who may decide what about a finding, and what a decision leaves behind."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import findings

from pipeline.findings.events import FindingRaised, LinkAdded, Pass, PassRecorded, StateChanged
from pipeline.findings.fingerprints import evidence_digest
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Link,
    Location,
    PassId,
    Severity,
    Suppression,
)
from pipeline.findings.triage import STATUSES, TriageOutcome, triage

AT = "2026-03-01T10:00:00Z"


def finding(id: str = "fnd_00000001", **more: Any) -> Finding:
    values: dict[str, Any] = {
        "id": FindingId(id),
        "signature": f"sha256:{id}",
        "title": "Old token stays valid",
        "category": Category.SECURITY,
        "severity": Severity.HIGH,
        "confidence": Confidence(value=75),
        "locations": (Location(path="src/session.py", start=3),),
        "evidence": (Evidence(path="src/session.py", start=3, quote="store.save(token)"),),
        "pass_id": PassId("REV-1-a"),
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**values | more)


def ledger_of(*known: Finding) -> Ledger:
    first = PassRecorded(at=AT, assessment=Pass(id=PassId("REV-1-a"), started_at=AT))
    return Ledger([first, *(FindingRaised(at=AT, finding=one) for one in known)])


def decided(known: Finding, status: str, **more: Any) -> TriageOutcome:
    told: dict[str, Any] = {"note": "as discussed", "by": "user", "at": AT} | more
    return triage(ledger_of(known), [known.id], status, **told)


def state_of(done: TriageOutcome) -> FindingState:
    (event,) = done.events
    assert isinstance(event, StateChanged)
    return event.state


@pytest.mark.parametrize(
    ("before", "status", "after"),
    [
        (FindingState.OPEN, "false-positive", FindingState.FALSE_POSITIVE),
        (FindingState.OPEN, "wont-fix", FindingState.WONT_FIX),
        (FindingState.OPEN, "fixed", FindingState.VERIFIED_FIXED),
        (FindingState.FIX_CLAIMED, "fixed", FindingState.VERIFIED_FIXED),
        (FindingState.FIX_CLAIMED, "open", FindingState.REOPENED),
        (FindingState.VERIFIED_FIXED, "open", FindingState.REOPENED),
        (FindingState.WONT_FIX, "open", FindingState.OPEN),
        (FindingState.UNCERTAIN, "open", FindingState.OPEN),
        (FindingState.FALSE_POSITIVE, "wont-fix", FindingState.WONT_FIX),
    ],
)
def test_a_person_decides_everything(before: FindingState, status: str, after: FindingState) -> None:
    """000-43: what a person says holds, a confirmed fix included; what was gone and is open again came back."""
    assert state_of(decided(finding(state=before), status)) is after


@pytest.mark.parametrize("by", [Actor.FINISH_TASK, Actor.ORCHESTRATOR])
@pytest.mark.parametrize("before", [FindingState.OPEN, FindingState.REOPENED, FindingState.FIX_CLAIMED])
def test_only_a_fresh_look_or_a_person_makes_it_fixed(by: Actor, before: FindingState) -> None:
    """000-43: whoever made the fix cannot also confirm it."""
    done = decided(finding(state=before), "fixed", by=by)
    assert done.events == ()
    assert done.refused == {"fnd_00000001": f"{by} may not say that it is fixed: only a fresh look or a person can"}


def test_a_fresh_look_confirms_a_fix_but_decides_nothing() -> None:
    """000-43: revalidation finds out what is; what is not to be fixed is for a person to say."""
    assert (
        state_of(decided(finding(state=FindingState.FIX_CLAIMED), "fixed", by="revalidate"))
        is FindingState.VERIFIED_FIXED
    )
    assert "for a person to decide" in decided(finding(), "wont-fix", by="revalidate").refused["fnd_00000001"]


@pytest.mark.parametrize("status", ["false-positive", "wont-fix"])
@pytest.mark.parametrize("note", ["", "  \n"])
def test_a_dismissal_needs_a_reason(status: str, note: str) -> None:
    """A dismissal without a note is refused."""
    assert decided(finding(), status, note=note).refused == {"fnd_00000001": "a dismissal needs a note that says why"}


def test_other_decisions_need_none() -> None:
    """To open a finding again, or to confirm a fix, says enough."""
    assert state_of(decided(finding(), "fixed", note="")) is FindingState.VERIFIED_FIXED


def test_a_dismissal_is_bound_to_the_code_it_was_made_for() -> None:
    """000-46: reason, author, expiry and the digest of the evidence stay with it."""
    (event,) = decided(finding(), "wont-fix", expires="2026-12-31").events
    assert isinstance(event, StateChanged)
    assert event.suppression == Suppression(
        reason="as discussed", by="user", expires="2026-12-31", digest=evidence_digest(finding())
    )
    assert event.suppression.digest
    assert (event.at, event.by, event.note) == (AT, "user", "as discussed")  # 000-40


def test_what_is_no_dismissal_leaves_no_suppression() -> None:
    """A confirmed fix hides nothing that comes back."""
    (event,) = decided(finding(), "fixed").events
    assert isinstance(event, StateChanged)
    assert event.suppression is None


@pytest.mark.parametrize(
    ("status", "expires", "reason"),
    [
        ("wont-fix", "soon", "'soon' is no date such as 2026-12-31"),
        ("wont-fix", "2026-02-28", "2026-02-28 is over already"),
        ("fixed", "2026-12-31", "only a dismissal can expire, and fixed is none"),
    ],
)
def test_an_expiry_that_makes_no_sense(status: str, expires: str, reason: str) -> None:
    """Refused with the reason."""
    assert decided(finding(), status, expires=expires).refused == {"fnd_00000001": reason}


def test_a_dismissal_may_hold_until_today() -> None:
    """The day of the expiry is the last one."""
    assert state_of(decided(finding(), "wont-fix", expires="2026-03-01")) is FindingState.WONT_FIX


@pytest.mark.parametrize(("before", "status"), [(FindingState.OPEN, "open"), (FindingState.REOPENED, "open")])
def test_what_is_open_is_not_opened(before: FindingState, status: str) -> None:
    """A decision that changes nothing says so."""
    assert decided(finding(state=before), status).refused == {"fnd_00000001": f"it is {before} already"}


def test_what_is_fixed_is_not_fixed_again() -> None:
    """A decision that changes nothing says so."""
    refused = decided(finding(state=FindingState.VERIFIED_FIXED), "fixed").refused
    assert refused == {"fnd_00000001": "it is known to be fixed already"}


@pytest.mark.parametrize("status", ["open", "wont-fix"])
def test_no_machine_takes_back_what_a_person_decided(status: str) -> None:
    """000-46: a finding that a person dismissed stays so, whatever an agent says."""
    held = finding(state=FindingState.FALSE_POSITIVE, suppression=Suppression(by="user", reason="no"))
    assert "only a person may take that back" in decided(held, status, by="orchestrator").refused["fnd_00000001"]
    agents = finding(state=FindingState.WONT_FIX, suppression=Suppression(by="finish-task", reason="no"))
    assert state_of(decided(agents, "open", by="orchestrator")) is FindingState.OPEN
    assert state_of(decided(agents, "false-positive", by="orchestrator")) is FindingState.FALSE_POSITIVE


@pytest.mark.parametrize("before", [FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED])
def test_an_agent_dismisses_only_what_is_open(before: FindingState) -> None:
    """A claimed fix is not swept under a dismissal."""
    refused = decided(finding(state=before), "wont-fix", by="finish-task").refused
    assert refused == {"fnd_00000001": f"it is {before}; finish-task may dismiss only what is open"}


def test_an_agent_does_not_dismiss_what_endangers_the_system() -> None:
    """001-12: such a finding is for a person."""
    grave = finding(severity=Severity.CRITICAL, system_breaking=True)
    assert "only a person may dismiss it" in decided(grave, "wont-fix", by="orchestrator").refused["fnd_00000001"]
    assert state_of(decided(grave, "wont-fix")) is FindingState.WONT_FIX


def test_a_merged_finding_points_to_its_whole() -> None:
    """What was merged has no state of its own to decide."""
    ledger = ledger_of(finding(), finding("fnd_00000002"))
    ledger.apply(LinkAdded(at=AT, id=FindingId("fnd_00000001"), link=Link(kind="duplicate_of", to="fnd_00000002")))
    refused = triage(ledger, ["fnd_00000001"], "fixed", by="user", at=AT).refused
    assert refused == {"fnd_00000001": "it was merged into fnd_00000002; decide about that one"}


def test_what_may_be_is_applied_and_the_rest_refused() -> None:
    """One wrong name does not stop the others; a finding named twice is decided once."""
    ledger = ledger_of(finding(), finding("fnd_00000002"))
    done = triage(ledger, ["1", "fnd_00000001", "nope", "", "#2"], "fixed", by="user", at=AT)
    assert [event.id for event in done.events] == ["fnd_00000001", "fnd_00000002"]
    assert done.refused == {"nope": "there is no such finding", "": "there is no such finding"}


@pytest.mark.parametrize(("status", "by"), [("closed", "user"), ("fixed", "somebody")])
def test_words_that_are_not_known(status: str, by: str) -> None:
    """000-31, 000-40: both vocabularies are closed."""
    done = decided(finding(), status, by=by)
    assert done.events == ()
    assert "is none of" in done.refused["fnd_00000001"]


@settings(deadline=None)
@given(findings(), st.lists(st.tuples(st.sampled_from(STATUSES), st.sampled_from(Actor)), max_size=5))
def test_history_only_grows(known: Finding, said: list[tuple[str, Actor]]) -> None:
    """000-41: whatever is decided, the old history is the beginning of the new one."""
    ledger = ledger_of(known)
    for status, by in said:
        before = ledger.findings[known.id].history
        for event in triage(ledger, [known.id], status, note="x", by=by, at=AT).events:
            ledger.apply(event)
        assert ledger.findings[known.id].history[: len(before)] == before


@settings(deadline=None)
@given(findings(), st.sampled_from((Actor.FINISH_TASK, Actor.ORCHESTRATOR)), st.sampled_from(STATUSES))
def test_no_agent_ever_makes_a_finding_fixed(known: Finding, by: Actor, status: str) -> None:
    """000-43: from no state and by no word."""
    done = triage(ledger_of(known), [known.id], status, note="x", by=by, at=AT)
    assert all(event.state is not FindingState.VERIFIED_FIXED for event in done.events)

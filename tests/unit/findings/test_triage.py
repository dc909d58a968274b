"""Who may decide what about a finding, what a decision leaves behind, and which findings are one."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import findings

from pipeline.errors import AwfError
from pipeline.findings.events import FindingRaised, LinkAdded, LinkRemoved, Pass, PassRecorded, StateChanged
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
    Gate,
    GateDecision,
    Link,
    Location,
    PassId,
    Severity,
    Suppression,
)
from pipeline.findings.triage import (
    STATUSES,
    TriageOutcome,
    agent_refusal,
    importance,
    merge_findings,
    split_findings,
    triage,
)

AT, LATER = "2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z"
ID = "fnd_00000001"
MUST = GateDecision(value=Gate.MUST)


def finding(id: str = ID, **more: Any) -> Finding:
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


def decide(known: Finding, status: str, **more: Any) -> TriageOutcome:
    request: dict[str, Any] = {"note": "as discussed", "by": "user", "at": AT} | more
    return triage(ledger_of(known), [known.id], status, **request)


def event_of(done: TriageOutcome) -> StateChanged:
    (event,) = done.events
    return event


def is_refused(done: TriageOutcome) -> bool:
    return done.events == () and list(done.refused) == [ID]


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
    """A person may confirm a fix and dismiss anything; what was fixed and is open again is reopened."""
    assert event_of(decide(finding(state=before, gate=MUST, system_breaking=True), status)).state is after


@pytest.mark.parametrize("by", [Actor.FINISH_TASK, Actor.ORCHESTRATOR])
@pytest.mark.parametrize("before", [FindingState.OPEN, FindingState.REOPENED, FindingState.FIX_CLAIMED])
def test_only_revalidation_or_a_person_confirms_a_fix(by: Actor, before: FindingState) -> None:
    """Whoever made the fix cannot also confirm it."""
    assert is_refused(decide(finding(state=before), "fixed", by=by))


def test_revalidation_confirms_a_fix_but_does_not_accept_a_risk() -> None:
    """Revalidation establishes facts; whether to fix something is for a person."""
    claimed = finding(state=FindingState.FIX_CLAIMED)
    assert event_of(decide(claimed, "fixed", by="revalidate")).state is FindingState.VERIFIED_FIXED
    assert is_refused(decide(finding(), "wont-fix", by="revalidate"))


@pytest.mark.parametrize("status", ["false-positive", "wont-fix"])
@pytest.mark.parametrize("note", ["", "  \n"])
def test_a_dismissal_needs_a_note(status: str, note: str) -> None:
    """A dismissal without a reason is refused; other decisions need none."""
    assert is_refused(decide(finding(), status, note=note))
    assert decide(finding(), "fixed", note="").refused == {}


def test_a_dismissal_is_bound_to_the_code_it_was_made_for() -> None:
    """Reason, author, expiry and the digest of the evidence are kept with it; a confirmed fix suppresses nothing."""
    event = event_of(decide(finding(), "wont-fix", expires="2026-12-31"))
    digest = evidence_digest(finding())
    assert digest
    assert event.suppression == Suppression(reason="as discussed", by="user", expires="2026-12-31", digest=digest)
    assert (event.at, event.by, event.note) == (AT, "user", "as discussed")
    assert event_of(decide(finding(), "fixed")).suppression is None


@pytest.mark.parametrize(
    ("status", "expires"), [("wont-fix", "soon"), ("wont-fix", "2026-02-28"), ("fixed", "2026-12-31")]
)
def test_an_impossible_expiry_is_refused(status: str, expires: str) -> None:
    """It must be a date, must not have passed, and belongs to a dismissal. Today is the last day possible."""
    assert is_refused(decide(finding(), status, expires=expires))
    assert decide(finding(), "wont-fix", expires="2026-03-01").refused == {}


@pytest.mark.parametrize(
    ("before", "status"),
    [(FindingState.OPEN, "open"), (FindingState.REOPENED, "open"), (FindingState.VERIFIED_FIXED, "fixed")],
)
def test_a_decision_that_changes_nothing_is_refused(before: FindingState, status: str) -> None:
    """What is open is not opened, and what is fixed is not fixed again."""
    assert is_refused(decide(finding(state=before), status))


@pytest.mark.parametrize("status", ["open", "wont-fix"])
def test_an_agent_does_not_take_back_what_a_person_decided(status: str) -> None:
    """What a person dismissed stays dismissed; what an agent dismissed, an agent may open or dismiss otherwise."""
    held = finding(state=FindingState.FALSE_POSITIVE, suppression=Suppression(by="user", reason="no"))
    assert is_refused(decide(held, status, by="orchestrator"))
    agents = finding(state=FindingState.WONT_FIX, suppression=Suppression(by="finish-task", reason="no"))
    assert event_of(decide(agents, "open", by="orchestrator")).state is FindingState.OPEN
    assert event_of(decide(agents, "false-positive", by="orchestrator")).state is FindingState.FALSE_POSITIVE


@pytest.mark.parametrize(
    "known",
    [
        finding(state=FindingState.FIX_CLAIMED),
        finding(state=FindingState.VERIFIED_FIXED),
        finding(severity=Severity.CRITICAL, system_breaking=True),
        finding(gate=MUST),
    ],
)
def test_what_an_agent_may_not_dismiss(known: Finding) -> None:
    """A claimed or confirmed fix, what must be fixed, and what endangers the system."""
    assert is_refused(decide(known, "wont-fix", by="orchestrator"))
    assert agent_refusal(known, "wont-fix", "why", "file")


def test_a_merged_finding_is_decided_with_its_leader() -> None:
    """A finding that is part of another has no state of its own to decide."""
    ledger = ledger_of(finding(), finding("fnd_00000002"))
    ledger.apply(LinkAdded(at=AT, id=FindingId(ID), link=Link(kind="duplicate_of", to="fnd_00000002")))
    done = triage(ledger, [ID], "fixed", by="user", at=AT)
    assert is_refused(done)
    assert "fnd_00000002" in done.refused[ID]


def test_a_refusal_does_not_stop_the_rest() -> None:
    """One wrong name does not stop the others; a finding named twice is decided once."""
    ledger = ledger_of(finding(), finding("fnd_00000002"))
    done = triage(ledger, ["1", ID, "nope", "", "#2"], "fixed", by="user", at=AT)
    assert [event.id for event in done.events] == [ID, "fnd_00000002"]
    assert list(done.refused) == ["nope", ""]


@pytest.mark.parametrize(("status", "by"), [("closed", "user"), ("fixed", "somebody")])
def test_an_unknown_status_or_actor_is_refused(status: str, by: str) -> None:
    """Statuses and actors are closed vocabularies."""
    assert is_refused(decide(finding(), status, by=by))


@settings(deadline=None)
@given(findings(), st.lists(st.tuples(st.sampled_from(STATUSES), st.sampled_from(Actor)), max_size=5))
def test_history_only_grows(known: Finding, said: list[tuple[str, Actor]]) -> None:
    """Whatever is decided, the old history is the beginning of the new one."""
    ledger = ledger_of(known)
    for status, by in said:
        before = ledger.findings[known.id].history
        for event in triage(ledger, [known.id], status, note="x", by=by, at=AT).events:
            ledger.apply(event)
        assert ledger.findings[known.id].history[: len(before)] == before


@settings(deadline=None)
@given(findings(), st.sampled_from((Actor.FINISH_TASK, Actor.ORCHESTRATOR)), st.sampled_from(STATUSES))
def test_no_agent_ever_confirms_a_fix(known: Finding, by: Actor, status: str) -> None:
    """Not from any state, by any word."""
    done = triage(ledger_of(known), [known.id], status, note="x", by=by, at=AT)
    assert all(event.state is not FindingState.VERIFIED_FIXED for event in done.events)


def test_what_matters_most_comes_first() -> None:
    """Gate, severity, confidence, file, line, number."""
    expected = [
        finding("9", number=9, gate=MUST, severity=Severity.LOW),
        finding("8", number=8, severity=Severity.CRITICAL, confidence=Confidence(value=100)),
        finding("7", number=7, severity=Severity.CRITICAL, confidence=Confidence(value=50)),
        finding("6", number=6, locations=(Location(path="a.py", start=9),)),
        finding("5", number=5, locations=(Location(path="b.py", start=2),)),
        finding("3", number=3, locations=(Location(path="b.py", start=10),)),
        finding("4", number=4, locations=(Location(path="b.py", start=10),)),
    ]
    by_number = sorted(expected, key=lambda one: one.number)
    assert sorted(by_number, key=importance) == expected


@pytest.fixture
def three() -> Ledger:
    """Three findings that matter equally, numbered from 1."""
    return ledger_of(*(finding(f"fnd_0000000{number}", title=f"Title {number}") for number in (1, 2, 3)))


def numbered(ledger: Ledger, number: int) -> Finding:
    return next(one for one in ledger.findings.values() if one.number == number)


def merge(ledger: Ledger, one: int, into: int, note: str = "") -> list[LinkAdded | LinkRemoved]:
    """Merge two findings by number, and apply that."""
    events = merge_findings(ledger, [numbered(ledger, one)], numbered(ledger, into), LATER, note)
    for event in events:
        ledger.apply(event)
    return events


def state(ledger: Ledger) -> dict[str, Any]:
    return {id: one.model_dump(exclude={"history", "updated_at"}) for id, one in ledger.findings.items()}


def test_a_merge_that_is_split_leaves_both_as_they_were(three: Ledger) -> None:
    """Only the history remembers it, with the note."""
    before = state(three)
    assert [event.link.note for event in merge(three, 1, 2, "one fix resolves both")] == ["one fix resolves both"]
    assert [one.number for one in three] == [2, 3]
    for event in split_findings(three, [numbered(three, 1)], LATER):
        three.apply(event)
    assert state(three) == before


def test_what_is_merged_into_a_member_is_merged_into_its_leader(three: Ledger) -> None:
    """Every member is linked to the leader itself, also those that a merged finding had before."""
    merge(three, 1, 2)
    merge(three, 2, 3)
    assert [one.number for one in three] == [3]
    assert {link.to for one in three.findings.values() for link in one.links} == {numbered(three, 3).id}
    other = ledger_of(*(finding(f"fnd_0000000{number}") for number in (1, 2, 3)))
    merge(other, 1, 2)
    merge(other, 3, 1)
    assert {link.to for one in other.findings.values() for link in one.links} == {numbered(other, 2).id}


def test_a_leader_is_split_from_all_its_members(three: Ledger) -> None:
    """Splitting the finding that a list shows separates the whole cluster."""
    merge(three, 1, 3)
    merge(three, 2, 3)
    events = split_findings(three, [numbered(three, 3), numbered(three, 2)], LATER)
    assert sorted(event.id for event in events) == ["fnd_00000001", "fnd_00000002"]
    for event in events:
        three.apply(event)
    assert len(list(three)) == 3


def test_an_impossible_merge_or_split_is_an_error(three: Ledger) -> None:
    """Twice, into itself, into its own member; and a finding alone has nothing to be split from."""
    merge(three, 1, 2)
    for one, into in ((1, 2), (1, 3), (2, 1), (3, 3)):
        with pytest.raises(AwfError):
            merge(three, one, into)
    with pytest.raises(AwfError):
        split_findings(three, [numbered(three, 3)], LATER)


@pytest.mark.parametrize(
    ("one", "into"),
    [
        ({"severity": Severity.CRITICAL}, {}),
        ({"gate": MUST}, {"severity": Severity.CRITICAL}),
        ({}, {"state": FindingState.WONT_FIX}),
        ({"state": FindingState.FIX_CLAIMED}, {"state": FindingState.VERIFIED_FIXED}),
    ],
)
def test_a_merge_hides_nothing_that_counts(one: dict[str, Any], into: dict[str, Any]) -> None:
    """The leader must matter at least as much, and an open finding is not merged into a closed one."""
    ledger = ledger_of(finding(**one), finding("fnd_00000002", **into))
    with pytest.raises(AwfError):
        merge(ledger, 1, 2)

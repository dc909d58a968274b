"""The ledger is a fold over events: history only grows, and a finding keeps its number and id."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import TIMES, findings, ledgers, votes

from pipeline.engine.ports import JournalError
from pipeline.errors import AwfError
from pipeline.findings.events import (
    DecisionMade,
    FieldsEdited,
    FindingRaised,
    FixAttempted,
    LedgerEvent,
    LinkAdded,
    LinkRemoved,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    StateChanged,
    decode_event,
    encode_event,
)
from pipeline.findings.ledger import DUPLICATE_OF, EDITED, Ledger, LedgerStore, joined_to, lock_ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Decision,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Link,
    Observed,
    PassId,
    Severity,
    Strength,
    Suppression,
)
from pipeline.journal.memory import MemoryJournal
from pipeline.journal.sqlite import SqliteJournal

AT = "2026-01-02T03:04:05Z"
FIRST, SECOND = PassId("REV-1-aaaaaaa"), PassId("REV-2-bbbbbbb")


def raised(*found: Finding) -> Ledger:
    return Ledger(FindingRaised(at=AT, finding=finding) for finding in found)


def seen(finding: Finding, **more: Any) -> ReportedAgain:
    told = {"pass_id": SECOND, "observed": Observed.UNCHANGED, "strength": Strength.EXACT, **more}
    return ReportedAgain(at=AT, id=finding.id, **told)


def turned(finding: Finding, state: FindingState, **more: Any) -> StateChanged:
    return StateChanged(at=AT, id=finding.id, state=state, by="user", **more)


@st.composite
def later(draw: st.DrawFn, id: FindingId) -> LedgerEvent:
    """Anything that may happen to a known finding."""
    at = draw(TIMES)
    link = Link(kind=draw(st.sampled_from(("related", DUPLICATE_OF))), to="fnd_other")
    any_vote = st.lists(votes(), max_size=2).map(tuple)
    events: tuple[LedgerEvent, ...] = (
        ReportedAgain(
            at=at, id=id, pass_id=SECOND, observed=Observed.MOVED, strength=Strength.FUZZY, votes=draw(any_vote)
        ),
        ReportedAgain(
            at=at, id=id, pass_id=FIRST, observed=Observed.UPDATED, strength=Strength.EXACT, changes={"title": "new"}
        ),
        NotReported(at=at, id=id, pass_id=SECOND),
        StateChanged(at=at, id=id, state=draw(st.sampled_from(FindingState)), by="user"),
        FixAttempted(at=at, id=id, attempt=FixAttempt(by="fix", outcome="claimed")),
        DecisionMade(at=at, id=id, decision=Decision(at=at, action="defer")),
        LinkAdded(at=at, id=id, link=link),
        LinkRemoved(at=at, id=id, link=link),
        FieldsEdited(at=at, id=id, by="user", changes={"title": "as a person says"}),
    )
    return draw(st.sampled_from(events))


@settings(max_examples=40)
@given(findings(), st.data())
def test_the_history_before_is_a_prefix_of_the_history_after(finding: Finding, data: st.DataObject) -> None:
    """000-41: no event replaces, reorders or deletes a line of the history; votes and attempts only grow too."""
    ledger = raised(finding)
    for event in data.draw(st.lists(later(finding.id), max_size=8)):
        before = ledger.findings[finding.id]
        ledger.apply(event)
        after = ledger.findings[finding.id]
        assert after.history[: len(before.history)] == before.history
        assert after.votes[: len(before.votes)] == before.votes
        assert after.attempts[: len(before.attempts)] == before.attempts
        assert (after.id, after.number, after.signature) == (before.id, before.number, before.signature)
        assert (after.created_at, after.fingerprints) == (before.created_at, before.fingerprints)


@settings(max_examples=25)
@given(findings(), st.data())
def test_events_that_were_written_down_give_the_same_ledger(finding: Finding, data: st.DataObject) -> None:
    """Law: whoever has the same lines has the same ledger, at any cut of them."""
    events: list[LedgerEvent] = [
        FindingRaised(at=AT, finding=finding),
        *data.draw(st.lists(later(finding.id), max_size=6)),
    ]
    whole = Ledger(events)
    read = Ledger(decode_event(encode_event(event)) for event in events)
    cut = data.draw(st.integers(1, len(events)))
    ahead = Ledger(events[:cut]).copy()
    for event in events[cut:]:
        ahead.apply(event)
    assert whole.findings == read.findings == ahead.findings
    assert whole.names == read.names == ahead.names
    assert list(whole.closed_since_last_pass) == list(read.closed_since_last_pass) == list(ahead.closed_since_last_pass)


@settings(max_examples=25)
@given(ledgers())
def test_numbers_follow_the_order_of_raising_and_stay(found: list[Finding]) -> None:
    """4.2: a number is a finding's own for good, whatever is raised after it."""
    ledger = Ledger()
    for count, finding in enumerate(found, 1):
        ledger.apply(FindingRaised(at=AT, finding=finding))
        numbers = [ledger.findings[known.id].number for known in found[:count]]
        assert numbers == list(range(1, count + 1))


@settings(max_examples=25)
@given(findings(), votes())
def test_a_finding_raised_twice_is_one(finding: Finding, vote: Any) -> None:
    """000-23: same signature, same id, updated in place with a line in its history: in either order one finding."""
    other = replace(finding, votes=(vote,), pass_id=SECOND, title="another wording")
    ledger = raised(finding, other)
    (known,) = ledger.findings.values()
    assert (known.number, known.title, known.votes) == (1, finding.title, (*finding.votes, vote))
    assert [change.what for change in known.history[-2:]] == ["raised", "seen"]
    assert known.history[-1].pass_id == SECOND
    swapped = raised(other, finding).findings[finding.id]
    assert (swapped.number, set(swapped.votes)) == (1, {*finding.votes, vote})


@settings(max_examples=25)
@given(findings())
def test_a_finding_reported_again_is_updated_in_place(finding: Finding) -> None:
    """000-23, 000-24: the same id, the pass that saw it last, a line more, and no more absences."""
    ledger = raised(finding)
    ledger.apply(NotReported(at=AT, id=finding.id, pass_id=FIRST))
    assert ledger.findings[finding.id].absent_passes == finding.absent_passes + 1
    ledger.apply(seen(finding, changes={"impact": "worse than told"}))
    (known,) = ledger.findings.values()
    assert (known.pass_id, known.impact, known.absent_passes) == (SECOND, "worse than told", 0)
    assert [change.what for change in known.history[-3:]] == ["raised", "absent", "seen"]


@settings(max_examples=25)
@given(findings())
def test_a_field_that_a_person_edited_wins_over_later_passes(finding: Finding) -> None:
    """4.3: human-edited fields win; the others are still told anew."""
    ledger = raised(finding)
    ledger.apply(FieldsEdited(at=AT, id=finding.id, by="user", changes={"title": "as a person says"}))
    ledger.apply(seen(finding, changes={"title": "as a reviewer says", "impact": "new"}))
    known = ledger.findings[finding.id]
    assert (known.title, known.impact) == ("as a person says", "new")
    assert known.ext[EDITED] == ["title"]


@settings(max_examples=25)
@given(findings())
def test_unknown_keys_that_a_person_wrote_are_kept(finding: Finding) -> None:
    """3.3: unknown keys survive, and are no field that a pass may not tell anew."""
    ledger = raised(finding)
    ledger.apply(FieldsEdited(at=AT, id=finding.id, by="user", changes={"ext": {"verdict": {"x_note": 1}}}))
    known = ledger.findings[finding.id]
    assert known.ext == {**finding.ext, "verdict": {"x_note": 1}}


@settings(max_examples=25)
@given(findings(), findings())
def test_a_merge_is_shown_with_its_target_and_can_be_undone(one: Finding, other: Finding) -> None:
    """4.5: merges stay reversible: a link that is taken back leaves two findings, and both in the history."""
    if one.id == other.id:
        return
    plain = [replace(finding, links=()) for finding in (one, other)]
    ledger = raised(*plain)
    link = Link(kind=DUPLICATE_OF, to=one.id)
    ledger.apply(LinkAdded(at=AT, id=other.id, link=link))
    assert [finding.id for finding in ledger] == [one.id]
    assert joined_to(ledger.findings[other.id]) == one.id
    ledger.apply(LinkRemoved(at=AT, id=other.id, link=replace(link, note="they are two")))
    assert [finding.id for finding in ledger] == [one.id, other.id]
    assert [change.what for change in ledger.findings[other.id].history[-2:]] == ["linked", "unlinked"]


@settings(max_examples=25)
@given(findings())
def test_a_finding_is_found_by_every_name_it_has(finding: Finding) -> None:
    """3.1: its id, the beginning of it, its number, its signature and every alias it was ever given."""
    ledger = raised(replace(finding, aliases=("CVE-1",)))
    names = [finding.id, finding.id[:8], finding.id.removeprefix("fnd_"), "1", "#1", finding.signature, "CVE-1"]
    assert {found.id if (found := ledger.find(name)) else None for name in names if not name.isdecimal()} == {
        finding.id
    }
    assert ledger.find("2") is None
    assert ledger.find("nobody") is None


def test_a_dismissal_holds_its_reason_until_it_is_taken_back() -> None:
    """000-46: the reason of a dismissal stands with it, and goes when the finding is open again."""
    finding = _plain()
    ledger = raised(finding)
    why = Suppression(reason="by design", by="user")
    ledger.apply(turned(finding, FindingState.WONT_FIX, suppression=why))
    assert ledger.findings[finding.id].suppression == why
    ledger.apply(turned(finding, FindingState.REOPENED, suppression=why))
    assert ledger.findings[finding.id].suppression is None


def test_findings_closed_since_the_last_pass_are_known_until_the_next() -> None:
    """001-13: a fresh verdict file has what counts; what is said of it afterwards stays in it until the next pass."""
    finding = _plain()
    ledger = Ledger(
        [PassRecorded(at=AT, assessment=Pass(id=FIRST, started_at=AT)), FindingRaised(at=AT, finding=finding)]
    )
    ledger.apply(turned(finding, FindingState.FIX_CLAIMED))
    assert list(ledger.closed_since_last_pass) == [finding.id]
    ledger.apply(turned(finding, FindingState.REOPENED))
    assert not ledger.closed_since_last_pass
    ledger.apply(turned(finding, FindingState.WONT_FIX, pass_id=FIRST))
    assert not ledger.closed_since_last_pass, "a pass's own changes do not count as later ones"
    ledger.apply(turned(finding, FindingState.OPEN))
    ledger.apply(turned(finding, FindingState.WONT_FIX))
    ledger.apply(PassRecorded(at=AT, assessment=Pass(id=SECOND, started_at=AT)))
    assert not ledger.closed_since_last_pass


@pytest.mark.parametrize(
    ("links", "leader"), [([(0, 1), (1, 0)], 1), ([(0, 1), (1, 2), (2, 1)], 2), ([(0, 1), (1, 2)], 2), ([], 0)]
)
def test_the_leader_is_the_finding_at_the_end_of_the_links(links: list[tuple[int, int]], leader: int) -> None:
    """Links in a circle, as two processes can make them, end too."""
    ids = [FindingId(f"fnd_{number}") for number in range(3)]
    ledger = raised(*(replace(_plain(), id=id, signature=id) for id in ids))
    for one, to in links:
        ledger.apply(LinkAdded(at=AT, id=ids[one], link=Link(kind=DUPLICATE_OF, to=ids[to])))
    assert ledger.leader(ids[0]) == ids[leader]


@pytest.mark.parametrize(
    "event",
    [
        NotReported(at=AT, id=FindingId("fnd_none"), pass_id=FIRST),
        StateChanged(at=AT, id=FindingId("fnd_none"), state=FindingState.OPEN, by="user"),
    ],
)
def test_an_event_about_an_unknown_finding_is_an_error(event: LedgerEvent) -> None:
    """A ledger with a missing event is not read past it; the error names the finding."""
    with pytest.raises(AwfError, match="fnd_none"):
        Ledger([event])


def recorded(name: str) -> PassRecorded:
    return PassRecorded(at=AT, assessment=Pass(id=PassId(name), started_at=AT))


def test_a_ledger_store_reads_what_another_process_wrote() -> None:
    """Two stores on one journal have the same ledger; unchanged, it is not read again."""
    journal = MemoryJournal()
    mine, theirs = LedgerStore(journal), LedgerStore(journal)
    mine.append([recorded("one")])
    assert list(mine.ledger().passes) == ["one"]
    theirs.append([recorded("two"), recorded("three")])
    assert list(mine.ledger().passes) == list(theirs.ledger().passes) == ["one", "two", "three"]
    assert mine.ledger() is mine.ledger()


def test_appending_nothing_creates_no_store(tmp_path: Path) -> None:
    """A command that changes nothing leaves no file behind."""
    store = tmp_path / "store"
    LedgerStore(SqliteJournal(store)).append([])
    assert not store.exists()


@pytest.mark.parametrize("line", ['{"kind":"unheard of","at":"t"}', "no JSON"])
def test_an_unreadable_ledger_line_is_an_error_with_its_number(line: str) -> None:
    """The ledger of a newer version is not read in part: findings would be lost silently."""
    journal = MemoryJournal()
    LedgerStore(journal).append([recorded("one")])
    journal.append_ledger([line])
    with pytest.raises(JournalError, match="line 2 "):
        LedgerStore(journal).ledger()


def test_only_one_command_at_a_time_holds_the_ledger_lock(tmp_path: Path) -> None:
    """Two at once would raise the same defect twice."""
    inside, order = threading.Event(), list[str]()

    def second() -> None:
        inside.wait(10)
        with lock_ledger(tmp_path / "store"):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with lock_ledger(tmp_path / "store"):
        inside.set()
        other.join(0.05)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def _plain() -> Finding:
    return Finding(
        id=FindingId("fnd_0badcafe"),
        signature="sha256:0badcafe",
        title="A title",
        category=Category.BUG,
        severity=Severity.HIGH,
        confidence=Confidence(value=75),
        pass_id=FIRST,
        created_at=AT,
        updated_at=AT,
    )

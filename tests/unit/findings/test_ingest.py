"""A whole pass: every item has one outcome, the order of answers does not matter, and no input raises an error."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.passes import raw, reports_of, run_pass, sharing

from pipeline.findings.events import (
    Disposition,
    FindingRaised,
    LinkAdded,
    LinkRemoved,
    PassRecorded,
    ReportedAgain,
    StateChanged,
)
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Evidence,
    FindingState,
    Location,
    Owner,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
    Suppression,
    UnreadableItem,
)
from pipeline.findings.reviews import review_id
from pipeline.language.model import Lens

HOSTILE = st.one_of(
    st.sampled_from(["", " ", "../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "\x1b[31m`x`\n## Heading", "AC-3"]),
    st.text(max_size=20),
)
PATHS = st.one_of(st.sampled_from(["src/a.py", "src/b.py", "./src/a.py", "src/gone.py"]), HOSTILE)
NUMBERS = st.one_of(st.none(), st.integers(-1, 20), st.integers())
TITLES = st.one_of(st.sampled_from(["One lock", "two locks", "Two locks!", "one lock held"]), HOSTILE)
PLACES = st.builds(Location, path=PATHS, start=NUMBERS, end=NUMBERS, symbol=st.sampled_from(["", "save", "load"]))
QUOTES = st.sampled_from(["", "line 7 of a file", "nowhere"])
EVIDENCE = st.builds(Evidence, path=PATHS, start=NUMBERS, end=NUMBERS, quote=QUOTES, raw=HOSTILE)
SCALES = st.sampled_from(["anchor", "word", "sarif"])
CONFIDENCE = st.builds(Confidence, value=st.sampled_from([0, 25, 50, 75, 83, 100]), scale=SCALES)


@st.composite
def raw_findings(draw: st.DrawFn) -> list[RawFinding]:
    """Items of a few reviewers, numbered as a format numbers them."""
    findings = []
    for n in range(draw(st.integers(0, 12))):
        reviewer = draw(st.sampled_from(["a", "b", "testing", "\ud800"]))
        findings.append(
            RawFinding(
                input_id=f"{reviewer}#{n}",
                reviewer=reviewer,
                title=draw(TITLES),
                severity=draw(st.sampled_from(Severity)),
                confidence=draw(CONFIDENCE),
                category=draw(st.sampled_from([Category.BUG, Category.SECURITY, Category.PRODUCT])),
                impact=draw(TITLES),
                autofix_class=draw(st.sampled_from(AutofixClass)),
                owner=draw(st.sampled_from(Owner)),
                pre_existing=draw(st.booleans()),
                locations=tuple(draw(st.lists(PLACES, max_size=2))),
                evidence=tuple(draw(st.lists(EVIDENCE, max_size=2))),
                suppressed=draw(st.sampled_from([None, None, "noqa"])),
            )
        )
    return findings


@given(raw_findings(), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_every_item_has_exactly_one_outcome(findings: list[RawFinding], unreadable: int) -> None:
    """C-11, 003-20: outcomes add up to the items; a finding has the votes of its items, and all can be written."""
    odd = tuple(UnreadableItem(f"odd#{n}", "no") for n in range(unreadable))
    reports = [*reports_of(findings), ReviewerReport("odd", ReportStatus.RETURNED, (), odd)]
    done = run_pass(reports=reports)
    ids = [*(one.input_id for one in findings), *(one.input_id for one in odd)]
    inputs = Counter(id.encode(errors="replace").decode() for id in ids)
    assert Counter(item.input_id for item in done.passed.entries) == inputs
    outcomes = {item.input_id: item for item in done.passed.entries}
    for finding in done.findings:
        kept = Disposition.REJECTED if finding.unreadable else Disposition.SURVIVING
        assert outcomes[finding.votes[0].input_id].disposition in (kept, Disposition.SUPPRESSED)
        assert all(outcomes[vote.input_id].into == finding.votes[0].input_id for vote in finding.votes[1:])
        assert all(not place.path.startswith(("/", "..")) for place in finding.locations)
    assert len({finding.signature for finding in done.findings}) == len(done.findings)
    assert all(event.model_dump_json() for event in done.events)
    assert {finding.id for finding in done.findings} == {finding.id for finding in Ledger(done.events)}


@given(raw_findings(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_reviewers_and_items_changes_nothing(findings: list[RawFinding], chance: random.Random) -> None:
    """The order of answers makes no difference to findings, outcomes and events."""
    assert run_pass(*chance.sample(findings, len(findings))) == run_pass(*findings)


@given(raw_findings())
@settings(max_examples=50, deadline=None)
def test_the_same_pass_again_raises_nothing(findings: list[RawFinding]) -> None:
    """000-44: what is known is seen again, in the clusters of the first time."""
    ledger = Ledger()
    first = sharing(ledger, *findings)
    standing = {finding.id for finding in ledger}
    again = sharing(ledger, *findings, at="2026-11-17T00:00:00Z", seconds=200)
    assert not [event for event in again.events if isinstance(event, FindingRaised | LinkAdded)]
    assert {finding.id for finding in ledger} == standing
    assert again.passed.finding_ids == first.passed.finding_ids


def test_outcomes_come_in_the_order_of_their_numbers() -> None:
    """The tenth item comes after the second, and one with a strange name somewhere."""
    made = [raw("b", n, n=n, title=f"t{n}") for n in (10, 2)] + [raw("a", input_id="a#" + "9" * 5000)]
    assert [item.input_id[:4] for item in run_pass(*made).passed.entries] == ["a#99", "b#2", "b#10"]


def test_a_pass_is_recorded_before_its_findings_and_names_them() -> None:
    """000-12: its ids are those raised or seen in it; `[]` when clean."""
    result = run_pass(raw())
    first, raised = result.events
    assert isinstance(first, PassRecorded)
    assert isinstance(raised, FindingRaised)
    assert first.assessment.finding_ids == (raised.finding.id,) == result.passed.finding_ids
    assert (raised.finding.pass_id, raised.finding.state) == (result.passed.id, FindingState.OPEN)
    clean = run_pass(reports=[ReviewerReport("qa", ReportStatus.EMPTY)])
    assert (clean.passed.finding_ids, len(clean.events)) == ((), 1)


def test_a_full_review_is_one_pass_over_all_lenses() -> None:
    """000-56: its record has the findings of every lens, and each finding has its lens."""
    done = run_pass(
        raw("security", 3, title="Handle leaks", lens=Lens.CODE_REVIEW),
        raw("tester", 20, title="Race on start", lens=Lens.QA),
        skill="full-review",
    )
    ledger = Ledger(done.events)
    assert done.passed.skill == "full-review"
    assert set(done.passed.finding_ids) == set(ledger.findings)
    assert {finding.lens for finding in ledger} == {Lens.CODE_REVIEW, Lens.QA}


@pytest.mark.parametrize(("head", "id"), [("abcdef0123", "REV-100-abcdef0"), ("", "REV-100-0000000")])
def test_a_pass_is_named_by_time_and_commit(head: str, id: str) -> None:
    """000-01: the seconds and the short commit."""
    assert run_pass(head=head).passed.id == id


def test_two_passes_of_one_second_have_two_names() -> None:
    """000-16, 001-04: the second takes the next free second, and its own verdict id of eight hexadecimal digits."""
    first = run_pass(head="abcdef0")
    second = run_pass(ledger=Ledger(first.events), head="abcdef0")
    assert (first.passed.id, second.passed.id) == ("REV-100-abcdef0", "REV-101-abcdef0")
    assert review_id(first.passed) != review_id(second.passed)
    assert len(f"{int(review_id(first.passed), 16):08x}") == 8


def test_a_known_finding_is_reported_again_and_not_raised_again() -> None:
    """000-23, 000-44: the same signature is the same finding, in the next pass too."""
    ledger = Ledger()
    sharing(ledger, raw(quote="line 10 of a file"))
    again = sharing(ledger, raw(quote="line 10 of a file", line=44), seconds=200)
    assert [type(event) for event in again.events] == [PassRecorded, ReportedAgain]
    assert len(ledger.findings) == 1


def test_a_dismissed_finding_is_suppressed() -> None:
    """000-46: its outcome says so and why; it is a finding of the pass, but none that counts."""
    ledger = Ledger()
    sharing(ledger, raw(quote="line 10 of a file"))
    (finding,) = ledger
    why = Suppression(reason="by design", by="user")
    ledger.apply(StateChanged(at="t", id=finding.id, state=FindingState.WONT_FIX, by="user", suppression=why))
    again = run_pass(raw(quote="line 10 of a file"), ledger=ledger)
    (item,) = again.passed.entries
    assert item.disposition is Disposition.SUPPRESSED
    assert item.reason.endswith("by design")
    assert (again.findings, again.passed.finding_ids) == ((), (finding.id,))


def test_answers_about_known_findings_come_before_the_pass() -> None:
    """4.4: what the same review says by numbers is given the ids that it reports, and recorded first."""
    ledger, given_ids = Ledger(), list[frozenset[str]]()
    sharing(ledger, raw(quote="line 10 of a file"))
    (known,) = ledger

    def respond(now: Ledger, reported: frozenset[str]) -> list[Any]:
        assert known.id in now.findings
        given_ids.append(reported)
        return [StateChanged(at="t", id=known.id, state=FindingState.VERIFIED_FIXED, by="revalidate")]

    reported = run_pass(raw(quote="line 10 of a file"), ledger=ledger, respond=respond)
    assert [type(event) for event in reported.events[:2]] == [StateChanged, PassRecorded]
    assert ledger.extended(reported.events).findings[known.id].state is FindingState.REOPENED
    silent = run_pass(reports=[ReviewerReport("correctness", ReportStatus.EMPTY)], ledger=ledger, respond=respond)
    assert ledger.extended(silent.events).findings[known.id].state is FindingState.VERIFIED_FIXED
    assert given_ids == [{known.id}, frozenset()]
    assert ledger.findings[known.id].state is FindingState.OPEN, "the ledger itself is not changed"


# --- clusters across passes --------------------------------------------------------------------------------------

A = raw("a", 10, title="Lock is never released", quote="line 10 of a file")
B = raw("b", 11, title="Never released lock stays held", quote="line 11 of a file")
C = raw("c", 12, title="The lock is held and never released", quote="line 12 of a file")


def joins(events: Any) -> list[LinkAdded]:
    return [event for event in events if isinstance(event, LinkAdded) and event.link.kind == DUPLICATE_OF]


def test_a_new_report_joins_the_known_finding_of_its_cluster() -> None:
    """0-20: a defect stays one line of work when another reviewer finds it later, and becomes as bad as that says."""
    ledger = Ledger()
    sharing(ledger, replace(A, severity=Severity.MEDIUM))
    (known,) = ledger
    again = sharing(ledger, replace(A, severity=Severity.MEDIUM), replace(B, severity=Severity.CRITICAL), seconds=200)
    (leader,) = ledger
    assert (leader.id, leader.severity, leader.gate.value, leader.agreement) == (known.id, "critical", "must", 2)
    assert [event.link.to for event in joins(again.events)] == [known.id]
    assert [finding.title for finding in ledger.members(known.id)] == [B.title]


def test_what_a_person_split_is_not_joined_again() -> None:
    """Two findings that are known are never joined by a pass; a third report joins one of them."""
    ledger = Ledger()
    (joined,) = joins(sharing(ledger, A, B).events)
    ledger.apply(LinkRemoved(at="t", id=joined.id, link=joined.link))
    again = sharing(ledger, A, B, seconds=300)
    assert (joins(again.events), len(list(ledger)), len(again.findings)) == ([], 2, 2)
    third = sharing(ledger, A, B, C, seconds=400)
    assert (len(joins(third.events)), len(list(ledger)), len(ledger.findings)) == (1, 2, 3)


def test_nothing_joins_a_dismissed_finding() -> None:
    """0-22: to be in one cluster with a dismissed finding inherits no dismissal."""
    ledger = Ledger()
    sharing(ledger, A)
    (known,) = ledger
    ledger.apply(StateChanged(at="t", id=known.id, state=FindingState.FALSE_POSITIVE, by="user"))
    again = sharing(ledger, A, B, seconds=200)
    assert joins(again.events) == []
    assert [finding.title for finding in again.findings] == [B.title]
    assert ledger.findings[known.id].state is FindingState.FALSE_POSITIVE


def test_a_dismissed_cluster_stays_dismissed_for_all_its_members() -> None:
    """000-46: whichever members are reported again, the cluster is not shown; a worse rating brings all of it back."""
    ledger = Ledger()
    sharing(ledger, A, B)
    (leader,) = ledger
    ledger.apply(StateChanged(at="t", id=leader.id, state=FindingState.FALSE_POSITIVE, by="user"))
    for seconds, reported in ((200, (A, B)), (300, (A,)), (400, (B,))):
        done = sharing(ledger, *reported, seconds=seconds)
        assert done.findings == (), reported
        assert {item.disposition for item in done.passed.entries} == {Disposition.SUPPRESSED}
    for reported in ((A, replace(B, severity=Severity.CRITICAL)), (replace(A, severity=Severity.CRITICAL),)):
        back = run_pass(*reported, ledger=ledger, seconds=500)
        assert [finding.id for finding in back.findings] == [leader.id]
        assert ledger.extended(back.events).findings[leader.id].state is FindingState.REOPENED


def test_a_reported_member_reopens_its_cluster() -> None:
    """A fixed cluster of which one member is reported again is open again, and as bad as that says."""
    ledger = Ledger()
    sharing(ledger, A, B)
    (leader,) = ledger
    (member,) = ledger.members(leader.id)
    said = next(one for one in (A, B) if one.title == member.title)
    ledger.apply(StateChanged(at="t", id=leader.id, state=FindingState.VERIFIED_FIXED, by="user"))
    done = sharing(ledger, replace(said, severity=Severity.CRITICAL), seconds=200)
    (now,) = ledger
    assert (now.id, now.state, now.severity, now.title) == (leader.id, "reopened", "critical", leader.title)
    assert [finding.id for finding in done.findings] == [leader.id]


def test_a_reviewer_answers_in_part_until_its_unreadable_items_are_dismissed() -> None:
    """Only the items that nobody dismissed are counted; with none left, the answer is whole."""
    ledger = Ledger()
    items = tuple(UnreadableItem(f"qa#{n}", "no severity", f"Item {n}", f"text {n}") for n in (1, 2))
    reports = [ReviewerReport("qa", ReportStatus.RETURNED, unreadable=items)]
    sharing(ledger, reports=reports)
    seen = []
    for finding in tuple(ledger):
        ledger.apply(StateChanged(at="t", id=finding.id, state=FindingState.FALSE_POSITIVE, by="user"))
        seen.append(sharing(ledger, reports=reports).passed.coverage)
    assert [one.reviewers["qa"] for one in seen] == [ReportStatus.PARTIAL, ReportStatus.RETURNED]
    assert [one.problems.get("qa", "")[:6] for one in seen] == ["1 of 2", ""]

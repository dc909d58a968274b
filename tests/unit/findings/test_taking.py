"""One pass, from what was returned to its events: every raw item has a fate, and a pass has a name of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.intake.conftest import make_claim, returns_of

from pipeline.findings.events import Disposition, FindingRaised, LinkAdded, PassRecorded, ReportedAgain, StateChanged
from pipeline.findings.ingest import RELATED, IngestResult, PassInfo, ingest, review_id
from pipeline.findings.ledger import Ledger
from pipeline.findings.merge import Policy
from pipeline.findings.model import FindingState, RawFinding, ReportStatus, ReviewerReport, Suppression, UnreadableItem

NOWHERE = Path("/nonexistent")


def about(**more: Any) -> PassInfo:
    return PassInfo(root=NOWHERE, environment={}, at="2026-11-16T00:00:00Z", seconds=100, **more)


def taken(returns: Sequence[ReviewerReport], ledger: Ledger | None = None, **more: Any) -> IngestResult:
    return ingest(returns, ledger or Ledger(), about(**more), Policy())


CLAIMS = st.lists(
    st.builds(
        make_claim,
        reviewer=st.sampled_from(("security", "correctness", "qa")),
        line=st.integers(1, 30),
        n=st.integers(1, 99),
        title=st.sampled_from(("Lock is never released", "Handle leaks", "Race on start")),
        confidence=st.sampled_from((0, 25, 50, 75, 100)),
    ),
    max_size=8,
    unique_by=lambda claim: claim.input_id,
)


@settings(max_examples=40, deadline=None)
@given(CLAIMS, st.integers(0, 3))
def test_every_raw_item_has_one_fate(claims: list[RawFinding], refused: int) -> None:
    """4.2: the dispositions add up to the raw items."""
    returns = returns_of(claims)
    returns.append(
        ReviewerReport(
            "odd", ReportStatus.RETURNED, unreadable=tuple(UnreadableItem(f"odd#{n}", "no") for n in range(refused))
        )
    )
    entries = taken(returns).passed.entries
    assert sorted(entry.input_id for entry in entries) == sorted(
        [claim.input_id for claim in claims] + [f"odd#{n}" for n in range(refused)]
    )


@settings(max_examples=25, deadline=None)
@given(CLAIMS, st.randoms(use_true_random=False))
def test_the_order_of_reviewers_changes_nothing(claims: list[RawFinding], chance: Any) -> None:
    """Section 7: permuting who answers first gives the same events."""
    returns = returns_of(claims)
    mixed = chance.sample(returns, len(returns))
    assert taken(returns).events == taken(mixed).events


def test_a_pass_is_told_before_its_findings_and_names_them() -> None:
    """000-12: its ids are those raised or seen in it; the event of the pass comes first."""
    result = taken(returns_of([make_claim()]))
    first, raised = result.events
    assert isinstance(first, PassRecorded)
    assert isinstance(raised, FindingRaised)
    assert first.assessment.finding_ids == (raised.finding.id,) == result.passed.finding_ids
    assert raised.finding.pass_id == result.passed.id


def test_a_clean_pass_has_no_findings() -> None:
    """000-12: `[]` when clean."""
    result = taken([ReviewerReport("qa", ReportStatus.EMPTY)])
    assert (result.passed.finding_ids, len(result.events)) == ((), 1)


@pytest.mark.parametrize(("head", "id"), [("abcdef0123", "REV-100-abcdef0"), ("", "REV-100-0000000")])
def test_a_pass_is_named_by_time_and_commit(head: str, id: str) -> None:
    """000-01: the seconds and the short commit."""
    assert taken([], head=head).passed.id == id


def test_two_passes_of_one_second_have_two_names() -> None:
    """000-16: the second takes the next free second, and its own verdict id."""
    first = taken([], head="abcdef0")
    second = taken([], Ledger(first.events), head="abcdef0")
    assert (first.passed.id, second.passed.id) == ("REV-100-abcdef0", "REV-101-abcdef0")
    assert review_id(first.passed) != review_id(second.passed)


def test_a_verdict_files_id_of_a_pass_is_eight_hexadecimal_digits() -> None:
    """001-04."""
    id = review_id(taken([]).passed)
    assert (len(id), int(id, 16) >= 0) == (8, True)


def test_a_known_finding_is_seen_and_not_raised_again() -> None:
    """000-23, 000-44: the same signature is the same finding, in the next pass too."""
    ledger = Ledger(taken(returns_of([make_claim(quote="lock.acquire(timeout)")])).events)
    again = taken(returns_of([make_claim(quote="lock.acquire(timeout)", line=44)]), ledger)
    assert [type(event) for event in again.events] == [PassRecorded, ReportedAgain]
    for event in again.events:
        ledger.apply(event)
    assert len(ledger.findings) == 1


def test_a_dismissed_finding_is_told_as_suppressed() -> None:
    """000-46: its entry says so and why; the drafts of the pass know it."""
    claim = make_claim(quote="lock.acquire(timeout)")
    ledger = Ledger(taken(returns_of([claim])).events)
    (finding,) = ledger
    why = Suppression(reason="by design", by="user")
    ledger.apply(StateChanged(at="t", id=finding.id, state=FindingState.WONT_FIX, by="user", suppression=why))
    again = taken(returns_of([claim]), ledger)
    (entry,) = again.passed.entries
    assert entry.disposition is Disposition.SUPPRESSED
    assert entry.reason.endswith("by design")
    assert list(again.upshot.suppressed) == [0]


def test_what_may_be_one_defect_is_linked_once() -> None:
    """4.2: two that nobody was asked about stand together; a second pass does not say so again."""
    pair = [make_claim("security", title="Lock leaks"), make_claim("correctness", title="Deadlock on error", line=11)]
    first = taken(returns_of(pair))
    links = [event for event in first.events if isinstance(event, LinkAdded)]
    assert [event.link.kind for event in links] == [RELATED] * len(links)
    assert links
    ledger = Ledger(first.events)
    assert not [event for event in taken(returns_of(pair), ledger).events if isinstance(event, LinkAdded)]

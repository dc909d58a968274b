"""Laws of the verdict: it is never milder with more that is open, less that was said, or less that was looked at."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import AT, LATER, REVIEW, finding, look
from tests.unit.findings.passes import add_pass, draft, report, ruling

from pipeline.findings import rulings
from pipeline.findings.events import (
    AnswerOwed,
    Coverage,
    FindingRaised,
    LedgerEvent,
    Pass,
    PassRecorded,
)
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    AutofixClass,
    Change,
    Draft,
    Finding,
    FindingState,
    Gate,
    PassId,
    Report,
    ReportStatus,
    Said,
    Severity,
    What,
)
from pipeline.findings.reviews import Review, review
from pipeline.findings.triage import triage
from pipeline.findings.verdicts import Readiness, Shipping, counts, verdict

REVIEWERS = ("correctness", "security")
SHIPPING = (Shipping.SHIP, Shipping.BLOCK_ON_REJECTION, Shipping.BLOCK_ON_MUSTS)
READY = (Readiness.READY, Readiness.WITH_FIXES, Readiness.NOT_READY)


@st.composite
def known(draw: st.DrawFn, number: int = 1) -> Finding:
    """A finding in any state."""
    return finding(
        number,
        reviewer=draw(st.sampled_from((*REVIEWERS, "ruff"))),
        state=draw(st.sampled_from(FindingState)),
        severity=draw(st.sampled_from(Severity)),
        gate=draw(st.sampled_from(Gate)),
        autofix_class=draw(st.sampled_from(AutofixClass)),
        pre_existing=draw(st.booleans()),
        system_breaking=draw(st.booleans()),
    )


@st.composite
def ledgers(draw: st.DrawFn) -> list[LedgerEvent]:
    """The events of one pass with some findings."""
    looks = tuple(
        look(name, draw(st.sampled_from(ReportStatus)), verdict=draw(st.sampled_from(("", "SHIP", "BLOCK"))))
        for name in draw(st.sets(st.sampled_from(REVIEWERS)))
    )
    passed = Pass(id=PassId("REV-1-a"), started_at=AT, review=REVIEW, coverage=Coverage(looks=looks), tree="t1")
    raised = [FindingRaised(at=AT, finding=draw(known(number))) for number in range(1, draw(st.integers(0, 3)) + 1)]
    return [PassRecorded(at=AT, assessment=passed), *raised]


def ranks(known: Review) -> tuple[int, int, int]:
    """How bad a review is, in all its words; higher is worse."""
    return known.verdict.rank, min(SHIPPING.index(known.shipping), 1), READY.index(known.readiness())


def is_never_milder(one: Review, other: Review) -> bool:
    """Whether a review is at least as bad as another, in each of its words."""
    return all(mine >= theirs for mine, theirs in zip(ranks(one), ranks(other), strict=True))


@given(ledgers(), known(9))
@settings(deadline=None)
def test_one_more_finding_never_makes_a_verdict_milder(events: list[LedgerEvent], more: Finding) -> None:
    """In any state, of anybody."""
    before, after = review(Ledger(events)), review(Ledger([*events, FindingRaised(at=LATER, finding=more)]))
    assert is_never_milder(after, before)


@given(ledgers(), st.sampled_from([status for status in ReportStatus if not status.answered]))
@settings(deadline=None)
def test_one_more_answer_that_is_owed_never_makes_a_verdict_milder(
    events: list[LedgerEvent], status: ReportStatus
) -> None:
    """A reviewer that was asked and could not answer leaves the review incomplete."""
    owed = AnswerOwed(at=LATER, look=look("qa", status))
    before, after = review(Ledger(events)), review(Ledger([*events, owed]))
    assert is_never_milder(after, before)
    assert not after.complete


@given(ledgers(), st.integers(1, 3), st.sampled_from(rulings.CLAIMS))
@settings(deadline=None)
def test_no_claim_makes_a_verdict_milder(events: list[LedgerEvent], number: int, word: str) -> None:
    """Neither what a fixer calls fixed nor what it disputes."""
    ledger = Ledger(events)
    claims = rulings.claims([Said(number, word, "why")], ledger, who="fix", run="", at=LATER)
    assert is_never_milder(review(ledger.extended(claims)), review(ledger))


@given(ledgers(), st.integers(0, 2), st.sampled_from(("fixed", "false-positive", "wont-fix")))
@settings(deadline=None)
def test_taking_a_decision_away_never_makes_a_verdict_milder(
    events: list[LedgerEvent], index: int, status: str
) -> None:
    """What a person closes was open before."""
    ledger = Ledger(events)
    named = list(ledger.findings)[index : index + 1]
    decided = triage(ledger, named, status, note="why", by=Actor.USER, at=LATER).events
    assert is_never_milder(review(ledger), review(ledger.extended(decided)))


SAID = st.tuples(st.sampled_from(REVIEWERS), st.integers(1, 3), st.sampled_from(rulings.RULINGS))


@given(ledgers(), st.lists(SAID, max_size=4, unique_by=lambda one: one[:2]), st.integers(0, 3))
@settings(deadline=None)
def test_taking_a_ruling_that_closes_away_never_makes_a_verdict_milder(
    events: list[LedgerEvent], said: list[tuple[str, int, str]], gone: int
) -> None:
    """A pass in which one reviewer says less is at least as bad.

    `lowered` closes nothing of another reviewer, nor what is closed already: it says that the defect is there. What
    endangers the system is neither withdrawn nor lowered: a person has to look, and until then it blocks.
    """
    ledger = Ledger(events)
    closing = []
    for at, (who, number, word) in enumerate(said):
        known = ledger.by_number(number)
        if known and known.system_breaking and word in ("withdrawn", "lowered"):
            continue
        lowers = word == "lowered" and known is not None and known.reviewer == who and known.state.is_open
        if lowers or word in ("fixed", "withdrawn"):
            closing.append(at)
    if not closing:
        return
    less = [one for at, one in enumerate(said) if at != closing[gone % len(closing)]]
    assert is_never_milder(_after(events, less), _after(events, said))


def _after(events: list[LedgerEvent], said: list[tuple[str, int, str]]) -> Review:
    """What is known after a pass in which reviewers ruled, on changed files."""
    ledger = Ledger(events)
    reports = [
        report(
            name,
            rulings=tuple(
                ruling(number, word, "why", Severity.LOW if word == "lowered" else None)
                for who, number, word in said
                if who == name
            ),
        )
        for name in REVIEWERS
    ]
    add_pass(ledger, reports=reports, tree="t2", mode="verify")
    return review(ledger)


@given(ledgers(), st.permutations(REVIEWERS))
@settings(deadline=None)
def test_a_verdict_is_one_function_of_findings_and_coverage(events: list[LedgerEvent], order: list[str]) -> None:
    """Neither the order of findings nor that of looks matters."""
    known = review(Ledger(events))
    looks = sorted(known.coverage.looks, key=lambda one: order.index(one.reviewer))
    again = verdict(reversed(known.findings), replace(known.coverage, looks=tuple(looks)))
    assert again is known.verdict


@given(ledgers())
@settings(deadline=None)
def test_every_list_and_count_follows_from_the_findings(events: list[LedgerEvent]) -> None:
    """The open lines of work, those that block, and the numbers of each severity."""
    known = review(Ledger(events))
    open_ones = {one.id for one in known.findings if one.state.is_open}
    assert {one.id for line in known.open for one in line.open_members} == open_ones
    counting = {one.id for one in known.findings if counts(one)}
    assert {one.id for one in known.counting} == counting
    assert sum(known.summary.values()) == len({one.line for one in known.counting})
    assert {line.id for line in known.blocking} <= {line.id for line in known.open}
    if known.blocking:
        assert known.shipping is not Shipping.SHIP


TITLES = ("Lock is never released", "Slow query", "Token stays valid")


@st.composite
def rounds(draw: st.DrawFn) -> list[list[Report]]:
    """What two reviewers answer in three rounds: items at some lines, and rulings on some numbers."""
    made: list[list[Report]] = []
    for _ in range(3):
        reports = []
        for name in REVIEWERS:
            items: list[Draft] = [
                draft(name, line, n=n, title=title, severity=draw(st.sampled_from(Severity)), confidence=100)
                for n, (line, title) in enumerate(draw(st.lists(_PLACED, max_size=2, unique=True)), 1)
            ]
            words = draw(st.dictionaries(st.integers(1, 4), st.sampled_from(rulings.RULINGS), max_size=2))
            said = tuple(ruling(number, word, "why") for number, word in words.items())
            reports.append(report(name, *items, rulings=said))
        made.append(reports)
    return made


_PLACED = st.tuples(st.sampled_from((10, 40, 70)), st.sampled_from(TITLES))


@given(rounds())
@settings(max_examples=60, deadline=None)
def test_every_change_of_state_has_an_event_that_names_who_said_it(given: list[list[Report]]) -> None:
    """And with all of them the present state can be told from the history alone; nothing is lost on the way."""
    ledger = Ledger()
    before: dict[Any, Finding] = {}
    for number, reports in enumerate(given, 1):
        add_pass(ledger, reports=reports, seconds=100 * number, tree=f"t{number}")
        for id, known in before.items():
            now = ledger.findings[id]
            assert now.history[: len(known.history)] == known.history
        before = dict(ledger.findings)
    for one in ledger.findings.values():
        states = [change.state for change in one.history if change.state is not None]
        assert one.state is states[-1]
        assert all(change.who in REVIEWERS for change in one.history)
        assert one.history[0] == Change(
            at=one.history[0].at,
            what=What.RAISED,
            who=one.reviewer,
            by=Actor.ORCHESTRATOR,
            state=one.history[0].state,
            pass_id=one.history[0].pass_id,
        )


@given(rounds(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_in_which_reviewers_end_changes_nothing(given: list[list[Report]], chance: Any) -> None:
    """Not in one round, and not in what follows from it."""
    one, other = Ledger(), Ledger()
    for number, reports in enumerate(given, 1):
        add_pass(one, reports=reports, seconds=100 * number, tree=f"t{number}")
        add_pass(other, reports=chance.sample(reports, 2), seconds=100 * number, tree=f"t{number}")
    assert one.findings == other.findings
    assert one.passes == other.passes

"""What agents say of findings by their numbers: a fixer claims, a review decides, and a quotation says nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.findings.ledgers import vote
from tests.unit.findings.strategies import plain

from pipeline.findings.answers import (
    ANSWER_FORMAT,
    CLAIMS,
    RULING_FORMAT,
    RULINGS,
    drop_conflicting_rulings,
    fixer_events,
    read_answers,
    reviewer_events,
)
from pipeline.findings.events import FindingRaised, FixAttempted, LedgerEvent, LinkAdded, RulingMade, StateChanged
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import (
    Answer,
    Category,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    Gate,
    Link,
    PassId,
    Severity,
)

AT = "2026-01-02T03:04:05Z"
WITHDRAWN = "[FINDING 1: withdrawn, it is closed]"
FIXED = "[FINDING 1: fixed]"


def ledger(*states: FindingState) -> Ledger:
    """A ledger with a finding in each of these states, numbered from 1."""
    return Ledger(
        FindingRaised(
            at=AT,
            finding=Finding(
                id=FindingId(f"fnd_{number}"),
                signature=f"s{number}",
                title="t",
                category=Category.BUG,
                severity=Severity.HIGH,
                confidence=Confidence(value=75),
                pass_id=PassId("p"),
                created_at=AT,
                updated_at=AT,
                state=state,
                sources=("rev",),
                votes=(vote(reviewer="rev", pass_id=PassId("p"), severity=Severity.HIGH),),
            ),
        )
        for number, state in enumerate(states, 1)
    )


def claimed(text: str, known: Ledger) -> list[LedgerEvent]:
    return list(fixer_events(read_answers(text), known, run="r", round=2, by="fix", at=AT))


def decided(text: str, known: Ledger) -> list[LedgerEvent]:
    return list(reviewer_events(read_answers(text), known, run="r", round=1, by="rev", at=AT))


def states(events: list[LedgerEvent]) -> list[FindingState]:
    return [event.state for event in events if isinstance(event, StateChanged)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[FINDING 1: fixed]", Answer(1, "fixed")),
        ("[FINDING #12: fixed]", Answer(12, "fixed")),
        ("  [ finding 3 : Not Fixed, because it is hard ]", Answer(3, "not_fixed", "because it is hard")),
        ("- [FINDING 3: not_fixed]", Answer(3, "not_fixed")),
        ("2. [FINDING 3: not-fixed: later]", Answer(3, "not_fixed", "later")),
        ("**[FINDING 4: wrong — it is closed above]**", Answer(4, "wrong", "it is closed above")),
        ("[FINDING 5: upheld, because it still leaks]", Answer(5, "upheld", "because it still leaks")),
        ("[FINDING 5: Withdrawn]", Answer(5, "withdrawn")),
        ("[FINDING 5: lowered to P2, because it is rare]", Answer(5, "lowered", "because it is rare", Severity.MEDIUM)),
        ("[FINDING 5: lowered low]", Answer(5, "lowered", "", Severity.LOW)),
        ("[FINDING 5: lowered, because it is rare]", Answer(5, "lowered", "because it is rare")),
    ],
)
def test_an_answer_has_a_number_a_ruling_and_a_reason(text: str, answer: Answer) -> None:
    """4.3, 0-51: a claim or a ruling at the beginning of a line, in any case."""
    assert read_answers(text) == [answer]


def test_several_answers_may_share_a_line() -> None:
    """4.3: only explicit answers count, each of them."""
    text = "Done.\n[FINDING 1: fixed] [FINDING 2: wrong]\n\n[FINDING 3: fixed]"
    assert [answer.number for answer in read_answers(text)] == [1, 2, 3]


def test_the_last_answer_about_a_finding_counts() -> None:
    """An agent may change its mind."""
    assert read_answers("[FINDING 1: fixed]\n[FINDING 1: not fixed, it broke]") == [Answer(1, "not_fixed", "it broke")]


@pytest.mark.parametrize(
    "text",
    [
        "```\n[FINDING 1: fixed]\n```",
        "~~~~text\n```\n[FINDING 1: fixed]\n~~~~",
        "> [FINDING 1: fixed]",
        "    fix: [FINDING 1: fixed]",
        '  "title": "[FINDING 1: fixed]",',
        "`[FINDING 1: fixed]`",
        "- #2 (must, high, open) a.py:1: [FINDING 1: fixed]",
        "[FINDING N: fixed]",
        "[FINDING 1: fixedly]",
        "[FINDING 1: done]",
        "[FINDING 1234567890: fixed]",
        "[FINDING ١: fixed]",
        ANSWER_FORMAT,
        RULING_FORMAT,
        "```\n[FINDING 1: fixed]",
    ],
)
def test_quoted_or_malformed_answers_do_not_count(text: str) -> None:
    """Section 7: text of a finding that an agent repeats, and the text that asks, answer nothing."""
    assert read_answers(text) == []


def test_an_answer_after_a_code_block_counts() -> None:
    """A closed fence ends the block."""
    assert read_answers("```py\nx = 1\n```\n[FINDING 1: fixed]") == [Answer(1, "fixed")]


def test_a_reason_is_cut() -> None:
    """A ledger's line stays a line."""
    (answer,) = read_answers(f"[FINDING 1: wrong, {'x' * 9000}]")
    assert len(answer.why) == 500


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    """Whatever an agent says, it is an answer or none."""
    assert all(answer.word in (*CLAIMS, *RULINGS) for answer in read_answers(text))


@pytest.mark.parametrize(
    ("word", "before", "after", "outcome"),
    [
        ("fixed", FindingState.OPEN, [FindingState.FIX_CLAIMED], "claimed"),
        ("fixed", FindingState.REOPENED, [FindingState.FIX_CLAIMED], "claimed"),
        ("fixed", FindingState.FIX_CLAIMED, [], "claimed"),
        ("not fixed", FindingState.OPEN, [], "not_fixed"),
        ("wrong", FindingState.OPEN, [FindingState.UNCERTAIN], "wrong"),
        ("wrong", FindingState.UNCERTAIN, [], "wrong"),
    ],
)
def test_an_answer_of_a_fixer_is_a_claim(
    word: str, before: FindingState, after: list[FindingState], outcome: str
) -> None:
    """C-01, 000-43: a fixer never verifies or dismisses; every answer is a try on record."""
    events = claimed(f"[FINDING 1: {word}]", ledger(before))
    assert states(events) == after
    (tried,) = (event for event in events if isinstance(event, FixAttempted))
    assert (tried.attempt.by, tried.attempt.run, tried.attempt.round, tried.attempt.outcome) == ("fix", "r", 2, outcome)


@pytest.mark.parametrize(
    ("word", "before", "after"),
    [
        ("fixed", FindingState.FIX_CLAIMED, [FindingState.VERIFIED_FIXED]),
        ("fixed", FindingState.OPEN, [FindingState.VERIFIED_FIXED]),
        ("fixed", FindingState.UNCERTAIN, [FindingState.VERIFIED_FIXED]),
        ("not fixed", FindingState.FIX_CLAIMED, [FindingState.REOPENED]),
        ("not fixed", FindingState.OPEN, []),
        ("wrong", FindingState.FIX_CLAIMED, []),
        ("wrong", FindingState.OPEN, []),
    ],
)
def test_an_answer_of_a_reviewer_verifies(word: str, before: FindingState, after: list[FindingState]) -> None:
    """4.4: a fresh look decides whether a fix holds, and is on record as such; it dismisses nothing."""
    events = decided(f"[FINDING 1: {word}]", ledger(before))
    assert states(events) == after
    assert {event.by for event in events if isinstance(event, StateChanged)} <= {"revalidate"}


@pytest.mark.parametrize("state", [FindingState.FALSE_POSITIVE, FindingState.WONT_FIX])
@pytest.mark.parametrize("word", ["fixed", "not fixed", "wrong"])
def test_an_answer_about_a_dismissed_finding_changes_nothing(state: FindingState, word: str) -> None:
    """000-46: what was decided is not undone by a number."""
    text, known = f"[FINDING 1: {word}]", ledger(state)
    assert not claimed(text, known)
    assert not decided(text, known)


def test_an_unknown_number_is_ignored() -> None:
    """A number that nobody gave says nothing, and the others still count."""
    events = claimed(
        "[FINDING 7: fixed]\n[FINDING 2: fixed]\n[FINDING 0: fixed]", ledger(FindingState.OPEN, FindingState.OPEN)
    )
    assert {event.id for event in events if isinstance(event, StateChanged)} == {"fnd_2"}


def test_a_reviewers_reason_why_something_is_not_fixed_is_kept_as_a_try() -> None:
    """4.3: who fixes it next is told what was tried and why that did not do."""
    ruled, turned, tried = decided("[FINDING 1: not fixed, because it still leaks]", ledger(FindingState.FIX_CLAIMED))
    assert isinstance(ruled, RulingMade)
    assert isinstance(turned, StateChanged)
    assert isinstance(tried, FixAttempted)
    assert (turned.state, tried.attempt.outcome) == (FindingState.REOPENED, "not_fixed")
    assert (tried.attempt.by, tried.attempt.what) == ("rev", "because it still leaks")


def test_a_review_cannot_call_fixed_what_it_reports() -> None:
    """4.3: of such a finding nothing is said; any other answer stands."""
    known = ledger(FindingState.FIX_CLAIMED, FindingState.FIX_CLAIMED)
    first = next(iter(known)).id
    answers = read_answers("[FINDING 1: fixed]\n[FINDING 2: fixed]")
    assert drop_conflicting_rulings(answers, known, {first}) == [Answer(2, "fixed")]
    refuted = read_answers("[FINDING 1: not fixed]")
    assert drop_conflicting_rulings(refuted, known, {first}) == refuted


def voted(*names: str, severity: Severity = Severity.HIGH, tool: bool = False) -> dict[str, Any]:
    """The fields of a finding that these reported."""
    given = {"pass_id": plain().pass_id, "severity": severity, "tool": tool}
    return {"sources": names, "votes": tuple(vote(reviewer=name, **given) for name in names)}


def disputed(**fields: Any) -> Ledger:
    """A ledger with one finding that a fixer calls wrong."""
    known = Ledger([FindingRaised(at=AT, finding=plain(**{**voted("rev"), **fields}))])
    for event in claimed("[FINDING 1: wrong, because it is closed]", known):
        known.apply(event)
    return known


def after(known: Ledger, text: str, by: str = "rev") -> Finding:
    """The finding after a reviewer's answers."""
    answers = read_answers(text)
    events = list(reviewer_events(answers, known, run="r", round=2, by=by, at=AT))
    return next(iter(known.extended(events)))


def test_the_reviewer_of_a_disputed_finding_upholds_withdraws_or_lowers_it() -> None:
    """0-51: upheld it is open, withdrawn a false positive with a reason, lowered it has another severity and gate."""
    known = disputed()
    assert next(iter(known)).state is FindingState.UNCERTAIN
    assert after(known, "[FINDING 1: upheld, it leaks]").state is FindingState.OPEN
    withdrawn = after(known, "[FINDING 1: withdrawn]")
    assert withdrawn.state is FindingState.FALSE_POSITIVE
    assert withdrawn.suppression is not None
    assert withdrawn.suppression.reason == "rev withdrew it: because it is closed"
    lowered = after(known, "[FINDING 1: lowered to P2, it is rare]")
    assert (lowered.severity, lowered.gate.value, lowered.state) == (Severity.MEDIUM, Gate.SUGGEST, FindingState.OPEN)
    assert [change.note for change in lowered.history if change.what == "ruling"] == ["lowered: it is rare"]


@pytest.mark.parametrize("text", ["[FINDING 1: withdrawn, it is fine]", "[FINDING 1: lowered to P3]"])
def test_only_the_reviewer_that_reported_a_finding_withdraws_or_lowers_it(text: str) -> None:
    """0-51: what another one says about it changes nothing."""
    known = disputed()
    assert after(known, text, by="sec") == next(iter(known))


def test_a_withdrawal_closes_only_what_nobody_else_reports() -> None:
    """0-51: another reviewer's vote or a tool's keeps it; when the last of them withdraws, it is closed."""
    both = voted("rev")["votes"] + voted("mypy", tool=True)["votes"]
    assert after(disputed(sources=("rev", "mypy"), votes=both), WITHDRAWN).state.active
    known = disputed(**voted("rev", "sec"))
    kept = after(known, WITHDRAWN)
    assert kept.state is FindingState.UNCERTAIN
    events = reviewer_events(read_answers(WITHDRAWN), known, run="r", round=2, by="rev", at=AT)
    assert after(known.extended(list(events)), WITHDRAWN, by="sec").state is FindingState.FALSE_POSITIVE


def test_only_those_who_reported_a_finding_say_that_it_is_fixed() -> None:
    """0-03: all of them, one after the other; the word of another reviewer closes nothing."""
    known = Ledger([FindingRaised(at=AT, finding=plain(**voted("rev", "sec"), state=FindingState.FIX_CLAIMED))])
    assert after(known, FIXED, by="qa").state is FindingState.FIX_CLAIMED
    events = reviewer_events(read_answers(FIXED), known, run="r", round=2, by="rev", at=AT)
    half = known.extended(list(events))
    (left,) = half
    assert (left.state, left.sources, left.agreement) == (FindingState.FIX_CLAIMED, ("sec",), 1)
    assert after(half, FIXED, by="sec").state is FindingState.VERIFIED_FIXED
    assert after(half, "[FINDING 1: not fixed]", by="sec").state is FindingState.REOPENED


def test_in_a_verification_the_worse_ruling_counts() -> None:
    """0-33: any reviewer that is asked may verify a fix; one that reported it and says otherwise has the last word."""
    known = Ledger([FindingRaised(at=AT, finding=plain(**voted("rev", "sec"), state=FindingState.FIX_CLAIMED))])
    events = reviewer_events(read_answers(FIXED), known, run="r", round=2, by="qa", at=AT, verifies=True)
    verified = known.extended(list(events))
    assert next(iter(verified)).state is FindingState.VERIFIED_FIXED
    assert after(verified, "[FINDING 1: not fixed]", by="sec").state is FindingState.REOPENED
    assert after(verified, "[FINDING 1: not fixed]", by="other").state is FindingState.VERIFIED_FIXED
    refuted = list(reviewer_events(read_answers("[FINDING 1: not fixed]"), known, run="r", round=2, by="sec", at=AT))
    said = read_answers(FIXED)
    late = reviewer_events(said, known.extended(refuted), run="r", round=2, by="qa", at=AT, verifies=True)
    assert next(iter(known.extended(refuted).extended(list(late)))).state is FindingState.REOPENED


def test_a_finding_is_lowered_no_further_than_others_rate_it() -> None:
    """0-51: the worst of the votes that still hold."""
    votes = voted("rev", severity=Severity.CRITICAL)["votes"] + voted("sec")["votes"]
    known = disputed(sources=("rev", "sec"), votes=votes, severity=Severity.CRITICAL)
    assert after(known, "[FINDING 1: lowered to P3]").severity is Severity.HIGH
    assert after(known, "[FINDING 1: lowered to P3]", by="sec").severity is Severity.CRITICAL


@pytest.mark.parametrize("text", ["[FINDING 1: lowered, it is rare]", "[FINDING 1: lowered to P0]"])
def test_a_finding_that_is_not_lowered_to_something_milder_is_upheld(text: str) -> None:
    """0-51: the safe side of a ruling that says nothing."""
    ruled = after(disputed(), text)
    assert (ruled.state, ruled.severity) == (FindingState.OPEN, Severity.HIGH)
    assert ruled.history[-2].note.startswith("upheld")


def test_only_a_person_dismisses_what_endangers_the_system() -> None:
    """0-37, 0-51: a withdrawal is on record, and the finding stays open."""
    assert after(disputed(system_breaking=True), WITHDRAWN).state is FindingState.UNCERTAIN


def test_an_answer_about_a_member_counts_for_its_cluster() -> None:
    """0-20: a cluster is one line of work; of several answers about it the most careful one counts."""
    known = ledger(FindingState.OPEN, FindingState.OPEN)
    known.apply(LinkAdded(at=AT, id=FindingId("fnd_2"), link=Link(kind=DUPLICATE_OF, to="fnd_1")))
    fixed = known.extended(claimed("[FINDING 2: fixed]", known))
    assert [finding.state for finding in fixed] == [FindingState.FIX_CLAIMED]
    assert states(claimed("[FINDING 1: fixed]\n[FINDING 2: not fixed]", known)) == []
    answers = read_answers("[FINDING 2: fixed]")
    assert drop_conflicting_rulings(answers, known, {"fnd_1"}) == []

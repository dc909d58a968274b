"""What agents say of findings by their numbers: a fixer claims, a review decides, and a quotation says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.answers import (
    ANSWER_FORMAT,
    drop_conflicting_rulings,
    fixer_events,
    read_answers,
    reviewer_events,
)
from pipeline.findings.events import FindingRaised, FixAttempted, LedgerEvent, RulingMade, StateChanged
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Answer, Category, Confidence, Finding, FindingId, FindingState, PassId, Severity

AT = "2026-01-02T03:04:05Z"


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
    ],
)
def test_an_answer_has_a_number_a_ruling_and_a_reason(text: str, answer: Answer) -> None:
    """4.3: fixed, not fixed or wrong, at the beginning of a line, in any case."""
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
    assert all(answer.word in ("fixed", "not_fixed", "wrong") for answer in read_answers(text))


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
    """4.4: whoever looks afresh decides whether a fix holds, and is on record as such; it dismisses nothing."""
    events = decided(f"[FINDING 1: {word}]", ledger(before))
    assert states(events) == after
    assert {event.by for event in events if isinstance(event, StateChanged)} <= {"revalidate"}


@pytest.mark.parametrize("state", [FindingState.VERIFIED_FIXED, FindingState.FALSE_POSITIVE, FindingState.WONT_FIX])
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

"""Trying again, limits, goal gates and approvals, as tables."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.policy import JITTER, approving_options, decide_retry, gate_in_the_way, retry_delay
from pipeline.language.model import Backoff, HumanStage, Option, Retry, Workflow

FAILED = Outcome(status=Status.FAIL, reason="x")


def failed(kind: FailureClass) -> Outcome:
    return Outcome(status=Status.FAIL, failure=Failure(kind=kind))


@pytest.mark.parametrize(
    ("retry", "failures", "seconds"),
    [
        (Retry(max_attempts=5), 0, 0.0),
        (Retry(max_attempts=5, backoff=Backoff.FIXED, delay=timedelta(milliseconds=500)), 0, 0.5),
        (Retry(max_attempts=5, backoff=Backoff.FIXED, delay=timedelta(milliseconds=500)), 3, 0.5),
        (Retry(max_attempts=5, backoff=Backoff.EXPONENTIAL, delay=timedelta(milliseconds=500)), 0, 0.5),
        (Retry(max_attempts=5, backoff=Backoff.EXPONENTIAL, delay=timedelta(milliseconds=500)), 3, 4.0),
        (
            Retry(
                max_attempts=5,
                backoff=Backoff.EXPONENTIAL,
                delay=timedelta(milliseconds=500),
                max_delay=timedelta(seconds=2),
            ),
            9,
            2.0,
        ),
    ],
)
def test_all_four_retry_attributes_are_honoured(retry: Retry, failures: int, seconds: float) -> None:
    """The wait is the delay, doubled when exponential, and never beyond the longest."""
    assert retry_delay(retry, failures, chance=0.5) == pytest.approx(seconds)


@given(st.integers(0, 200), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_never_beyond_its_bounds(failures: int, chance: float) -> None:
    """Chance moves a wait by a tenth at most, and never over max_delay."""
    retry = Retry(
        max_attempts=9, backoff=Backoff.EXPONENTIAL, delay=timedelta(seconds=1), max_delay=timedelta(seconds=30)
    )
    waited = retry_delay(retry, failures, chance)
    assert 0 <= waited <= 30
    assert waited >= min(2.0**failures, 30) * (1 - JITTER) - 1e-9


@pytest.mark.parametrize(
    ("outcome", "review", "again"),
    [
        (FAILED, False, True),
        (Outcome(status=Status.RETRY), False, True),
        (Outcome(status=Status.SUCCESS), False, False),
        (Outcome(status=Status.PARTIAL_SUCCESS), False, False),
        (failed(FailureClass.EXIT_NONZERO), False, True),
        (failed(FailureClass.TIMEOUT), False, True),
        (failed(FailureClass.CONFLICT), False, False),
        (FAILED, True, False),
        (failed(FailureClass.AGENT), True, True),
        (failed(FailureClass.PROTOCOL), True, True),
        (Outcome(status=Status.RETRY), True, True),
    ],
)
def test_only_what_may_change_is_tried_again(outcome: Outcome, review: bool, again: bool) -> None:  # noqa: FBT001
    """What a review found does not go away by asking again; a crashed agent may come back."""
    assert decide_retry(Retry(max_attempts=2), 0, outcome, 0.5, review=review).again is again


def test_attempts_are_counted() -> None:
    """Three attempts are three tries in all; without a retry there is one."""
    three = Retry(max_attempts=3)
    assert [decide_retry(three, failures, FAILED, 0.5, review=False).again for failures in range(3)] == [
        True,
        True,
        False,
    ]
    assert not decide_retry(Retry(), 0, FAILED, 0.5, review=False).again


def gate(*options: Option) -> HumanStage:
    return HumanStage(id="ask", prompt="x", options=options)


YES = Option(key="yes", label="Yes", to="merge")
NO = Option(key="no", label="No", to="fix")


def test_an_option_approves_when_it_says_so_or_is_the_first() -> None:
    """Where none says `approves`, the first does; where one does, only that."""
    assert approving_options(gate(YES, NO)) == (YES,)
    later = Option(key="ok", label="OK", to="merge", approves=True)
    assert approving_options(gate(NO, later)) == (later,)


def test_a_refused_approval_stands_in_the_way_of_what_it_guards() -> None:
    """Only the targets of approving options are guarded, and only while the gate is owed."""
    workflow = Workflow(name="W", version=2, start="ask", stages=(gate(YES, NO),))
    assert gate_in_the_way(workflow, frozenset({"ask"}), "merge") == "ask"
    assert gate_in_the_way(workflow, frozenset({"ask"}), "fix") is None
    assert gate_in_the_way(workflow, frozenset(), "merge") is None

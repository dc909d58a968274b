"""Retries, limits, goal gates and approvals, as tables."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.conftest import Make

from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status
from pipeline.engine.policy import (
    JITTER,
    LimitReached,
    RetryDecision,
    decide_retry,
    quota_resets_after,
    reached_limit,
    retry_delay,
)
from pipeline.engine.routing import approving_options, pending_gate, unsatisfied_gates
from pipeline.engine.state import Cursor
from pipeline.language.model import (
    Backoff,
    HumanOption,
    HumanStage,
    LlmStage,
    Retry,
    Stage,
    ToolStage,
    Workflow,
    WorkflowSettings,
)

GREEN = 'stage "a" kind="tool" command="x"\ntransition from="a" to="end"\n'
FAILED = Outcome(status=Status.FAIL, reason="x")


def failed(kind: FailureClass) -> Outcome:
    return Outcome(status=Status.FAIL, failure=Failure(kind=kind))


def errored(error: ErrorKind | None, retry_after: float | None = None) -> Outcome:
    """An outcome of an agent that could not answer."""
    failure = Failure(kind=FailureClass.AGENT, error=error, retry_after=retry_after)
    return Outcome(status=Status.ERROR, failure=failure)


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
    """The delay is fixed or doubles, and never exceeds the maximum."""
    assert retry_delay(retry, failures, chance=0.5) == pytest.approx(seconds)


@given(st.integers(0, 200), st.floats(0, 1, exclude_max=True))
def test_a_delay_never_exceeds_its_bounds(failures: int, chance: float) -> None:
    """Jitter changes a delay by at most a tenth, and never beyond max_delay."""
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
        (errored(None), True, True),
        (errored(ErrorKind.SERVER), True, True),
        (errored(ErrorKind.KILLED), False, True),
        (errored(ErrorKind.NETWORK), True, True),
        (errored(ErrorKind.SILENT), True, True),
        (errored(ErrorKind.AUTH), True, False),
        (errored(ErrorKind.BAD_FLAG), False, False),
        (errored(ErrorKind.NOT_FOUND), False, False),
        (errored(ErrorKind.CONFIG), False, False),
        (errored(ErrorKind.QUOTA, 60.0), False, False),
        (errored(ErrorKind.RATE_LIMIT, 3600.0), False, False),
        (Outcome(status=Status.RETRY), True, True),
    ],
)
def test_only_what_may_change_is_tried_again(*, outcome: Outcome, review: bool, again: bool) -> None:
    """What a review found does not go away by asking again; a crashed agent may come back."""
    assert decide_retry(Retry(max_attempts=2), 0, outcome, 0.5, review=review).again is again


@pytest.mark.parametrize(
    ("outcome", "attempts", "first_delay"),
    [
        (errored(ErrorKind.SERVER), 3, 2.0),
        (errored(ErrorKind.EMPTY), 3, 2.0),
        (errored(ErrorKind.RATE_LIMIT, 30.0), 3, 30.0),
        (errored(ErrorKind.UNKNOWN), 1, 0.0),
        (errored(ErrorKind.KILLED), 1, 0.0),
        (errored(None), 1, 0.0),
    ],
)
def test_transient_errors_are_retried_without_being_asked(outcome: Outcome, attempts: int, first_delay: float) -> None:
    """Three attempts in all, no sooner than the agent said; other errors need a retry of the stage's own."""
    decisions = [decide_retry(Retry(), failures, outcome, 0.5, review=True) for failures in range(4)]
    assert [one.again for one in decisions].index(False) + 1 == attempts
    assert decisions[0].delay == first_delay


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (errored(ErrorKind.QUOTA, 60.0), 60.0),
        (errored(ErrorKind.QUOTA), None),
        (errored(ErrorKind.RATE_LIMIT, 60.0), None),
        (errored(ErrorKind.RATE_LIMIT, 3600.0), 3600.0),
        (FAILED, None),
    ],
)
def test_the_run_waits_for_a_quota_whose_reset_is_known(outcome: Outcome, seconds: float | None) -> None:
    """A short rate limit is waited for by the stage itself."""
    assert quota_resets_after(outcome) == seconds


def test_attempts_are_counted() -> None:
    """Three attempts are three tries in all; without a retry there is one."""
    three = Retry(max_attempts=3)
    assert [decide_retry(three, failures, FAILED, 0.5, review=False).again for failures in range(3)] == [
        True,
        True,
        False,
    ]
    assert not decide_retry(Retry(), 0, FAILED, 0.5, review=False).again


@pytest.mark.parametrize(("retry", "again"), [(Retry(), True), (Retry(max_attempts=1), False)])
def test_a_single_attempt_can_be_asked_for(retry: Retry, *, again: bool) -> None:
    """A transient error is retried, unless the stage itself says that there is one attempt."""
    assert decide_retry(retry, 0, errored(ErrorKind.SERVER), 0.5, review=False).again is again


@pytest.mark.parametrize(
    ("failures", "outcome", "decision"),
    [
        (0, FAILED, RetryDecision(again=True, delay=1.0, reason="attempt 2 of 3")),
        (1, FAILED, RetryDecision(again=True, delay=2.0, reason="attempt 3 of 3")),
        (2, FAILED, RetryDecision(again=False, reason="all 3 attempts are used")),
        (0, Outcome(status=Status.SUCCESS), RetryDecision(again=False, reason="the outcome is final")),
    ],
)
def test_a_decision_says_when_and_why(failures: int, outcome: Outcome, decision: RetryDecision) -> None:
    """The wait belongs to the next attempt, whose number is told; a decision against one has its reason."""
    retry = Retry(max_attempts=3, backoff=Backoff.EXPONENTIAL, delay=timedelta(seconds=1))
    assert decide_retry(retry, failures, outcome, 0.5, review=False) == decision


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 9.0), (0.25, 9.5), (0.5, 10.0), (0.75, 10.5)])
def test_chance_moves_a_wait_both_ways(chance: float, seconds: float) -> None:
    """From a tenth less to a tenth more."""
    retry = Retry(max_attempts=2, backoff=Backoff.FIXED, delay=timedelta(seconds=10))
    assert retry_delay(retry, 0, chance) == pytest.approx(seconds)


def test_a_wait_is_bounded_however_often_it_was_doubled() -> None:
    """Thousands of failures overflow nothing."""
    retry = Retry(max_attempts=9, backoff=Backoff.EXPONENTIAL, delay=timedelta(seconds=1))
    assert retry_delay(retry, 5000, 0.0) == retry.max_delay.total_seconds()


SETTINGS = WorkflowSettings(max_visits=3, max_stages=10, max_duration=timedelta(seconds=60), max_cost_usd=2.5)


@pytest.mark.parametrize(
    ("state", "reached"),
    [
        ({"visit": 3, "stages_run": 9, "seconds": 59.9, "cost_usd": 2.49}, None),
        ({"visit": 4, "stages_run": 10, "seconds": 60.0, "cost_usd": 2.5}, LimitReached("max_visits", 3, 3)),
        ({"visit": 1, "stages_run": 10, "seconds": 60.0, "cost_usd": 2.5}, LimitReached("max_stages", 10, 10)),
        ({"visit": 1, "stages_run": 11}, LimitReached("max_stages", 11, 10)),
        ({"visit": 1, "seconds": 60.0, "cost_usd": 2.5}, LimitReached("max_duration", 60.0, 60.0)),
        ({"visit": 1, "seconds": 60.12345}, LimitReached("max_duration", 60.123, 60.0)),
        ({"visit": 1, "cost_usd": 2.5}, LimitReached("max_cost_usd", 2.5, 2.5)),
        ({"visit": 1, "cost_usd": 2.50000049}, LimitReached("max_cost_usd", 2.5, 2.5)),
        ({"visit": 1, "cost_usd": 2.51234567}, LimitReached("max_cost_usd", 2.512346, 2.5)),
    ],
)
def test_the_first_limit_that_is_reached(machine: Make, state: dict[str, Any], reached: LimitReached | None) -> None:
    """The last visit allowed may run; time and money are used up when all is spent. Count and limit are told."""
    made = machine(GREEN).state
    given = {name: value for name, value in state.items() if name != "visit"}
    made = made._replace(settings=SETTINGS, cursor=Cursor("a", state["visit"]), **given)
    assert reached_limit(made) == reached


def test_what_has_no_limit_is_never_reached(machine: Make) -> None:
    """Time and money are limited only where somebody said so."""
    made = machine(GREEN).state._replace(seconds=1e9, cost_usd=1e9)
    assert (made.settings.max_duration, made.settings.max_cost_usd) == (None, None)
    assert reached_limit(made) is None


def test_a_limit_is_told_in_a_sentence() -> None:
    """Whole numbers without a point."""
    assert LimitReached("max_cost_usd", 2.5, 2.0).reason == "max_cost_usd is reached: 2.5 of 2"
    assert LimitReached("max_duration", 60.0, 60.0).reason == "max_duration is reached: 60 of 60"


def test_the_goal_gates_that_have_not_passed() -> None:
    """In the order of the file; one that passed in part has passed, one that never ran has not."""
    stages: list[Stage] = [
        ToolStage(id=id, command="x", goal_gate=id != "plain") for id in ("late", "plain", "half", "bad")
    ]
    stages += [LlmStage(id="agent", prompt="x", goal_gate=True), HumanStage(id="ask", prompt="x")]
    workflow = Workflow(name="W", version=2, start="late", stages=tuple(stages))
    outcomes = {"half": Status.PARTIAL_SUCCESS, "bad": Status.FAIL, "plain": Status.FAIL, "agent": Status.SKIPPED}
    assert [gate.id for gate in unsatisfied_gates(workflow, outcomes)] == ["late", "bad", "agent"]


def gate(*options: HumanOption) -> HumanStage:
    return HumanStage(id="ask", prompt="x", options=options)


YES = HumanOption(key="yes", label="Yes", to="merge")
NO = HumanOption(key="no", label="No", to="fix")


def test_an_option_approves_when_it_says_so_or_is_the_first() -> None:
    """Where none says `approves`, the first does; where one does, only that."""
    assert approving_options(gate(YES, NO)) == (YES,)
    later = HumanOption(key="ok", label="OK", to="merge", approves=True)
    assert approving_options(gate(NO, later)) == (later,)


def test_a_refused_approval_stands_in_the_way_of_what_it_guards() -> None:
    """Only the targets of approving options are guarded, and only while the gate is owed."""
    workflow = Workflow(name="W", version=2, start="ask", stages=(gate(YES, NO),))
    assert pending_gate(workflow, frozenset({"ask"}), "merge") == "ask"
    assert pending_gate(workflow, frozenset({"ask"}), "fix") is None
    assert pending_gate(workflow, frozenset(), "merge") is None
    assert pending_gate(workflow, frozenset({"ask", "a gate of an older file"}), "merge") == "ask"

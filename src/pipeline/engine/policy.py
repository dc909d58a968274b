"""Decisions about a run that need no routing: trying again, limits, goal gates, approvals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from pipeline.engine.outcome import ErrorKind, FailureClass, Outcome, Status
from pipeline.engine.state import State
from pipeline.language.model import Backoff, HumanStage, LlmStage, Option, Retry, ToolStage, Workflow

JITTER = 0.1  # how far a wait may be off, so that many runs do not come back at once


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether a visit is tried again, and after how many seconds."""

    again: bool
    delay: float = 0.0
    reason: str = ""


_FINAL = RetryDecision(again=False, reason="the outcome is final")
_TRANSIENT = {ErrorKind.RATE_LIMIT, ErrorKind.SERVER, ErrorKind.EMPTY}  # retried without being asked
_LASTING = {  # never retried: trying again ends in the same way
    ErrorKind.AUTH,
    ErrorKind.CONFIG,
    ErrorKind.INVALID,
    ErrorKind.DENIED,
    ErrorKind.SPAWN,
    ErrorKind.QUOTA,
}
LONGEST_WAIT = 300.0  # seconds that a stage waits by itself for a limit to reset; beyond that the run pauses
ON_ERROR = Retry(max_attempts=3, backoff=Backoff.EXPONENTIAL, delay=timedelta(seconds=2))


def decide_retry(
    retry: Retry, failures: int, outcome: Outcome, chance: float, *, review: bool, on_error: Retry = ON_ERROR
) -> RetryDecision:
    """Decide after a failed attempt. `failures` counts those before it; `chance` is a random number in [0, 1).

    Transient errors follow `on_error` where the stage has no retry of its own.
    """
    least = 0.0
    if outcome.status is Status.ERROR:
        error, least = _error_of(outcome)
        if error in _LASTING or quota_resets_after(outcome) is not None:
            return _FINAL
        if error in _TRANSIENT and retry.max_attempts == 1:
            retry = on_error
    elif not _worth_retrying(outcome, review=review):
        return _FINAL
    if failures + 1 >= retry.max_attempts:
        return RetryDecision(again=False, reason=f"all {retry.max_attempts} attempts are used")
    delay = max(least, retry_delay(retry, failures, chance))
    return RetryDecision(True, delay, f"attempt {failures + 2} of {retry.max_attempts}")


def quota_resets_after(outcome: Outcome) -> float | None:
    """Seconds until the quota that stopped an attempt resets; None for any other outcome, or when nobody knows."""
    error, seconds = _error_of(outcome)
    long = error is ErrorKind.QUOTA or (error in _TRANSIENT and seconds > LONGEST_WAIT)
    return seconds if long and seconds > 0 else None


def _error_of(outcome: Outcome) -> tuple[ErrorKind | None, float]:
    """What kind of error an outcome is, and how many seconds it asks to wait."""
    failure = outcome.failure
    return (failure.error, failure.retry_after or 0.0) if failure else (None, 0.0)


def retry_delay(retry: Retry, failures: int, chance: float) -> float:
    """Seconds to wait after so many earlier failures; never longer than `max_delay`."""
    if retry.backoff is Backoff.NONE:
        return 0.0
    delay = retry.delay.total_seconds()
    if retry.backoff is Backoff.EXPONENTIAL:
        delay *= 2.0 ** min(failures, 64)
    spread = delay * JITTER * (2 * chance - 1)
    return max(0.0, min(delay + spread, retry.max_delay.total_seconds()))


def _worth_retrying(outcome: Outcome, *, review: bool) -> bool:
    """Whether another attempt may end better: what a review found, or a conflict, does not go away by asking again."""
    if outcome.status is Status.RETRY:
        return True
    conflict = outcome.failure is not None and outcome.failure.kind is FailureClass.CONFLICT
    return outcome.status is Status.FAIL and not review and not conflict


@dataclass(frozen=True, slots=True)
class Reached:
    """A limit that the next visit would go beyond."""

    limit: str
    count: float
    allowed: float

    @property
    def reason(self) -> str:
        """The limit in a sentence."""
        return f"{self.limit} is reached: {self.count:g} of {self.allowed:g}"


def reached_limit(state: State) -> Reached | None:
    """The first limit that keeps the visit at the cursor from running."""
    settings = state.settings
    if state.cursor.visit > settings.max_visits:
        return Reached("max_visits", state.cursor.visit - 1, settings.max_visits)
    if state.stages_run >= settings.max_stages:
        return Reached("max_stages", state.stages_run, settings.max_stages)
    if settings.max_duration is not None and state.seconds >= settings.max_duration.total_seconds():
        return Reached("max_duration", round(state.seconds, 3), settings.max_duration.total_seconds())
    if settings.max_cost_usd is not None and state.cost_usd >= settings.max_cost_usd:
        return Reached("max_cost_usd", round(state.cost_usd, 6), settings.max_cost_usd)
    return None


def unsatisfied_gates(workflow: Workflow, outcomes: Mapping[str, Status]) -> Iterator[LlmStage | ToolStage]:
    """The goal gates that have not passed, in the order of the file; one that never ran has not."""
    for stage in workflow.stages:
        if isinstance(stage, LlmStage | ToolStage) and stage.goal_gate:
            status = outcomes.get(stage.id)
            if status is None or not status.passes:
                yield stage


def approving_options(stage: HumanStage) -> tuple[Option, ...]:
    """The options that approve: those that say so, else the first."""
    return tuple(option for option in stage.options if option.approves) or stage.options[:1]


def gate_in_the_way(workflow: Workflow, owed: frozenset[str], target: str) -> str | None:
    """The human gate that must be passed again before this target, or None."""
    for name in sorted(owed):
        gate = workflow.by_id.get(name)
        if isinstance(gate, HumanStage) and target in {option.to for option in approving_options(gate)}:
            return name
    return None

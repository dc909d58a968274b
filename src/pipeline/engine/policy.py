"""Decisions about retries and limits."""

from dataclasses import dataclass
from datetime import timedelta

from pipeline.engine.outcome import ErrorKind, FailureClass, Outcome, Status
from pipeline.engine.state import State
from pipeline.language.model import Backoff, Retry

JITTER = 0.1  # the share by which a delay varies, so that many runs do not retry at once
LONGEST_WAIT = 300.0  # seconds that a stage waits for a limit to reset; if it takes longer, the run pauses
ERROR_RETRY = Retry(max_attempts=3, backoff=Backoff.EXPONENTIAL, delay=timedelta(seconds=2))
# Retried even without a retry policy:
_TRANSIENT = {ErrorKind.RATE_LIMIT, ErrorKind.SERVER, ErrorKind.NETWORK, ErrorKind.EMPTY}
_PERMANENT = {  # never retried: another attempt would end the same way
    ErrorKind.AUTH,
    ErrorKind.BAD_FLAG,
    ErrorKind.CONFIG,
    ErrorKind.NOT_FOUND,
    ErrorKind.INVALID,
    ErrorKind.DENIED,
    ErrorKind.SPAWN,
    ErrorKind.QUOTA,
}


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether another attempt follows, and after how many seconds."""

    again: bool
    delay: float = 0.0
    reason: str = ""


_FINAL = RetryDecision(again=False, reason="the outcome is final")


def decide_retry(
    retry: Retry, failures: int, outcome: Outcome, chance: float, *, review: bool, on_error: Retry = ERROR_RETRY
) -> RetryDecision:
    """Decide whether to retry after an attempt.

    `failures` counts the failed attempts before it; `chance` is a random number in [0, 1). Transient errors follow
    `on_error` if the stage has no retry policy of its own. What a review reports, or a merge conflict, is not retried:
    asking again does not make it go away.
    """
    minimum = 0.0
    if outcome.status is Status.ERROR:
        error, minimum = _error_and_wait(outcome)
        if error in _PERMANENT or quota_resets_after(outcome) is not None:
            return _FINAL
        if error in _TRANSIENT and "max_attempts" not in retry.model_fields_set:  # one attempt can be meant
            retry = on_error
    elif outcome.status is Status.FAIL:
        if review or (outcome.failure is not None and outcome.failure.kind is FailureClass.CONFLICT):
            return _FINAL
    elif outcome.status is not Status.RETRY:
        return _FINAL
    if failures + 1 >= retry.max_attempts:
        return RetryDecision(again=False, reason=f"all {retry.max_attempts} attempts are used")
    delay = max(minimum, retry_delay(retry, failures, chance))
    return RetryDecision(True, delay, f"attempt {failures + 2} of {retry.max_attempts}")


def quota_resets_after(outcome: Outcome) -> float | None:
    """Return the seconds until the quota that stopped an attempt resets; None if that is not known or not the cause."""
    error, seconds = _error_and_wait(outcome)
    is_quota = error is ErrorKind.QUOTA or (error in _TRANSIENT and seconds > LONGEST_WAIT)
    return seconds if is_quota and seconds > 0 else None


def retry_delay(retry: Retry, failures: int, chance: float) -> float:
    """Return the seconds to wait after this many earlier failures, at most `max_delay`."""
    if retry.backoff is Backoff.NONE:
        return 0.0
    delay = retry.delay.total_seconds()
    if retry.backoff is Backoff.EXPONENTIAL:
        delay *= 2.0 ** min(failures, 64)
    jitter = delay * JITTER * (2 * chance - 1)
    return max(0.0, min(delay + jitter, retry.max_delay.total_seconds()))


def _error_and_wait(outcome: Outcome) -> tuple[ErrorKind | None, float]:
    failure = outcome.failure
    return (failure.error, failure.retry_after or 0.0) if failure else (None, 0.0)


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit that the next visit would exceed."""

    limit: str
    count: float
    allowed: float

    @property
    def reason(self) -> str:
        """The limit in a sentence."""
        return f"{self.limit} is reached: {self.count:g} of {self.allowed:g}"


def reached_limit(state: State) -> LimitReached | None:
    """Return the first limit that keeps the visit at the cursor from running."""
    settings = state.settings
    if state.cursor.visit > settings.max_visits:
        return LimitReached("max_visits", state.cursor.visit - 1, settings.max_visits)
    if state.stages_run >= settings.max_stages:
        return LimitReached("max_stages", state.stages_run, settings.max_stages)
    if settings.max_duration is not None and state.seconds >= settings.max_duration.total_seconds():
        return LimitReached("max_duration", round(state.seconds, 3), settings.max_duration.total_seconds())
    if settings.max_cost_usd is not None and state.cost_usd >= settings.max_cost_usd:
        return LimitReached("max_cost_usd", round(state.cost_usd, 6), settings.max_cost_usd)
    return None

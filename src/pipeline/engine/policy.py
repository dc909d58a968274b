"""Decisions about a run that need no routing: trying again, limits, goal gates, approvals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.engine.outcome import FailureClass, Outcome, Status
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


def decide_retry(retry: Retry, failures: int, outcome: Outcome, chance: float, *, review: bool) -> RetryDecision:
    """Decide after a failed attempt. `failures` counts those before it; `chance` is a random number in [0, 1)."""
    if not _worth_retrying(outcome, review=review):
        return _FINAL
    if failures + 1 >= retry.max_attempts:
        return RetryDecision(again=False, reason=f"all {retry.max_attempts} attempts are used")
    return RetryDecision(True, retry_delay(retry, failures, chance), f"attempt {failures + 2} of {retry.max_attempts}")


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
    if outcome.status is Status.RETRY:
        return True
    if outcome.status is not Status.FAIL:
        return False
    if review:  # what a review found does not go away by asking again; a review that never took place may come
        return outcome.failure is not None and outcome.failure.kind in (FailureClass.AGENT, FailureClass.PROTOCOL)
    return outcome.failure is None or outcome.failure.kind is not FailureClass.CONFLICT


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

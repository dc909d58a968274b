"""What a run's records say to somebody who looks at it: its visits, their attempts, and why it went where it went."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.engine.outcome import Outcome
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    Chosen,
    RunCancelled,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
)


class Ended(StrEnum):
    """How an attempt ended."""

    DONE = "done"  # its outcome is the visit's
    FAILED = "failed"  # and another was made
    TORN = "interrupted"  # its process was gone before it ended
    CANCELLED = "cancelled"  # somebody stopped the run
    OPEN = "open"  # it has not ended


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try within a visit."""

    number: int
    began: float
    ended: Ended = Ended.OPEN
    outcome: Outcome | None = None  # of a failed one
    delay: float = 0.0  # seconds until the next


@dataclass(frozen=True, slots=True)
class VisitSeen:
    """One visit of one stage, with all that is on record of it."""

    stage: str
    visit: int
    began: float
    attempts: tuple[Attempt, ...] = ()
    outcome: Outcome | None = None  # None until it is done
    ended: float | None = None
    chosen: Chosen | None = None  # None for a branch: its parallel stage goes on
    option: str = ""  # of a human stage
    within: str = ""  # the parallel stage, for a branch

    @property
    def attempt(self) -> int:
        """The number of the last attempt."""
        return self.attempts[-1].number if self.attempts else 1


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened to the run between visits."""

    at: float
    text: str


@dataclass(slots=True)
class _Story:
    told: list[VisitSeen | Note] = field(default_factory=list)
    open: dict[tuple[str, int], VisitSeen] = field(default_factory=dict)

    def take(self, record: AnyRecord) -> None:
        match record:
            case VisitStarted():
                self._started(record)
            case AttemptFailed():
                self._failed(record)
            case BranchCompleted():
                key = record.branch, record.branch_visit
                self.open[key] = _done(self._seen(*key, record.at), record.outcome, record.at, record.stage)
            case VisitCompleted():
                self._completed(record)
            case RunCancelled():
                self._end_attempts(Ended.CANCELLED)
                self.told.append(Note(record.at, "cancelled"))
            case RunResumed():
                self._end_attempts(Ended.TORN)
                self.told.append(Note(record.at, _resumed(record)))
            case RunPaused():
                self.told.append(Note(record.at, f"paused: {record.reason}"))
            case RunWaiting():
                self.told.append(Note(record.at, f'waiting: stage "{record.stage}" asks a person'))
            case WorkflowAdopted():
                self.told.append(Note(record.at, f"adopted {record.file}"))

    def _seen(self, stage: str, visit: int, at: float) -> VisitSeen:
        return self.open.get((stage, visit), VisitSeen(stage, visit, at))

    def _started(self, record: VisitStarted) -> None:
        seen = self._seen(record.stage, record.visit, record.at)
        attempts = (*seen.attempts, Attempt(record.attempt, record.at))
        self.open[record.stage, record.visit] = replace(seen, attempts=attempts)

    def _failed(self, record: AttemptFailed) -> None:
        seen = self._seen(record.stage, record.visit, record.at)
        last = seen.attempts[-1] if seen.attempts else Attempt(record.attempt, record.at)
        failed = replace(last, ended=Ended.FAILED, outcome=record.outcome, delay=record.delay)
        self.open[record.stage, record.visit] = replace(seen, attempts=(*seen.attempts[:-1], failed))

    def _completed(self, record: VisitCompleted) -> None:
        for branch in record.branches:
            seen = self._seen(branch.stage, branch.visit, record.at)
            self.open.pop((branch.stage, branch.visit), None)
            self.told.append(_done(seen, branch.outcome, seen.ended or record.at, record.stage))
        began = record.at - record.outcome.duration
        seen = self._seen(record.stage, record.visit, began)
        self.open.pop((record.stage, record.visit), None)
        done = _done(seen, record.outcome, record.at)
        self.told.append(replace(done, chosen=record.chosen, option=record.option))

    def _end_attempts(self, ended: Ended) -> None:
        for key, seen in self.open.items():
            attempts = tuple(replace(one, ended=ended) if one.ended is Ended.OPEN else one for one in seen.attempts)
            self.open[key] = replace(seen, attempts=attempts)


def _done(seen: VisitSeen, outcome: Outcome, at: float, within: str = "") -> VisitSeen:
    attempts = tuple(replace(one, ended=Ended.DONE) if one.ended is Ended.OPEN else one for one in seen.attempts)
    return replace(seen, attempts=attempts, outcome=outcome, ended=at, within=within)


def _resumed(record: RunResumed) -> str:
    raised = ", ".join(f"{name}={value:g}" for name, value in record.raised.items())
    words = "resumed"
    if raised:
        words += f" with {raised}"
    if record.repeat:
        words += ", the interrupted stage repeated"
    return f"{words}; what it left is kept as {record.torn}" if record.torn else words


def story_of(records: Iterable[AnyRecord]) -> list[VisitSeen | Note]:
    """Everything that happened, in order: branches before their stage, what has not ended last."""
    story = _Story()
    for record in records:
        story.take(record)
    return [*story.told, *story.open.values()]


def visits_of(records: Iterable[AnyRecord]) -> list[VisitSeen]:
    """The visits of a run, in the order they ended."""
    return [part for part in story_of(records) if isinstance(part, VisitSeen)]


@dataclass(frozen=True, slots=True)
class StageSum:
    """What the visits of one stage come to."""

    stage: str
    visits: int
    last: Outcome | None  # of the last visit that is done
    seconds: float
    tokens: int
    cost_usd: float


def stage_sums(visits: Iterable[VisitSeen]) -> list[StageSum]:
    """The visits by stage, in the order of each stage's first."""
    by_stage: dict[str, list[VisitSeen]] = {}
    for visit in visits:
        by_stage.setdefault(visit.stage, []).append(visit)
    sums = [_sum(stage, seen) for stage, seen in by_stage.items()]
    return sorted(sums, key=lambda one: by_stage[one.stage][0].began)


def _sum(stage: str, visits: Sequence[VisitSeen]) -> StageSum:
    tried = [attempt.outcome for visit in visits for attempt in visit.attempts if attempt.outcome]
    done = [visit.outcome for visit in visits if visit.outcome]
    used = [outcome.usage for outcome in (*tried, *done) if outcome.usage]
    return StageSum(
        stage=stage,
        visits=len(visits),
        last=done[-1] if done else None,
        seconds=sum(outcome.duration for outcome in (*tried, *done)),
        tokens=sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in used),
        cost_usd=sum(usage.cost_usd or 0.0 for usage in used),
    )

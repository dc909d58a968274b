"""What a run's records say to somebody who looks at it: its visits, their attempts, and why it went where it went."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from pipeline.engine.outcome import Outcome
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCancelled,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
    WorkflowAdopted,
)
from pipeline.engine.routing import Selection
from pipeline.engine.state import RunStatus, State, apply, begin, creation_record
from pipeline.errors import AwfError
from pipeline.language.model import ParallelStage, waits_for_person
from pipeline.text import did_you_mean


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    DONE = "done"  # its outcome is the visit's
    FAILED = "failed"  # and another was made
    ERRORED = "error"  # the stage could not do its job, and the run stopped
    TORN = "interrupted"  # its process was gone before it ended
    CANCELLED = "cancelled"  # somebody stopped the run
    OPEN = "open"  # it has not ended


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One try within a visit."""

    number: int
    ended: AttemptEnd
    outcome: Outcome | None = None  # of a failed one
    delay: float = 0.0  # seconds until the next
    seq: int | None = None  # the record of its end
    at: float | None = None  # when it ended


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """One visit of one stage, with all that is on record of it."""

    stage: str
    visit: int
    began: float
    attempts: tuple[AttemptRecord, ...] = ()
    outcome: Outcome | None = None  # None until it is done
    ended: float | None = None
    chosen: Selection | None = None  # None for a branch: its parallel stage goes on
    option: str = ""  # of a human stage
    within: str = ""  # the parallel stage, for a branch

    @property
    def attempt(self) -> int:
        """The number of the last attempt."""
        return self.attempts[-1].number if self.attempts else 1

    @property
    def error(self) -> Outcome | None:
        """Why the stage could not do its job, while no later attempt has."""
        errored = self.outcome is None and self.attempts and self.attempts[-1].ended is AttemptEnd.ERRORED
        return self.attempts[-1].outcome if errored else None

    @property
    def stopped(self) -> float | None:
        """When it was done or errored; None while it runs."""
        return self.attempts[-1].at if self.error else self.ended


@dataclass(frozen=True, slots=True)
class RunNote:
    """Something that happened to the run between visits."""

    at: float
    text: str


def running_visits(state: State) -> list[tuple[str, int]]:
    """The visits that are running, or were when their process ended: nothing is recorded when most begin."""
    stage = state.stage
    if waits_for_person(stage) or state.status not in (RunStatus.RUNNING, RunStatus.CANCELLED):
        return []
    if not isinstance(stage, ParallelStage):
        return [] if stage.id in state.progress.errors else [(stage.id, state.cursor.visit)]
    ended = state.progress.branches.keys() | state.progress.errors.keys()
    names = [branch.stage for branch in stage.branches if branch.stage not in ended]
    return [(name, state.visits.get(name, 0) + 1) for name in names]


class RunHistory:
    """Tells a run record by record, beside the state that each of them met."""

    def __init__(self, first: AnyRecord | None) -> None:
        first = creation_record(first)
        self._state = begin(first)
        self._at = first.at
        self._seq = 1
        self._told: list[VisitRecord | RunNote] = []
        self._open: dict[tuple[str, int], VisitRecord] = {}

    @property
    def state(self) -> State:
        """The state after the last record."""
        return self._state

    def take(self, record: AnyRecord) -> None:
        """Add the next record."""
        self._seq += 1
        match record:
            case AttemptFailed():
                failed = AttemptRecord(
                    record.attempt, AttemptEnd.FAILED, record.outcome, record.delay, self._seq, record.at
                )
                self._attempted(record.stage, record.visit, failed)
            case StageErrored():
                errored = AttemptRecord(record.attempt, AttemptEnd.ERRORED, record.outcome, seq=self._seq, at=record.at)
                self._attempted(record.stage, record.visit, errored)
            case BranchCompleted():
                self._branch_done(record)
            case VisitCompleted():
                self._completed(record)
            case RunResumed():
                self._open = self._with_ends(AttemptEnd.TORN, record.at)
        if note := _note(record):
            self._told.append(RunNote(record.at, note))
        self._state = apply(self._state, record)
        self._at = record.at

    def told(self) -> list[VisitRecord | RunNote]:
        """Everything so far: a visit that errored before the pause that followed, what is under way last."""
        told = list(self._told)
        for visit in self._with_ends(AttemptEnd.OPEN, inf).values():
            told.insert(_place(told, visit), visit)
        return told

    def _seen(self, stage: str, visit: int) -> VisitRecord:
        return self._open.get((stage, visit), VisitRecord(stage, visit, self._at))

    def _attempted(self, stage: str, visit: int, attempt: AttemptRecord) -> None:
        self._open[stage, visit] = self._tried(stage, visit, attempt)

    def _tried(self, stage: str, visit: int, attempt: AttemptRecord) -> VisitRecord:
        seen = self._seen(stage, visit)
        within = self._state.cursor.stage if stage != self._state.cursor.stage else ""
        return replace(seen, attempts=(*seen.attempts, attempt), within=within)

    def _with_ends(self, ended: AttemptEnd, at: float) -> dict[tuple[str, int], VisitRecord]:
        """The open visits; what was under way then ended so, or was cancelled when the run was."""
        ended = AttemptEnd.CANCELLED if self._state.status is RunStatus.CANCELLED else ended
        progress = self._state.progress
        begun = [place for place in running_visits(self._state) if progress.retry_at.get(place[0], at) <= at]
        tried = {place: self._tried(*place, AttemptRecord(progress.attempt(place[0]), ended)) for place in begun}
        return self._open | tried

    def _branch_done(self, record: BranchCompleted) -> None:
        number = self._state.progress.attempt(record.branch)
        self._attempted(record.branch, record.branch_visit, AttemptRecord(number, AttemptEnd.DONE, seq=self._seq))
        seen = self._seen(record.branch, record.branch_visit)
        self._open[record.branch, record.branch_visit] = _done(seen, record.outcome, record.at)

    def _completed(self, record: VisitCompleted) -> None:
        for branch in record.branches:
            self._told.append(self._open.pop((branch.stage, branch.visit), self._seen(branch.stage, branch.visit)))
        self._attempted(record.stage, record.visit, AttemptRecord(record.attempt, AttemptEnd.DONE, seq=self._seq))
        seen = _done(self._open.pop((record.stage, record.visit)), record.outcome, record.at)
        self._told.append(replace(seen, chosen=record.chosen, option=record.option))


def _place(told: Sequence[VisitRecord | RunNote], visit: VisitRecord) -> int:
    """Where an open visit is told: before the notes that were written after it stopped."""
    place = len(told)
    while visit.stopped is not None and place and _is_note_after(told[place - 1], visit.stopped):
        place -= 1
    return place


def _is_note_after(part: VisitRecord | RunNote, moment: float) -> bool:
    return isinstance(part, RunNote) and part.at >= moment


def _done(seen: VisitRecord, outcome: Outcome, at: float) -> VisitRecord:
    return replace(seen, outcome=outcome, ended=at, began=min(seen.began, at - outcome.duration))


def _note(record: AnyRecord) -> str:
    """What happened to the run itself, in words."""
    match record:
        case RunCancelled():
            return "cancelled"
        case RunResumed():
            return _resumed(record)
        case RunPaused():
            return f"paused: {record.reason}"
        case RunFailed():
            return f"failed: {record.reason}"
        case RunWaiting():
            return f'waiting: stage "{record.stage}" asks a person'
        case WorkflowAdopted():
            return f"adopted {record.file}"
        case _:
            return ""


def _resumed(record: RunResumed) -> str:
    raised = ", ".join(f"{name}={value:g}" for name, value in record.raised.items())
    words = "resumed"
    if raised:
        words += f" with {raised}"
    if record.repeat:
        words += ", the interrupted stage repeated"
    return f"{words}; what it left is kept as {record.torn}" if record.torn else words


def story_of(records: Iterable[AnyRecord]) -> list[VisitRecord | RunNote]:
    """Everything that happened, in order: branches before their stage, what has not ended last."""
    remaining = iter(records)
    story = RunHistory(next(remaining, None))
    for record in remaining:
        story.take(record)
    return story.told()


def visits_of(records: Iterable[AnyRecord]) -> list[VisitRecord]:
    """The visits of a run, in the order they ended."""
    return [part for part in story_of(records) if isinstance(part, VisitRecord)]


def unknown_stage_error(state: State, stage: str, visited: Collection[str]) -> AwfError:
    """The error about a stage of which there is nothing to tell: not visited, or not there at all."""
    run_id, declared = state.run_id, [one.id for one in state.workflow.stages]
    if stage in declared:
        stages = ", ".join(sorted(visited)) or "no stage yet"
        return AwfError(f'run {run_id} has not visited stage "{stage}"', help=f"it visited {stages}")
    help = did_you_mean(stage, {*declared, *visited}) or f"its stages are {', '.join(declared)}"
    return AwfError(f'run {run_id} has no stage "{stage}"', help=help)


@dataclass(frozen=True, slots=True)
class StageTotals:
    """What the visits of one stage come to."""

    stage: str
    visits: int
    last: Outcome | None  # of the last visit that is done or errored
    seconds: float
    tokens: int
    cost_usd: float


def stage_totals(visits: Iterable[VisitRecord]) -> list[StageTotals]:
    """The visits by stage, in the order of each stage's first: branches before their stage."""
    by_stage: dict[str, list[VisitRecord]] = {}
    for visit in visits:
        by_stage.setdefault(visit.stage, []).append(visit)
    return [_sum(stage, seen) for stage, seen in by_stage.items()]


def _sum(stage: str, visits: Sequence[VisitRecord]) -> StageTotals:
    tried = [attempt.outcome for visit in visits for attempt in visit.attempts if attempt.outcome]
    done = [visit.outcome for visit in visits if visit.outcome]
    used = [outcome.usage for outcome in (*tried, *done) if outcome.usage]
    return StageTotals(
        stage=stage,
        visits=len(visits),
        last=visits[-1].error or (done[-1] if done else None),
        seconds=sum(outcome.duration for outcome in (*tried, *done)),
        tokens=sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in used),
        cost_usd=sum(usage.cost_usd or 0.0 for usage in used),
    )

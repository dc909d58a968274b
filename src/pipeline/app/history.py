"""The history of a run: the one fold over its records that every reader uses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal, attempt_directory
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    RunCancelled,
    RunCreated,
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

if TYPE_CHECKING:
    from pipeline.findings.ledger import Ledger
    from pipeline.findings.reviews import Review
    from pipeline.findings.rounds import Round


STREAMS = ("stdout", "stderr")  # the streams of a program, each kept in a file of its own


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    DONE = "done"  # its outcome is the visit's
    FAILED = "failed"  # and was retried
    ERRORED = "error"  # the stage could not do its job, and the run stopped
    INTERRUPTED = "interrupted"  # its process died
    CANCELLED = "cancelled"  # the run was cancelled
    OPEN = "open"  # it has not ended


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt within a visit."""

    number: int
    end: AttemptEnd
    outcome: Outcome | None = None  # None when it was interrupted, cancelled, or has not ended
    delay: float = 0.0  # seconds until the next attempt
    seq: int | None = None  # the record of its end
    at: float | None = None  # when it ended

    @property
    def reason(self) -> str:
        """Why it ended as it did; empty if it did not say."""
        return self.outcome.reason if self.outcome else ""


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """One visit of one stage."""

    stage: str
    visit: int
    began: float
    attempts: tuple[AttemptRecord, ...] = ()
    chosen: Selection | None = None  # None for a branch: its parallel stage chooses
    option: str = ""  # of a human stage
    within: str = ""  # the parallel stage, for a branch

    @property
    def attempt(self) -> int:
        """The number of the last attempt."""
        return self.attempts[-1].number if self.attempts else 1

    @property
    def end(self) -> AttemptEnd:
        """How the last attempt ended."""
        return self.attempts[-1].end if self.attempts else AttemptEnd.OPEN

    @property
    def outcome(self) -> Outcome | None:
        """The result of the visit; None until it is done."""
        return self.attempts[-1].outcome if self.end is AttemptEnd.DONE else None

    @property
    def error(self) -> Outcome | None:
        """Why the stage could not do its job; None once a later attempt has done it."""
        return self.attempts[-1].outcome if self.end is AttemptEnd.ERRORED else None

    @property
    def result(self) -> Outcome | None:
        """What the visit ended with, done or not; None while it runs."""
        return self.outcome or self.error

    @property
    def ended(self) -> float | None:
        """When the visit was done or errored; None while it runs."""
        return self.attempts[-1].at if self.end in (AttemptEnd.DONE, AttemptEnd.ERRORED) else None


@dataclass(frozen=True, slots=True)
class RunNote:
    """Something that happened to the run between visits."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class StageTotals:
    """What all visits of one stage took, and how the last one that was done or errored ended."""

    stage: str
    visits: int
    status: str | None
    source: str | None
    reason: str | None
    seconds: float
    tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class RunHistory:
    """A run after one of its records, with everything that led there."""

    created: RunCreated
    state: State
    timeline: tuple[VisitRecord | RunNote, ...]  # in order of time, branches before their stage, unfinished visits last
    position: int  # the number of its last record
    at: float  # when that was written

    @classmethod
    def read(cls, records: Iterable[AnyRecord]) -> "RunHistory":
        """Fold all records of a run."""
        remaining = iter(records)
        builder = HistoryBuilder(next(remaining, None))
        for record in remaining:
            builder.add(record)
        return builder.build()

    @property
    def visits(self) -> list[VisitRecord]:
        """The visits, without the notes between them."""
        return [entry for entry in self.timeline if isinstance(entry, VisitRecord)]

    def visits_of(self, stage: str) -> list[VisitRecord]:
        """The visits of one stage; an error for a stage that was never visited."""
        visits = self.visits
        if found := [visit for visit in visits if visit.stage == stage]:
            return found
        run_id, visited = self.state.run_id, {visit.stage for visit in visits}
        declared = [one.id for one in self.state.workflow.stages]
        if stage in declared:
            help = f"it visited {', '.join(sorted(visited)) or 'no stage yet'}"
            raise AwfError(f'run {run_id} has not visited stage "{stage}"', help=help)
        help = did_you_mean(stage, {*declared, *visited}) or f"its stages are {', '.join(declared)}"
        raise AwfError(f'run {run_id} has no stage "{stage}"', help=help)

    def stage_totals(self) -> list[StageTotals]:
        """The totals by stage, in the order of each stage's first visit."""
        by_stage: dict[str, list[VisitRecord]] = {}
        for visit in self.visits:
            by_stage.setdefault(visit.stage, []).append(visit)
        totals = list[StageTotals]()
        for stage, visits in by_stage.items():
            outcomes = [attempt.outcome for visit in visits for attempt in visit.attempts if attempt.outcome]
            used = [outcome.usage for outcome in outcomes if outcome.usage]
            last = next((end for visit in reversed(visits) if (end := visit.result)), None)
            totals.append(
                StageTotals(
                    stage=stage,
                    visits=len(visits),
                    status=last.status if last else None,
                    source=last.source if last else None,
                    reason=last.reason if last else None,
                    seconds=round(sum(outcome.duration for outcome in outcomes), 3),
                    tokens=sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in used),
                    cost_usd=sum(usage.cost_usd or 0.0 for usage in used),
                )
            )
        return totals


_AttemptEnded = AttemptFailed | StageErrored | BranchCompleted | VisitCompleted


class HistoryBuilder:
    """Builds a history record by record, so that a run that has grown costs only its new records."""

    def __init__(self, first: AnyRecord | None) -> None:
        self._created = creation_record(first)
        self._state = begin(self._created)
        self._at = self._created.at
        self.position = 1  # the number of the last record
        self._timeline: list[VisitRecord | RunNote] = []
        self._open: dict[tuple[str, int], VisitRecord] = {}  # visits that are not on the timeline yet

    def add(self, record: AnyRecord) -> None:
        """Add the next record."""
        self.position += 1
        match record:
            case AttemptFailed():
                self._end_attempt(record, record.stage, record.visit, record.attempt, AttemptEnd.FAILED)
            case StageErrored():
                self._end_attempt(record, record.stage, record.visit, record.attempt, AttemptEnd.ERRORED)
            case BranchCompleted():
                number = self._state.progress.attempt(record.branch)
                self._end_attempt(record, record.branch, record.branch_visit, number, AttemptEnd.DONE)
            case VisitCompleted():
                self._end_attempt(record, record.stage, record.visit, record.attempt, AttemptEnd.DONE)
                self._timeline += [self._joined(branch) for branch in record.branches]
                visit = self._open.pop((record.stage, record.visit))
                self._timeline.append(replace(visit, chosen=record.chosen, option=record.option))
            case RunResumed():
                self._open = self._unfinished(AttemptEnd.INTERRUPTED, record.at)
        if text := _note_text(record):
            self._timeline.append(RunNote(record.at, text))
        self._state = apply(self._state, record)
        self._at = record.at

    def build(self) -> RunHistory:
        """The history up to the last record."""
        timeline = list(self._timeline)
        for visit in self._unfinished(AttemptEnd.OPEN, inf).values():
            place = len(timeline)
            while visit.ended is not None and place and isinstance(note := timeline[place - 1], RunNote):
                if note.at < visit.ended:
                    break
                place -= 1  # an error goes before the pause that followed it
            timeline.insert(place, visit)
        return RunHistory(self._created, self._state, tuple(timeline), self.position, self._at)

    def _end_attempt(self, record: _AttemptEnded, stage: str, visit: int, number: int, end: AttemptEnd) -> None:
        delay = record.delay if isinstance(record, AttemptFailed) else 0.0
        attempt = AttemptRecord(number, end, record.outcome, delay, self.position, record.at)
        began = record.at - record.outcome.duration
        self._open[stage, visit] = self._with_attempt(stage, visit, attempt, began)

    def _with_attempt(self, stage: str, visit: int, attempt: AttemptRecord, began: float = inf) -> VisitRecord:
        # The last record may be that of another branch, written while this one ran: `began` can be earlier.
        found = self._open.get((stage, visit)) or VisitRecord(stage, visit, min(self._at, began))
        current, earlier = self._state.cursor.stage, found.attempts
        if earlier and earlier[-1].number == attempt.number:  # a branch was done, and is an error after all
            attempt = replace(attempt, seq=earlier[-1].seq)  # which the prompt is attached to
            earlier = earlier[:-1]
        return replace(found, attempts=(*earlier, attempt), within=current if stage != current else "")

    def _joined(self, branch: BranchResult) -> VisitRecord:
        """The visit of a branch with its final outcome, which plugins may have amended."""
        visit = self._open.pop((branch.stage, branch.visit), VisitRecord(branch.stage, branch.visit, self._at))
        if not visit.attempts:
            return visit
        last = replace(visit.attempts[-1], outcome=branch.outcome)
        return replace(visit, attempts=(*visit.attempts[:-1], last))

    def _unfinished(self, end: AttemptEnd, now: float) -> dict[tuple[str, int], VisitRecord]:
        """The open visits; the running attempts end like this, or as cancelled if the run was."""
        end = AttemptEnd.CANCELLED if self._state.status is RunStatus.CANCELLED else end
        progress, visits = self._state.progress, dict(self._open)
        for stage, visit in running_visits(self._state):
            if progress.retry_at.get(stage, now) <= now:  # else the next attempt has not begun
                visits[stage, visit] = self._with_attempt(stage, visit, AttemptRecord(progress.attempt(stage), end))
        return visits


def running_visits(state: State) -> list[tuple[str, int]]:
    """The visits that are running, or were when their process died: the start of most is not recorded."""
    stage = state.stage
    if waits_for_person(stage) or state.status not in (RunStatus.RUNNING, RunStatus.CANCELLED):
        return []
    if not isinstance(stage, ParallelStage):
        return [] if stage.id in state.progress.errors else [(stage.id, state.cursor.visit)]
    ended = state.progress.branches.keys() | state.progress.errors.keys()
    names = [branch.stage for branch in stage.branches if branch.stage not in ended]
    return [(name, state.visits.get(name, 0) + 1) for name in names]


def _note_text(record: AnyRecord) -> str:
    """What happened to the run itself; empty for a record about a visit."""
    match record:
        case RunCancelled():
            return "cancelled"
        case RunResumed():
            raised = ", ".join(f"{name}={value:g}" for name, value in record.raised.items())
            text = f"resumed with {raised}" if raised else "resumed"
            text += ", the interrupted stage repeated" if record.repeat else ""
            return f"{text}; what it left is kept as {record.torn}" if record.torn else text
        case RunPaused():
            return f"paused: {record.reason}"
        case RunFailed():
            return f"failed: {record.reason}"
        case RunWaiting():
            return ": ".join(filter(None, (f'waiting: stage "{record.stage}" asks a person', record.reason)))
        case WorkflowAdopted():
            return f"adopted {record.file}"
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class AttemptArtifacts:
    """What one attempt left: its record, and the directory with the files of its programs."""

    run_id: str
    stage: str
    kind: str  # of the stage; empty when the workflow no longer has it
    visit: int
    attempt: int
    directory: Path
    outcome: Outcome | None  # None while the attempt runs, or when it was interrupted
    seq: int | None  # the record of its end, which the prompt is attached to

    @property
    def done(self) -> bool:
        """Whether the attempt has an outcome."""
        return self.outcome is not None

    def file(self, name: str) -> Path | None:
        """A file of the attempt; None when it does not exist."""
        path = self.directory / name
        return path if path.is_file() else None


def find_artifacts(
    store: Path, history: RunHistory, stage: str, visit: int | None = None, attempt: int | None = None
) -> AttemptArtifacts:
    """What one attempt left; by default the last attempt of the stage's last visit."""
    run_id, declared = history.state.run_id, history.state.workflow.by_id
    visits = {one.visit: one for one in history.visits_of(stage)}
    found = visits.get(max(visits) if visit is None else visit)
    if found is None:
        raise AwfError(f'run {run_id} has no visit {visit} of stage "{stage}"', help=f"its last visit is {max(visits)}")
    number = found.attempt if attempt is None else attempt
    recorded = next((one for one in found.attempts if one.number == number), None)
    if recorded is None and found.attempts:
        help = f"it had {', '.join(f'attempt {one.number}' for one in found.attempts)}"
        raise AwfError(f'visit {found.visit} of stage "{stage}" had no attempt {number}', help=help)
    outcome = recorded.outcome if recorded else None
    logs = list(outcome.logs.values()) if outcome else []
    return AttemptArtifacts(
        run_id=run_id,
        stage=stage,
        kind=str(declared[stage].kind) if stage in declared else "",
        visit=found.visit,
        attempt=number,
        directory=(store / logs[0]).parent if logs else attempt_directory(store, run_id, stage, found.visit, number),
        outcome=outcome,
        seq=recorded.seq if recorded else None,
    )


def read_ledger(journal: Journal) -> "Ledger | None":
    """Return the findings of a journal; None when it has none."""
    if next(journal.ledger(), None) is None:
        return None
    from pipeline.findings.ledger import LedgerStore  # noqa: PLC0415 - takes 40 ms, and most runs have no findings
    from pipeline.findings.untaken import untaken  # noqa: PLC0415 - as above

    return LedgerStore(journal, untaken(journal)).ledger()


def read_review(journal: Journal, run_id: str) -> "Review | None":
    """Return what is known about the target of a run; None for a run without reviews."""
    ledger = read_ledger(journal)
    if ledger is None:
        return None
    from pipeline.findings.reviews import review_of_run  # noqa: PLC0415 - as above

    return review_of_run(ledger, run_id)


def read_rounds(journal: Journal, run_id: str) -> "list[Round]":
    """Return the review rounds of a run; none for a run without findings."""
    ledger = read_ledger(journal)
    if ledger is None:
        return []
    from pipeline.findings.rounds import rounds  # noqa: PLC0415 - as above

    return rounds(ledger, run_id)

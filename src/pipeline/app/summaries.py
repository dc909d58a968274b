"""Runs in one line each, without replaying them: only what the line says is gathered from a run's records."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pipeline.engine.context import EMPTY, Context, Key
from pipeline.engine.fold import created, read_workflow
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    RunCancelled,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError

INTERRUPTED = "interrupted"  # on record as running, and nobody is at it
UNKNOWN = "unknown"  # on record as running, and whether somebody is at it cannot be found out now
_STATUS = {
    "run_waiting": RunStatus.WAITING,
    "run_paused": RunStatus.PAUSED,
    "run_failed": RunStatus.FAIL,
    "run_cancelled": RunStatus.CANCELLED,
}

Driven = Callable[[str], bool | None]  # whether somebody is at a run; None where nobody knows


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in one line."""

    run_id: str
    workflow: str
    goal: str
    began: float
    last: float
    status: str
    reason: str
    stage: str
    visit: int
    visits: int
    outstanding: int
    cost_usd: float
    until: float | None = None  # when a used-up quota resets


class Gathering:
    """What a run's line says, gathered record by record: a run that went on costs only its new records."""

    def __init__(self, first: AnyRecord | None) -> None:
        first = created(first)
        self._first, self._last = first, first.at
        self._name, self._goal, self._stage = _workflow(first.file, first.source)
        self._status, self._reason = RunStatus.RUNNING, ""
        self._until: float | None = None
        self._errored = False  # whether the run failed within a visit
        self._completed: dict[str, int] = {}
        self._visits, self._cost = 0, 0.0
        self._findings: Context = EMPTY

    def take(self, record: AnyRecord) -> None:
        """Add the next record."""
        self._last = record.at
        self._errored = isinstance(record, RunFailed)
        match record:
            case VisitCompleted():
                self._visit_done(record)
            case AttemptFailed() | StageErrored():
                self._cost += _cost(record.outcome)
            case RunFailed():
                self._status, self._reason = RunStatus.FAIL, record.reason
            case RunPaused():
                self._status, self._reason, self._until = RunStatus.PAUSED, record.reason, record.until
            case RunWaiting():
                self._status, self._reason = RunStatus.WAITING, f'stage "{record.stage}" waits for a person'
            case RunCancelled():
                self._status, self._reason = RunStatus.CANCELLED, record.reason
            case RunResumed():
                self._status, self._reason, self._until = RunStatus.RUNNING, "", None

    def _visit_done(self, record: VisitCompleted) -> None:
        self._visits += 1 + len(record.branches)
        self._cost += _cost(record.outcome) + sum(_cost(branch.outcome) for branch in record.branches)
        self._completed[record.stage] = record.visit
        if changed := [operation for operation in record.operations if operation[1] == Key.FINDINGS]:
            self._findings = self._findings.apply(changed)
        if record.ends is None:
            self._stage = record.chosen.target or record.stage
        else:
            self._status, self._reason, self._stage = RunStatus(record.ends), record.chosen.reason, record.stage

    def summary(self) -> Summary:
        """The line as the records have it: whether somebody is at the run is not on record."""
        return Summary(
            run_id=self._first.run_id,
            workflow=self._name,
            goal=self._first.goal or self._goal,
            began=self._first.at,
            last=self._last,
            status=self._status,
            reason=self._reason,
            stage=self._stage,
            visit=self._completed.get(self._stage, 0) + (1 if self._errored or not self._status.final else 0),
            visits=self._visits,
            outstanding=len(self._findings.list_at(Key.FINDINGS)),
            cost_usd=round(self._cost, 6),
            until=self._until,
        )


def _cost(outcome: Outcome) -> float:
    return (outcome.usage.cost_usd or 0.0) if outcome.usage else 0.0


def status_after(record: AnyRecord) -> RunStatus:
    """How a run stands by one of its records, when that is the last."""
    ends = record.ends if isinstance(record, VisitCompleted) else None
    return RunStatus(ends) if ends else _STATUS.get(record.kind, RunStatus.RUNNING)


def running(*, driven: bool | None) -> str:
    """What a run is called that is on record as running."""
    return UNKNOWN if driven is None else str(RunStatus.RUNNING) if driven else INTERRUPTED


def summarise(records: Iterable[AnyRecord], is_driven: Driven) -> Summary:
    """A run in one line; one that is on record as running, and that nobody drives, was interrupted."""
    remaining = iter(records)
    gathering = Gathering(next(remaining, None))
    for record in remaining:
        gathering.take(record)
    return as_driven(gathering.summary(), is_driven)


def as_driven(summary: Summary, is_driven: Driven) -> Summary:
    """The line with what no record says: a run that is running, and that nobody drives, was interrupted."""
    if summary.status != RunStatus.RUNNING:
        return summary
    return replace(summary, status=running(driven=is_driven(summary.run_id)))


@lru_cache(maxsize=64)
def _workflow(file: str, source: str) -> tuple[str, str, str]:
    """The name, goal and first stage of a recorded workflow; of many runs most have the same."""
    try:
        workflow = read_workflow(file, source)
    except AwfError:  # written for an older language; the list still shows the run
        return file, "", ""
    return workflow.name, workflow.goal, workflow.start

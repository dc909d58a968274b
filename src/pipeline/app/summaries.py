"""Runs in one line each, without replaying them: only what the line says is gathered from a run's records."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from pipeline.engine.context import EMPTY, Context, Key
from pipeline.engine.fold import read_workflow
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    RunCancelled,
    RunCreated,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
    unpacked,
)
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError

INTERRUPTED = "interrupted"  # on record as running, and nobody is at it


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


@dataclass(slots=True)
class _Gathered:
    """What the line needs, gathered record by record."""

    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    stage: str = ""
    visits: int = 0
    cost: float = 0.0
    findings: Context = EMPTY

    def take(self, record: AnyRecord, completed: dict[str, int]) -> None:
        match record:
            case VisitCompleted():
                self._completed(record, completed)
            case AttemptFailed():
                self.cost += _cost(record.outcome)
            case RunPaused():
                self.status, self.reason = RunStatus.PAUSED, record.reason
            case RunWaiting():
                self.status, self.reason = RunStatus.WAITING, f'stage "{record.stage}" waits for a person'
            case RunCancelled():
                self.status, self.reason = RunStatus.CANCELLED, record.reason
            case RunResumed():
                self.status, self.reason = RunStatus.RUNNING, ""

    def _completed(self, record: VisitCompleted, completed: dict[str, int]) -> None:
        self.visits += 1 + len(record.branches)
        self.cost += _cost(record.outcome) + sum(_cost(branch.outcome) for branch in record.branches)
        completed[record.stage] = record.visit
        changed = tuple(operation for operation in record.operations if operation[1] == Key.FINDINGS)
        if changed:
            self.findings = self.findings.apply(unpacked(changed))
        if record.ends is None:
            self.stage = record.chosen.target or record.stage
        else:
            self.status, self.reason, self.stage = RunStatus(record.ends), record.chosen.reason, record.stage


def _cost(outcome: Outcome) -> float:
    return (outcome.usage.cost_usd or 0.0) if outcome.usage else 0.0


def summarise(records: Iterable[AnyRecord], is_driven: Callable[[str], bool]) -> Summary:
    """A run in one line; one that is on record as running, and that nobody drives, was interrupted."""
    remaining = iter(records)
    first = next(remaining, None)
    if not isinstance(first, RunCreated):
        raise AwfError("the journal of this run does not begin with its creation")
    name, goal, start = _workflow(first.file, first.source)
    gathered, completed, last = _Gathered(stage=start), dict[str, int](), first.at
    for record in remaining:
        gathered.take(record, completed)
        last = record.at
    over = gathered.status.final
    summary = Summary(
        run_id=first.run_id,
        workflow=name,
        goal=first.goal or goal,
        began=first.at,
        last=last,
        status=gathered.status,
        reason=gathered.reason,
        stage=gathered.stage,
        visit=completed.get(gathered.stage, 0) + (0 if over else 1),
        visits=gathered.visits,
        outstanding=len(gathered.findings.list_at(Key.FINDINGS)),
        cost_usd=round(gathered.cost, 6),
    )
    interrupted = gathered.status is RunStatus.RUNNING and not is_driven(first.run_id)
    return replace(summary, status=INTERRUPTED) if interrupted else summary


@lru_cache(maxsize=64)
def _workflow(file: str, source: str) -> tuple[str, str, str]:
    """The name, goal and first stage of a recorded workflow; of many runs most have the same."""
    try:
        workflow = read_workflow(file, source)
    except AwfError:  # written for an older language; the list still shows the run
        return file, "", ""
    return workflow.name, workflow.goal, workflow.start

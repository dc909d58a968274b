"""What a person can do about a run that has stopped: what to fix, and the options that resume it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from math import ceil
from typing import Any

from pipeline.app.history import StageTotals, VisitRecord, stage_totals, visits_of
from pipeline.engine.context import EMPTY, Context
from pipeline.engine.machine import EFFECTS, HOLD, Ask, Pause, decide
from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome
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
from pipeline.engine.state import RunStatus, State, apply, creation_record, read_workflow, replay
from pipeline.errors import AwfError
from pipeline.findings.keys import ReviewKey
from pipeline.language.model import HumanStage, LlmStage, ToolStage, WorkflowSettings, write_duration

_ADVICE: dict[str, str] = {
    ErrorKind.AUTH: "Log the agent in, or set its key, then resume.",
    ErrorKind.QUOTA: "Wait until the quota resets, or resume with another agent.",
    ErrorKind.RATE_LIMIT: "Wait a few minutes, then resume.",
    ErrorKind.SERVER: "Resume when the provider works again.",
    ErrorKind.INVALID: "Check the model and the length of the prompt, then resume.",
    ErrorKind.CONFIG: "Check the agent with awf doctor, then resume.",
    ErrorKind.DENIED: "Allow the agent what it was refused, then resume.",
    ErrorKind.EMPTY: "Resume to ask the agent again.",
    ErrorKind.PROTOCOL: "Read the answer in its logs, then resume to ask again.",  # FailureClass.PROTOCOL as well
    ErrorKind.KILLED: "Look at its logs, then resume.",
    ErrorKind.SPAWN: "Check that the agent is installed with awf doctor, then resume.",
    FailureClass.SPAWN_ERROR: "Fix what kept it from starting, then resume.",
    FailureClass.INTERNAL: "Fix the plugin or report the problem, then resume.",
}
_MORE = {"max_visits": "+10", "max_stages": "+100"}


def error_kind(failure: Failure | None) -> str:
    """What kind of error it was, in one word."""
    return str(failure.error or failure.kind) if failure else "error"


def advice(failure: Failure | None) -> str:
    """What to do about an error."""
    return _ADVICE.get(error_kind(failure), "Look at its logs, then resume.")


def resume_commands(run_id: str, options: Sequence[str], until: float | None, now: float) -> list[str]:
    """The commands that resume a run: before a used-up quota resets, one that waits for it and one that does not."""
    command = " ".join(["awf resume", run_id, *options])
    return [command] if until is None or until <= now else [f"{command} --wait", f"{command} --now"]


def resume_options(state: State) -> list[str]:
    """The options `awf resume` needs so that a stopped run goes on."""
    return list(_options(apply(state, RunResumed(at=0.0))))


def _options(state: State) -> Iterator[str]:
    """Ask the machine again and again, each time with what stopped it out of the way."""
    while isinstance(command := decide(state), Pause):
        if command.limit == HOLD:
            return  # nobody has been told of it yet: resumed, it stops there at once and says why
        if command.limit == EFFECTS:
            yield "--repeat"
            state = state._replace(repeat=True)
        else:
            yield f"--raise {command.limit}={_more(command)}"
            state = state._replace(settings=_without(state.settings, command.limit))


def _more(reached: Pause) -> str:
    """Some more visits; of time and money as much again as was spent."""
    if reached.limit == "max_duration":
        return f"+{write_duration(timedelta(minutes=ceil(reached.count / 60)))}"
    return _MORE.get(reached.limit) or f"+{ceil(reached.count)}"


def _without(settings: WorkflowSettings, limit: str) -> WorkflowSettings:
    unlimited = None if limit in ("max_duration", "max_cost_usd") else 1_000_000_000
    return settings.model_copy(update={limit: unlimited})


def asked(state: State) -> HumanStage | None:
    """The human stage that a resumed run would ask at, or None."""
    command = decide(apply(state, RunResumed(at=0.0)))
    return state.stage if isinstance(command, Ask) and isinstance(state.stage, HumanStage) else None


INTERRUPTED = "interrupted"  # on record as running, and nobody is at it
UNKNOWN = "unknown"  # on record as running, and whether somebody is at it cannot be found out now
_STATUS = {
    "run_waiting": RunStatus.WAITING,
    "run_paused": RunStatus.PAUSED,
    "run_failed": RunStatus.FAIL,
    "run_cancelled": RunStatus.CANCELLED,
}

IsDriven = Callable[[str], bool | None]  # whether somebody is at a run; None where nobody knows


@dataclass(frozen=True, slots=True)
class RunSummary:
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
        first = creation_record(first)
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
        if changed := [operation for operation in record.operations if operation[1] == ReviewKey.REPORTS]:
            self._findings = self._findings.apply(changed)
        if record.ends is None:
            self._stage = record.chosen.target or record.stage
        else:
            self._status, self._reason, self._stage = RunStatus(record.ends), record.chosen.reason, record.stage

    def summary(self) -> RunSummary:
        """The line as the records have it: whether somebody is at the run is not on record."""
        return RunSummary(
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
            outstanding=len(self._findings.list_at(ReviewKey.REPORTS)),
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


def summarise(records: Iterable[AnyRecord], is_driven: IsDriven) -> RunSummary:
    """A run in one line; one that is on record as running, and that nobody drives, was interrupted."""
    remaining = iter(records)
    gathering = Gathering(next(remaining, None))
    for record in remaining:
        gathering.take(record)
    return as_driven(gathering.summary(), is_driven)


def as_driven(summary: RunSummary, is_driven: IsDriven) -> RunSummary:
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


NOTES = "review.notes"  # where the findings plugin keeps what it put back in view files


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of a limit is used; `allowed` is None where there is none."""

    name: str
    used: float
    allowed: float | None
    stage: str = ""  # the one with the most visits


@dataclass(frozen=True, slots=True)
class ErroredStage:
    """A stage that could not do its job, and what to do about it."""

    stage: str
    visit: int
    attempt: int
    within: str  # the parallel stage, for a branch
    kind: str  # such as auth or quota
    reason: str
    advice: str
    until: float | None  # when its quota resets


@dataclass(frozen=True, slots=True)
class RunOverview:
    """A run at a glance."""

    run_id: str
    workflow: str
    goal: str
    began: float
    status: str
    reason: str
    until: float | None  # when a used-up quota resets
    stage: str
    visit: int
    limits: tuple[LimitUsage, ...]
    stages: tuple[StageTotals, ...]
    errors: tuple[ErroredStage, ...]  # of stages that have not run again since
    findings: tuple[dict[str, Any], ...]  # stage, iteration and reason of each
    notes: tuple[dict[str, Any], ...]  # stage, visit, at and note of what was put back in view files, newest last
    tokens: int
    workspace: str
    resume: tuple[str, ...] | None  # what `awf resume` needs; None when there is nothing to resume
    question: str  # what a person would be asked
    options: tuple[str, ...]
    failed: str  # the stage whose logs tell more, of a run that failed or paused at an error


def overview_of(records: Sequence[AnyRecord], *, driven: bool | None) -> RunOverview:
    """How a run stands; one that is on record as running, and that nobody drives, was interrupted."""
    return standing(replay(records), visits_of(records), records[0].at, driven=driven)


def standing(state: State, visits: Sequence[VisitRecord], began: float, *, driven: bool | None) -> RunOverview:
    """The same, of a run whose records have been read already."""
    stopped = state.status is not RunStatus.SUCCESS and driven is False
    gate = None if state.status.final else asked(state)
    return RunOverview(
        run_id=state.run_id,
        workflow=state.workflow.name,
        goal=state.goal,
        began=began,
        status=running(driven=driven) if state.status is RunStatus.RUNNING else state.status,
        reason=state.reason,
        until=state.until,
        stage=state.cursor.stage,
        visit=state.cursor.visit,
        limits=tuple(_limits(state)),
        stages=tuple(stage_totals(visits)),
        errors=() if state.status is RunStatus.SUCCESS else tuple(_errors(state, visits)),
        findings=tuple(_finding(report) for report in state.context.list_at(ReviewKey.REPORTS)),
        notes=view_notes(state),
        tokens=state.tokens,
        workspace=_workspace(state),
        resume=tuple(resume_options(state)) if stopped else None,
        question=gate.prompt if gate else "",
        options=tuple(option.key for option in gate.options) if gate else (),
        failed=_failed(state, visits),
    )


def _errors(state: State, visits: Sequence[VisitRecord]) -> Iterator[ErroredStage]:
    for visit in visits:
        if error := visit.error:
            known = state.progress.errors.get(visit.stage)
            yield ErroredStage(
                stage=visit.stage,
                visit=visit.visit,
                attempt=visit.attempt,
                within=visit.within,
                kind=error_kind(error.failure),
                reason=error.reason,
                advice=advice(error.failure),
                until=known.until if known else None,
            )


def view_notes(state: State) -> tuple[dict[str, Any], ...]:
    """What was put back in view files, newest last; an entry that is not one of those is left out."""
    return tuple(_note(note) for note in state.context.list_at(NOTES) if isinstance(note, dict))


def _note(note: Mapping[str, Any]) -> dict[str, Any]:
    visit = note.get("visit")
    texts = {name: str(note.get(name, "")) for name in ("stage", "at", "note")}
    return {**texts, "visit": visit if isinstance(visit, int) else 0}


def _limits(state: State) -> Iterator[LimitUsage]:
    settings = state.settings
    most = max(state.visits, key=lambda name: state.visits[name], default="")
    yield LimitUsage("max_visits", state.visits.get(most, 0), settings.max_visits, most)
    yield LimitUsage("max_stages", state.stages_run, settings.max_stages)
    duration = settings.max_duration.total_seconds() if settings.max_duration else None
    yield LimitUsage("max_duration", round(state.seconds, 3), duration)
    yield LimitUsage("max_cost_usd", round(state.cost_usd, 6), settings.max_cost_usd)


def _finding(report: Any) -> dict[str, Any]:
    """A stage report in three fields, whatever else it holds."""
    fields = report if isinstance(report, dict) else {}
    reason = str(fields.get("failureReason") or fields.get("response") or "")
    return {"stage": fields.get("stageId", ""), "iteration": fields.get("iteration"), "reason": reason}


def _workspace(state: State) -> str:
    workspace = state.workspace
    return f"{workspace.path} on {workspace.branch} at {workspace.commit[:12]}" if workspace else ""


def _failed(state: State, visits: Sequence[VisitRecord]) -> str:
    """The last stage with logs that errored, or of a failed run did not pass."""
    for visit in reversed(visits):
        stage = state.workflow.by_id.get(visit.stage)
        failed = state.status is RunStatus.FAIL and visit.outcome and not visit.outcome.status.passes
        if isinstance(stage, LlmStage | ToolStage) and (failed or visit.error):
            return visit.stage
    return ""

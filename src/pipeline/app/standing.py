"""How one run stands, for a person who wants to know all of it at a glance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.app.history import StageSum, VisitSeen, stage_sums, visits_of
from pipeline.app.next_step import advice, asked, kind_of, resume_options
from pipeline.app.summaries import running
from pipeline.engine.context import Key
from pipeline.engine.fold import replay
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import RunStatus, State
from pipeline.language.model import LlmStage, ToolStage

NOTES = "review.notes"  # where the findings plugin keeps what it put back in view files


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of a limit is used; `allowed` is None where there is none."""

    name: str
    used: float
    allowed: float | None
    stage: str = ""  # the one with the most visits


@dataclass(frozen=True, slots=True)
class Errored:
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
class Standing:
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
    limits: tuple[Limit, ...]
    stages: tuple[StageSum, ...]
    errors: tuple[Errored, ...]  # of stages that have not run again since
    findings: tuple[dict[str, Any], ...]  # stage, iteration and reason of each
    notes: tuple[dict[str, Any], ...]  # stage, visit, at and note of what was put back in view files, newest last
    tokens: int
    workspace: str
    resume: tuple[str, ...] | None  # what `awf resume` needs; None when there is nothing to resume
    question: str  # what a person would be asked
    options: tuple[str, ...]
    failed: str  # the stage whose logs tell more, of a run that failed or paused at an error


def standing_of(records: Sequence[AnyRecord], *, driven: bool | None) -> Standing:
    """How a run stands; one that is on record as running, and that nobody drives, was interrupted."""
    return standing(replay(records), visits_of(records), records[0].at, driven=driven)


def standing(state: State, visits: Sequence[VisitSeen], began: float, *, driven: bool | None) -> Standing:
    """The same, of a run whose records have been read already."""
    stopped = state.status is not RunStatus.SUCCESS and driven is False
    gate = None if state.status.final else asked(state)
    return Standing(
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
        stages=tuple(stage_sums(visits)),
        errors=() if state.status is RunStatus.SUCCESS else tuple(_errors(state, visits)),
        findings=tuple(_finding(report) for report in state.context.list_at(Key.FINDINGS)),
        notes=notes_of(state),
        tokens=state.tokens,
        workspace=_workspace(state),
        resume=tuple(resume_options(state)) if stopped else None,
        question=gate.prompt if gate else "",
        options=tuple(option.key for option in gate.options) if gate else (),
        failed=_failed(state, visits),
    )


def _errors(state: State, visits: Sequence[VisitSeen]) -> Iterator[Errored]:
    for visit in visits:
        if error := visit.error:
            known = state.progress.errors.get(visit.stage)
            yield Errored(
                stage=visit.stage,
                visit=visit.visit,
                attempt=visit.attempt,
                within=visit.within,
                kind=kind_of(error.failure),
                reason=error.reason,
                advice=advice(error.failure),
                until=known.until if known else None,
            )


def notes_of(state: State) -> tuple[dict[str, Any], ...]:
    """What was put back in view files, newest last; an entry that is not one of those is left out."""
    return tuple(_note(note) for note in state.context.list_at(NOTES) if isinstance(note, dict))


def _note(note: Mapping[str, Any]) -> dict[str, Any]:
    visit = note.get("visit")
    texts = {name: str(note.get(name, "")) for name in ("stage", "at", "note")}
    return {**texts, "visit": visit if isinstance(visit, int) else 0}


def _limits(state: State) -> Iterator[Limit]:
    settings = state.settings
    most = max(state.visits, key=lambda name: state.visits[name], default="")
    yield Limit("max_visits", state.visits.get(most, 0), settings.max_visits, most)
    yield Limit("max_stages", state.stages_run, settings.max_stages)
    duration = settings.max_duration.total_seconds() if settings.max_duration else None
    yield Limit("max_duration", round(state.seconds, 3), duration)
    yield Limit("max_cost_usd", round(state.cost_usd, 6), settings.max_cost_usd)


def _finding(report: Any) -> dict[str, Any]:
    """A stage report in three fields, whatever else it holds."""
    fields = report if isinstance(report, dict) else {}
    reason = str(fields.get("failureReason") or fields.get("response") or "")
    return {"stage": fields.get("stageId", ""), "iteration": fields.get("iteration"), "reason": reason}


def _workspace(state: State) -> str:
    workspace = state.workspace
    return f"{workspace.path} on {workspace.branch} at {workspace.commit[:12]}" if workspace else ""


def _failed(state: State, visits: Sequence[VisitSeen]) -> str:
    """The last stage with logs that errored, or of a failed run did not pass."""
    for visit in reversed(visits):
        stage = state.workflow.by_id.get(visit.stage)
        failed = state.status is RunStatus.FAIL and visit.outcome and not visit.outcome.status.passes
        if isinstance(stage, LlmStage | ToolStage) and (failed or visit.error):
            return visit.stage
    return ""

"""Gathers what a page about a run tells, from its records. The same records and ledger give the same report."""

from collections.abc import Sequence
from math import inf

from pipeline.app.history import AttemptEnd, AttemptRecord, RunNote, VisitRecord, story_of
from pipeline.app.overview import RunOverview, error_kind, overview_of
from pipeline.app.report.model import DiffSize, PathStep, ReviewSummary, RunReport
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State, creation_record, replay
from pipeline.text import format_duration


def report_of(
    records: Sequence[AnyRecord], reviewed: ReviewSummary, diff: DiffSize | None, *, driven: bool
) -> RunReport:
    """What a run did, with what the ledger and git know of it."""
    state, standing = replay(records), overview_of(records, driven=driven)
    return RunReport(
        run_id=state.run_id,
        workflow=state.workflow.name,
        file=creation_record(records[0]).file,
        goal=state.goal,
        status=standing.status,
        reason=state.reason,
        until=state.until,
        resume="" if standing.resume is None else " ".join(["awf resume", state.run_id, *standing.resume]),
        began=records[0].at,
        ended=records[-1].at,
        seconds=state.seconds,
        tokens=state.tokens,
        cost_usd=state.cost_usd,
        steps=tuple(_steps(story_of(records), _open_word(driven=driven, state=state))),
        stages=standing.stages,
        outstanding=_outstanding(standing),
        notes=tuple((note["stage"], note["visit"], note["note"]) for note in standing.notes),
        reviewed=reviewed,
        diff=diff,
    )


def head_of(records: Sequence[AnyRecord]) -> str:
    """The commit that was checked out when a run began; nothing where none was, or where nobody asked."""
    return creation_record(records[0]).head


def _open_word(*, driven: bool, state: State) -> str:
    """How a visit stands that has no outcome."""
    return "running" if driven and not state.status.final else "interrupted"


def _steps(story: Sequence[VisitRecord | RunNote], open_word: str) -> list[PathStep]:
    """Visits, attempts and what happened between them, each where it ended; what has not ended is last."""
    steps = list[tuple[float, PathStep]]()
    for part in story:
        if isinstance(part, RunNote):
            steps.append((part.at, PathStep("", part.text)))
            continue
        ended = [(one, one.outcome, one.at) for one in part.attempts]
        steps += [(at, _attempt(part, one, outcome)) for one, outcome, at in ended if outcome and at is not None]
        if part.error is None:
            steps.append((inf if part.ended is None else part.ended, _visit(part, open_word)))
    return [step for _, step in sorted(steps, key=lambda pair: pair[0])]


def _attempt(visit: VisitRecord, attempt: AttemptRecord, outcome: Outcome) -> PathStep:
    """An attempt that failed or errored; the last one of a visit that errored stands for the visit."""
    last = outcome is visit.error
    return PathStep(
        stage=visit.stage,
        said=outcome.reason
        + (f" (again after {format_duration(attempt.delay)})" if attempt.ended is AttemptEnd.FAILED else ""),
        visit=visit.visit,
        status=outcome.status,
        source=error_kind(outcome.failure) if outcome.status is Status.ERROR else outcome.source,
        seconds=outcome.duration,
        attempts=attempt.number,
        attempt=0 if last else attempt.number,
        within=visit.within,
    )


def _visit(part: VisitRecord, open_word: str) -> PathStep:
    outcome = part.outcome
    return PathStep(
        stage=part.stage,
        said=outcome.reason if outcome else "",
        visit=part.visit,
        status=outcome.status if outcome else open_word,
        source=outcome.source if outcome else "",
        seconds=outcome.duration if outcome else None,
        attempts=part.attempt,
        within=part.within,
        to=(part.chosen.target or "") if part.chosen else "",
    )


def _outstanding(standing: RunOverview) -> tuple[tuple[str, int, str], ...]:
    return tuple((str(one["stage"]), _whole(one["iteration"]), one["reason"]) for one in standing.findings)


def _whole(number: object) -> int:
    return number if isinstance(number, int) else 0

"""Gathers what a page about a run tells, from its records. The same records and ledger give the same report."""

from collections.abc import Sequence

from pipeline.app.history import Note, VisitSeen, story_of
from pipeline.app.report.model import Diff, Report, Reviewed, Step
from pipeline.app.standing import Standing, standing_of
from pipeline.engine.fold import created, replay
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State


def report_of(records: Sequence[AnyRecord], reviewed: Reviewed, diff: Diff | None, *, driven: bool) -> Report:
    """What a run did, with what the ledger and git know of it."""
    state, standing = replay(records), standing_of(records, driven=driven)
    return Report(
        run_id=state.run_id,
        workflow=state.workflow.name,
        file=created(records[0]).file,
        goal=state.goal,
        status=standing.status,
        reason=state.reason,
        began=records[0].at,
        ended=records[-1].at,
        seconds=state.seconds,
        tokens=state.tokens,
        cost_usd=state.cost_usd,
        steps=tuple(_step(part, _open_word(driven=driven, state=state)) for part in story_of(records)),
        stages=standing.stages,
        outstanding=_outstanding(standing),
        reviewed=reviewed,
        diff=diff,
    )


def head_of(records: Sequence[AnyRecord]) -> str:
    """The commit that was checked out when a run began; nothing where none was, or where nobody asked."""
    return created(records[0]).head


def _open_word(*, driven: bool, state: State) -> str:
    """How a visit stands that has no outcome."""
    return "running" if driven and not state.status.final else "interrupted"


def _step(part: VisitSeen | Note, open_word: str) -> Step:
    if isinstance(part, Note):
        return Step("", part.text)
    outcome = part.outcome
    return Step(
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


def _outstanding(standing: Standing) -> tuple[tuple[str, int, str], ...]:
    return tuple((str(one["stage"]), _whole(one["iteration"]), one["reason"]) for one in standing.findings)


def _whole(number: object) -> int:
    return number if isinstance(number, int) else 0

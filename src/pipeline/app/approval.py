"""Whether a person approved a change that its reviews do not pass."""

from typing import TYPE_CHECKING

from pipeline.engine.outcome import StatusSource
from pipeline.engine.ports import Journal
from pipeline.engine.records import VisitCompleted
from pipeline.engine.state import State
from pipeline.language.model import BaseStage, HumanStage

if TYPE_CHECKING:
    from pipeline.findings.reviews import Review


def unapproved_verdict(state: State, journal: Journal, review: "Review | None") -> str:
    """Return the verdict that fails the change of a run and that no person overruled; empty if there is none."""
    if review is None or review.passed is None or review.passes_by_itself:
        return ""
    looked = (review.passed.stage, review.passed.visit)
    return "" if _is_approved(state, journal, looked) else review.headline


def _is_approved(state: State, journal: Journal, looked: tuple[str, int]) -> bool:
    """Return whether a person approved the change after it was looked at last."""
    approved = False
    for entry in journal.entries(state.run_id):
        record = entry.record
        if not isinstance(record, VisitCompleted):
            continue
        stage = state.workflow.by_id.get(record.stage)
        if (record.stage, record.visit) == looked:
            approved = False
        elif record.outcome.source is StatusSource.HUMAN and _approves(stage, record.option):
            approved = True
    return approved


def _approves(stage: BaseStage | None, option: str) -> bool:
    """Return whether an option of a stage approves the change. A triage does not: what it leaves open is open."""
    return isinstance(stage, HumanStage) and any(one.approves for one in stage.options if one.key == option)

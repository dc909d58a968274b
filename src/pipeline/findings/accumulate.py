"""`review.findings`: what each visit of a review or tool stage reported, kept until that stage passes.

A report is appended when a stage fails or passes in part, and a stage's reports are cleared when it passes. A review
that never took place reports nothing: what an agent could not say is not what it found.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline.engine.context import Append, Context, Discard, Operation, full_response_key, response_key
from pipeline.engine.outcome import FailureClass, Outcome, Status, response_base
from pipeline.engine.routing import ExpressionFunction
from pipeline.findings.keys import FINDINGS_CHANGED, ReviewKey
from pipeline.language.model import BaseStage, ToolStage, is_review
from pipeline.plugins.hooks import hookimpl

_NOTHING_SAID = frozenset({FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL})


@hookimpl
def after_stage(stage: BaseStage, visit: int, outcome: Outcome, context: Context, at: float) -> Iterator[Operation]:
    """Append a report, or clear the stage's reports."""
    if not reports(stage):
        return
    if outcome.status in (Status.FAIL, Status.PARTIAL_SUCCESS):
        if _said(stage, outcome):
            yield Append(ReviewKey.REPORTS, report(stage, visit, outcome, context, at))
    elif outcome.status is Status.SUCCESS and _has_reports(context, stage.id):
        yield Discard(ReviewKey.REPORTS, {"stageId": stage.id})


@hookimpl
def commit_events(before: Context, after: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """Announce how many reports are open after a commit that changed them."""
    reports = after.list_at(ReviewKey.REPORTS)
    if reports != before.list_at(ReviewKey.REPORTS):
        yield FINDINGS_CHANGED, {"outstanding": len(reports)}


@hookimpl
def expression_functions() -> Mapping[str, ExpressionFunction]:
    """The functions that conditions and loops ask about findings."""
    return {"findings": count_reports, "verdict": last_verdict, "stalled": stall_reason}


def count_reports(context: Context, stage: str | None) -> int:
    """Return the number of open reports, of all stages or of one."""
    reports = context.list_at(ReviewKey.REPORTS)
    if stage is None:
        return len(reports)
    return sum(1 for report in reports if isinstance(report, dict) and report.get("stageId") == stage)


def last_verdict(context: Context, _: str | None) -> str:
    """Return the verdict of the last structured review, or "none"."""
    verdict = context.get(ReviewKey.VERDICT)
    return verdict if isinstance(verdict, str) else "none"


def stall_reason(context: Context, _: str | None) -> str:
    """Return why another round of fixing would not help; empty if it may."""
    return str(context.get(ReviewKey.STALLED) or "")


def _said(stage: BaseStage, outcome: Outcome) -> bool:
    """Whether there is something to report. What a tool printed is there, also where its report cannot be read."""
    kind = outcome.failure.kind if outcome.failure else None
    return kind not in _NOTHING_SAID or (isinstance(stage, ToolStage) and kind is FailureClass.PROTOCOL)


def reports(stage: BaseStage) -> bool:
    """Whether a stage's failures are reports: those of reviews and tools are."""
    return is_review(stage) or isinstance(stage, ToolStage)


def report(stage: BaseStage, visit: int, outcome: Outcome, context: Context, at: float) -> dict[str, Any]:
    """One entry of `review.findings`. `iteration` is the stage's visit, which never restarts."""
    return {
        "stageId": stage.id,
        "iteration": visit,
        "status": str(outcome.status),
        "failureReason": _reason(stage, outcome),
        "response": _response(stage, outcome, context),
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
    }


def _reason(stage: BaseStage, outcome: Outcome) -> str:
    if isinstance(stage, ToolStage) and outcome.failure is not None:
        return outcome.failure.digest
    return outcome.reason


def _response(stage: BaseStage, outcome: Outcome, context: Context) -> str:
    if isinstance(stage, ToolStage) and outcome.failure is not None:
        tails = (outcome.failure.stdout_tail, outcome.failure.stderr_tail)
        return "\n".join(tail for tail in tails if tail)
    base = response_base(stage)
    return str(context.get(full_response_key(base)) or context.get(response_key(base)) or "")


def _has_reports(context: Context, stage: str) -> bool:
    return any(
        isinstance(entry, dict) and entry.get("stageId") == stage for entry in context.list_at(ReviewKey.REPORTS)
    )

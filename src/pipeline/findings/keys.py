"""The context keys of findings, and what conditions read of them. Nothing here needs the ledger."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pipeline.engine.context import Append, Context, Discard, Operation
from pipeline.engine.outcome import FailureClass, Outcome, Status
from pipeline.engine.ports import Concluded, Owned
from pipeline.findings import VIEWS
from pipeline.language.model import BaseStage, FindingsFormat, ToolStage, is_review

FINDINGS_CHANGED = "findings_changed"  # the event after a commit that added or cleared reports
NOTHING_SAID = frozenset({FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL})
NOTHING_OPEN: Mapping[str, Any] = {"open": 0, "to_be_fixed": 0, "stages": {}}  # the value of `ReviewKey.OPEN` at first
LISTED = "findingIds"  # of a report: its findings, which stand for its text
STILL_OPEN = "stillOpen"  # of a report in words: the findings of its stage that are still open
KEPT = "review.start"  # what an attempt was given to look at, among what is kept with its outcome


class ReviewKey:
    """The context keys of findings."""

    REPORTS = "review.findings"  # the open reports
    CHOSEN = "review.chosen"  # the ids of the findings that the next fix stage is given, and no others
    VERDICT = "review.verdict"
    OPEN = "review.open"  # how many findings of the run are open, and how many of them are to be fixed, by stage
    STALLED = "review.stalled"  # why another round of fixing would not help
    NOTES = "review.notes"  # what was put back in files, and what else is odd about them


OWNED = Owned(context_keys=(ReviewKey.REPORTS, ReviewKey.CHOSEN), files=VIEWS)


def finding_ids(context: Context) -> Iterator[str]:
    """The findings of the ledger that reports refer to."""
    for report in context.list_at(ReviewKey.REPORTS):
        for key in (LISTED, STILL_OPEN):
            ids = report.get(key) if isinstance(report, dict) else None  # a stage can write anything there
            if isinstance(ids, list):
                yield from (id for id in ids if isinstance(id, str))


def report_operations(
    stage: BaseStage,
    visit: int,
    outcome: Outcome,
    context: Context,
    at: float,
    ids: Sequence[str] = (),
    *,
    in_words: bool = False,
) -> Iterator[Operation]:
    """Append a report with the ids of its findings, or clear the reports of a stage that passed.

    A report in words is shown as it is, whichever findings its stage left open. `context` is that before the visit.
    """
    if not is_reporting(stage):
        return
    if outcome.status in (Status.FAIL, Status.PARTIAL_SUCCESS):
        kind = outcome.failure.kind if outcome.failure else None
        # What a tool printed was said, even if its report cannot be read.
        if kind not in NOTHING_SAID or (isinstance(stage, ToolStage) and kind is FailureClass.PROTOCOL):
            report = _report(stage, visit, outcome, at)
            if ids:
                report[STILL_OPEN if in_words else LISTED] = list(dict.fromkeys(ids))
            yield Append(ReviewKey.REPORTS, report)
    elif outcome.status is Status.SUCCESS and count_reports(context, stage.id):
        yield Discard(ReviewKey.REPORTS, {"stageId": stage.id})


def commit_events(before: Context, after: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """Announce how many reports and findings are open after a commit that changed them."""
    reports, found = after.list_at(ReviewKey.REPORTS), count_open(after)
    if reports != before.list_at(ReviewKey.REPORTS) or found != count_open(before):
        yield FINDINGS_CHANGED, {"reports": len(reports), "findings": found, "outstanding": len(reports)}


def count_reports(context: Context, stage: str | None) -> int:
    """The number of open reports, of all stages or of one."""
    reports = context.list_at(ReviewKey.REPORTS)
    if stage is None:
        return len(reports)
    return sum(1 for report in reports if isinstance(report, dict) and report.get("stageId") == stage)


def count_open(context: Context) -> int:
    """The number of open findings of the run, as of the last stage that changed it."""
    return _counts(context, "open", None)


def count_findings(context: Context, stage: str | None) -> int:
    """The number of open findings of the run that are to be fixed, of all stages or of one; 0 without a report."""
    if not count_reports(context, stage):
        return 0
    return max(1, _counts(context, "to_be_fixed", stage))


def _counts(context: Context, name: str, stage: str | None) -> int:
    """A number of `ReviewKey.OPEN`, to which a stage can write anything."""
    counts = context.get(ReviewKey.OPEN)
    if stage is not None:
        counts, name = counts.get("stages") if isinstance(counts, dict) else None, stage
    found = counts.get(name) if isinstance(counts, dict) else None
    return found if isinstance(found, int) else 0


def last_verdict(context: Context, _: str | None) -> str:
    """The verdict of the last structured review, or "none"."""
    verdict = context.get(ReviewKey.VERDICT)
    return verdict if isinstance(verdict, str) else "none"


def stall_reason(context: Context, _: str | None) -> str:
    """Why another round of fixing would not help; empty if it may."""
    return str(context.get(ReviewKey.STALLED) or "")


def said_nothing(visited: Concluded) -> bool:
    """Whether a review or tool that was asked has said nothing."""
    failure = visited.outcome.failure
    return failure is not None and failure.kind in NOTHING_SAID and is_reporting(visited.stage)


def is_reporting(stage: BaseStage) -> bool:
    """Whether a stage's failures are reports: those of reviews and tools are."""
    return is_review(stage) or isinstance(stage, ToolStage)


def is_asked_for_findings(stage: BaseStage) -> bool:
    """Whether a stage is asked for findings that code can read."""
    return is_review(stage) or (isinstance(stage, ToolStage) and stage.findings is not FindingsFormat.TEXT)


def _report(stage: BaseStage, visit: int, outcome: Outcome, at: float) -> dict[str, Any]:
    """One entry of `review.findings`. `iteration` is the stage's visit, which never restarts."""
    if isinstance(stage, ToolStage) and outcome.failure is not None:
        tails = (outcome.failure.stdout_tail, outcome.failure.stderr_tail)
        reason, response = outcome.failure.digest, "\n".join(filter(None, tails))
    else:
        reason, response = outcome.reason, outcome.response
    return {
        "stageId": stage.id,
        "iteration": visit,
        "status": str(outcome.status),
        "failureReason": reason,
        "response": response,
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
    }

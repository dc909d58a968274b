"""What reviews and tools reported: read from answers and from files, or owed and missing."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.engine.outcome import FailureClass, Outcome, Status, StatusSource
from pipeline.findings.formats import FORMATS
from pipeline.findings.formats.items import TOOL_CONFIDENCE, headline, malformed_report
from pipeline.findings.formats.review import read_answer
from pipeline.findings.ledger import Ledger, open_findings
from pipeline.findings.model import (
    STAGE,
    AutofixClass,
    Owner,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
    UnreadableItem,
)
from pipeline.findings.plugin import NOTHING_SAID, is_asked_for_findings, is_reporting
from pipeline.findings.scales import ANCHORS, confidence_from_anchor, default_category
from pipeline.language.model import BaseStage, Lens, LlmStage, ToolStage, is_review

MAX_REPORT = 256 * 1024 * 1024  # bytes
REPORT = "report"  # the file beside a command's output that it may write what it found to
_MAX_FAULTS = 20  # restated one by one
_NEAR = 3  # lines between two places that one reviewer means by the same title
_RESULTS = (None, FailureClass.EXIT_NONZERO, FailureClass.CONFLICT)  # failures that are an answer
_ITEM = re.compile(r"""[\[{]\s*\{|["']title["']\s*:""")  # something is in the list
_TITLE = re.compile(r"""["']title["']\s*:\s*["']([^"'\n]{1,200})["']""")


def reviewer_of(stage: BaseStage) -> str:
    """The reviewer whose answers a stage's are."""
    return (stage.reviewer if isinstance(stage, LlmStage) else None) or stage.id


def report_in_answers(stage: BaseStage, answers: Sequence[str], root: Path) -> ReviewerReport | None:
    """What a review reported in its answers; None if they contain nothing that code can read.

    A review that was asked again adds to its first answer and never erases it: what only an unreadable answer names is
    kept as an unreadable item.
    """
    whole: ReviewerReport | None = None
    unread: list[tuple[ReviewerReport, str]] = []
    for answer in answers:
        found = _report_in_answer(answer, reviewer_of(stage), str(root))
        if found is not None and found.status is ReportStatus.MALFORMED:
            unread.append((found, answer))
        elif found is not None:
            whole = found if whole is None else _add(whole, found)
    if whole is None:
        return unread[-1][0] if unread else None
    known = {finding.title for finding in whole.findings} | {item.title for item in whole.unreadable}
    lost = dict.fromkeys(
        title for _, answer in unread for title in _TITLE.findall(answer) or [""] if title not in known
    )
    if not lost or not any(_ITEM.search(answer) for _, answer in unread):
        return whole
    reason = "it is named only in an answer that could not be read"
    items = [
        UnreadableItem(f"{whole.reviewer}#{number}", reason, title or "An answer that could not be read")
        for number, title in enumerate(lost, whole.inputs + 1)
    ]
    return replace(whole, status=ReportStatus.RETURNED, unreadable=(*whole.unreadable, *items))


def _report_in_answer(answer: str, reviewer: str, root: str) -> ReviewerReport | None:
    """All findings of one answer; None if it has none. If some of them cannot be read, neither can the answer."""
    try:
        return read_answer(answer, reviewer=reviewer, root=root)
    except ValueError as error:
        return malformed_report(reviewer, "review", str(error))


def _add(first: ReviewerReport, second: ReviewerReport) -> ReviewerReport:
    """Both reports as one: of two findings that are the same the worse one, and all that only one of them has."""
    findings = list(second.findings)
    for finding in first.findings:
        same = next((at for at, other in enumerate(findings) if _is_same(finding, other)), None)
        if same is None:
            findings.append(finding)
        elif finding.severity.rank < findings[same].severity.rank:
            findings[same] = finding
    titles = {finding.title for finding in second.findings} | {item.title for item in second.unreadable}
    items = [*second.unreadable, *(item for item in first.unreadable if not item.title or item.title not in titles)]
    ids = iter(f"{second.reviewer}#{number}" for number in range(1, len(findings) + len(items) + 1))
    return replace(
        second,
        status=ReportStatus.RETURNED if findings or items else second.status,
        findings=tuple(replace(finding, input_id=next(ids)) for finding in findings),
        unreadable=tuple(replace(item, input_id=next(ids)) for item in items),
        residual_risks=tuple(dict.fromkeys((*first.residual_risks, *second.residual_risks))),
        testing_gaps=tuple(dict.fromkeys((*first.testing_gaps, *second.testing_gaps))),
        verdict=second.verdict or first.verdict,
        argument=second.argument if second.verdict else first.argument,
        patterns=(*first.patterns, *(pattern for pattern in second.patterns if pattern not in first.patterns)),
        rulings=(*first.rulings, *second.rulings),
    )


def _is_same(one: RawFinding, other: RawFinding) -> bool:
    """Whether one reviewer reported a finding twice: the same title, at about the same lines."""
    if one.title != other.title or len(one.locations) != len(other.locations):
        return False
    return all(
        mine.path == its.path and abs((mine.start or 0) - (its.start or 0)) <= _NEAR
        for mine, its in zip(one.locations, other.locations, strict=True)
    )


def report_in_file(stage: ToolStage, file: Path, root: Path) -> ReviewerReport:
    """What a tool reported in a file."""
    with file.open("rb") as source:
        data = source.read(MAX_REPORT + 1)
    if len(data) > MAX_REPORT:
        problem = f"it is larger than {MAX_REPORT >> 20} MB"
        return ReviewerReport(stage.id, ReportStatus.MALFORMED, problem=problem)
    read: ReviewerReport = FORMATS[str(stage.findings)].read(data, reviewer=stage.id, root=str(root))
    return read


def read_report_again(
    stage: BaseStage, outcome: Outcome, answers: Sequence[str] | None, root: Path, store: Path
) -> ReviewerReport | None:
    """What a stage reported that an earlier process ran; None if that cannot be read."""
    found: ReviewerReport | None = None
    if is_review(stage) and (answers or outcome.source is StatusSource.STRUCTURED):
        found = report_in_answers(stage, answers or [outcome.response], root)
    elif isinstance(stage, ToolStage) and is_asked_for_findings(stage) and "stdout" in outcome.logs:
        ended = outcome.failure is None or outcome.failure.kind is FailureClass.EXIT_NONZERO
        output = store / outcome.logs["stdout"]
        files = (file for file in (output.with_name(REPORT), output) if ended and file.is_file())
        file = next(files, None)
        found = report_in_file(stage, file, root) if file else None
    return found if found and found.status is not ReportStatus.MALFORMED else None


def plain_report(stage: BaseStage, workflow: str, outcome: Outcome, ledger: Ledger) -> ReviewerReport | None:
    """The report of a review or tool that gave none that code can read; None if there is nothing to record.

    One that failed reports one finding, the same whenever that stage fails. One that passed withdraws what it reported
    before. One that could not do its job still owes its report.
    """
    reviewer, kind = reviewer_of(stage), outcome.failure.kind if outcome.failure else None
    if is_asked_for_findings(stage) and kind not in _RESULTS:
        status = ReportStatus.MALFORMED if kind is FailureClass.PROTOCOL else ReportStatus.MISSING
        return ReviewerReport(reviewer, status, problem=outcome.reason or "it gave no answer")
    if not is_reporting(stage) or kind in NOTHING_SAID or kind is FailureClass.SPAWN_ERROR:
        return None
    if outcome.status in (Status.FAIL, Status.PARTIAL_SUCCESS):
        finding = _failure(stage, reviewer, f"{workflow}/{stage.id}", outcome)
        return ReviewerReport(reviewer, ReportStatus.RETURNED, (finding,), covered=())
    known = reviewer in ledger.unanswered or any(reviewer in one.sources for one in open_findings(ledger))
    return ReviewerReport(reviewer, ReportStatus.EMPTY) if known and outcome.status is Status.SUCCESS else None


def _failure(stage: BaseStage, reviewer: str, id: str, outcome: Outcome) -> RawFinding:
    """The failure of a stage as a finding."""
    is_tool = isinstance(stage, ToolStage)
    return RawFinding(
        input_id=f"{reviewer}#1",
        reviewer=reviewer,
        title=headline(outcome.reason or outcome.response) or f"{stage.id} fails without a reason",
        severity=Severity.HIGH if outcome.status is Status.FAIL else Severity.MEDIUM,
        confidence=TOOL_CONFIDENCE if is_tool else confidence_from_anchor(ANCHORS[-1]),
        category=default_category(reviewer),
        impact=outcome.response,
        autofix_class=AutofixClass.GATED_AUTO,
        owner=Owner.REVIEW_FIXER,
        lens=stage.lens if isinstance(stage, LlmStage) else Lens.CODE_REVIEW,
        tool_ids={STAGE: id},
    )


def describe_faults(report: ReviewerReport) -> str:
    """Everything that keeps a report from being read whole, to restate when asking again; empty if nothing does."""
    if report.status is ReportStatus.MALFORMED:
        return report.problem or "it is not what it should be"
    lost = [item for item in report.unreadable if not item.harmless]
    if not lost:
        return ""
    faults = "; ".join(f"{item.input_id}: {item.reason}" for item in lost[:_MAX_FAULTS])
    more = f"; and {len(lost) - _MAX_FAULTS} more" if len(lost) > _MAX_FAULTS else ""
    return f"{len(lost)} of its {report.inputs} findings cannot be read; {faults}{more}"


def with_failure(report: ReviewerReport, outcome: Outcome) -> ReviewerReport:
    """The report; if the stage failed by its own word and nothing in it says why, the failure counts as an item."""
    by_word = outcome.source is StatusSource.MARKER or (outcome.source is StatusSource.EXIT_CODE and not report.inputs)
    if not by_word or outcome.status is not Status.FAIL:
        return report
    item = UnreadableItem(
        input_id=f"{report.reviewer}#{report.inputs + 1}",
        reason="the stage failed, but no finding explains why",
        title=outcome.reason or "It fails without a reason",
        raw=outcome.response,
    )
    return replace(report, status=ReportStatus.RETURNED, unreadable=(*report.unreadable, item))

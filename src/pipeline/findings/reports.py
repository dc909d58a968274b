"""What a stage reported: read from its answers or its file, or made of its status.

Nothing here has state. What one reviewer said in several answers is added up and never taken back.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from pipeline.engine.outcome import FailureClass, Outcome, Status, StatusSource
from pipeline.findings.formats import FORMATS, doubts
from pipeline.findings.formats.answer import Answer
from pipeline.findings.formats.items import TOOL_CONFIDENCE, headline, malformed_report, unreadable_draft
from pipeline.findings.formats.review import read_answer
from pipeline.findings.gate import LEAST, decide
from pipeline.findings.keys import NOTHING_SAID, is_asked_for_findings, is_reporting
from pipeline.findings.model import STAGE, AutofixClass, Draft, Owner, Report, ReportStatus, Severity
from pipeline.findings.rulings import STANDING
from pipeline.findings.scales import ANCHORS, confidence_from_anchor, default_category
from pipeline.language.model import BaseStage, Lens, LlmStage, ToolStage

MAX_REPORT = 256 * 1024 * 1024  # bytes
PLAIN = "status"  # the format of the report of a stage that gives only a status
REPORT = "report"  # the file beside a command's output that it may write what it found to
REJECTED = "The change is rejected"
BESIDE = "it was said beside the findings, not reported as one"
_NEAR = 3  # lines between two places that one reviewer means by the same title
_RESULTS = (None, FailureClass.EXIT_NONZERO, FailureClass.CONFLICT)  # failures that are an answer
_ITEM = re.compile(r"""[\[{]\s*\{|["']title["']\s*:""")  # something is in the list
_TITLE = re.compile(r"""["']title["']\s*:\s*["']([^"'\n]{1,200})["']""")


def reviewer_of(stage: BaseStage) -> str:
    """Return the reviewer in whose name a stage answers."""
    return (stage.reviewer if isinstance(stage, LlmStage) else None) or stage.id


# --- answers of reviewers --------------------------------------------------------------------------------------------


def report_of_review(stage: BaseStage, answers: Sequence[str], root: Path) -> Report | None:
    """Return what a review reported in its answers; None if they contain nothing that code can read.

    A review that was asked again adds to its first answer and never erases it: what only an unreadable answer names is
    kept as an unreadable item.
    """
    read = [(answer, _report_of_answer(stage, answer, root)) for answer in answers]
    whole = [report for _, report in read if report and report.status is not ReportStatus.MALFORMED]
    unread = [(answer, report) for answer, report in read if report and report.status is ReportStatus.MALFORMED]
    if not whole:
        return unread[-1][1] if unread else None
    added = whole[0]
    for report in whole[1:]:
        added = _add(added, report)
    added = _keep_named(added, answers[:-1])
    return with_beside(_keep_lost(added, [answer for answer, _ in unread]))


def _report_of_answer(stage: BaseStage, answer: str, root: Path) -> Report | None:
    try:
        return read_answer(answer, reviewer=reviewer_of(stage), root=str(root))
    except ValueError as error:
        return malformed_report(reviewer_of(stage), "review", str(error))


def _keep_named(report: Report, earlier: Sequence[str]) -> Report:
    """Return the report with a risk for each blocker that only the words of an earlier answer named."""
    if any(draft.severity is Severity.CRITICAL for draft in report.drafts):
        return report
    telling = filter(doubts.named_blocker, earlier)  # few are, and to take the words out of an answer takes longer
    named = filter(None, (doubts.named_blocker(Answer(answer).words)[1:-1] for answer in telling))
    still = " ".join(" ".join(report.beside).split())
    left = [text for text in named if text not in still]
    return replace(report, residual_risks=tuple(dict.fromkeys((*report.residual_risks, *left))))


def _keep_lost(report: Report, unread: Sequence[str]) -> Report:
    """Return the report with an unreadable item for each title that only an unreadable answer names."""
    if not any(_ITEM.search(answer) for answer in unread):
        return report
    known = {draft.title for draft in report.drafts}
    named = chain.from_iterable(_TITLE.findall(answer) or [""] for answer in unread)
    lost = [title for title in dict.fromkeys(named) if title not in known]
    reason = "it is named only in an answer that could not be read"
    items = [
        unreadable_draft(title, f"{report.reviewer}#{number}", report.format, reason)
        for number, title in enumerate(lost, len(report.drafts) + 1)
    ]
    return with_drafts(report, items)


def with_beside(report: Report) -> Report:
    """Return the report with an uncertain finding for all that it says beside its findings and that may be one.

    That is a risk or a gap that names a defect of the worst severity, the words and keys beside a list that would let
    the change pass, and a verdict that rejects the change.
    """
    risks = [text for text in (*report.residual_risks, *report.testing_gaps) if doubts.named_blocker(text)]
    items = [
        _uncertain(text, f"{report.reviewer}#{number}", report.reviewer)
        for number, text in enumerate((*risks, *report.beside, *_rejection(report)), len(report.drafts) + 1)
    ]
    if not items:
        return report
    left = replace(
        report,
        residual_risks=tuple(text for text in report.residual_risks if text not in risks),
        testing_gaps=tuple(text for text in report.testing_gaps if text not in risks),
    )
    return with_drafts(left, items)


def _rejection(report: Report) -> tuple[str, ...]:
    """Return that a reviewer rejects the whole change, and why. It is a finding, whatever else it lists."""
    return (f"{REJECTED}: {report.argument or 'no reason given'}",) if report.verdict == "BLOCK" else ()


def _uncertain(text: str, input_id: str, reviewer: str) -> Draft:
    """Return what a reviewer says beside its findings as a finding that a person may have to judge."""
    return Draft(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(text),
        severity=Severity.CRITICAL if doubts.named_blocker(text) else Severity.HIGH,
        confidence=confidence_from_anchor(LEAST),
        category=default_category(reviewer),
        impact=text,
        owner=Owner.REVIEW_FIXER,  # who may dispute it, so that its reviewer rules on it
        uncertain=True,
        notes=(BESIDE,),
    )


def with_said(failed: Report, found: Report | None, answers: Sequence[str]) -> Report:
    """Return the report of a reviewer that could not finish, with all that it said against the change before."""
    if found is None or found.status is ReportStatus.MALFORMED:
        return with_beside(_keep_named(_keep_lost(failed, answers), answers))
    standing = tuple(one for one in found.rulings if one.ruling in STANDING)
    return replace(failed, drafts=found.drafts, rulings=standing, verdict=found.verdict, argument=found.argument)


def with_drafts(report: Report, drafts: Sequence[Draft]) -> Report:
    """Return a report with more items; the status of an incomplete one stays."""
    if not drafts:
        return report
    status = ReportStatus.RETURNED if report.status.answered else report.status
    return replace(report, status=status, drafts=(*report.drafts, *drafts))


def _add(first: Report, second: Report) -> Report:
    """Return both answers as one: of two items that are the same the worse one, and all that only one of them has.

    Whether it can be read whole, and be believed, is what the second answer says.
    """
    drafts = list(second.drafts)
    for draft in first.drafts:
        at = next((at for at, other in enumerate(drafts) if _is_same(draft, other)), None)
        if at is None:
            drafts.append(draft)
        elif not draft.unreadable and not draft.severity_text and _weight(draft) > _weight(drafts[at]):
            drafts[at] = draft
    ids = (f"{second.reviewer}#{number}" for number in range(1, len(drafts) + 1))
    status = ReportStatus.RETURNED if drafts and second.status.answered else second.status
    judge, ruled = second if second.verdict else first, {one.number for one in second.rulings}
    listed = any(draft.severity is Severity.CRITICAL for draft in second.drafts)  # what was only a risk before
    before = replace(first, residual_risks=_milder(first.residual_risks), testing_gaps=_milder(first.testing_gaps))
    before = before if listed else first
    return replace(
        second,
        status=status,
        drafts=tuple(replace(draft, input_id=id) for draft, id in zip(drafts, ids, strict=True)),
        residual_risks=tuple(dict.fromkeys((*before.residual_risks, *second.residual_risks))),
        testing_gaps=tuple(dict.fromkeys((*before.testing_gaps, *second.testing_gaps))),
        verdict=judge.verdict,
        argument=judge.argument,
        patterns=(*first.patterns, *(pattern for pattern in second.patterns if pattern not in first.patterns)),
        rulings=(*(one for one in first.rulings if not one.vague or one.number not in ruled), *second.rulings),
        reviewed=tuple(dict.fromkeys((*first.reviewed, *second.reviewed))),
    )


def _weight(draft: Draft) -> tuple[bool, int, int]:
    """Return how much a draft says against the change: the worse of two that are the same counts."""
    return decide(draft, agreed=False).is_kept, -draft.severity.rank, draft.confidence.value


def _milder(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the risks that name no defect of the worst severity."""
    return tuple(text for text in texts if not doubts.named_blocker(text))


def _is_same(one: Draft, other: Draft) -> bool:
    """Return whether one reviewer reported a finding twice: the same title, at about the same lines.

    An item that cannot be read is the same as any with its title: it was asked for again.
    """
    if one.title != other.title:
        return False
    if one.unreadable:
        return bool(one.title) or one.impact == other.impact
    if other.unreadable or len(one.locations) != len(other.locations):
        return False
    return all(
        mine.path == its.path and abs((mine.start or 0) - (its.start or 0)) <= _NEAR
        for mine, its in zip(one.locations, other.locations, strict=True)
    )


# --- files of tools --------------------------------------------------------------------------------------------------


def report_of_tool(stage: ToolStage, file: Path, root: Path) -> Report:
    """Return what a tool reported in a file."""
    with file.open("rb") as source:
        data = source.read(MAX_REPORT + 1)
    if len(data) > MAX_REPORT:
        return malformed_report(stage.id, str(stage.findings), f"it is larger than {MAX_REPORT >> 20} MB")
    report: Report = FORMATS[str(stage.findings)].read(data, reviewer=stage.id, root=str(root))
    return report


def logged_report(outcome: Outcome, store: Path) -> Path | None:
    """Return the file to which a command that came to its end wrote what it found."""
    ended = outcome.failure is None or outcome.failure.kind is FailureClass.EXIT_NONZERO
    if not ended or "stdout" not in outcome.logs:
        return None
    output = store / outcome.logs["stdout"]
    return next((file for file in (output.with_name(REPORT), output) if file.is_file()), None)


# --- a status without a report ---------------------------------------------------------------------------------------


def report_of_failure(stage: BaseStage, workflow: str, outcome: Outcome) -> Report | None:
    """Return the report of a stage that gave none that code can read; None if it says nothing about the change.

    A stage that failed reports one finding, the same whenever it fails; one that succeeded reports that it checked for
    that. One that could not do its job still owes its report.
    """
    reviewer, kind = reviewer_of(stage), outcome.failure.kind if outcome.failure else None
    if is_asked_for_findings(stage) and kind not in _RESULTS:
        status = ReportStatus.MALFORMED if kind is FailureClass.PROTOCOL else ReportStatus.MISSING
        return Report(reviewer, status, problem=outcome.reason or "it gave no answer")
    if not is_reporting(stage) or kind in NOTHING_SAID or kind is FailureClass.SPAWN_ERROR:
        return None
    id = f"{workflow}/{stage.id}"
    if outcome.status in (Status.FAIL, Status.PARTIAL_SUCCESS):
        drafts = (_failure(stage, reviewer, id, outcome),)
        return Report(reviewer, ReportStatus.RETURNED, drafts, covered=(), format=PLAIN)
    if outcome.status is Status.SUCCESS:
        return Report(reviewer, ReportStatus.EMPTY, checked=frozenset({id}), format=PLAIN)
    return None


def _failure(stage: BaseStage, reviewer: str, id: str, outcome: Outcome) -> Draft:
    """Return the failure of a stage as a draft."""
    is_tool = isinstance(stage, ToolStage)
    return Draft(
        input_id=f"{reviewer}#1",
        reviewer=reviewer,
        title=headline(outcome.reason or outcome.response) or f"{stage.id} fails without a reason",
        severity=_severity_in_words(outcome, words=not is_tool),
        confidence=TOOL_CONFIDENCE if is_tool else confidence_from_anchor(ANCHORS[-1]),
        category=default_category(reviewer),
        impact=outcome.response,
        autofix_class=AutofixClass.GATED_AUTO,
        owner=Owner.REVIEW_FIXER,
        lens=stage.lens if isinstance(stage, LlmStage) else Lens.CODE_REVIEW,
        tool_ids={STAGE: id},
    )


def _severity_in_words(outcome: Outcome, *, words: bool) -> Severity:
    """Return how bad a failure is: told in a reviewer's words, as bad as a blocker if they name one."""
    if words and doubts.named_blocker(f"{outcome.reason}\n{outcome.response}"):
        return Severity.CRITICAL
    return Severity.HIGH if outcome.status is Status.FAIL else Severity.MEDIUM


def with_failure(report: Report, outcome: Outcome) -> Report:
    """Return the report; if the stage failed by its own word and no item says why, the failure is one more item.

    An item that will be no finding explains nothing.
    """
    by_word = outcome.source in (StatusSource.MARKER, StatusSource.EXIT_CODE)
    failed = outcome.status in (Status.FAIL, Status.PARTIAL_SUCCESS)
    if not by_word or not failed or any(map(_is_kept, report.drafts)):
        return report
    reason = "the stage failed, but no finding explains why"
    number = len(report.drafts) + 1
    item = unreadable_draft(outcome.response, f"{report.reviewer}#{number}", report.format, reason)
    return with_drafts(report, [replace(item, title=outcome.reason or "It fails without a reason")])


def _is_kept(draft: Draft) -> bool:
    return not draft.harmless and draft.suppressed is None and decide(draft, agreed=False).is_kept

"""What a stage returned in a form that code can read, and what it comes to. What cannot be read is never clean."""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from pipeline.engine.outcome import FailureClass, Outcome, Status, StatusSource
from pipeline.engine.ports import Assessment
from pipeline.findings.events import Disposition, ItemOutcome
from pipeline.findings.formats import FORMATS
from pipeline.findings.formats.items import malformed_report
from pipeline.findings.formats.review import find_reviews
from pipeline.findings.ingest import IngestResult
from pipeline.findings.model import Finding, Gate, RawFinding, ReportStatus, ReviewerReport, UnreadableItem
from pipeline.findings.plugin import LOOKS_LIKE_FINDINGS
from pipeline.findings.verdicts import stage_status
from pipeline.language.model import BaseStage, FindingsFormat, LlmStage, ToolStage, is_review

LARGEST = 256 * 1024 * 1024  # bytes of a report
_RESULTS = (None, FailureClass.EXIT_NONZERO, FailureClass.CONFLICT)  # failures that are an answer
_FAULTS = 20  # that are told one by one
_NEAR = 3  # lines between two places that one reviewer means by the same title
_ITEM = re.compile(r"""[\[{]\s*\{|["']title["']\s*:""")  # something is in the list
_LIST = re.compile(r'"findings"\s*:')
_TITLE = re.compile(r"""["']title["']\s*:\s*["']([^"'\n]{1,200})["']""")
REPORT = "report"  # the file beside a command's output that it may write what it found to


def answered(stage: BaseStage, answers: Sequence[str], root: Path) -> ReviewerReport | None:
    """What a review returned in its answers; None when they have nothing that code can read.

    A review that was asked again can add to its first answer, never erase it: what an answer names and no other answer
    says in a form that can be read is kept as an item that cannot be.
    """
    whole: ReviewerReport | None = None
    unread: list[tuple[ReviewerReport, str]] = []
    for answer in answers:
        found = _in_answer(answer, reviewer_of(stage), str(root))
        if found is not None and found.status is ReportStatus.MALFORMED:
            unread.append((found, answer))
        elif found is not None:
            whole = found if whole is None else _add(whole, found)
    if whole is None:
        return unread[-1][0] if unread else None
    known = {claim.title for claim in whole.findings} | {item.title for item in whole.unreadable}
    lost = [title for _, answer in unread for title in _TITLE.findall(answer) or [""] if title not in known]
    return (
        _with_items(whole, dict.fromkeys(lost)) if lost and any(_ITEM.search(answer) for _, answer in unread) else whole
    )


def _in_answer(answer: str, reviewer: str, root: str) -> ReviewerReport | None:
    """All returns of one answer as one; when one of them cannot be read, neither can the answer."""
    texts = find_reviews(answer)
    if not texts and LOOKS_LIKE_FINDINGS.search(answer) and _TITLE.search(answer):
        return malformed_report(reviewer, "review", "it has findings in a form that cannot be read")
    if any(len(_LIST.findall(text)) > 1 for text in texts):
        return malformed_report(reviewer, "review", "one object has several lists of findings")
    read: list[ReviewerReport] = [
        FORMATS["review"].read(text.encode(errors="replace"), reviewer=reviewer, root=root) for text in texts
    ]
    broken = next((one for one in read if one.status is ReportStatus.MALFORMED), None)
    return broken or (reduce(_add, read) if read else None)


def _with_items(returned: ReviewerReport, titles: Iterable[str]) -> ReviewerReport:
    """The return with items that were named in an answer that nobody could read."""
    reason = "it was named in an answer that could not be read, and not in the one that could"
    more = [
        UnreadableItem(f"{returned.reviewer}#{number}", reason, title or "An answer that could not be read")
        for number, title in enumerate(titles, returned.inputs + 1)
    ]
    return replace(returned, status=ReportStatus.RETURNED, unreadable=(*returned.unreadable, *more))


def _add(first: ReviewerReport, second: ReviewerReport) -> ReviewerReport:
    """Both returns as one: of two claims that are the same the worse one, and all that only one of them has."""
    claims = list(second.findings)
    for claim in first.findings:
        same = next((at for at, other in enumerate(claims) if _is_same(claim, other)), None)
        if same is None:
            claims.append(claim)
        elif claim.severity.rank < claims[same].severity.rank:
            claims[same] = claim
    titles = {claim.title for claim in second.findings} | {item.title for item in second.unreadable}
    rejected = [*second.unreadable, *(item for item in first.unreadable if not item.title or item.title not in titles)]
    names = iter(f"{second.reviewer}#{number}" for number in range(1, len(claims) + len(rejected) + 1))
    return replace(
        second,
        status=ReportStatus.RETURNED if claims or rejected else second.status,
        findings=tuple(replace(claim, input_id=next(names)) for claim in claims),
        unreadable=tuple(replace(item, input_id=next(names)) for item in rejected),
        residual_risks=tuple(dict.fromkeys((*first.residual_risks, *second.residual_risks))),
        testing_gaps=tuple(dict.fromkeys((*first.testing_gaps, *second.testing_gaps))),
    )


def _is_same(one: RawFinding, other: RawFinding) -> bool:
    """Whether two claims of one reviewer are one, told twice: the same title, and about the same line."""
    if one.title != other.title or len(one.locations) != len(other.locations):
        return False
    return all(
        mine.path == its.path and abs((mine.start or 0) - (its.start or 0)) <= _NEAR
        for mine, its in zip(one.locations, other.locations, strict=True)
    )


def reported(stage: ToolStage, report: Path, root: Path) -> ReviewerReport:
    """What a tool's report returns."""
    with report.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        return ReviewerReport(stage.id, ReportStatus.MALFORMED, problem=f"it is larger than {LARGEST >> 20} MB")
    read: ReviewerReport = FORMATS[str(stage.findings)].read(data, reviewer=stage.id, root=str(root))
    return read


def silence(stage: BaseStage, outcome: Outcome) -> ReviewerReport | None:
    """The return of a review or tool that was asked for findings and gave no answer; None for any other outcome."""
    kind = outcome.failure.kind if outcome.failure else None
    if not _asked(stage) or kind in _RESULTS:
        return None
    status = ReportStatus.MALFORMED if kind is FailureClass.PROTOCOL else ReportStatus.MISSING
    return ReviewerReport(reviewer_of(stage), status, problem=outcome.reason or "it gave no answer")


def in_words(stage: BaseStage, outcome: Outcome, unanswered: Container[str]) -> ReviewerReport | None:
    """The return of one who owed an answer and gave it in words: nothing is known of what it covered."""
    kind = outcome.failure.kind if outcome.failure else None
    if not _asked(stage) or reviewer_of(stage) not in unanswered or kind not in _RESULTS:
        return None
    return ReviewerReport(reviewer_of(stage), ReportStatus.EMPTY, covered=())


def _asked(stage: BaseStage) -> bool:
    """Whether a stage is asked for findings that code can read."""
    return is_review(stage) or (isinstance(stage, ToolStage) and stage.findings is not FindingsFormat.TEXT)


def reviewer_of(stage: BaseStage) -> str:
    """Whose answers a stage's are."""
    return (stage.lens if isinstance(stage, LlmStage) else None) or stage.id


def read_again(
    stage: BaseStage, outcome: Outcome, answers: Sequence[str] | None, root: Path, store: Path | None
) -> ReviewerReport | None:
    """What a stage returned that an earlier process ran; None when it returned nothing that can be read."""
    found: ReviewerReport | None = None
    if is_review(stage) and (answers or outcome.source is StatusSource.STRUCTURED):
        found = answered(stage, answers or [outcome.response], root)
    elif isinstance(stage, ToolStage) and stage.findings is not FindingsFormat.TEXT and _ended(outcome):
        output = store / outcome.logs["stdout"] if store and "stdout" in outcome.logs else None
        written = output.with_name(REPORT) if output else None
        file = written if written and written.is_file() else output
        found = reported(stage, file, root) if file and file.is_file() else None
    return found if found and found.status is not ReportStatus.MALFORMED else None


def faults(returned: ReviewerReport) -> str:
    """Everything that keeps a return from being read whole, to restate when asking again; empty if nothing does."""
    if returned.status is ReportStatus.MALFORMED:
        return returned.problem or "it is not what it should be"
    lost = [item for item in returned.unreadable if not item.harmless]
    if not lost:
        return ""
    told = "; ".join(f"{item.input_id}: {item.reason}" for item in lost[:_FAULTS])
    more = f"; and {len(lost) - _FAULTS} more" if len(lost) > _FAULTS else ""
    return f"{len(lost)} of its {returned.inputs} findings cannot be read; {told}{more}"


def with_claim(returned: ReviewerReport, outcome: Outcome) -> ReviewerReport:
    """The return of a review or tool that fails and reports nothing that does: its failure counts as an item."""
    by_word = outcome.source is StatusSource.MARKER or (
        outcome.source is StatusSource.EXIT_CODE and not returned.inputs
    )
    if not by_word or outcome.status is not Status.FAIL:
        return returned
    item = UnreadableItem(
        input_id=f"{returned.reviewer}#{returned.inputs + 1}",
        reason="it fails, and none of its findings says why",
        title=outcome.reason or "It fails without a reason",
        raw=outcome.response,
    )
    return replace(returned, status=ReportStatus.RETURNED, unreadable=(*returned.unreadable, item))


def judged(taken: IngestResult) -> Assessment:
    """What a return comes to by the findings in it. One item that cannot be read fails it."""
    counting = [taken.drafts[index] for index in shown(taken) if not taken.drafts[index].pre_existing]
    refused = [entry for entry in taken.passed.entries if entry.disposition is Disposition.REJECTED]
    status = stage_status(counting)
    if refused or not taken.passed.coverage.complete:
        status = Status.FAIL
    return Assessment(status, "; ".join(part for part in (_found(counting), _refused(refused)) if part))


def shown(taken: IngestResult) -> list[int]:
    """Which findings of a pass are not dismissed already."""
    return [index for index in range(len(taken.drafts)) if index not in taken.upshot.suppressed]


def _ended(outcome: Outcome) -> bool:
    """Whether a command came to an end of its own, well or not."""
    return outcome.failure is None or outcome.failure.kind is FailureClass.EXIT_NONZERO


def _found(counting: Sequence[Finding]) -> str:
    if not counting:
        return ""
    must = sum(finding.gate.value is Gate.MUST for finding in counting)
    first = counting[0]
    where = f" ({first.location.path_line})" if first.location and first.location.start else ""
    return f"{must} to be fixed, {len(counting) - must} suggested; first: {first.title}{where}"


def _refused(refused: Sequence[ItemOutcome]) -> str:
    if not refused:
        return ""
    first = refused[0]
    return f"{len(refused)} could not be used; {first.input_id} {first.title!r}: {first.reason}"

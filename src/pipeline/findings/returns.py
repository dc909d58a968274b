"""What a stage returned in a form that code can read, and what it comes to. What cannot be read is never clean."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.engine.handler import Assessment
from pipeline.engine.outcome import FailureClass, Outcome, Source, Status
from pipeline.findings.claims import Return, Returned
from pipeline.findings.codecs import FORMATS
from pipeline.findings.codecs.review_text import find_returns
from pipeline.findings.model import Finding, Gate
from pipeline.findings.passes import Disposition, Entry
from pipeline.findings.taking import Taken
from pipeline.findings.verdicts import stage_status
from pipeline.language.model import BaseStage, FindingsFormat, LlmStage, ToolStage

LARGEST = 256 * 1024 * 1024  # bytes of a report
_ITEM = re.compile(r'"findings"\s*:\s*\[\s*\{')
REPORT = "report"  # the file beside a command's output that it may write what it found to


def answered(stage: BaseStage, answers: Sequence[str], root: Path) -> Return | None:
    """What a review returned in its answers; None when they have nothing that code can read.

    A review that was asked again can add to its first answer, never erase it.
    """
    reviewer = (stage.lens if isinstance(stage, LlmStage) else None) or stage.id
    whole: Return | None = None
    lost = False  # whether what could not be read so far had findings in it
    for text in (text for answer in answers for text in find_returns(answer)):
        read: Return = FORMATS["review"](text.encode(errors="replace"), reviewer=reviewer, root=str(root))
        if whole is None or (whole.status is Returned.MALFORMED and (read.inputs or not lost)):
            whole = read
        elif whole.status is not Returned.MALFORMED:
            whole = _add(whole, read)
        lost = read.status is Returned.MALFORMED and _ITEM.search(text) is not None
    return whole


def _add(first: Return, second: Return) -> Return:
    """The second return with all that the first one reported and the second leaves out."""
    if second.status is Returned.MALFORMED:
        return second
    titles = {claim.title for claim in second.claims}
    restated = len(second.claims) >= first.inputs
    claims = [*second.claims, *(claim for claim in first.claims if claim.title not in titles)]
    rejected = [*second.rejected, *(item for item in first.rejected if not restated and item.title not in titles)]
    names = iter(f"{second.reviewer}#{number}" for number in range(1, len(claims) + len(rejected) + 1))
    return replace(
        second,
        status=Returned.RETURNED if claims or rejected else second.status,
        claims=tuple(replace(claim, input_id=next(names)) for claim in claims),
        rejected=tuple(replace(item, input_id=next(names)) for item in rejected),
        residual_risks=tuple(dict.fromkeys((*first.residual_risks, *second.residual_risks))),
        testing_gaps=tuple(dict.fromkeys((*first.testing_gaps, *second.testing_gaps))),
    )


def reported(stage: ToolStage, report: Path, root: Path) -> Return:
    """What a tool's report returns."""
    with report.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        return Return(stage.id, Returned.MALFORMED, problem=f"it is larger than {LARGEST >> 20} MB")
    read: Return = FORMATS[str(stage.findings)](data, reviewer=stage.id, root=str(root))
    return read


def read_again(stage: BaseStage, outcome: Outcome, root: Path, store: Path | None) -> Return | None:
    """What a stage returned that an earlier process ran; None when it returned nothing that can be read."""
    found: Return | None = None
    if isinstance(stage, LlmStage) and outcome.source is Source.STRUCTURED:
        found = answered(stage, [outcome.response], root)
    elif isinstance(stage, ToolStage) and stage.findings is not FindingsFormat.TEXT and _ended(outcome):
        output = store / outcome.logs["stdout"] if store and "stdout" in outcome.logs else None
        written = output.with_name(REPORT) if output else None
        file = written if written and written.is_file() else output
        found = reported(stage, file, root) if file and file.is_file() else None
    return None if found is None or unreadable(found) else found


def unreadable(returned: Return) -> str:
    """Why a return says nothing at all, if so."""
    if returned.status is Returned.MALFORMED:
        return returned.problem or "it is not what it should be"
    if returned.rejected and not returned.claims:
        first = returned.rejected[0]
        return f"none of its {len(returned.rejected)} findings is as it should be; {first.input_id}: {first.reason}"
    return ""


def judged(taken: Taken) -> Assessment:
    """What a return comes to by the findings in it. With an item that could not be read it is no clean one."""
    counting = [taken.drafts[index] for index in shown(taken) if not taken.drafts[index].pre_existing]
    refused = [entry for entry in taken.passed.entries if entry.disposition is Disposition.REJECTED]
    status = stage_status(counting)
    if refused and status is Status.SUCCESS:
        status = Status.PARTIAL_SUCCESS
    return Assessment(status, "; ".join(part for part in (_found(counting), _refused(refused)) if part))


def shown(taken: Taken) -> list[int]:
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
    where = f" ({first.place.spot})" if first.place and first.place.start else ""
    return f"{must} to be fixed, {len(counting) - must} suggested; first: {first.title}{where}"


def _refused(refused: Sequence[Entry]) -> str:
    if not refused:
        return ""
    first = refused[0]
    return f"{len(refused)} could not be used; {first.input_id} {first.title!r}: {first.reason}"

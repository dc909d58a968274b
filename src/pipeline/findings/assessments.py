"""Whether an answer can be read, and what its reviewer is asked once more.

A problem keeps an answer from being used: what it is then asked for is the whole answer. A wish is about something that
is missing beside a readable answer. Each is put to a reviewer once, and all of its answers count.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.engine.outcome import Status
from pipeline.engine.ports import Assessment
from pipeline.findings import rulings
from pipeline.findings.formats import doubts
from pipeline.findings.formats.review import NOT_EXAMINED
from pipeline.findings.gate import is_grave
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, Report, ReportStatus
from pipeline.findings.reports import BESIDE, REJECTED
from pipeline.handlers.markers import read_markers
from pipeline.text import plural

_MAX_FAULTS = 20  # restated one by one
_EVERYTHING = re.compile(r"\b(?:all|every|everything|whole|entire)\b[^:]*(?::|$)", re.IGNORECASE)  # before a colon


@dataclass(frozen=True, slots=True)
class Given:
    """What a review was given to look at and to rule on."""

    ledger: Ledger
    asked: Sequence[Finding]
    tree: str
    paths: Sequence[str] | None  # the files of the change; None: unknown


def assess_review(report: Report, answers: Sequence[str], given: Given) -> Assessment:
    """Return whether a review can be read. `report` is what all of its answers say."""
    doubt = report.doubt or _names_no_file(report, given.paths)
    problem = problem_of(report) or doubt
    # What cannot be read after the second time is kept as it is, and blocks; an answer in doubt is none.
    final = len(answers) > 1 and report.status is not ReportStatus.MALFORMED and not doubt
    if problem and not final:
        return Assessment(problem=problem)
    wishes = (_beside(report), _severities(report), *_rulings(report, answers, given))
    return Assessment(Status.SUCCESS, count_items(report), wish="\n\n".join(filter(None, wishes)))


def assess_words(report: Report, answers: Sequence[str], stage: str, given: Given) -> Assessment | None:
    """Return what is wrong with a review that gives a status only; None if its own words can be taken as they are.

    Success is doubted if it refuses or names a defect. Its status rules on the finding that is its own failure.
    """
    asked = [finding for finding in given.asked if finding.failing_stage != stage]
    wishes = [*_rulings(report, answers, Given(given.ledger, asked, given.tree, given.paths))]
    said = ""
    markers = read_markers(answers[-1])
    if markers.status is Status.SUCCESS:
        reason = doubts.quote(markers.reason) if markers.reason else ""  # of a failure
        said = doubts.refusal(answers[-1]) or doubts.named_blocker(answers[-1]) or reason
    if said and len(answers) > 1:
        return Assessment(problem=f"it says {said}, and claims success")
    if said:
        wishes.insert(0, f"You say {said}, and your status is success. Which is it?")
    return Assessment(None, wish="\n".join(wishes)) if wishes else None


def problem_of(report: Report) -> str:
    """Return everything that keeps a report from being read whole, for its reviewer; empty if nothing does."""
    if report.status is ReportStatus.MALFORMED:
        return report.problem or "it is not what it should be"
    lost = [draft for draft in report.drafts if draft.unreadable]
    problems = [report.problem]
    if lost:
        problems.append(f"{len(lost)} of its {len(report.drafts)} findings cannot be read")
        problems += (f"{draft.input_id}: {draft.unreadable}" for draft in lost[:_MAX_FAULTS])
    if len(lost) > _MAX_FAULTS:
        problems.append(f"and {len(lost) - _MAX_FAULTS} more")
    return "; ".join(filter(None, problems))


def count_items(report: Report) -> str:
    """Return how many items a report has, as the reason of a stage; empty if there is none."""
    number = len(report.drafts)
    return f"{plural(number, 'item')}, taken in when all have answered" if number else ""


def _names_no_file(report: Report, paths: Sequence[str] | None) -> str:
    """Return that a review found nothing about the change and names no file of it as examined; empty if it does."""
    about = {place.path for draft in report.drafts for place in draft.locations}
    found = not about.isdisjoint(paths or ()) or any(map(is_grave, report.drafts))
    if not paths or found or (report.drafts and report.reviewed) or not report.status.answered:
        return ""
    if not report.reviewed:
        return NOT_EXAMINED
    names = {name for path in paths for name in (path, path.rpartition("/")[2])}
    if any(_EVERYTHING.search(entry) or any(name in entry for name in names) for entry in report.reviewed):
        return ""
    return f"it found nothing, and `reviewed` names no file of the change, such as {paths[0]}"


def _beside(report: Report) -> str:
    """Return a request to sort out what is said beside the findings; empty if nothing is."""
    beside = (draft.impact for draft in report.drafts if BESIDE in draft.notes)
    said = [doubts.quote(text) for text in beside if not text.startswith(REJECTED)]
    if not said:
        return ""
    listed = "; ".join(said)
    return f"Beside your findings you say {listed}. Report under `findings` what is a defect, and leave out the rest."


def _severities(report: Report) -> str:
    """Return a request for the severities that nobody understands; empty if there are none."""
    unknown = [doubts.quote(draft.title) for draft in report.drafts if draft.severity_text and not draft.unreadable]
    return f"Give each of these findings a `severity` of P0, P1, P2 or P3: {'; '.join(unknown)}." if unknown else ""


def _rulings(report: Report, answers: Sequence[str], given: Given) -> Iterator[str]:
    """Yield requests for rulings that are missing, and for those that nothing can have changed."""
    every = [*report.rulings, *rulings.read_said("\n\n".join(answers))]
    said = {one.number: one.ruling for one in every}
    reported = {draft.title for draft in report.drafts}
    missing = [one for one in given.asked if one.number not in said and one.title not in reported]
    if missing:
        yield f"You did not rule on {_numbers(missing)}. Rule on each by its number."
    vague = {one.number for one in every if one.vague}
    unclear = [one for one in given.asked if one.number in vague and said[one.number] == "not_fixed"]
    if unclear:
        yield (
            f"Your ruling on {_numbers(unclear)} says more than `fixed`. Rule on each with `fixed` or `not fixed`"
            " alone, and put the rest into `reason`."
        )
    fixed = [one for one in given.asked if said.get(one.number) == "fixed"]
    void = [one for one in fixed if rulings.is_unchanged(one, given.ledger, given.tree)]
    if void:
        yield (
            f"You call {_numbers(void)} fixed, but no file has changed since it was reported. Look again, and rule"
            " `not fixed`, or `withdrawn` with a reason if it was wrong."
        )


def _numbers(findings: Iterable[Finding]) -> str:
    return ", ".join(f"#{finding.number}" for finding in findings)

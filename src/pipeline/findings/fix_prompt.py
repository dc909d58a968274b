"""The findings that an agent is given to fix: one line for each, always; more about the most important, if it fits.

Text from findings is quoted: it can forge neither a heading nor an instruction. The same findings give the same text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pipeline.engine.context import Context
from pipeline.findings.answers import ANSWER_FORMAT, quote_line
from pipeline.findings.model import AutofixClass, Finding, FindingId
from pipeline.findings.plugin import ReviewKey
from pipeline.findings.triage import importance
from pipeline.text import plural

HEADING = "## Findings by file"
NOT_TO_BE_CHANGED = "## Not to be changed"
EXISTED_BEFORE = "## Existed before"
_TITLE_LENGTHS = (160, 120, 80, 60, 40)  # the longest that fits is used for all
_MAX_DETAILS = 5  # kinds of details of one finding
_MAX_NAMED = 30  # findings and stages that are named one by one

Members = Callable[[FindingId], Sequence[Finding]]
"""Returns the findings that are joined to another one."""


def findings_section(
    findings: Sequence[Finding],
    room: int,
    members: Members = lambda _: (),
    *,
    heading: str = HEADING,
    answer_format: str = ANSWER_FORMAT,
) -> str:
    """Return the section, in `room` characters if the lines alone need no more; empty without findings."""
    if not findings:
        return ""
    opening = f"{heading}\n\n{answer_format}\n\n"
    lines, room = _title_lines(findings, room - len(opening))
    by_importance = sorted(findings, key=importance)
    details = {finding.id: list(_details(finding, members(finding.id))) for finding in findings}
    omitted = 0
    for kind in range(_MAX_DETAILS):
        for finding in by_importance:
            text = details[finding.id][kind]
            if not text:
                continue
            if len(text) + 1 > room:
                omitted += 1
                continue
            room -= len(text) + 1
            lines[finding.id].append(text)
    return opening + _compose(findings, lines, omitted)


def fix_section(findings: Sequence[Finding], room: int, members: Members = lambda _: (), *, filtered: int = 0) -> str:
    """Return what is to be fixed; then what is not, and what existed before; then how many were filtered."""
    if not findings:
        return ""
    older = [finding for finding in findings if not finding.fixable and finding.pre_existing]
    others = [finding for finding in findings if not finding.fixable and not finding.pre_existing]
    notes = []
    if others:
        about = "Advice, and what a person or the release decides. Do not change code for these, and do not answer."
        notes.append(f"{NOT_TO_BE_CHANGED}\n\n{about}\n\n{short_list(others)}")
    if older:
        about = "These are older than the change. Leave them as they are, and do not answer."
        notes.append(f"{EXISTED_BEFORE}\n\n{about}\n\n{short_list(older)}")
    if filtered:
        about = "below the confidence gate or only noted"
        notes.append(f"{plural(filtered, 'reported item')} {about}. List: awf findings list --filtered")
    work = [finding for finding in findings if finding.fixable]
    section = findings_section(work, room - sum(len(note) + 2 for note in notes), members)
    return "\n\n".join(part for part in (section, *notes) if part)


def short_list(findings: Sequence[Finding]) -> str:
    """Return a line for each finding, up to a number, the most important first."""
    lines = [_title_line(finding, _TITLE_LENGTHS[2]) for finding in sorted(findings, key=importance)[:_MAX_NAMED]]
    more = len(findings) - len(lines)
    return "\n".join([*lines, *([f"- and {plural(more, 'more finding')}"] if more else [])])


def chosen_section(
    findings: Sequence[Finding],
    context: Context,
    reported: Iterable[str],
    room: int,
    members: Members = lambda _: (),
) -> str:
    """Return the section after a triage: the chosen findings, and what was not chosen of those this run `reported`."""
    wanted, mentioned = set(context.list_at(ReviewKey.CHOSEN)), set(reported)
    chosen = [finding for finding in findings if finding.id in wanted]
    others = [finding for finding in findings if finding.id in mentioned - wanted]
    parts = [f"Chosen, for the proposed fix to be applied: {_numbers(chosen) or 'nothing that is still open'}."]
    not_chosen = [_numbers(others)] if others else []
    if stages := [name for name in _stages_with_prose(context) if name not in {one.failing_stage for one in findings}]:
        not_chosen.append(f"what {', '.join(stages)} reported")
    if not_chosen:
        parts.append(f"Not chosen, and not part of this task: {', and '.join(not_chosen)}.")
    section = findings_section(chosen, room - sum(len(part) + 2 for part in parts), members)
    return "\n\n".join(part for part in (section, *parts) if part)


def _title_lines(findings: Sequence[Finding], room: int) -> tuple[dict[FindingId, list[str]], int]:
    """A line for each finding with as much of its title as fits, and the room that is left."""
    lines: dict[FindingId, list[str]] = {}
    left = 0
    for length in _TITLE_LENGTHS:
        lines = {finding.id: [_title_line(finding, length)] for finding in findings}
        left = room - len(_compose(findings, lines, _MAX_DETAILS * len(findings)))
        if left >= 0:
            break
    return lines, left


def _compose(findings: Iterable[Finding], lines: Mapping[FindingId, Sequence[str]], omitted: int) -> str:
    parts: list[str] = []

    def place(finding: Finding) -> tuple[bool, str]:
        return finding.autofix_class is not AutofixClass.SAFE_AUTO, _path(finding)

    by_file = sorted(findings, key=lambda finding: (*place(finding), importance(finding)))
    for (careful, path), group in groupby(by_file, key=place):
        parts.append(f"### {path or 'no file'}{'' if careful else ' (safe fixes)'}")
        parts += [line for finding in group for line in lines[finding.id]]
        parts.append("")
    if omitted:
        parts.append(f"{plural(omitted, 'detail')} omitted to save space. Full text: awf findings show NUMBER")
    return "\n".join(parts).rstrip()


def _title_line(finding: Finding, length: int) -> str:
    marks = [str(finding.gate.value), str(finding.severity), str(finding.state)]
    reviewers = len({vote.reviewer for vote in finding.votes})
    if reviewers > 1:
        marks.append(plural(reviewers, "reviewer"))
    if finding.attempts:
        marks.append(f"tried {plural(len(finding.attempts), 'time')}")
    line = f":{finding.location.start}" if finding.location and finding.location.start else ""
    return f"- #{finding.number} ({', '.join(marks)}) {_path(finding)}{line}: {quote_line(finding.title, length)}"


def _details(finding: Finding, members: Sequence[Finding]) -> Iterator[str]:
    """What is added to a finding's line, in this order if it fits; empty texts for what it does not have."""
    attempts = [" ".join(filter(None, (one.outcome, one.by, one.what))) for one in finding.attempts[-3:]]
    rulings = [f"{change.by} {change.note}" for change in finding.history if change.what == "ruling"]
    lines = [f"    tried: {quote_line(text, 200)}" for text in attempts]
    yield "\n".join([*lines, *(f"    ruled: {quote_line(text, 200)}" for text in rulings[-1:])])
    yield f"    fix: {quote_line(finding.fix, 600)}" if finding.fix else ""
    yield f"    why: {quote_line(finding.impact, 400)}" if finding.impact else ""
    yield "\n".join(map(_member_line, members))
    quotation = next((one.quote or one.raw for one in finding.evidence if one.quote or one.raw), "")
    yield f"    seen: {quote_line(quotation, 240)}" if quotation else ""


def _member_line(finding: Finding) -> str:
    about = f": {quote_line(finding.impact, 200)}" if finding.impact else ""
    sources = quote_line(", ".join(finding.sources), 80)
    return f"    also: {sources} ({finding.severity}) {quote_line(finding.title, 120)}{about}"


def _path(finding: Finding) -> str:
    return quote_line(finding.location.path, 120) if finding.location else ""


def _numbers(findings: Sequence[Finding]) -> str:
    named = ", ".join(f"#{finding.number}" for finding in findings[:_MAX_NAMED])
    more = len(findings) - _MAX_NAMED
    return f"{named} and {plural(more, 'more finding')}" if more > 0 else named


def _stages_with_prose(context: Context) -> list[str]:
    """The stages that reported in prose: those reports cannot be asked about one by one."""
    reports = [one for one in context.list_at(ReviewKey.REPORTS) if isinstance(one, dict) and not one.get("findingIds")]
    names = dict.fromkeys(quote_line(str(one.get("stageId", "")), 80) for one in reports)
    return [name for name in names if name][:_MAX_NAMED]

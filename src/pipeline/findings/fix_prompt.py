"""The lines of work that an agent is given to fix: every title, and more about the most important as far as it fits.

Text from findings is quoted: it can forge neither a heading nor an instruction. The same findings give the same text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pipeline.engine.context import Context
from pipeline.findings.explanation import said_text
from pipeline.findings.gate import importance
from pipeline.findings.keys import ReviewKey
from pipeline.findings.lines import Line
from pipeline.findings.model import AutofixClass, Change, Finding, FindingId, What
from pipeline.findings.rulings import CLAIM_FORMAT, quote_line
from pipeline.text import listing, plural

HEADING = "## Findings by file"
NOT_TO_BE_CHANGED = "## Not to be changed"
EXISTED_BEFORE = "## Existed before"
_TITLE_LENGTHS = (160, 120, 80, 60, 40)  # the longest that fits is used for all
_MAX_DETAILS = 5  # kinds of details of one line of work
_MAX_NAMED = 30  # lines of work and stages that are named one by one


def findings_section(
    lines: Sequence[Line], room: int, *, heading: str = HEADING, answer_format: str = CLAIM_FORMAT
) -> str:
    """Return the section, in `room` characters if the titles alone need no more; empty without lines of work."""
    if not lines:
        return ""
    opening = f"{heading}\n\n{answer_format}\n\n"
    texts, room = _titles(lines, room - len(opening))
    by_importance = sorted(lines, key=_importance)
    details = {line.id: list(_details(line)) for line in lines}
    omitted = 0
    # Kind by kind, not line by line: every proposed fix is shown before the first quotation is. With room for 900
    # characters and fixes of 300, 400 and 300, the first two are added, the third one is counted as omitted.
    for kind in range(_MAX_DETAILS):
        for line in by_importance:
            text = details[line.id][kind]
            if not text:
                continue
            if len(text) + 1 > room:
                omitted += 1
                continue
            room -= len(text) + 1
            texts[line.id].append(text)
    return opening + _compose(lines, texts, omitted)


def fix_section(lines: Sequence[Line], room: int, *, filtered: int = 0) -> str:
    """Return what is to be fixed; then what is not, and what existed before; then how many items were filtered."""
    if not lines:
        return ""
    work: list[Line] = []
    older: list[Line] = []
    others: list[Line] = []
    for line in lines:
        if is_fixable(line):
            work.append(line)
        elif line.lead.pre_existing:
            older.append(line)
        else:
            others.append(line)
    advice = "Advice, and what a person or the release decides. Change no code for these, and claim nothing of them."
    existed = "These are older than the change. Leave them as they are, and claim nothing of them."
    notes = [_leave_alone(NOT_TO_BE_CHANGED, advice, others), _leave_alone(EXISTED_BEFORE, existed, older)]
    if filtered:
        about = "below the confidence gate or only noted"
        notes.append(f"{plural(filtered, 'reported item')} {about}. List: awf findings list --filtered")
    return _before_notes(work, notes, room)


def _leave_alone(heading: str, about: str, lines: Sequence[Line]) -> str:
    return f"{heading}\n\n{about}\n\n{short_list(lines)}" if lines else ""


def _before_notes(lines: Sequence[Line], notes: Iterable[str], room: int) -> str:
    """Return the section of what is to be fixed, and the notes below it, which have their room first."""
    shown = list(filter(None, notes))
    section = findings_section(lines, room - sum(len(note) + 2 for note in shown))
    return "\n\n".join(filter(None, (section, *shown)))


def is_fixable(line: Line) -> bool:
    """Return whether a fixer is to change code for a line of work: for any open finding of it."""
    return any(finding.fixable for finding in line.open_members)


def short_list(lines: Sequence[Line]) -> str:
    """Return a line for each line of work, up to a number, the most important first."""
    texts = [_title(line, _TITLE_LENGTHS[2]) for line in sorted(lines, key=_importance)[:_MAX_NAMED]]
    more = len(lines) - len(texts)
    return "\n".join([*texts, *([f"- and {plural(more, 'more finding')}"] if more else [])])


def chosen_section(lines: Sequence[Line], context: Context, reported: Iterable[str], room: int) -> str:
    """Return the section after a triage: what was chosen, and what was not of the findings that this run `reported`."""
    wanted, mentioned = set(context.list_at(ReviewKey.CHOSEN)), set(reported)
    chosen = [line for line in lines if _ids(line) & wanted]
    others = [line for line in lines if _ids(line) & mentioned and not _ids(line) & wanted]
    notes = [f"Chosen, for the proposed fix to be applied: {_numbers(chosen) or 'nothing that is still open'}."]
    stages = [quote_line(name, 80) for name in dict.fromkeys(stages_in_prose(context, lines))]
    reported_by = f"what {', '.join(stages[:_MAX_NAMED])} reported" if stages else ""
    not_chosen = ", and ".join(filter(None, (_numbers(others), reported_by)))
    if not_chosen:
        notes.append(f"Not chosen, and not part of this task: {not_chosen}.")
    return _before_notes(chosen, notes, room)


def _importance(line: Line) -> tuple[bool, int, int, str, int, int]:
    return importance(line.lead)


def _ids(line: Line) -> set[str]:
    return {finding.id for finding in line.members}


def _titles(lines: Sequence[Line], room: int) -> tuple[dict[FindingId, list[str]], int]:
    """Return a text for each line of work with as much of its title as fits, and the room that is left."""
    texts: dict[FindingId, list[str]] = {}
    left = 0
    for length in _TITLE_LENGTHS:
        texts = {line.id: [_title(line, length)] for line in lines}
        left = room - len(_compose(lines, texts, _MAX_DETAILS * len(lines)))
        if left >= 0:
            break
    return texts, left


def _compose(lines: Iterable[Line], texts: Mapping[FindingId, Sequence[str]], omitted: int) -> str:
    parts: list[str] = []

    def place(line: Line) -> tuple[bool, str]:
        return line.lead.autofix_class is not AutofixClass.SAFE_AUTO, _path(line)

    by_file = sorted(lines, key=lambda line: (*place(line), _importance(line)))
    for (careful, path), group in groupby(by_file, key=place):
        parts.append(f"### {path or 'no file'}{'' if careful else ' (safe fixes)'}")
        parts += [text for line in group for text in texts[line.id]]
        parts.append("")
    if omitted:
        parts.append(f"{plural(omitted, 'detail')} omitted to save space. Full text: awf findings show NUMBER")
    return "\n".join(parts).rstrip()


def _title(line: Line, length: int) -> str:
    marks = [str(line.gate), str(line.severity), str(line.state)]
    if len(line.reviewers) > 1:
        marks.append(plural(len(line.reviewers), "reviewer"))
    tries = len(_claims(line))
    if any(finding.disputed for finding in line.members):
        marks.append("disputed")
    elif tries:
        marks.append(f"tried {plural(tries, 'time')}")
    return f"- #{line.number} ({', '.join(marks)}){_place(line)}: {quote_line(line.title, length)}"


def _place(line: Line) -> str:
    """Return the place of a line of work with a space before it; nothing if it has none."""
    return f" {quote_line(line.location.path_line, 120)}" if line.location else ""


def _claims(line: Line) -> list[Change]:
    """Return what fixers said about a line of work, oldest first; what counts for all members is returned once."""
    said = {(change.at, change.who, change.word): change for member in line.members for change in member.claims}
    return sorted(said.values(), key=lambda change: change.at)


def _details(line: Line) -> Iterator[str]:
    """Yield what is added to a title, in this order if it fits; empty texts for what there is not."""
    lead = line.lead
    tried = [f"    tried: {_said(claim, claim.who)}" for claim in _claims(line)[-3:]]
    rulings = [(member, [one for one in member.history if one.what is What.RULING]) for member in line.open_members]
    ruled = [f"    ruled: {_said(made[-1], f'{made[-1].who} on #{member.number}')}" for member, made in rulings if made]
    quotation = next(filter(None, (item.quote or item.raw for item in lead.evidence)), "")
    yield "\n".join([*tried, *ruled])
    yield _detail("fix", lead.fix or "", 600)
    yield _detail("why", lead.impact, 400)
    yield "\n".join(_also(member) for member in line.open_members if member.id != lead.id)
    yield _detail("seen", quotation, 240)


def _detail(name: str, text: str, length: int) -> str:
    return f"    {name}: {quote_line(text, length)}" if text else ""


def _said(change: Change, who: str) -> str:
    return quote_line(f"{who}: {said_text(change.word, change.note)}", 200)


def _also(finding: Finding) -> str:
    """Return what another reviewer says about the same defect."""
    about = f": {quote_line(finding.impact, 200)}" if finding.impact else ""
    fix = f" Fix: {quote_line(finding.fix, 200)}" if finding.fix else ""
    reviewer = quote_line(finding.reviewer, 80)
    return f"    also: {reviewer} ({finding.severity}) {quote_line(finding.title, 120)}{about}{fix}"


def _path(line: Line) -> str:
    return quote_line(line.location.path, 120) if line.location else ""


def _numbers(lines: Sequence[Line]) -> str:
    return listing([f"#{line.number}" for line in lines], _MAX_NAMED)


def stages_in_prose(context: Context, asked: Iterable[Line]) -> list[str]:
    """Return the stages of the reports in prose, one for each: nobody can be asked about those one by one.

    The failure of a stage that has a line of work of its own is `asked` about.
    """
    known = {finding.failing_stage for line in asked for finding in line.members} - {""}
    reports = [one if isinstance(one, dict) else {} for one in context.list_at(ReviewKey.REPORTS)]
    stages = [str(one.get("stageId", "")) for one in reports if not one.get("findingIds")]
    return [stage for stage in stages if stage not in known]

"""Findings for an agent that fixes them: a line for every one, always; more of the gravest, as far as there is room.

What stands in a finding is quoted: it can forge neither a heading nor an instruction. Same findings, same text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pipeline.engine.context import Context
from pipeline.findings.answers import ANSWER_FORMAT
from pipeline.findings.keys import ReviewKey
from pipeline.findings.model import Finding, FixAttempt, Gate
from pipeline.findings.walk.present import count_of, one_line

HEADING = "## Findings by file"
_TITLES = (160, 120, 80, 60, 40)  # characters of a title, as there is room
_FIX = 600
_IMPACT = 400
_QUOTE = 240
_TRIED = 200
_PATH = 120
_MARKER = re.compile(r"\[(?=\s*(?:FINDING|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b)", re.IGNORECASE)


def findings_section(findings: Sequence[Finding], room: int) -> str:
    """The section; nothing when there are no findings."""
    if not findings:
        return ""
    lines, spare = _lines(findings, room)
    condensed = 0
    for tier in _TIERS:
        for finding in sorted(findings, key=_weight):
            text = tier(finding)
            if len(text) + 1 > spare:
                condensed += bool(text)
            elif text:
                spare -= len(text) + 1
                lines[finding.number].append(text)
    return _composed(findings, lines, condensed)


def _lines(findings: Sequence[Finding], room: int) -> tuple[dict[int, list[str]], int]:
    """A line for each finding, with as much of its title as there is room for, and what room is left then."""
    lines: dict[int, list[str]] = {}
    spare = 0
    for title in _TITLES:
        lines = {finding.number: [_line(finding, title)] for finding in findings}
        spare = room - len(_composed(findings, lines, len(_TIERS) * len(findings)))
        if spare >= 0:
            break
    return lines, spare


def _composed(findings: Iterable[Finding], lines: Mapping[int, Sequence[str]], condensed: int) -> str:
    parts = [HEADING, "", ANSWER_FORMAT, ""]
    by_file = sorted(findings, key=lambda finding: (_path(finding), _weight(finding)))
    for path, group in groupby(by_file, key=_path):
        parts.append(f"### {path or 'no file'}")
        for finding in group:
            parts += lines[finding.number]
        parts.append("")
    if condensed:
        parts.append(f"{condensed} details left out for want of room: awf findings show NUMBER has everything.")
    return "\n".join(parts).rstrip()


def _line(finding: Finding, title: int) -> str:
    lines = f":{finding.location.start}" if finding.location and finding.location.start else ""
    tried = f", tried {len(finding.attempts)} times" if finding.attempts else ""
    marks = f"{finding.gate.value}, {finding.severity}, {finding.state}{tried}"
    return f"- #{finding.number} ({marks}) {_path(finding)}{lines}: {_flat(finding.title, title)}"


def _fix(finding: Finding) -> str:
    return f"    fix: {_flat(finding.fix, _FIX)}" if finding.fix else ""


def _impact(finding: Finding) -> str:
    return f"    why: {_flat(finding.impact, _IMPACT)}" if finding.impact else ""


def _evidence(finding: Finding) -> str:
    quote = next((one.quote or one.raw for one in finding.evidence if one.quote or one.raw), "")
    return f"    seen: {_flat(quote, _QUOTE)}" if quote else ""


def _attempts(finding: Finding) -> str:
    return "\n".join(f"    tried: {_attempt(one)}" for one in finding.attempts[-3:])


def _attempt(attempt: FixAttempt) -> str:
    return _flat(" ".join(part for part in (attempt.outcome, attempt.by, attempt.what) if part), _TRIED)


_TIERS: tuple[Callable[[Finding], str], ...] = (_attempts, _fix, _impact, _evidence)


def _weight(finding: Finding) -> tuple[bool, int, int, int]:
    return finding.gate.value is not Gate.MUST, finding.severity.rank, -finding.confidence.value, finding.number


def _path(finding: Finding) -> str:
    return _flat(finding.location.path, _PATH) if finding.location else ""


def _flat(text: str | None, most: int) -> str:
    """A text from outside on one line, so that it can begin neither a heading nor a list, and without markers."""
    kept = (text or "")[: 4 * most]
    line = _MARKER.sub("(", " ".join("".join(c if c.isprintable() else " " for c in kept).split()))
    return line if len(line) <= most and kept == (text or "") else f"{line[: most - 1]}…"


_NAMED = 30  # findings and stages that are named one by one


def chosen_section(findings: Sequence[Finding], context: Context, reported: Iterable[str], room: int) -> str:
    """The chosen among some outstanding findings; of the others only those that this run `reported` are mentioned."""
    wanted, mentioned = set(context.list_at(ReviewKey.CHOSEN)), set(reported)
    chosen = [finding for finding in findings if finding.id in wanted]
    others = [finding for finding in findings if finding.id in mentioned - wanted]
    said = f"Chosen, for the proposed fix to be applied: {_numbers(chosen) or 'nothing that is still open'}."
    left = _not_chosen(others, list(_texts(context)))
    whole = findings_section(chosen, room - len(said) - len(left) - 4)
    return "\n\n".join(part for part in (whole, said, left) if part)


def _not_chosen(findings: Sequence[Finding], stages: Sequence[str]) -> str:
    reports = [f"what {', '.join(stages)} reported"] if stages else []
    parts = ([_numbers(findings)] if findings else []) + reports
    return f"Not chosen, and no part of this task: {', and '.join(parts)}." if parts else ""


def _numbers(findings: Sequence[Finding]) -> str:
    named = [f"#{finding.number}" for finding in findings[:_NAMED]]
    more = len(findings) - len(named)
    return ", ".join(named) + (f" and {count_of(more, 'finding')} more" if more else "")


def _texts(context: Context) -> Iterator[str]:
    """The stages whose reports are texts: nobody can be asked about those one by one."""
    reports = [one for one in context.list_at(ReviewKey.REPORTS) if isinstance(one, dict) and not one.get("findingIds")]
    names = dict.fromkeys(one_line(str(one.get("stageId", "")), 80) for one in reports)
    return iter([name for name in names if name][:_NAMED])

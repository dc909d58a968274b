"""Findings for an agent that fixes them: a line for every one, always; more of the gravest, as far as there is room.

What stands in a finding is quoted: it can forge neither a heading nor an instruction. Same findings, same text.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from pipeline.findings.answers import HOW
from pipeline.findings.model import Finding, FixAttempt, Gate

HEADING = "## Findings by file"
_TITLES = (160, 120, 80, 60, 40)  # characters of a title, as there is room
_FIX = 600
_IMPACT = 400
_QUOTE = 240
_TRIED = 200
_PATH = 120
_MARKER = re.compile(r"\[(?=\s*(?:FINDING|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b)", re.IGNORECASE)


def worklist(findings: Sequence[Finding], room: int) -> str:
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
    parts = [HEADING, "", HOW, ""]
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

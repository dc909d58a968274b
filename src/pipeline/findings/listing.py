"""Findings for an agent that fixes them: a line for every one, always; more of the gravest, as far as there is room.

What stands in a finding is quoted: it can forge neither a heading nor an instruction. Same findings, same text.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from pipeline.findings.answers import HOW
from pipeline.findings.model import Attempt, Finding, Gate

HEADING = "## Findings by file"
_TITLE = 160
_FIX = 600
_IMPACT = 400
_QUOTE = 240
_TRIED = 200
_SHORTEST_TITLE = 40


def listing(findings: Sequence[Finding], room: int) -> str:
    """The section; nothing when there are no findings."""
    if not findings:
        return ""
    ordered = sorted(findings, key=_weight)
    base = {finding.number: _line(finding, _title_room(findings, room)) for finding in findings}
    spare = room - len(HEADING) - len(HOW) - 200 - sum(len(line) + 1 for line in base.values())
    spare -= sum(len(path) + 6 for path in {_path(finding) for finding in findings})
    more: dict[int, list[str]] = {finding.number: [] for finding in findings}
    condensed = 0
    for tier in _TIERS:
        for finding in ordered:
            text = tier(finding)
            if not text:
                continue
            if len(text) + 1 > spare:
                condensed += 1
                continue
            spare -= len(text) + 1
            more[finding.number].append(text)
    return _composed(findings, base, more, condensed)


def _composed(findings: Iterable[Finding], base: dict[int, str], more: dict[int, list[str]], condensed: int) -> str:
    parts = [HEADING, "", HOW, ""]
    by_file = sorted(findings, key=lambda finding: (_path(finding), _weight(finding)))
    for path, group in groupby(by_file, key=_path):
        parts.append(f"### {path or 'no file'}")
        for finding in group:
            parts += [base[finding.number], *more[finding.number]]
        parts.append("")
    if condensed:
        parts.append(f"{condensed} details left out for want of room: awf findings show NUMBER has everything.")
    return "\n".join(parts).rstrip()


def _title_room(findings: Sequence[Finding], room: int) -> int:
    """How much of a title goes into a line when every finding has to have one."""
    return max(_SHORTEST_TITLE, min(_TITLE, room // (2 * len(findings)) - 60))


def _line(finding: Finding, title: int) -> str:
    lines = f":{finding.place.start}" if finding.place and finding.place.start else ""
    tried = f", tried {len(finding.attempts)} times" if finding.attempts else ""
    marks = f"{finding.gate.value}, {finding.severity}, {finding.state}{tried}"
    return f"- #{finding.number} ({marks}) {_flat(_path(finding), 120)}{lines}: {_flat(finding.title, title)}"


def _fix(finding: Finding) -> str:
    return f"    fix: {_flat(finding.fix, _FIX)}" if finding.fix else ""


def _impact(finding: Finding) -> str:
    return f"    why: {_flat(finding.impact, _IMPACT)}" if finding.impact else ""


def _evidence(finding: Finding) -> str:
    quote = next((one.quote or one.raw for one in finding.evidence if one.quote or one.raw), "")
    return f"    seen: {_flat(quote, _QUOTE)}" if quote else ""


def _attempts(finding: Finding) -> str:
    return "\n".join(f"    tried: {_attempt(one)}" for one in finding.attempts[-3:])


def _attempt(attempt: Attempt) -> str:
    return _flat(" ".join(part for part in (attempt.outcome, attempt.by, attempt.what) if part), _TRIED)


_TIERS: tuple[Callable[[Finding], str], ...] = (_attempts, _fix, _impact, _evidence)


def _weight(finding: Finding) -> tuple[bool, int, int, int]:
    return finding.gate.value is not Gate.MUST, finding.severity.rank, -finding.confidence.value, finding.number


def _path(finding: Finding) -> str:
    return _flat(finding.place.path, 200) if finding.place else ""


def _flat(text: str | None, most: int) -> str:
    """A text from outside on one line, so that it can begin neither a heading nor a list."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text or "").split())
    return line if len(line) <= most else f"{line[: most - 1]}…"

"""Findings as a report in Markdown, for people: what must be fixed first, what is only claimed, what was set aside.

What a finding says is text: it can begin no heading, no link and no markup of its own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from pipeline.findings.events import Pass
from pipeline.findings.model import Finding, FindingState, Gate
from pipeline.findings.scales import CATEGORY_LABEL
from pipeline.findings.verdicts import Verdicts

_MARKUP = re.compile(r"[\\`*_{}\[\]<>()!|~&$^#]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NUMBER = re.compile(r"^(\d{1,9})(?=[.)])")  # would begin a list
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_AT = "@<!-- -->"  # names nobody: a backslash before it would still call whoever has that name


def encode(findings: Iterable[Finding], *, verdicts: Verdicts | None = None, passed: Pass | None = None) -> str:
    """The report. Findings come in the order given, under the heading that each belongs to."""
    found = list(findings)
    lines = ["# Findings", "", *_head(verdicts, passed)]
    for heading, chosen in _sections(found):
        lines += [f"## {heading} ({len(chosen)})", ""]
        lines += [line for finding in chosen for line in _entry(finding)]
    if not found:
        lines += ["No findings.", ""]
    return "\n".join(lines)


def text(words: str) -> str:
    """Words from outside on one line, in which no sign means anything."""
    line = " ".join(_CONTROL.sub(" ", words).split())
    return _NUMBER.sub(r"\1\\", _MARKUP.sub(r"\\\g<0>", line)).replace("@", _AT)


def code(words: str) -> str:
    """Words from outside as code on one line; a backtick in them cannot end it."""
    line = " ".join(_CONTROL.sub(" ", words).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _head(verdicts: Verdicts | None, passed: Pass | None) -> Iterator[str]:
    if verdicts:
        yield f"Verdict: **{verdicts.verdict}**"
        if verdicts.verdict != verdicts.after_verification:
            yield f"as claimed; **{verdicts.after_verification}** until the claimed fixes are verified"
        yield ""
    if passed:
        yield f"Last pass: {code(passed.id)}, {code(passed.started_at)}"
        yield ""
        yield from _gaps(passed)


def _gaps(passed: Pass) -> Iterator[str]:
    for name in passed.coverage.silent:
        yield f"- **Incomplete**: {text(name)}: {text(passed.coverage.problems.get(name, 'no answer'))}"
    if passed.coverage.silent:
        yield ""


def _sections(findings: Sequence[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    sections: dict[str, list[Finding]] = {
        "Must fix": [],
        "Suggested": [],
        "Claimed to be fixed": [],
        "Fixed": [],
        "Suppressed, not gating": [],
    }
    for finding in findings:
        sections[_heading(finding)].append(finding)
    return ((heading, chosen) for heading, chosen in sections.items() if chosen)


def _heading(finding: Finding) -> str:
    if finding.state.dismissed:
        return "Suppressed, not gating"
    if finding.state is FindingState.FIX_CLAIMED:
        return "Claimed to be fixed"
    if finding.state is FindingState.VERIFIED_FIXED:
        return "Fixed"
    return "Must fix" if finding.gate.value is Gate.MUST else "Suggested"


def _entry(finding: Finding) -> Iterator[str]:
    """A finding with its parts. Each part is a paragraph of its item."""
    yield f"### {finding.number}. {text(finding.title)}"
    yield ""
    label, place = CATEGORY_LABEL[finding.category], f", {code(str(finding.location))}" if finding.location else ""
    yield f"{code(finding.id)}, {finding.severity}, {label}, {finding.state}{place}"
    yield ""
    quote = next((item.quote for item in finding.evidence if item.quote.strip()), "")
    told = (
        code(quote) if quote else "",
        text(finding.impact),
        f"Fix: {text(finding.fix)}" if finding.fix else "",
        f"Said by {text(', '.join(finding.sources))}." if finding.sources else "",
        _suppressed(finding),
    )
    for paragraph in filter(None, told):
        yield paragraph
        yield ""


def _suppressed(finding: Finding) -> str:
    held = finding.suppression
    if held is None:
        return ""
    until = f" until {text(held.expires)}" if held.expires else ""
    return f"Dismissed by {text(held.by or 'somebody')}{until}: {text(held.reason or 'no reason given')}"

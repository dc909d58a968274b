"""Findings as a Markdown report for people: what must be fixed first, what is only claimed, what was dismissed.

What a finding says is text: it cannot start a heading, a link or any other markup.
"""

import re
from collections.abc import Iterable, Iterator

from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, Gate
from pipeline.findings.scales import CATEGORY_LABEL
from pipeline.findings.verdicts import ledger_verdicts

_HEADINGS = ("Must fix", "Suggested", "Claimed to be fixed", "Fixed", "Suppressed, not gating")
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()!|~&$^#]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NUMBER = re.compile(r"^(\d{1,9})(?=[.)])")  # would start a list
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_AT = "@<!-- -->"  # a backslash before it would still mention the person with that name


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """The verdict and the findings, each under its heading, in the order given."""
    sections: dict[str, list[Finding]] = {heading: [] for heading in _HEADINGS}
    for finding in findings:
        sections[_heading(finding)].append(finding)
    lines = ["# Findings", "", *_summary(ledger)]
    for heading, chosen in sections.items():
        if chosen:
            lines += [f"## {heading} ({len(chosen)})", ""]
            lines += [line for finding in chosen for line in _entry(finding, ledger)]
    if not any(sections.values()):
        lines += ["No findings.", ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text from outside on one line, in which nothing is markup."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    return _NUMBER.sub(r"\1\\", _MARKUP.sub(r"\\\g<0>", line)).replace("@", _AT)


def code_span(text: str) -> str:
    """Text from outside as code on one line; a backtick in it cannot end it."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _summary(ledger: Ledger) -> Iterator[str]:
    last, coverage = ledger.last, ledger.coverage()
    if last is None or coverage is None:
        return
    verdicts = ledger_verdicts(ledger)
    yield f"Verdict: **{verdicts.verdict}**"
    if verdicts.verdict != verdicts.after_verification:
        yield f"as claimed; **{verdicts.after_verification}** until the claimed fixes are verified"
    yield ""
    yield f"Last pass: {code_span(last.id)}, {code_span(last.started_at)}"
    yield ""
    for name in coverage.silent:
        yield f"- **Incomplete**: {escape(name)}: {escape(coverage.problems.get(name, 'no answer'))}"
    if coverage.silent:
        yield ""


def _heading(finding: Finding) -> str:
    if finding.state.dismissed:
        return "Suppressed, not gating"
    if finding.state is FindingState.FIX_CLAIMED:
        return "Claimed to be fixed"
    if finding.state is FindingState.VERIFIED_FIXED:
        return "Fixed"
    return "Must fix" if finding.gate.value is Gate.MUST else "Suggested"


def _entry(finding: Finding, ledger: Ledger) -> Iterator[str]:
    location = f", {code_span(str(finding.location))}" if finding.location else ""
    quote = next((item.quote for item in finding.evidence if item.quote.strip()), "")
    paragraphs = (
        f"### {finding.number}. {escape(finding.title)}",
        f"{code_span(finding.id)}, {finding.severity}, {CATEGORY_LABEL[finding.category]}, {finding.state}{location}",
        code_span(quote) if quote else "",
        escape(finding.impact),
        f"Fix: {escape(finding.fix)}" if finding.fix else "",
        f"Reported by {escape(', '.join(finding.sources))}." if finding.sources else "",
        *(f"{escape(', '.join(member.sources))}: {escape(member.title)}" for member in ledger.members(finding.id)),
        _dismissal(finding),
    )
    for paragraph in filter(None, paragraphs):
        yield paragraph
        yield ""


def _dismissal(finding: Finding) -> str:
    held = finding.suppression
    if held is None:
        return ""
    until = f" until {escape(held.expires)}" if held.expires else ""
    return f"Dismissed by {escape(held.by or 'unknown')}{until}: {escape(held.reason or 'no reason given')}"

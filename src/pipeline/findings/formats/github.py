"""Findings as annotations of a GitHub workflow: one command a line.

What a finding says cannot end its command or begin another: every character that could is escaped or taken out.
"""

import re
from collections.abc import Iterable

from pipeline.findings.model import Finding, Gate, Severity

_CONTROL = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def encode(findings: Iterable[Finding]) -> str:
    """A line for each finding that somebody has still to look at, in the order of their numbers."""
    shown = (finding for finding in findings if finding.state.needs_attention)
    return "".join(f"{_command(finding)}\n" for finding in sorted(shown, key=lambda one: (one.number, one.id)))


def _command(finding: Finding) -> str:
    told = ",".join(f"{name}={_property(value)}" for name, value in _properties(finding))
    return f"::{_level(finding)} {told}::{_message(_body(finding))}"


def _level(finding: Finding) -> str:
    if finding.gate.value is Gate.MUST:
        return "error"
    return "notice" if finding.severity is Severity.INFO else "warning"


def _properties(finding: Finding) -> Iterable[tuple[str, str]]:
    place = finding.location
    if place:
        yield "file", place.path
    if place and place.start:
        yield "line", str(place.start)
    if place and place.start and place.end:
        yield "endLine", str(place.end)
    yield "title", f"{finding.severity}: {finding.title}"


def _body(finding: Finding) -> str:
    fix = f"Fix: {finding.fix}" if finding.fix else ""
    return "\n".join(part for part in (finding.impact or finding.title, fix, f"({finding.id})") if part)


def _message(text: str) -> str:
    clean = _CONTROL.sub(" ", text)
    return clean.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")

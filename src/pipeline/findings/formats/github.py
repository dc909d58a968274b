"""Findings as annotations of a GitHub workflow: one command per line.

A finding cannot end its command or start another one: every character that could is escaped or replaced.
"""

import re
from collections.abc import Iterable

from pipeline.findings.formats import items
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, Gate, Severity

_CONTROL = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """A line for each finding that needs attention, by number, with what the members of its cluster say."""
    shown = items.by_number(finding for finding in findings if finding.state.needs_attention)
    return "".join(f"{_command(finding, ledger.members(finding.id))}\n" for finding in shown)


def _command(finding: Finding, members: Iterable[Finding]) -> str:
    level = "notice" if finding.severity is Severity.INFO else "warning"
    if finding.gate.value is Gate.MUST:
        level = "error"
    properties = {}
    if location := finding.location:
        properties["file"] = location.path
        if location.start:
            properties["line"] = str(location.start)
        if location.start and location.end:
            properties["endLine"] = str(location.end)
    properties["title"] = f"{finding.severity}: {finding.title}"
    escaped = {name: _escape(value).replace(":", "%3A").replace(",", "%2C") for name, value in properties.items()}
    named = ",".join(f"{name}={value}" for name, value in escaped.items())
    fix = f"Fix: {finding.fix}" if finding.fix else ""
    said = (f"{', '.join(member.sources)}: {member.title}" for member in members)
    body = "\n".join(filter(None, (finding.impact or finding.title, fix, *said, f"({finding.id})")))
    return f"::{level} {named}::{_escape(body)}"


def _escape(text: str) -> str:
    return _CONTROL.sub(" ", text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

"""Findings as annotations of a GitHub workflow: one command per line.

A finding cannot end its command or start another one: every character that could is escaped or replaced.
"""

import re
from collections.abc import Iterable

from pipeline.findings.formats import items
from pipeline.findings.formats.fields import filled
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, Gate, Location, Severity
from pipeline.text import escape_command

_CONTROL = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Return a line for each open finding, by number, with the number of its line of work and its reviewer."""
    shown = items.by_number(finding for finding in findings if finding.state.is_open)
    return "".join(f"{_command(finding, items.line_number(finding, ledger))}\n" for finding in shown)


def _command(finding: Finding, number: int) -> str:
    level = "notice" if finding.severity is Severity.INFO else "warning"
    if finding.gate is Gate.MUST:
        level = "error"
    place = finding.location or Location(path="")
    properties = filled(file=place.path, line=place.start, endLine=place.end)
    properties["title"] = f"{finding.severity}: {finding.title}"
    escaped = {name: escape_command(_CONTROL.sub(" ", str(value)), ":,") for name, value in properties.items()}
    named = ",".join(f"{name}={value}" for name, value in escaped.items())
    fix = f"Fix: {finding.fix}" if finding.fix else ""
    body = "\n".join(filter(None, (finding.impact or finding.title, fix, f"(#{number}, {finding.reviewer})")))
    return f"::{level} {named}::{escape_command(_CONTROL.sub(' ', body))}"

"""Why a finding is what it is: who reported it, which line of work it is part of, who said what about it and when."""

from typing import Any

from pipeline.findings.events import Disposition
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Change, Finding
from pipeline.text import plural

_MAX_LINES = 12  # of one part; the record has all of them


def location_text(finding: Finding) -> str:
    """Return where a finding is, such as `src/a.py:3-5`; a dash if it has no place."""
    return str(finding.location or "-")


def possible_duplicates(finding: Finding, ledger: Ledger) -> str:
    """Return `may be #4, dismissed`; nothing if it is surely no other finding."""
    others = (ledger.find(id) for id in finding.may_be)
    named = [f"#{other.number}, {_word(other)}" for other in others if other]
    return f"may be {' or '.join(named)}" if named else ""


def _word(finding: Finding) -> str:
    return "dismissed" if finding.state.dismissed else finding.state.replace("_", " ")


def line_size(line: Line) -> str:
    """Return how many reviewers reported a line of work, such as `3 reviewers`; nothing for a single finding."""
    if len(line.members) == 1:
        return ""
    return plural(len(line.reviewers), "reviewer") if len(line.reviewers) > 1 else plural(len(line.members), "finding")


def count_lines(number: int, word: str = "open") -> str:
    """Return `1 open line of work` or `2 open lines of work`."""
    return f"{plural(number, f'{word} line')} of work"


def member_line(member: Finding) -> str:
    """Return a finding of a line of work in one line: who reports what, how bad it is, and what became of it."""
    state = member.state.replace("_", " ")
    return f"#{member.number} {member.reviewer} ({member.severity}, {state}) {location_text(member)}: {member.title}"


def member_row(finding: Finding) -> dict[str, Any]:
    """Return a finding of a line of work for a program."""
    return {
        "id": finding.id,
        "number": finding.number,
        "reviewer": finding.reviewer,
        "severity": str(finding.severity),
        "state": str(finding.state),
        "title": finding.title,
    }


def explain(finding: Finding, ledger: Ledger) -> dict[str, list[str]]:
    """Return the story of a finding on one screen: titles, each with its lines; empty parts are left out."""
    others = [member for member in ledger.line(finding.id).members if member.id != finding.id]
    parts = {
        "Now": _now(finding, ledger),
        "Line of work": list(map(member_line, others)),
        "Merged": _merged_items(finding, ledger),
        "History": list(map(change_text, finding.history)),
        **{
            f"History of #{other.number} by {other.reviewer}": list(map(change_text, other.history)) for other in others
        },
    }
    return {title: _shorten(lines) for title, lines in parts.items() if lines}


def explain_item(input_id: str, ledger: Ledger) -> list[str]:
    """Return what became of an item such as `ruff#3` in the last pass that had it; nothing if no pass had."""
    items = [
        (passed, item) for passed in ledger.passes.values() for item in passed.entries if item.input_id == input_id
    ]
    if not items:
        return []
    passed, item = items[-1]
    into = f" into {item.into}" if item.into else ""
    raised = [one for one in ledger.findings.values() if (one.pass_id, one.input_id) == (passed.id, input_id)]
    return [
        f"{input_id} of {passed.id}  {item.title}",
        f"{item.disposition}{into}: {item.reason}",
        *(f"it is #{one.number} {one.id} at {location_text(one)}: {one.title}" for one in raised),
    ]


def _now(finding: Finding, ledger: Ledger) -> list[str]:
    head = ledger.findings[finding.line]
    part_of = f"part of line of work #{head.number}" if head.id != finding.id else ""
    exceptions = {
        f"its severity was written as {finding.severity_text!a}": finding.severity_text,
        f"it cannot be read as a finding: {finding.unreadable}": finding.unreadable,
        f"dismissed {finding.suppression}": finding.suppression,
        "it existed before the change, and does not count against it": finding.pre_existing,
    }
    return [
        f"{finding.state}, {finding.severity}, {finding.category}, at {location_text(finding)}",
        f"{finding.gate}, confidence {finding.confidence.value}; last reported or confirmed in {finding.pass_id}",
        *(text for text, holds in exceptions.items() if holds),
        *filter(None, (part_of, possible_duplicates(finding, ledger))),
    ]


def _merged_items(finding: Finding, ledger: Ledger) -> list[str]:
    """Return the items that repeat a finding, with the reasons. In its own pass it is named by its item."""
    merged = [
        (passed, item)
        for passed in ledger.passes.values()
        for item in passed.entries
        if item.disposition is Disposition.MERGED
    ]
    own = {(passed.id, finding.id) for passed, _ in merged} | {(finding.pass_id, finding.input_id)}
    return [
        f"{item.input_id} of {passed.id}: {item.reason}" for passed, item in merged if (passed.id, item.into) in own
    ]


def dispute_text(finding: Finding) -> str:
    """Return who calls a finding wrong, and why; empty if nobody does, or its reviewer has ruled since."""
    if not finding.disputed:
        return ""
    claim = finding.claims[-1]
    return f"disputed by {claim.who}: {claim.note or 'no reason given'}"


def said_text(word: str, why: str) -> str:
    """Return what was said of a finding, such as `not fixed, too hard`."""
    word = word.replace("_", " ")
    return f"{word}, {why}" if why else word


def change_text(change: Change) -> str:
    """Return who said what when, in one line."""
    said = " ".join(filter(None, (str(change.what), change.word)))
    more = {
        f", now {change.state}": change.state,
        f" ({change.ref})": change.ref,
        f" in {change.pass_id}": change.pass_id,
        f": {change.note}": change.note,
    }
    return "".join([f"{change.at}  {change.who}  {said}", *(text for text, given in more.items() if given)])


def _shorten(lines: list[str]) -> list[str]:
    """Return the first and the last lines if there are too many for a screen."""
    if len(lines) <= _MAX_LINES:
        return lines
    half = _MAX_LINES // 2
    return [*lines[:half], f"... {len(lines) - _MAX_LINES} more ...", *lines[-half:]]

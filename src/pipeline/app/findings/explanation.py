"""Why a finding is what it is, from what was recorded: who said it, how it was recognised, who decided what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.findings.events import Disposition, ItemOutcome, Pass
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Change, Finding, FixAttempt, Observed, Vote

_SHOWN = 12  # lines of one part; the record has all of them


@dataclass(frozen=True, slots=True)
class ExplanationPart:
    """One part of a story."""

    title: str
    lines: tuple[str, ...]


def location_text(finding: Finding) -> str:
    """Where a finding is, such as `src/a.py:3-5`; a dash for one that is nowhere."""
    if finding.location is None:
        return next((item.path for item in finding.evidence if item.path), "-")
    return str(finding.location)


def last_seen(finding: Finding) -> str:
    """When a finding was reported last, and how it was recognised."""
    if finding.observed is Observed.ABSENT:
        return f"last seen in {finding.pass_id}, absent since: {_passes(finding.absent_passes)}"
    match = f", {finding.strength} match" if finding.strength else ""
    return f"{finding.observed} in {finding.pass_id}{match}"


def possible_duplicates(finding: Finding, ledger: Ledger) -> str:
    """`may be the same as #4`; nothing where there is no such finding."""
    others = [f"#{other.number}" for id in finding.may_be if (other := ledger.find(id))]
    return f"may be the same as {', '.join(others)}" if others else ""


def explain(finding: Finding, ledger: Ledger) -> list[ExplanationPart]:
    """The story of a finding in one screen; parts with nothing to tell are left out."""
    parts = (
        ("Now", [*_now(finding), *filter(None, [possible_duplicates(finding, ledger)])]),
        ("Said by", [_vote(vote) for vote in finding.votes]),
        ("Merged", list(_merged(finding, ledger))),
        ("Gate", list(_gate(finding))),
        ("History", [_change(change) for change in finding.history]),
        ("Attempts", [_attempt(attempt) for attempt in finding.attempts]),
        ("Links", list(_links(finding, ledger))),
    )
    return [ExplanationPart(title, tuple(_short(lines))) for title, lines in parts if lines]


def item_outcomes(input_id: str, ledger: Ledger) -> list[tuple[Pass, ItemOutcome]]:
    """What became of an item such as `ruff#3`, in every pass that had one of that name, the newest first."""
    return [
        (passed, entry)
        for passed in reversed(ledger.passes.values())
        for entry in passed.entries
        if entry.input_id == input_id
    ]


def finding_of_item(passed: Pass, entry: ItemOutcome, ledger: Ledger) -> Finding | None:
    """The finding that an item of a pass is part of."""
    wanted = (passed.id, entry.input_id)
    return next((one for one in ledger if any((vote.pass_id, vote.input_id) == wanted for vote in one.votes)), None)


def _now(finding: Finding) -> Iterator[str]:
    yield f"{finding.state}, {finding.severity}, {finding.category}, at {location_text(finding)}"
    yield last_seen(finding)
    if finding.unreadable:
        yield f"it cannot be read as a finding: {finding.unreadable}"
    if held := finding.suppression:
        until = f" until {held.expires}" if held.expires else ""
        yield f"dismissed by {held.by or 'somebody'}{until}: {held.reason or 'no reason given'}"
    if finding.late:
        yield "late: on lines that an earlier pass had covered unchanged"


def _passes(number: int) -> str:
    return "1 pass" if number == 1 else f"{number} passes"


def _vote(vote: Vote) -> str:
    where = f" in stage {vote.stage}" if vote.stage else ""
    return (
        f"{vote.input_id or vote.reviewer}{where}, {vote.pass_id}: {vote.severity} at {vote.confidence}: {vote.title}"
    )


def _merged(finding: Finding, ledger: Ledger) -> Iterator[str]:
    """The items of the passes that became part of it, and why."""
    inputs = {(vote.pass_id, vote.input_id) for vote in finding.votes}
    for id in dict.fromkeys(vote.pass_id for vote in finding.votes):
        for entry in (entry for passed in ledger.passes.values() if passed.id == id for entry in passed.entries):
            if entry.disposition is Disposition.MERGED and (id, entry.input_id) in inputs:
                yield f"{entry.input_id} into {entry.into or finding.id}: {entry.reason}"


def _gate(finding: Finding) -> Iterator[str]:
    gate, told = finding.gate, finding.confidence
    yield f"{gate.value}, by {gate.by} ({gate.policy})"
    highest = max((vote.confidence for vote in finding.votes), default=told.value)
    if told.value > highest:
        yield f"confidence {told.value}, from {highest}: {finding.agreement} independent reviewers agree"
    else:
        yield f"confidence {told.value}; independent reviewers: {finding.agreement}"
    if finding.pre_existing:
        yield "it was there before the change, and does not count against it"


def _change(change: Change) -> str:
    into = f" to {change.state}" if change.state else ""
    by = f" by {change.by}" if change.by else ""
    where = f" in {change.pass_id}" if change.pass_id else ""
    return f"{change.at}  {change.what}{into}{by}{where}" + (f": {change.note}" if change.note else "")


def _attempt(attempt: FixAttempt) -> str:
    who = attempt.by or "somebody"
    return f"round {attempt.round}, {who}: {attempt.outcome or 'unknown'}" + (
        f", {attempt.what}" if attempt.what else ""
    )


def _links(finding: Finding, ledger: Ledger) -> Iterator[str]:
    for link in finding.links:
        other = ledger.find(link.to)
        about = f", {other.title}" if other else ""
        yield f"{link.kind} {link.to}{about}" + (f" ({link.note})" if link.note else "")
    for one in ledger.findings.values():
        for link in one.links:
            if link.to == finding.id:
                yield f"{one.id} is {link.kind} this: {one.title}"


def _short(lines: Sequence[str]) -> Iterator[str]:
    """The first and the last lines where there are too many for a screen."""
    if len(lines) <= _SHOWN:
        yield from lines
        return
    yield from lines[: _SHOWN // 2]
    yield f"... {len(lines) - _SHOWN} more ..."
    yield from lines[-_SHOWN // 2 :]

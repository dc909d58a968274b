"""Why a finding is what it is: who reported it, how it was recognised, what it was merged with, who decided what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.findings.events import Disposition, ItemOutcome, Pass
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import Change, Finding, Observed

_MAX_LINES = 12  # of one part; the record has all of them


@dataclass(frozen=True, slots=True)
class ExplanationPart:
    """A heading and its lines."""

    title: str
    lines: tuple[str, ...]


def location_text(finding: Finding) -> str:
    """Where a finding is, such as `src/a.py:3-5`; a dash if it has no place."""
    if finding.location is None:
        return next((item.path for item in finding.evidence if item.path), "-")
    return str(finding.location)


def last_seen(finding: Finding) -> str:
    """When a finding was last reported, and how it was recognised."""
    if finding.observed is Observed.ABSENT:
        missed = "1 pass" if finding.absent_passes == 1 else f"{finding.absent_passes} passes"
        return f"last seen in {finding.pass_id}, not reported in {missed} since"
    match = f", {finding.strength} match" if finding.strength else ""
    return f"{finding.observed} in {finding.pass_id}{match}"


def possible_duplicates(finding: Finding, ledger: Ledger) -> str:
    """`may be the same as #4`; empty if there is no such finding."""
    others = [f"#{other.number}" for id in finding.may_be if (other := ledger.find(id))]
    return f"may be the same as {', '.join(others)}" if others else ""


def cluster_size(finding: Finding, ledger: Ledger) -> str:
    """How many reviewers are behind a cluster, such as `3 reviewers`; empty for a single finding."""
    members = ledger.members(finding.id)
    if not members:
        return ""
    return f"{finding.agreement} reviewers" if finding.agreement > 1 else f"{len(members) + 1} findings"


def member_line(member: Finding) -> str:
    """A finding that is part of another, in one line."""
    reviewers = ", ".join(member.sources) or "unknown"
    return f"#{member.number} {member.id} by {reviewers}, {member.severity} at {location_text(member)}: {member.title}"


def explain(finding: Finding, ledger: Ledger) -> list[ExplanationPart]:
    """The story of a finding on one screen; empty parts are left out."""
    parts = (
        ("Now", list(_now(finding, ledger))),
        ("Reported by", list(_votes(finding))),
        ("Members", [member_line(member) for member in ledger.members(finding.id)]),
        ("Merged", list(_merged_items(finding, ledger))),
        ("Gate", list(_gate(finding))),
        ("History", [_change(change) for change in finding.history]),
        ("Attempts", list(_attempts(finding))),
        ("Links", list(_links(finding, ledger))),
    )
    return [ExplanationPart(title, tuple(_shorten(lines))) for title, lines in parts if lines]


def item_outcomes(input_id: str, ledger: Ledger) -> list[tuple[Pass, ItemOutcome]]:
    """What became of an item such as `ruff#3` in every pass that had one of that name, the newest first."""
    return [
        (passed, outcome)
        for passed in reversed(ledger.passes.values())
        for outcome in passed.entries
        if outcome.input_id == input_id
    ]


def finding_of_item(passed: Pass, outcome: ItemOutcome, ledger: Ledger) -> Finding | None:
    """The finding that an item of a pass became part of."""
    wanted = (passed.id, outcome.input_id)
    return next((one for one in ledger if any((vote.pass_id, vote.input_id) == wanted for vote in one.votes)), None)


def _now(finding: Finding, ledger: Ledger) -> Iterator[str]:
    yield f"{finding.state}, {finding.severity}, {finding.category}, at {location_text(finding)}"
    yield last_seen(finding)
    if finding.unreadable:
        yield f"it cannot be read as a finding: {finding.unreadable}"
    if suppression := finding.suppression:
        until = f" until {suppression.expires}" if suppression.expires else ""
        yield f"dismissed by {suppression.by or 'unknown'}{until}: {suppression.reason or 'no reason given'}"
    if finding.late:
        yield "late: on lines that an earlier pass had covered unchanged"
    leader = ledger.findings[ledger.leader(finding.id)]
    if leader is not finding:
        yield f"part of #{leader.number} {leader.id}: {leader.title}"
    if duplicates := possible_duplicates(finding, ledger):
        yield duplicates


def _votes(finding: Finding) -> Iterator[str]:
    for vote in finding.votes:
        stage = f" in stage {vote.stage}" if vote.stage else ""
        rating = f"{vote.severity}, confidence {vote.confidence}"
        yield f"{vote.input_id or vote.reviewer}{stage}, {vote.pass_id}: {rating}: {vote.title}"


def _merged_items(finding: Finding, ledger: Ledger) -> Iterator[str]:
    """The items of passes that became part of it, and why."""
    inputs = {(vote.pass_id, vote.input_id) for vote in finding.votes}
    for passed in ledger.passes.values():
        for outcome in passed.entries:
            if outcome.disposition is Disposition.MERGED and (passed.id, outcome.input_id) in inputs:
                yield f"{outcome.input_id} into {outcome.into or finding.id}: {outcome.reason}"


def _gate(finding: Finding) -> Iterator[str]:
    gate, confidence = finding.gate, finding.confidence.value
    yield f"{gate.value}, by {gate.by} ({gate.policy})"
    highest = max((vote.confidence for vote in finding.votes), default=confidence)
    if confidence > highest and finding.agreement > 1:  # once split, it keeps its confidence until the next report
        yield f"confidence {confidence}, raised from {highest}: {finding.agreement} independent reviewers agree"
    else:
        yield f"confidence {confidence}; independent reviewers: {finding.agreement}"
    if finding.pre_existing:
        yield "it existed before the change, and does not count against it"


def _change(change: Change) -> str:
    state = f" to {change.state}" if change.state else ""
    by = f" by {change.by}" if change.by else ""
    where = f" in {change.pass_id}" if change.pass_id else ""
    return f"{change.at}  {change.what}{state}{by}{where}" + (f": {change.note}" if change.note else "")


def _attempts(finding: Finding) -> Iterator[str]:
    for attempt in finding.attempts:
        what = f", {attempt.what}" if attempt.what else ""
        yield f"round {attempt.round}, {attempt.by or 'unknown'}: {attempt.outcome or 'unknown'}{what}"


def _links(finding: Finding, ledger: Ledger) -> Iterator[str]:
    for link in finding.links:
        other = ledger.find(link.to)
        about = f", {other.title}" if other else ""
        yield f"{link.kind} {link.to}{about}" + (f" ({link.note})" if link.note else "")
    for one in ledger.findings.values():
        for link in one.links:
            if link.to == finding.id and link.kind != DUPLICATE_OF:  # members have a part of their own
                yield f"{one.id} is {link.kind} this: {one.title}"


def _shorten(lines: Sequence[str]) -> Iterator[str]:
    """The first and the last lines if there are too many for a screen."""
    if len(lines) <= _MAX_LINES:
        yield from lines
        return
    yield from lines[: _MAX_LINES // 2]
    yield f"... {len(lines) - _MAX_LINES} more ..."
    yield from lines[-_MAX_LINES // 2 :]

"""Why a finding is what it is: who reported it, how it was recognised, what it was merged with, who decided what."""

from collections.abc import Iterator

from pipeline.findings.events import Disposition
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import Change, Finding, Observed

_MAX_LINES = 12  # of one part; the record has all of them


def location_text(finding: Finding) -> str:
    """Where a finding is, such as `src/a.py:3-5`; a dash if it has no place."""
    if finding.location is None:
        return next((item.path for item in finding.evidence if item.path), "-")
    return str(finding.location)


def last_seen(finding: Finding) -> str:
    """When a finding was last reported, and how it was recognised."""
    if finding.observed is Observed.ABSENT:
        passes = "1 pass" if finding.absent_passes == 1 else f"{finding.absent_passes} passes"
        return f"last seen in {finding.pass_id}, not reported in {passes} since"
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


def explain(finding: Finding, ledger: Ledger) -> dict[str, list[str]]:
    """The story of a finding on one screen: titles, each with its lines; empty parts are left out."""
    inputs = {(vote.pass_id, vote.input_id) for vote in finding.votes}
    parts = {
        "Now": list(_now(finding, ledger)),
        "Reported by": [
            f"{vote.input_id or vote.reviewer}{f' in stage {vote.stage}' if vote.stage else ''}, {vote.pass_id}: "
            f"{vote.severity}, confidence {vote.confidence}: {vote.title}"
            for vote in finding.votes
        ],
        "Members": [member_line(member) for member in ledger.members(finding.id)],
        "Merged": [
            f"{outcome.input_id} into {outcome.into or finding.id}: {outcome.reason}"
            for passed in ledger.passes.values()
            for outcome in passed.entries
            if outcome.disposition is Disposition.MERGED and (passed.id, outcome.input_id) in inputs
        ],
        "Gate": list(_gate(finding)),
        "History": list(map(_change, finding.history)),
        "Attempts": [
            f"round {one.round}, {one.by or 'unknown'}: {one.outcome or 'unknown'}{f', {one.what}' if one.what else ''}"
            for one in finding.attempts
        ],
        "Links": list(_links(finding, ledger)),
    }
    return {title: _shorten(lines) for title, lines in parts.items() if lines}


def explain_item(input_id: str, ledger: Ledger) -> list[str]:
    """What became of an item such as `ruff#3` in the last pass that had one of that name; empty if no pass had."""
    found = [
        (passed, outcome)
        for passed in reversed(ledger.passes.values())
        for outcome in passed.entries
        if outcome.input_id == input_id
    ]
    if not found:
        return []
    (passed, outcome), *earlier = found
    into = f" into {outcome.into}" if outcome.into else ""
    lines = [f"{input_id} of {passed.id}  {outcome.title}", f"{outcome.disposition}{into}: {outcome.reason}"]
    wanted = (passed.id, input_id)
    one = next((one for one in ledger if any((vote.pass_id, vote.input_id) == wanted for vote in one.votes)), None)
    if one:
        lines.append(f"it is part of #{one.number} {one.id} at {location_text(one)}: {one.title}")
    if earlier:
        lines.append(f"earlier passes with an item of this name: {', '.join(passed.id for passed, _ in earlier[:5])}")
    return lines


def _now(finding: Finding, ledger: Ledger) -> Iterator[str]:
    yield f"{finding.state}, {finding.severity}, {finding.category}, at {location_text(finding)}"
    yield last_seen(finding)
    if finding.unreadable:
        yield f"it cannot be read as a finding: {finding.unreadable}"
    if finding.suppression:
        yield f"dismissed {finding.suppression}"
    if finding.late:
        yield "late: on lines that an earlier pass had covered unchanged"
    leader = ledger.findings[ledger.leader(finding.id)]
    if leader is not finding:
        yield f"part of #{leader.number} {leader.id}: {leader.title}"
    if duplicates := possible_duplicates(finding, ledger):
        yield duplicates


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


def _links(finding: Finding, ledger: Ledger) -> Iterator[str]:
    for link in finding.links:
        other = ledger.find(link.to)
        about = f", {other.title}" if other else ""
        yield f"{link.kind} {link.to}{about}" + (f" ({link.note})" if link.note else "")
    for one in ledger.findings.values():
        for link in one.links:
            if link.to == finding.id and link.kind != DUPLICATE_OF:  # members have a part of their own
                yield f"{one.id} is {link.kind} this: {one.title}"


def _shorten(lines: list[str]) -> list[str]:
    """The first and the last lines if there are too many for a screen."""
    if len(lines) <= _MAX_LINES:
        return lines
    half = _MAX_LINES // 2
    return [*lines[:half], f"... {len(lines) - _MAX_LINES} more ...", *lines[-half:]]

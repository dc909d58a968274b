"""What commands and pages ask of a ledger: which lines of work match, and what is said of them in JSON."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from pipeline.app.findings.lookup import find_pass, is_verifiable
from pipeline.errors import AwfError
from pipeline.findings.events import ItemOutcome, Pass
from pipeline.findings.explanation import member_row
from pipeline.findings.gate import importance
from pipeline.findings.ledger import Ledger, hidden_items, last_passes
from pipeline.findings.lines import Line
from pipeline.findings.model import Category, Finding, FindingId, FindingState, Gate, Severity
from pipeline.findings.reviews import Review
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, blocks

ALL_STATES = frozenset(FindingState)
OPEN_STATES = frozenset(state for state in FindingState if state.is_open)
DISMISSED_STATES = frozenset(state for state in FindingState if state.dismissed)
STATE_GROUPS = {
    "all": ALL_STATES,
    "outstanding": OPEN_STATES,
    "active": frozenset(state for state in FindingState if state.active),
    "dismissed": DISMISSED_STATES,
}
"""Names for several states at once."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """Which lines of work are meant. An empty condition matches every line.

    State, severity and gate are those of the line, as lists show them: a filter for minor findings never selects a line
    with a severe one. The other conditions are met by any member.
    """

    states: frozenset[FindingState] = OPEN_STATES
    severities: frozenset[Severity] = frozenset()
    gates: frozenset[Gate] = frozenset()
    categories: frozenset[Category] = frozenset()
    files: tuple[str, ...] = ()  # prefixes of paths, or patterns
    stages: frozenset[str] = frozenset()
    reviewers: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()  # each in the number, title, category or path, or a prefix of the id
    since: datetime | None = None  # raised, reported or changed then or later
    among: frozenset[FindingId] | None = None  # one of these; None is any

    def matches(self, line: Line) -> bool:
        """Return whether a line of work meets every condition."""
        return (
            line.state in self.states
            and (not self.severities or line.severity in self.severities)
            and (not self.gates or line.gate in self.gates)
            and any(map(self._matches_member, line.members))
        )

    def _matches_member(self, finding: Finding) -> bool:
        return (
            (self.among is None or finding.id in self.among)
            and (not self.categories or finding.category in self.categories)
            and (not self.files or any(_is_in(finding, name) for name in self.files))
            and (not self.stages or finding.stage in self.stages)
            and (not self.reviewers or finding.reviewer in self.reviewers)
            and (not self.words or _contains(finding, self.words))
            and (self.since is None or (_parse_time(finding.updated_at) or _EARLIEST) >= self.since)
        )


def select(lines: Iterable[Line], wanted: FindingFilter) -> list[Line]:
    """Return the lines of work that match, the most important first."""
    return sorted(filter(wanted.matches, lines), key=lambda line: importance(line.lead))


def narrow(names: Iterable[str], ledger: Ledger, wanted: FindingFilter) -> tuple[list[str], list[str]]:
    """Return the names whose lines of work match, and those that do not. An unknown name stays, to be reported."""
    kept, others = list[str](), list[str]()
    for name in dict.fromkeys(names):
        finding = ledger.find(name) if name else None
        matches = finding is None or wanted.matches(ledger.line(finding.id))
        (kept if matches else others).append(name)
    return kept, others


@dataclass(frozen=True, slots=True)
class FilteredItems:
    """What reviewers returned and the gate kept out of the ledger, and what they could not assess."""

    items: tuple[tuple[Pass, ItemOutcome], ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it for a program."""
        items = [
            {"pass": passed.id, "run": passed.run, "stage": passed.stage, **outcome.model_dump(mode="json")}
            for passed, outcome in self.items
        ]
        return {
            "filtered": items,
            "residual_risks": list(self.residual_risks),
            "testing_gaps": list(self.testing_gaps),
        }


def filtered_items(ledger: Ledger, run: str = "") -> FilteredItems:
    """Return what the gate filtered or demoted in the last passes of a run, or of the last run or import."""
    covered = [passed.coverage for passed in last_passes(ledger, run)]
    return FilteredItems(
        tuple(hidden_items(ledger, run)),
        tuple(dict.fromkeys(text for one in covered for text in one.residual_risks)),
        tuple(dict.fromkeys(text for one in covered for text in one.testing_gaps)),
    )


def parse_states(names: Iterable[str]) -> frozenset[FindingState]:
    """Return the states that names mean, each that of a state or of a group."""
    groups = (STATE_GROUPS.get(name) or {FindingState(name.replace("-", "_"))} for name in names)
    return frozenset().union(*groups)


def parse_since(text: str, ledger: Ledger) -> datetime:
    """Return the time that a date, a time or a pass means."""
    if time := _parse_time(text):
        return time
    try:
        return _parse_time(find_pass(text, ledger).started_at) or _EARLIEST
    except AwfError as error:
        help = f"give a date such as 2026-01-31, or a pass; {error.help}"
        raise AwfError(f'"{text}" is neither a date nor a pass', help=help) from error


def _contains(finding: Finding, words: tuple[str, ...]) -> bool:
    paths = " ".join(location.path for location in finding.locations)
    text = f"#{finding.number} {finding.title} {finding.category} {paths}".casefold()
    return all(word.casefold() in text or finding.id.startswith(word) for word in words)


def _is_in(finding: Finding, name: str) -> bool:
    wanted = name.removeprefix("./")
    if any(sign in wanted for sign in "*?["):
        return any(fnmatchcase(location.path, wanted) for location in finding.locations)
    return any(location.path.startswith(wanted) for location in finding.locations)


def _parse_time(text: str) -> datetime | None:
    """Return a time, in UTC if it does not say; None if it cannot be read, as in a foreign record."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def line_row(line: Line) -> dict[str, Any]:
    """Return a line of work as one JSON object of a list; its numbers can be recomputed from its members."""
    lead, location = line.lead, line.location
    return {
        "id": line.id,
        "number": line.number,
        "title": line.title,
        "state": str(line.state),
        "severity": str(line.severity),
        "gate": str(line.gate),
        "confidence": lead.confidence.value,
        "category": str(lead.category),
        "file": location.path if location else None,
        "line": location.start if location else None,
        "end_line": location.end if location else None,
        "reviewers": list(line.reviewers),
        "lens": str(lead.lens),
        "may_be": list(lead.may_be),
        "members": [member_row(member) for member in line.members],
    }


def verify_command(review: Review) -> str:
    """Return the command that has claimed fixes verified; after a quick review only a full one does."""
    return "awf review --mode verify" if is_verifiable(review.ledger) else "awf review"


def is_failing(review: Review, worst: Verdict = Verdict.FAIL) -> bool:
    """Return whether a gate must stop the change: it was not looked at whole, or the verdict is at least this bad."""
    ready = review.readiness() is not Readiness.NOT_READY
    return not review.complete or not ready or review.verdict.rank >= worst.rank


def review_json(review: Review) -> dict[str, Any]:
    """Return what is known about a target, for a program."""
    passed = review.passed
    passes = [id for id, one in review.ledger.passes.items() if one.review == review.id] if passed else []
    about = {"id": review.id, "passes": passes, "target": passed.target, "mode": passed.mode} if passed else None
    return {
        "verdict": str(review.verdict),
        "ship": review.shipping is Shipping.SHIP and review.readiness() is not Readiness.NOT_READY,
        "readiness": str(review.readiness()),
        "complete": review.complete,
        "summary": review.summary,
        "open": list(map(line_row, review.open)),
        "claimed": list(map(member_row, review.claimed)),
        "elsewhere": len(review.elsewhere),
        "gaps": list(review.gaps),
        "unruled": list(review.unruled),
        "unseen": list(review.unseen),
        "unshown": list(review.passed.unshown) if review.passed else [],
        "dismissed": dismissed_blockers(review),
        "review": about,
    }


def dismissed_blockers(review: Review) -> list[dict[str, Any]]:
    """Return the findings about the target that would block if nobody had dismissed them, with who did it and why."""
    dismissed = (one for one in review.findings if one.state.dismissed and not one.pre_existing)
    return [_dismissal_row(one) for one in dismissed if blocks(one) or one.severity is Severity.HIGH]


def _dismissal_row(finding: Finding) -> dict[str, Any]:
    """Return who dismissed a finding and why, by its suppression or else by its history."""
    change = next((one for one in reversed(finding.history) if one.state is finding.state), None)
    by, note = (change.who or str(change.by), change.note) if change else ("", "")
    suppression = finding.suppression
    if suppression:
        by, note = suppression.by or by, suppression.reason or note
    return member_row(finding) | {"by": by, "note": note}

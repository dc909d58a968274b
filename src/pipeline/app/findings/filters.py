"""Which findings a command is about, and in which order: what must be fixed first, then the gravest and the surest."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from pipeline.app.findings.lookup import find_pass
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Category, Finding, FindingId, FindingState, Gate, Severity

EVERY = frozenset(FindingState)
OUTSTANDING = frozenset(state for state in FindingState if state.needs_attention)
DISMISSED = frozenset(state for state in FindingState if state.dismissed)
GROUPS = {
    "all": EVERY,
    "outstanding": OUTSTANDING,
    "active": frozenset(state for state in FindingState if state.active),
    "dismissed": DISMISSED,
}
"""Names for several states at once."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a finding must be to be taken; what is empty asks for nothing."""

    states: frozenset[FindingState] = OUTSTANDING
    severities: frozenset[Severity] = frozenset()
    gates: frozenset[Gate] = frozenset()
    categories: frozenset[Category] = frozenset()
    files: tuple[str, ...] = ()  # beginnings of paths, or patterns
    stages: frozenset[str] = frozenset()
    reviewers: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()  # all of them in what it is called, or the beginning of its id
    since: datetime | None = None  # raised, seen or changed then or later
    among: frozenset[FindingId] | None = None  # one of these; None is any

    def takes(self, finding: Finding) -> bool:
        """Whether a finding is one of those."""
        return (
            finding.state in self.states
            and (self.among is None or finding.id in self.among)
            and (not self.severities or finding.severity in self.severities)
            and (not self.gates or finding.gate.value in self.gates)
            and (not self.categories or finding.category in self.categories)
            and (not self.files or any(_lies_in(finding, name) for name in self.files))
            and (not self.stages or any(vote.stage in self.stages for vote in finding.votes))
            and (not self.reviewers or any(vote.reviewer in self.reviewers for vote in finding.votes))
            and (not self.words or _says(finding, self.words))
            and (self.since is None or _moment(finding.updated_at) >= self.since)
        )


def select(findings: Iterable[Finding], wanted: Filter) -> list[Finding]:
    """The findings that are wanted, in order."""
    return sorted(filter(wanted.takes, findings), key=_order)


def narrowed(names: Iterable[str], ledger: Ledger, wanted: Filter) -> tuple[list[str], list[str]]:
    """The names of findings that are wanted, and of those that are not; a name of no finding is kept, to be told."""
    known = {name: ledger.find(name) if name else None for name in dict.fromkeys(names)}
    left = {name: finding for name, finding in known.items() if finding is not None and not wanted.takes(finding)}
    return [name for name in known if name not in left], list(left)


def states_of(names: Iterable[str]) -> frozenset[FindingState]:
    """The states of some names, each that of a state or of a group."""
    return frozenset(state for name in names for state in GROUPS.get(name) or (FindingState(name.replace("-", "_")),))


def since_of(text: str, ledger: Ledger) -> datetime:
    """The moment that a date, a time or a pass stands for."""
    with suppress(ValueError):  # what is no date is a pass
        return _aware(datetime.fromisoformat(text))
    try:
        return _moment(find_pass(text, ledger).started_at)
    except AwfError as error:
        help = f"give a date such as 2026-01-31, or a pass; {error.help}"
        raise AwfError(f'"{text}" is neither a date nor a pass', help=help) from error


def _order(finding: Finding) -> tuple[bool, int, int, str, int, int]:
    place = finding.location
    return (
        finding.gate.value is not Gate.MUST,
        finding.severity.rank,
        -finding.confidence.value,
        place.path if place else "",
        (place.start if place else None) or 0,
        finding.number,
    )


def _says(finding: Finding, words: tuple[str, ...]) -> bool:
    places = " ".join(place.path for place in finding.locations)
    text = f"#{finding.number} {finding.title} {finding.category} {places}".casefold()
    return all(word.casefold() in text or finding.id.startswith(word) for word in words)


def _lies_in(finding: Finding, name: str) -> bool:
    wanted = name.removeprefix("./")
    if any(sign in wanted for sign in "*?["):
        return any(fnmatchcase(place.path, wanted) for place in finding.locations)
    return any(place.path.startswith(wanted) for place in finding.locations)


def _moment(text: str) -> datetime:
    """A time of the ledger; one that cannot be read, as in a record from elsewhere, is before all others."""
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

"""Which findings a command is about, and in which order: what must be fixed first, then the gravest and the surest."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from pipeline.app.findings.ledger import find_pass
from pipeline.errors import AwfError
from pipeline.findings.events import Coverage, Pass
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Category, Finding, FindingId, FindingState, Gate, Severity
from pipeline.findings.verdicts import Readiness, Shipping, Verdict, Verdicts, at_least_fail, ledger_verdicts

ALL_STATES = frozenset(FindingState)
NEEDS_ATTENTION = frozenset(state for state in FindingState if state.needs_attention)
DISMISSED_STATES = frozenset(state for state in FindingState if state.dismissed)
STATE_GROUPS = {
    "all": ALL_STATES,
    "outstanding": NEEDS_ATTENTION,
    "active": frozenset(state for state in FindingState if state.active),
    "dismissed": DISMISSED_STATES,
}
"""Names for several states at once."""


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """What a finding must be to be taken; what is empty asks for nothing."""

    states: frozenset[FindingState] = NEEDS_ATTENTION
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


def select(findings: Iterable[Finding], wanted: FindingFilter) -> list[Finding]:
    """The findings that are wanted, in order."""
    return sorted(filter(wanted.takes, findings), key=_order)


def narrow(names: Iterable[str], ledger: Ledger, wanted: FindingFilter) -> tuple[list[str], list[str]]:
    """The names of findings that are wanted, and of those that are not; a name of no finding is kept, to be told."""
    known = {name: ledger.find(name) if name else None for name in dict.fromkeys(names)}
    left = {name: finding for name, finding in known.items() if finding is not None and not wanted.takes(finding)}
    return [name for name in known if name not in left], list(left)


def parse_states(names: Iterable[str]) -> frozenset[FindingState]:
    """The states of some names, each that of a state or of a group."""
    return frozenset(
        state for name in names for state in STATE_GROUPS.get(name) or (FindingState(name.replace("-", "_")),)
    )


def parse_since(text: str, ledger: Ledger) -> datetime:
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


def finding_row(finding: Finding) -> dict[str, Any]:
    """A finding in a list."""
    place = finding.location
    return {
        "id": finding.id,
        "number": finding.number,
        "title": finding.title,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "severity": str(finding.severity),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "category": str(finding.category),
        "file": place.path if place else None,
        "line": place.start if place else None,
        "end_line": place.end if place else None,
        "sources": list(finding.sources),
        "lens": str(finding.lens),
        "agreement": finding.agreement,
        "attempts": len(finding.attempts),
        **({"may_be": list(finding.may_be)} if finding.may_be else {}),
    }


def finding_record(finding: Finding) -> dict[str, Any]:
    """All that is known of a finding."""
    return finding.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class BlockingDismissal:
    """A finding that would block had nobody dismissed it."""

    id: str
    number: int
    title: str
    severity: str
    state: str
    by: str
    note: str

    @classmethod
    def of(cls, finding: Finding) -> "BlockingDismissal":
        """Who dismissed a finding and why, as its suppression or else its history says."""
        said = next((one for one in reversed(finding.history) if one.state is finding.state), None)
        by, note = (said.by, said.note) if said else ("", "")
        if held := finding.suppression:
            by, note = held.by or by, held.reason or note
        return cls(finding.id, finding.number, finding.title, str(finding.severity), str(finding.state), by, note)


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """The verdicts on all findings, and whether the last pass can be relied on."""

    verdicts: Verdicts
    claimed: int  # fixes that nobody has verified
    coverage: Coverage | None  # None: nothing was reviewed
    dismissed: tuple[BlockingDismissal, ...] = ()  # what would block otherwise

    @property
    def complete(self) -> bool:
        """Whether there is a pass, and the last answer of everybody who was asked could be read."""
        return self.coverage is not None and self.verdicts.complete

    @property
    def gaps(self) -> list[str]:
        """Whose last answer could not be read, and why."""
        if self.coverage is None:
            return ["nothing was reviewed: there is no pass in this store"]
        return [
            f"{name} is {status}: {self.coverage.problems.get(name, 'it gave no answer')}"
            for name, status in self.coverage.silent.items()
        ]

    def failing(self, worst: Verdict = Verdict.FAIL) -> bool:
        """Whether a gate must hold the change back: from a verdict on, a claimed fix being no fix until verified."""
        order = list(Verdict)
        return not self.complete or order.index(self.verdicts.after_verification) >= order.index(worst)

    def as_json(self) -> dict[str, Any]:
        """The verdicts for a program. Where somebody did not answer, nothing ships and nothing is ready."""
        ready = self.verdicts.readiness if self.complete else Readiness.NOT_READY
        return {
            "verdict": str(self._stated(self.verdicts.verdict)),
            "after_verification": str(self._stated(self.verdicts.after_verification)),
            "ship": self.complete and self.verdicts.shipping is Shipping.SHIP,
            "readiness": str(ready),
            "complete": self.complete,
            "summary": dict(self.verdicts.summary),
            "dismissed": [asdict(one) for one in self.dismissed],
        }

    def told(self) -> str:
        """The verdict in one line."""
        said, proven = self._stated(self.verdicts.verdict), self._stated(self.verdicts.after_verification)
        text = f"{said}{_counts(self.verdicts.summary)}"
        if self.claimed and said != proven:
            fixes = "1 claimed fix is" if self.claimed == 1 else f"{self.claimed} claimed fixes are"
            text = f"{said} as claimed{_counts(self.verdicts.summary)}; {proven} until {fixes} verified"
        return text if self.complete else f"{text}; the review is incomplete"

    def _stated(self, verdict: Verdict) -> Verdict:
        return verdict if self.complete else at_least_fail(verdict)


def summarize_verdict(ledger: Ledger) -> VerdictSummary:
    """How the findings of a ledger stand after its last pass."""
    claimed = sum(finding.state is FindingState.FIX_CLAIMED and not finding.pre_existing for finding in ledger)
    dismissed = (finding for finding in ledger if finding.state.dismissed and _would_block(finding))
    return VerdictSummary(
        ledger_verdicts(ledger), claimed, ledger.coverage(), tuple(map(BlockingDismissal.of, dismissed))
    )


def _would_block(finding: Finding) -> bool:
    grave = finding.gate.value is Gate.MUST or finding.severity.rank <= Severity.HIGH.rank
    return grave and not finding.pre_existing


def _counts(summary: dict[str, int]) -> str:
    told = ", ".join(f"{number} {severity}" for severity, number in summary.items() if number)
    return f" ({told})" if told else ""


@dataclass(frozen=True, slots=True)
class PassDiff:
    """The findings of two passes, each in at most one list."""

    before: Pass
    after: Pass
    resolved: tuple[Finding, ...]  # fixed or dismissed, or changed and not reported again
    carried: tuple[Finding, ...]
    new: tuple[Finding, ...]
    regressed: tuple[Finding, ...]  # settled in between, and back
    claimed: frozenset[str]  # of the resolved, those that nobody has verified

    def lists(self) -> dict[str, tuple[Finding, ...]]:
        """The findings under the word for what became of them."""
        return {name: getattr(self, name) for name in ("resolved", "carried", "new", "regressed")}

    def as_json(self) -> dict[str, Any]:
        """The ids for a program."""
        told = {name: [finding.id for finding in findings] for name, findings in self.lists().items()}
        claimed = [finding.id for finding in self.resolved if finding.id in self.claimed]
        return {"from": self.before.id, "to": self.after.id, **told, "claimed": claimed}


def compare_passes(ledger: Ledger, before: Pass, after: Pass) -> PassDiff:
    """What became of findings from one pass to a later one."""
    order = {str(id): number for number, id in enumerate(ledger.passes)}
    if order[before.id] > order[after.id]:
        raise AwfError(f"{before.id} is later than {after.id}", help="give the earlier pass first")
    lists: dict[str, list[Finding]] = {"resolved": [], "carried": [], "new": [], "regressed": []}
    claimed = set[str]()
    for finding in ledger:
        was, now = _cut(finding, before, order), _cut(finding, after, order)
        if name := _became(finding, was, now):
            lists[name].append(finding)
            if name == "resolved" and _state(finding, now) is FindingState.FIX_CLAIMED:
                claimed.add(finding.id)
    found = {name: tuple(findings) for name, findings in lists.items()}
    return PassDiff(before, after, **found, claimed=frozenset(claimed))


def _became(finding: Finding, was: int, now: int) -> str:
    """The word for what became of a finding, nothing where it has no part in either pass."""
    first, last = _state(finding, was), _state(finding, now)
    if last is None:
        return ""
    if first is None:
        return "new" if last.needs_attention else ""
    if not last.needs_attention or (last is FindingState.FIX_CLAIMED and first.active):
        return "resolved" if first.needs_attention else ""
    settled = any(change.state and not change.state.needs_attention for change in finding.history[was:now])
    return "regressed" if settled or not first.needs_attention else "carried"


def _cut(finding: Finding, passed: Pass, order: Mapping[str, int]) -> int:
    """How much of a history there was after a pass: up to its own last line, or else all that is not later than it."""
    own = [number for number, change in enumerate(finding.history, 1) if change.pass_id == passed.id]
    if own:
        return own[-1]
    later = (
        number
        for number, change in enumerate(finding.history)
        if change.at > passed.started_at or order.get(change.pass_id, -1) > order[passed.id]
    )
    return next(later, len(finding.history))


def _state(finding: Finding, cut: int) -> FindingState | None:
    """What a finding was after so much of its history; None before it was raised."""
    return next((change.state for change in reversed(finding.history[:cut]) if change.state), None)

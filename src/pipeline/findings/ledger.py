"""The findings of a store: a fold over events. Whoever has the same events has the same ledger."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline import files
from pipeline.engine.ports import Journal, JournalError
from pipeline.errors import AwfError
from pipeline.findings.events import (
    Coverage,
    DecisionMade,
    FieldsEdited,
    FindingRaised,
    FixAttempted,
    LedgerEvent,
    LinkAdded,
    LinkRemoved,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    StateChanged,
    decode_event,
    encode_event,
)
from pipeline.findings.model import Change, Finding, FindingId, Observed, PassId

DUPLICATE_OF = "duplicate_of"
EDITED = "edited"  # the key of `ext` that lists the fields a person changed
_NONE: Mapping[str, Any] = MappingProxyType({})


class Ledger:
    """All findings and passes, in the order in which they came."""

    def __init__(self, events: Iterable[LedgerEvent] = ()) -> None:
        self.findings: dict[FindingId, Finding] = {}
        self.passes: dict[PassId, Pass] = {}
        self.names: dict[str, FindingId] = {}  # signatures and aliases
        self.unanswered: dict[str, PassId] = {}  # reviewers whose last answer could not be read whole, and its pass
        self.settled: dict[FindingId, None] = {}  # no longer active by what was said since the last pass, in order
        for event in events:
            self.apply(event)

    def __iter__(self) -> Iterator[Finding]:
        """The findings that stand for themselves; one merged into another is shown with that."""
        return (finding for finding in self.findings.values() if not joined_to(finding))

    @property
    def last(self) -> Pass | None:
        """The last pass."""
        return next(reversed(self.passes.values()), None)

    def copy(self) -> "Ledger":
        """A ledger that goes its own way from here."""
        other = Ledger()
        other.findings, other.passes, other.names = dict(self.findings), dict(self.passes), dict(self.names)
        other.settled, other.unanswered = dict(self.settled), dict(self.unanswered)
        return other

    def find(self, name: str) -> Finding | None:
        """A finding by its id, the beginning of it, its number, its signature or any alias."""
        if name in self.names:
            return self.findings[self.names[name]]
        if name.removeprefix("#").isdecimal():
            number = int(name.removeprefix("#"))
            return next((finding for finding in self.findings.values() if finding.number == number), None)
        close = [finding for id, finding in self.findings.items() if id.startswith((name, f"fnd_{name}"))]
        return close[0] if len(close) == 1 else None

    def apply(self, event: LedgerEvent) -> None:
        """Take one more event in."""
        match event:
            case PassRecorded():
                self._assess(event.assessment)
            case FindingRaised():
                self._raise(event)
            case StateChanged():
                self._turn(event)
            case _:
                self._put(_apply_to(self._known(event.id), event))

    def coverage(self, passed: Pass | None = None) -> Coverage | None:
        """Who answered in a pass, or in the last one, and who has not answered since an earlier one.

        Of a pass that is named only its run counts. None where nothing was reviewed.
        """
        about = passed or self.last
        if about is None:
            return None
        owing = {
            name: self.passes[id].coverage
            for name, id in self.unanswered.items()
            if passed is None or (passed.run and self.passes[id].run == passed.run)
        }
        if not owing:
            return about.coverage
        reviewers = {name: earlier.reviewers[name] for name, earlier in owing.items()}
        problems = {name: earlier.problems[name] for name, earlier in owing.items() if name in earlier.problems}
        return replace(
            about.coverage,
            reviewers={**about.coverage.reviewers, **reviewers},
            problems={**about.coverage.problems, **problems},
        )

    def _assess(self, passed: Pass) -> None:
        self.passes[passed.id] = passed
        self.settled.clear()
        for name in passed.coverage.files:
            if (owed := self.unanswered.get(name)) and name in self.passes[owed].coverage.unnamed:
                del self.unanswered[name]
        for name, status in passed.coverage.reviewers.items():
            self.unanswered.pop(name, None)
            if not status.answered:
                self.unanswered[name] = passed.id

    def _raise(self, event: FindingRaised) -> None:
        finding = event.finding
        if finding.id in self.findings:  # two processes raised it at once
            known = self.findings[finding.id]
            change = Change(at=event.at, what="seen", note="raised twice", pass_id=finding.pass_id)
            self._put(_with_history(known, change, votes=known.votes + finding.votes))
            return
        change = Change(at=event.at, what="raised", state=finding.state, pass_id=finding.pass_id)
        self._put(replace(finding, number=len(self.findings) + 1, history=(*finding.history, change)))

    def _turn(self, event: StateChanged) -> None:
        known = self._known(event.id)
        said_in_pass = event.pass_id != "" and event.pass_id == next(reversed(self.passes), None)
        if event.state.active:
            self.settled.pop(event.id, None)
        elif known.state.active and not said_in_pass:
            self.settled[event.id] = None
        self._put(_apply_to(known, event))

    def _put(self, finding: Finding) -> None:
        self.findings[finding.id] = finding
        for name in (finding.id, finding.signature, *finding.aliases):
            self.names.setdefault(name, finding.id)

    def _known(self, id: FindingId) -> Finding:
        if id not in self.findings:
            raise AwfError(f"the ledger speaks of finding {id}, which was never raised")
        return self.findings[id]


def joined_to(finding: Finding) -> str:
    """The finding that another was merged into; nothing for one that stands for itself."""
    return next((link.to for link in finding.links if link.kind == DUPLICATE_OF), "") if finding.links else ""


def _apply_to(finding: Finding, event: LedgerEvent) -> Finding:
    """A finding after an event about it."""
    match event:
        case ReportedAgain():
            return _report_again(finding, event)
        case NotReported():
            change = Change(at=event.at, what="absent", pass_id=event.pass_id)
            return _with_history(finding, change, observed=Observed.ABSENT, absent_passes=finding.absent_passes + 1)
        case StateChanged():
            change = Change(
                at=event.at, what="state", state=event.state, by=event.by, note=event.note, pass_id=event.pass_id
            )
            suppression = event.suppression if event.state.dismissed else None
            return _with_history(finding, change, state=event.state, suppression=suppression)
        case FixAttempted():
            change = Change(at=event.at, what="attempt", by=event.attempt.by, note=event.attempt.outcome)
            return _with_history(finding, change, attempts=(*finding.attempts, event.attempt))
        case DecisionMade():
            change = Change(at=event.at, what="decision", by=event.decision.by, note=event.decision.action)
            return _with_history(finding, change, decisions=(*finding.decisions, event.decision))
        case LinkAdded():
            change = Change(at=event.at, what="linked", note=f"{event.link.kind} {event.link.to}")
            return _with_history(finding, change, links=(*finding.links, event.link))
        case LinkRemoved():
            links = tuple(link for link in finding.links if (link.kind, link.to) != (event.link.kind, event.link.to))
            change = Change(at=event.at, what="unlinked", note=f"{event.link.kind} {event.link.to}")
            return _with_history(finding, change, links=links)
        case FieldsEdited():
            return _edit(finding, event)
        case _:
            raise AwfError(f"an event of the kind {event.kind} is not about one finding")


def _report_again(finding: Finding, event: ReportedAgain) -> Finding:
    kept = finding.ext.get(EDITED, ())
    changes = {name: value for name, value in event.changes.items() if name not in kept}
    if "fingerprints" in changes:
        changes["fingerprints"] = {**finding.fingerprints, **changes["fingerprints"]}
    note = event.note or f"{event.observed}, {event.strength}"
    return _with_history(
        finding,
        Change(at=event.at, what="seen", note=note, pass_id=event.pass_id),
        changes,
        observed=event.observed,
        strength=event.strength,
        pass_id=PassId(event.pass_id),
        votes=(*finding.votes, *event.votes),
        absent_passes=0,
    )


def _edit(finding: Finding, event: FieldsEdited) -> Finding:
    note = event.note or ", ".join(sorted(event.changes))
    edited = sorted({*finding.ext.get(EDITED, ()), *event.changes} - {"ext"})
    ext = {**finding.ext, **event.changes.get("ext", {}), **({EDITED: edited} if edited else {})}
    change = Change(at=event.at, what="edited", by=event.by, note=note)
    if not event.changes:  # it was refused: only the history tells of it
        return _with_history(finding, change, updated_at=finding.updated_at)
    return _with_history(finding, change, {**event.changes, "ext": ext})


def _with_history(finding: Finding, change: Change, changes: Mapping[str, Any] = _NONE, **update: Any) -> Finding:
    """A finding with one more line of history, and with what that says of it; `changes` come from outside."""
    update = {"history": (*finding.history, change), "updated_at": change.at, **update, **changes}
    return replace(finding, **update)


class LedgerStore:
    """The ledger of one store."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ledger = Ledger()
        self._read = 0  # lines

    def ledger(self) -> Ledger:
        """The findings as they stand now, whoever wrote them."""
        for number, line in self._journal.ledger(self._read):
            self._ledger.apply(decode_line(number, line))
            self._read = number
        return self._ledger

    def enter(self, events: Sequence[LedgerEvent]) -> None:
        """Add events, all of them or none."""
        if not events:
            return
        ledger, expected = self.ledger(), self._read + len(events)
        if self._journal.append_ledger(encode_event(event) for event in events) == expected:
            for event in events:
                ledger.apply(event)
            self._read = expected


@contextmanager
def lock_ledger(store: Path) -> Iterator[None]:
    """Be the only command that takes findings in, so that two at once do not raise the same defect twice."""
    store.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(store):
        yield


def decode_line(number: int, line: str) -> LedgerEvent:
    """The event of a line of the ledger."""
    try:
        return decode_event(line)
    except ValueError as error:
        raise JournalError(
            f"line {number} of the ledger cannot be read: {error}",
            help="it may have been written by a newer awf; update it. Nothing was changed",
        ) from error

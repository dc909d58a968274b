"""The findings of a store: a fold over events. Whoever has the same events has the same ledger."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.events import (
    AnyEvent,
    Assessed,
    Decided,
    Edited,
    Linked,
    Missed,
    Raised,
    Seen,
    Tried,
    Turned,
    Unlinked,
)
from pipeline.findings.model import Change, Finding, FindingId, Observed, PassId
from pipeline.findings.passes import Coverage, Pass

MERGED = "duplicate_of"
EDITED = "edited"  # the key of `ext` that lists the fields a person changed
_NONE: Mapping[str, Any] = MappingProxyType({})


class Ledger:
    """All findings and passes, in the order in which they came."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.findings: dict[FindingId, Finding] = {}
        self.passes: dict[PassId, Pass] = {}
        self.names: dict[str, FindingId] = {}  # signatures and aliases
        self.unanswered: dict[str, PassId] = {}  # reviewers whose last answer could not be read whole, and its pass
        self.settled: dict[FindingId, None] = {}  # no longer active by what was said since the last pass, in order
        for event in events:
            self.apply(event)

    def __iter__(self) -> Iterator[Finding]:
        """The findings that stand for themselves; one merged into another is shown with that."""
        return (finding for finding in self.findings.values() if not merged_into(finding))

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

    def apply(self, event: AnyEvent) -> None:
        """Take one more event in."""
        match event:
            case Assessed():
                self._assess(event.assessment)
            case Raised():
                self._raise(event)
            case Turned():
                self._turn(event)
            case _:
                self._put(_after(self._known(event.id), event))

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

    def _raise(self, event: Raised) -> None:
        finding = event.finding
        if finding.id in self.findings:  # two processes raised it at once
            known = self.findings[finding.id]
            change = Change(at=event.at, what="seen", note="raised twice", pass_id=finding.pass_id)
            self._put(_told(known, change, votes=known.votes + finding.votes))
            return
        change = Change(at=event.at, what="raised", state=finding.state, pass_id=finding.pass_id)
        self._put(replace(finding, number=len(self.findings) + 1, history=(*finding.history, change)))

    def _turn(self, event: Turned) -> None:
        known = self._known(event.id)
        said_in_pass = event.pass_id != "" and event.pass_id == next(reversed(self.passes), None)
        if event.state.active:
            self.settled.pop(event.id, None)
        elif known.state.active and not said_in_pass:
            self.settled[event.id] = None
        self._put(_after(known, event))

    def _put(self, finding: Finding) -> None:
        self.findings[finding.id] = finding
        for name in (finding.id, finding.signature, *finding.aliases):
            self.names.setdefault(name, finding.id)

    def _known(self, id: FindingId) -> Finding:
        if id not in self.findings:
            raise AwfError(f"the ledger speaks of finding {id}, which was never raised")
        return self.findings[id]


def merged_into(finding: Finding) -> str:
    """The finding that another was merged into; nothing for one that stands for itself."""
    return next((link.to for link in finding.links if link.kind == MERGED), "") if finding.links else ""


def _after(finding: Finding, event: AnyEvent) -> Finding:
    """A finding after an event about it."""
    match event:
        case Seen():
            return _seen(finding, event)
        case Missed():
            change = Change(at=event.at, what="absent", pass_id=event.pass_id)
            return _told(finding, change, observed=Observed.ABSENT, absent_passes=finding.absent_passes + 1)
        case Turned():
            change = Change(
                at=event.at, what="state", state=event.state, by=event.by, note=event.note, pass_id=event.pass_id
            )
            suppression = event.suppression if event.state.dismissed else None
            return _told(finding, change, state=event.state, suppression=suppression)
        case Tried():
            change = Change(at=event.at, what="attempt", by=event.attempt.by, note=event.attempt.outcome)
            return _told(finding, change, attempts=(*finding.attempts, event.attempt))
        case Decided():
            change = Change(at=event.at, what="decision", by=event.decision.by, note=event.decision.action)
            return _told(finding, change, decisions=(*finding.decisions, event.decision))
        case Linked():
            change = Change(at=event.at, what="linked", note=f"{event.link.kind} {event.link.to}")
            return _told(finding, change, links=(*finding.links, event.link))
        case Unlinked():
            links = tuple(link for link in finding.links if (link.kind, link.to) != (event.link.kind, event.link.to))
            change = Change(at=event.at, what="unlinked", note=f"{event.link.kind} {event.link.to}")
            return _told(finding, change, links=links)
        case Edited():
            return _edited(finding, event)
        case _:
            raise AwfError(f"an event of the kind {event.kind} is not about one finding")


def _seen(finding: Finding, event: Seen) -> Finding:
    kept = finding.ext.get(EDITED, ())
    changes = {name: value for name, value in event.changes.items() if name not in kept}
    if "fingerprints" in changes:
        changes["fingerprints"] = {**finding.fingerprints, **changes["fingerprints"]}
    note = event.note or f"{event.observed}, {event.strength}"
    return _told(
        finding,
        Change(at=event.at, what="seen", note=note, pass_id=event.pass_id),
        changes,
        observed=event.observed,
        strength=event.strength,
        pass_id=PassId(event.pass_id),
        votes=(*finding.votes, *event.votes),
        absent_passes=0,
    )


def _edited(finding: Finding, event: Edited) -> Finding:
    note = event.note or ", ".join(sorted(event.changes))
    edited = sorted({*finding.ext.get(EDITED, ()), *event.changes} - {"ext"})
    ext = {**finding.ext, **event.changes.get("ext", {}), **({EDITED: edited} if edited else {})}
    change = Change(at=event.at, what="edited", by=event.by, note=note)
    if not event.changes:  # it was refused: only the history tells of it
        return _told(finding, change, updated_at=finding.updated_at)
    return _told(finding, change, {**event.changes, "ext": ext})


def _told(finding: Finding, change: Change, changes: Mapping[str, Any] = _NONE, **update: Any) -> Finding:
    """A finding with one more line of history, and with what that says of it; `changes` come from outside."""
    update = {"history": (*finding.history, change), "updated_at": change.at, **update, **changes}
    return replace(finding, **update)

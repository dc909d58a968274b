"""All findings of a store: a fold over ledger events, and the store that the events are kept in."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.engine.ports import Journal, JournalError
from pipeline.errors import AwfError
from pipeline.findings.events import (
    Coverage,
    DecisionMade,
    Disposition,
    FieldsEdited,
    FindingRaised,
    FixAttempted,
    ItemOutcome,
    LedgerEvent,
    LinkAdded,
    LinkRemoved,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    RulingMade,
    StateChanged,
    VotesWithdrawn,
    decode_event,
    encode_event,
)
from pipeline.findings.model import Change, Finding, FindingId, Observed, PassId, Vote

DUPLICATE_OF = "duplicate_of"  # the kind of link that joins a finding to the leader of its cluster
EDITED = "edited"  # the key of `ext` that lists the fields a person changed


class Ledger:
    """All findings and passes, in the order in which they came."""

    def __init__(self, events: Iterable[LedgerEvent] = ()) -> None:
        self.findings: dict[FindingId, Finding] = {}
        self.passes: dict[PassId, Pass] = {}
        self.names: dict[str, FindingId] = {}  # ids, signatures and aliases
        self.unanswered: dict[str, PassId] = {}  # reviewers whose last answer was not readable, and its pass
        self.closed_since_last_pass: dict[FindingId, None] = {}  # in the order they were closed
        self._joined: dict[FindingId, dict[FindingId, None]] = {}  # the findings joined to each leader
        for event in events:
            self.apply(event)

    def __iter__(self) -> Iterator[Finding]:
        """Every finding but those joined to another: a cluster counts once."""
        return (finding for finding in self.findings.values() if not joined_to(finding))

    @property
    def last(self) -> Pass | None:
        """The last pass."""
        return next(reversed(self.passes.values()), None)

    def copy(self) -> "Ledger":
        """An independent ledger with the same contents."""
        other = Ledger()
        other.findings, other.passes, other.names = dict(self.findings), dict(self.passes), dict(self.names)
        other.closed_since_last_pass, other.unanswered = dict(self.closed_since_last_pass), dict(self.unanswered)
        other._joined = {leader: dict(members) for leader, members in self._joined.items()}
        return other

    def extended(self, events: Sequence[LedgerEvent]) -> "Ledger":
        """This ledger with more events: itself if there are none, else a copy."""
        extended = self.copy() if events else self
        for event in events:
            extended.apply(event)
        return extended

    def find(self, name: str) -> Finding | None:
        """A finding by its id or an unambiguous beginning of it, its number, its signature or any alias."""
        if name in self.names:
            return self.findings[self.names[name]]
        if name.removeprefix("#").isdecimal():
            number = int(name.removeprefix("#"))
            return next((finding for finding in self.findings.values() if finding.number == number), None)
        close = [finding for id, finding in self.findings.items() if id.startswith((name, f"fnd_{name}"))]
        return close[0] if len(close) == 1 else None

    def leader(self, id: FindingId) -> FindingId:
        """The finding that leads another's cluster: itself if it is not joined to any."""
        seen = {id}
        while (to := FindingId(joined_to(self.findings[id]))) in self.findings and to not in seen:
            seen.add(to)
            id = to
        return id

    def members(self, id: FindingId) -> list[Finding]:
        """The findings joined to a leader, directly or through another."""
        found = dict.fromkeys(self._joined.get(id, ()))
        waiting = list(found)
        while waiting:
            new = [member for member in self._joined.get(waiting.pop(), ()) if member not in found]
            found.update(dict.fromkeys(new))
            waiting += new
        return [self.findings[member] for member in found]

    def coverage(self, passed: Pass | None = None) -> Coverage | None:
        """The coverage of a pass, or of the last one, with the reviewers that still owe an answer to an earlier one.

        For a given pass only earlier passes of its run count. None when nothing was reviewed.
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

    def apply(self, event: LedgerEvent) -> None:
        """Add one event."""
        if isinstance(event, PassRecorded):
            self._record_pass(event.assessment)
        elif isinstance(event, FindingRaised):
            self._raise(event)
        elif known := self.findings.get(event.id):
            if isinstance(event, StateChanged):
                self._note_closing(known, event)
            self._store(_apply_to(known, event))
            if isinstance(event, LinkAdded | LinkRemoved) and event.link.kind == DUPLICATE_OF:
                self._join(event)
        else:
            raise AwfError(f"the ledger mentions finding {event.id}, which was never raised")

    def _record_pass(self, passed: Pass) -> None:
        self.passes[passed.id] = passed
        self.closed_since_last_pass.clear()
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
            votes = {"votes": known.votes + finding.votes}
            self._store(_with_history(known, event.at, "seen", votes, note="raised twice", pass_id=finding.pass_id))
            return
        update = {"number": len(self.findings) + 1, "updated_at": finding.updated_at}
        details = {"state": finding.state, "pass_id": finding.pass_id}
        self._store(_with_history(finding, event.at, "raised", update, **details))

    def _note_closing(self, known: Finding, event: StateChanged) -> None:
        by_last_pass = event.pass_id != "" and event.pass_id == next(reversed(self.passes), None)
        if event.state.active:
            self.closed_since_last_pass.pop(event.id, None)
        elif known.state.active and not by_last_pass:
            self.closed_since_last_pass[event.id] = None

    def _join(self, event: LinkAdded | LinkRemoved) -> None:
        """Give the leader the votes of its new member, or take those of the former one away."""
        leader, member = self.findings.get(FindingId(event.link.to)), self.findings[event.id]
        if leader is None:
            return
        if isinstance(event, LinkAdded):
            self._joined.setdefault(leader.id, {})[member.id] = None
            self._share_votes(member)
        else:
            self._joined.get(leader.id, {}).pop(member.id, None)
            votes = tuple(vote for vote in leader.votes if vote not in member.votes)
            gone = {vote.reviewer for vote in member.votes} - {vote.reviewer for vote in votes}
            sources = tuple(name for name in leader.sources if name not in gone)
            self.findings[leader.id] = _voted(leader, votes, sources)

    def _share_votes(self, member: Finding) -> None:
        leader = self.findings.get(FindingId(joined_to(member)))
        if leader and (new := tuple(vote for vote in member.votes if vote not in leader.votes)):
            sources = tuple(dict.fromkeys((*leader.sources, *(vote.reviewer for vote in new))))
            self._store(_voted(leader, (*leader.votes, *new), sources))

    def _store(self, finding: Finding) -> None:
        self.findings[finding.id] = finding
        for name in (finding.id, finding.signature, *finding.aliases):
            self.names.setdefault(name, finding.id)
        if finding.links:
            self._share_votes(finding)


class LedgerStore:
    """The ledger of one journal, read as far as it is new."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ledger = Ledger()
        self.lines = 0  # read so far

    def ledger(self) -> Ledger:
        """All findings as of now, whichever process wrote them."""
        for number, line in self._journal.ledger(self.lines):
            apply_line(self._ledger, number, line)
            self.lines = number
        return self._ledger

    def append(self, events: Sequence[LedgerEvent]) -> None:
        """Add events, all of them or none."""
        if not events:
            return
        ledger, expected = self.ledger(), self.lines + len(events)
        if self._journal.append_ledger(encode_event(event) for event in events) == expected:
            for event in events:
                ledger.apply(event)
            self.lines = expected


def open_findings(ledger: Ledger, run: str = "") -> list[Finding]:
    """The findings people still have to deal with, or those of them that passes of one run reported.

    A cluster counts once. What the gate filters or demotes is not in the ledger.
    """
    return open_findings_by_run(ledger).get(run, []) if run else [one for one in ledger if one.state.needs_attention]


def open_findings_by_run(ledger: Ledger) -> dict[str, list[Finding]]:
    """The open findings of every run, by its id, in one pass over the ledger."""
    found = defaultdict[str, list[Finding]](list)
    for finding in open_findings(ledger):
        for run in runs_of(ledger, finding):
            found[run].append(finding)
    return dict(found)


def runs_of(ledger: Ledger, leader: Finding) -> set[str]:
    """The runs whose passes reported a finding or a member of its cluster, or left it open."""
    runs = set[str]()
    for change in chain(leader.history, *(member.history for member in ledger.members(leader.id))):
        passed = ledger.passes.get(PassId(change.pass_id))
        if passed and (change.what in ("raised", "seen") or leader.id in passed.finding_ids):
            runs.add(passed.run)
    return runs - {""}


@contextmanager
def lock_ledger(store: Path) -> Iterator[None]:
    """Keep other commands from adding findings, so that two at once do not raise the same defect twice."""
    store.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(store):
        yield


def apply_line(ledger: Ledger, number: int, line: str) -> None:
    """Add the event of one line of the journal's ledger; raises JournalError when it cannot be read."""
    try:
        ledger.apply(decode_event(line))
    except (ValueError, TypeError) as error:  # a TypeError: a field that this version does not know
        raise JournalError(
            f"line {number} of the ledger cannot be read: {error}",
            help="it may have been written by a newer awf; update it. Nothing was changed",
        ) from error


def hidden_items(ledger: Ledger, run: str = "") -> list[tuple[Pass, ItemOutcome]]:
    """What the gate filtered or demoted in the last passes of a run, or of the last run or import."""
    hidden = (Disposition.FILTERED, Disposition.DEMOTED)
    return [(one, item) for one in last_passes(ledger, run) for item in one.entries if item.disposition in hidden]


def last_passes(ledger: Ledger, run: str = "") -> list[Pass]:
    """The last pass of each stage of a run; without one, of the run that made the last pass, or that pass alone."""
    run = run or (ledger.last.run if ledger.last else "")
    if not run:
        return [ledger.last] if ledger.last else []
    return list({one.stage: one for one in ledger.passes.values() if one.run == run}.values())


def joined_to(finding: Finding) -> str:
    """The id of the finding that another is joined to; empty when there is none."""
    return next((link.to for link in finding.links if link.kind == DUPLICATE_OF), "") if finding.links else ""


def _apply_to(finding: Finding, event: LedgerEvent) -> Finding:
    """A finding after an event about it."""
    match event:
        case ReportedAgain():
            edited = finding.ext.get(EDITED, ())
            update = {name: value for name, value in event.changes.items() if name not in edited}
            if "fingerprints" in update:
                update["fingerprints"] = {**finding.fingerprints, **update["fingerprints"]}
            update |= {"observed": event.observed, "strength": event.strength, "pass_id": event.pass_id}
            update |= {"votes": (*finding.votes, *event.votes), "absent_passes": 0}
            note = event.note or f"{event.observed}, {event.strength}"
            return _with_history(finding, event.at, "seen", update, note=note, pass_id=event.pass_id)
        case NotReported():
            update = {"observed": Observed.ABSENT, "absent_passes": finding.absent_passes + 1}
            return _with_history(finding, event.at, "absent", update, pass_id=event.pass_id)
        case VotesWithdrawn():
            left = tuple(name for name in finding.sources if name not in event.reviewers)
            by = ", ".join(event.reviewers)
            details = {"by": by, "note": event.note, "pass_id": event.pass_id}
            return _with_history(finding, event.at, "withdrawn", {"sources": left}, **details)
        case StateChanged(state=state):
            update = {"state": state, "suppression": event.suppression if state.dismissed else None}
            details = {"state": state, "by": event.by, "note": event.note, "pass_id": event.pass_id}
            return _with_history(finding, event.at, "state", update, **details)
        case FixAttempted(attempt=attempt):
            update = {"attempts": (*finding.attempts, attempt)}
            return _with_history(finding, event.at, "attempt", update, by=attempt.by, note=attempt.outcome)
        case RulingMade(ruling=ruling):
            update = {name: value for name in ("severity", "gate") if (value := getattr(event, name))}
            note = f"{ruling}: {event.why}" if event.why else ruling
            return _with_history(finding, event.at, "ruling", update, by=event.by, note=note, pass_id=event.pass_id)
        case DecisionMade(decision=decision):
            update = {"decisions": (*finding.decisions, decision)}
            return _with_history(finding, event.at, "decision", update, by=decision.by, note=decision.action)
        case LinkAdded(link=link) | LinkRemoved(link=link):
            removed = isinstance(event, LinkRemoved)
            others = (one for one in finding.links if not removed or (one.kind, one.to) != (link.kind, link.to))
            update, what = {"links": (*others, *(() if removed else (link,)))}, "unlinked" if removed else "linked"
            return _with_history(finding, event.at, what, update, note=f"{link.kind} {link.to}")
        case FieldsEdited(changes=changes):
            update = {"updated_at": finding.updated_at}  # if the edit was refused, only the history mentions it
            if changes:
                names = sorted({*finding.ext.get(EDITED, ()), *changes} - {"ext"})
                ext = {**finding.ext, **changes.get("ext", {}), **({EDITED: names} if names else {})}
                update = {**changes, "ext": ext}
            note = event.note or ", ".join(sorted(changes))
            return _with_history(finding, event.at, "edited", update, by=event.by, note=note)
        case _:
            raise AwfError(f"an event of the kind {event.kind} is not about one finding")


def _with_history(finding: Finding, at: str, what: str, update: dict[str, Any], **details: Any) -> Finding:
    """A finding with the fields that changed, and with one more line of history."""
    history = (*finding.history, Change(at=at, what=what, **details))
    return replace(finding, **{"history": history, "updated_at": at, **update})


def _voted(leader: Finding, votes: tuple[Vote, ...], sources: tuple[str, ...]) -> Finding:
    """A finding with other votes: how many reviewers agree follows from them."""
    return replace(leader, votes=votes, sources=sources, agreement=max(1, len({vote.reviewer for vote in votes})))

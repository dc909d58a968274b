"""All findings of a store: a fold over ledger events, and the store that the events are kept in."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipeline import files
from pipeline.engine.errors import JournalError
from pipeline.errors import AwfError
from pipeline.findings.events import (
    AnswerOwed,
    Disposition,
    FindingChanged,
    FindingRaised,
    ItemOutcome,
    LedgerEvent,
    Look,
    Pass,
    PassRecorded,
    decode_event,
    encode_event,
)
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, Change, Finding, FindingId, PassId, What

if TYPE_CHECKING:
    from pipeline.engine.ports import Journal

Untaken = Mapping[str, tuple[str, ...]]
"""By run, the reviewers and tools of which something is not taken in yet."""


class Ledger:
    """All findings and passes, in the order in which they came."""

    def __init__(self, events: Iterable[LedgerEvent] = ()) -> None:
        self.length = 0  # events so far
        self.findings: dict[FindingId, Finding] = {}
        self.passes: dict[PassId, Pass] = {}
        self.names: dict[str, FindingId] = {}  # ids, signatures and aliases
        self._owed: dict[tuple[str, str, str], Look] = {}  # by run, branch and reviewer: asked, no answer since
        self.required: tuple[str, ...] = ()  # who has to look before anything ships, as was said last
        self.untaken: Untaken = {}  # what stopped runs have not handed over, which is in no event
        self.passes_before: dict[FindingId, list[int]] = {}  # how many there were at each change of a finding's history
        self._members: dict[FindingId, dict[FindingId, None]] = {}  # of each line of work
        self._of_run: dict[str, dict[PassId, Pass]] = {}  # a stage costs the same after a thousand rounds
        self._looks: dict[str, dict[str, Look]] = {}  # the last look of each reviewer, by run
        for event in events:
            self.apply(event)

    @property
    def last(self) -> Pass | None:
        """The last pass."""
        return next(reversed(self.passes.values()), None)

    def lines(self) -> Iterator[Line]:
        """Return every line of work, in the order of their numbers."""
        return map(self.line, sorted(self._members, key=lambda head: self.findings[head].number))

    def line(self, id: FindingId) -> Line:
        """Return the line of work that a finding is part of."""
        head = self.findings[id].line or id
        members = tuple(self.findings[member] for member in self._members[head])
        return Line(head, self.findings[head].number, members)

    def copy(self) -> "Ledger":
        """Return an independent ledger with the same contents."""
        other = Ledger()
        other.length = self.length
        other.findings, other.passes, other.names = dict(self.findings), dict(self.passes), dict(self.names)
        other._owed = dict(self._owed)
        other.untaken = self.untaken
        other.required = self.required
        other.passes_before = {id: list(numbers) for id, numbers in self.passes_before.items()}
        other._members = {head: dict(members) for head, members in self._members.items()}
        other._of_run = {run: dict(passes) for run, passes in self._of_run.items()}
        other._looks = {run: dict(looks) for run, looks in self._looks.items()}
        return other

    def extended(self, events: Sequence[LedgerEvent]) -> "Ledger":
        """Return this ledger with more events: itself if there are none, else a copy."""
        extended = self.copy() if events else self
        for event in events:
            extended.apply(event)
        return extended

    def passes_of(self, run: str) -> Mapping[PassId, Pass]:
        """Return the passes of a run by their ids, oldest first."""
        return self._of_run.get(run, {})

    def looks_of(self, run: str) -> Mapping[str, Look]:
        """Return the last look of everyone who has looked in a run, by reviewer."""
        return self._looks.get(run, {})

    def find(self, name: str) -> Finding | None:
        """Return a finding by its id or an unambiguous beginning of it, its number, its signature or any alias."""
        if name in self.names:
            return self.findings[self.names[name]]
        if name.removeprefix("#").isdecimal():
            return self.by_number(int(name.removeprefix("#")))
        close = [finding for id, finding in self.findings.items() if id.startswith((name, f"fnd_{name}"))]
        return close[0] if len(close) == 1 else None

    def by_number(self, number: int) -> Finding | None:
        """Return the finding with a number. Numbers are given in the order in which findings were raised."""
        ids = list(self.findings)
        return self.findings[ids[number - 1]] if 0 < number <= len(ids) else None

    def owed(self, passed: Pass | None = None) -> dict[str, Look]:
        """Return by reviewer what is owed about the target of a pass, or about anything."""
        return {
            reviewer: look
            for (run, branch, reviewer), look in self._owed.items()
            if passed is None or _is_owed_about(run, branch, passed)
        }

    def apply(self, event: LedgerEvent) -> None:
        """Add one event."""
        self.length += 1
        match event:
            case PassRecorded():
                self._record_pass(event.assessment)
            case AnswerOwed():
                self._owed[event.run, event.branch, event.look.reviewer] = event.look
                self.required = event.required or self.required
            case FindingRaised():
                self._raise(event)
            case FindingChanged():
                self._change(event)

    def _record_pass(self, passed: Pass) -> None:
        self.passes[passed.id] = passed
        self.required = passed.required or self.required
        self._of_run.setdefault(passed.run, {})[passed.id] = passed
        self._looks.setdefault(passed.run, {}).update(passed.coverage.by_reviewer)
        for look in passed.coverage.by_reviewer.values():
            if not look.status.answered:
                self._owed[passed.run, passed.branch, look.reviewer] = look
                continue
            for (run, branch, name), owed in [*self._owed.items()]:
                # A file that could not be read may not have named its reviewer: then it is owed under its own name.
                is_meant = name == look.reviewer or (look.file and name == look.file == owed.file)
                if is_meant and _is_owed_about(run, branch, passed):
                    del self._owed[run, branch, name]

    def _raise(self, event: FindingRaised) -> None:
        finding = event.finding
        change = Change(
            at=event.at,
            what=What.RAISED,
            who=finding.reviewer,
            by=Actor.ORCHESTRATOR,
            state=finding.state,
            pass_id=finding.pass_id,
        )
        if finding.id in self.findings:  # two processes raised it at once
            seen = replace(change, what=What.SEEN, state=None, note="raised twice")
            self._change(FindingChanged(id=finding.id, change=seen))
            return
        history = finding.history or (change,)
        number, line = len(self.findings) + 1, finding.line or finding.id
        if line in self.findings:  # another process may have merged that line since
            line = self.findings[line].line
        self._store(replace(finding, number=number, line=line, history=history))
        self.passes_before[finding.id] = [len(self.passes)] * len(history)
        self._members.setdefault(line, {})[finding.id] = None

    def _change(self, event: FindingChanged) -> None:
        known = self.findings.get(event.id)
        if known is None:
            raise AwfError(f"the ledger mentions finding {event.id}, which was never raised")
        change = event.change
        fields = dict(event.fields)
        if change.state is not None:
            fields["state"] = change.state
        if "fingerprints" in fields:
            fields["fingerprints"] = {**known.fingerprints, **fields["fingerprints"]}
        changed = replace(known, history=(*known.history, change), **{"updated_at": change.at, **fields})
        self.passes_before[event.id].append(len(self.passes))
        if changed.line != known.line:
            self._move(known, changed.line)
        self._store(changed)

    def _move(self, finding: Finding, line: FindingId) -> None:
        """Make a finding part of another line of work.

        The one whose number a line has takes the others along: another process may have raised one of them just now.
        """
        left = self._members[finding.line]
        for id in list(left) if finding.id == finding.line else [finding.id]:
            del left[id]
            self._members.setdefault(line, {})[id] = None
            self.findings[id] = replace(self.findings[id], line=line)
        if not left:
            del self._members[finding.line]

    def _store(self, finding: Finding) -> None:
        self.findings[finding.id] = finding
        for name in (finding.id, finding.signature, *finding.aliases):
            self.names.setdefault(name, finding.id)


class LedgerStore:
    """The ledger of one journal, read as far as it is new."""

    def __init__(self, journal: "Journal", untaken: Untaken = MappingProxyType({})) -> None:
        self._journal = journal
        self._ledger = Ledger()
        self._ledger.untaken = untaken
        self.lines = 0  # read so far

    def ledger(self) -> Ledger:
        """Return all findings as of now, whichever process wrote them."""
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


def apply_line(ledger: Ledger, number: int, line: str) -> None:
    """Add the event of one line of the journal's ledger; raise JournalError when it cannot be read."""
    try:
        ledger.apply(decode_event(line))
    except (ValueError, TypeError) as error:  # a TypeError: a field that this version does not know
        raise JournalError(
            f"line {number} of the ledger cannot be read: {error}",
            help="another version of awf wrote this store: use that version, or a new store. Nothing was changed",
        ) from error


@contextmanager
def lock_ledger(store: Path) -> Iterator[None]:
    """Keep other commands from adding findings, so that two at once do not raise the same defect twice."""
    store.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(store):
        yield


def open_lines(ledger: Ledger) -> list[Line]:
    """Return the lines of work that people still have to deal with."""
    return [line for line in ledger.lines() if line.is_open]


def passes_of(ledger: Ledger, run: str) -> list[Pass]:
    """Return the passes of a run, oldest first."""
    return list(ledger.passes_of(run).values())


def is_same_branch(one: str, other: str) -> bool:
    """Return whether two branches may be the same: that of a detached HEAD, and outside of git, is unknown."""
    return not one or not other or one == other


def _is_owed_about(run: str, branch: str, passed: Pass) -> bool:
    """Return whether an answer that was asked for in a run, on a branch, is about the target of a pass."""
    return bool(run and run == passed.run) or is_same_branch(branch, passed.branch)


def is_closed_elsewhere(finding: Finding, ledger: Ledger, branch: str) -> bool:
    """Return whether its reviewer closed a finding on another branch only, where its code may never have been."""
    if finding.tool or finding.state.is_open:
        return False
    elsewhere = False
    for change in reversed(finding.history):
        is_ruling = change.what is What.RULING and change.word in ("fixed", "withdrawn")
        if change.state and (change.state.is_open or not is_ruling):
            break  # nobody closed it since, or a person did, who means every branch
        passed = ledger.passes.get(PassId(change.pass_id)) if is_ruling else None
        if passed and is_same_branch(passed.branch, branch):
            return False
        elsewhere = elsewhere or passed is not None
    return elsewhere


def passes_of_change(ledger: Ledger, run: str, base: str, target: str, branch: str) -> list[Pass]:
    """Return the passes of a run and those of other runs that looked at the same change, oldest first."""
    if not base:
        return passes_of(ledger, run) if run else []
    return [
        passed
        for passed in ledger.passes.values()
        if (run and passed.run == run)
        or ((passed.base, passed.target) == (base, target) and is_same_branch(passed.branch, branch))
    ]


def passes_about(ledger: Ledger, passed: Pass) -> list[Pass]:
    """Return the passes of the same target, oldest first; for an import without a base, those of its branch."""
    if passed.run or passed.base:
        return passes_of_change(ledger, passed.run, passed.base, passed.target, passed.branch) or [passed]
    return [one for one in ledger.passes.values() if one is passed or (passed.branch and one.branch == passed.branch)]


def findings_about(ledger: Ledger, paths: Collection[str] | None, passes: Iterable[Pass]) -> Iterator[Finding]:
    """Yield the findings about a change: in one of its files, in no file, or reported in one of its passes.

    The last are those in other files, such as a caller that the change breaks. Without `paths` every finding is.
    """
    if paths is None:
        yield from ledger.findings.values()
        return
    own, files = {passed.id for passed in passes}, frozenset(paths)
    for finding in ledger.findings.values():
        places = {place.path for place in finding.locations if place.path}
        in_change = not places or not files.isdisjoint(places)
        if in_change or any(change.pass_id in own for change in reversed(finding.history)):
            yield finding


def open_of_run(ledger: Ledger, run: str) -> list[Finding]:
    """Return the open findings that a run reported or confirmed."""
    own = ledger.passes_of(run)
    return [
        finding
        for finding in ledger.findings.values()
        if finding.state.is_open and any(change.pass_id in own for change in reversed(finding.history))
    ]


def last_passes(ledger: Ledger, run: str = "") -> list[Pass]:
    """Return the passes of the last round of a run; without one, of the run that made the last pass, or that pass."""
    run = run or (ledger.last.run if ledger.last else "")
    if not run:
        return [ledger.last] if ledger.last else []
    own = passes_of(ledger, run)
    return [passed for passed in own if passed.round == own[-1].round]


def hidden_items(ledger: Ledger, run: str = "") -> list[tuple[Pass, ItemOutcome]]:
    """Return what the gate filtered or demoted in the last round of a run, or in the last run or import."""
    hidden = (Disposition.FILTERED, Disposition.DEMOTED)
    return [(one, item) for one in last_passes(ledger, run) for item in one.entries if item.disposition in hidden]

"""Decisions about findings: previewed, then recorded all at once and shown in the view files.

A decision on a number counts for all findings of that line of work, unless only one of them is meant. What one command
decides is recorded whole or not at all. A recorded pass is never changed.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.app.findings.ledger import LedgerSnapshot, Repository, open_ledger
from pipeline.app.findings.lookup import find_finding
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, Finding, FindingState
from pipeline.findings.triage import TriageOutcome, merge_lines, split_findings, triage


@dataclass(frozen=True, slots=True)
class TriageRequest:
    """What to decide, and who decides it."""

    status: str
    by: Actor
    note: str = ""
    expires: str = ""
    only: bool = False  # the named findings, and not the others of their lines of work


@dataclass(frozen=True, slots=True)
class ChosenFindings:
    """The lines of work that are meant, by any of their names, and notes about the choice."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


Choose = Callable[[Ledger], ChosenFindings]


@dataclass(frozen=True, slots=True)
class TriageMove:
    """A finding as it was, and the state it gets."""

    finding: Finding
    state: FindingState


@dataclass(frozen=True, slots=True)
class TriageResult:
    """What is decided, or would be, and what is refused."""

    moves: tuple[TriageMove, ...]
    refused: dict[str, str]
    problems: tuple[str, ...] = ()

    def as_json(self, word: str) -> dict[str, Any]:
        """The decisions for a program; `word` says whether they are applied or planned."""
        moves = [
            {
                "id": move.finding.id,
                "number": move.finding.number,
                "from": str(move.finding.state),
                "state": str(move.state),
            }
            for move in self.moves
        ]
        return {word: moves, "refused": self.refused, "problems": list(self.problems)}

    @property
    def changes(self) -> list[tuple[str, FindingState, FindingState]]:
        """Return the id, the old and the new state of each finding."""
        return [(move.finding.id, move.finding.state, move.state) for move in self.moves]

    @property
    def by_state(self) -> dict[FindingState, list[Finding]]:
        """The findings that get each state, as they were."""
        states = defaultdict[FindingState, list[Finding]](list)
        for move in self.moves:
            states[move.state].append(move.finding)
        return states

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Each reason of a refusal, with the names it is about."""
        reasons = defaultdict[str, list[str]](list)
        for name, reason in self.refused.items():
            reasons[reason].append(name)
        return reasons

    @property
    def digest(self) -> str:
        """A digest of the changes, so that what a person confirmed is what is applied."""
        return sha256(repr(self.changes).encode()).hexdigest()


def plan_triage(choose: Choose, request: TriageRequest, snapshot: LedgerSnapshot, at: str) -> TriageResult:
    """What a decision would change in findings that are at hand."""
    return _decide(snapshot.ledger, choose, request, at, snapshot.problems)[1]


def apply_triage(
    choose: Choose, request: TriageRequest, store: Path, repository: Repository, now: datetime, agreed: str = ""
) -> TriageResult:
    """Decide and record. With `agreed`, the digest of a preview, nothing is decided if the result would differ."""
    with open_ledger(store, repository, now) as opened:
        outcome, result = _decide(opened.ledger, choose, request, opened.at, opened.problems)
        if agreed and agreed != result.digest:
            raise AwfError("findings changed since they were shown; nothing was decided", help="preview them again")
        return replace(result, problems=result.problems + opened.record(outcome.events))


def _decide(
    ledger: Ledger, choose: Choose, request: TriageRequest, at: str, problems: tuple[str, ...]
) -> tuple[TriageOutcome, TriageResult]:
    chosen = choose(ledger)
    outcome = triage(
        ledger,
        chosen.names,
        request.status,
        note=request.note,
        by=request.by,
        at=at,
        expires=request.expires,
        only=request.only,
    )
    moves = tuple(
        TriageMove(ledger.findings[event.id], event.change.state or ledger.findings[event.id].state)
        for event in outcome.events
    )
    return outcome, TriageResult(moves, outcome.refused, problems + chosen.notes)


def merge(
    names: Sequence[str], into: str, store: Path, repository: Repository, now: datetime, note: str = ""
) -> tuple[list[Finding], Line, tuple[str, ...]]:
    """Make the named findings part of the line of work of another one, all or none.

    Return those that moved, the line, and problems.
    """
    with open_ledger(store, repository, now) as opened:
        ledger = opened.ledger
        findings = [find_finding(name, ledger) for name in dict.fromkeys(names)]
        target = find_finding(into, ledger)
        events = merge_lines(ledger, findings, target, opened.at, note)
        problems = opened.problems + opened.record(events)
        return [opened.ledger.findings[event.id] for event in events], opened.ledger.line(target.id), problems


def split(
    names: Sequence[str], store: Path, repository: Repository, now: datetime, note: str = ""
) -> tuple[list[Finding], tuple[str, ...]]:
    """Make each named finding a line of work of its own, all or none; return them, and problems."""
    with open_ledger(store, repository, now) as opened:
        ledger = opened.ledger
        findings = [find_finding(name, ledger) for name in dict.fromkeys(names)]
        problems = opened.problems + opened.record(split_findings(ledger, findings, opened.at, note))
        return [opened.ledger.findings[finding.id] for finding in findings], problems

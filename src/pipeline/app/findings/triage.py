"""Decisions about findings: looked at beforehand, then written down all at once and shown in the files.

What one command decides is one entry, there whole or not at all. A pass that is on record is never touched.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.app.findings.ledger import LedgerSnapshot, open_ledger, read_snapshot, timestamp
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.triage import TriageOutcome, triage
from pipeline.findings.views.record_store import NO_TRUST, Trust


@dataclass(frozen=True, slots=True)
class TriageRequest:
    """What is to be said of findings, and by whom."""

    status: str
    by: str
    note: str = ""
    expires: str = ""


@dataclass(frozen=True, slots=True)
class ChosenFindings:
    """The findings that are meant, by any of their names, and what is to be told about the choice."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


Choose = Callable[[Ledger], ChosenFindings]


@dataclass(frozen=True, slots=True)
class TriageMove:
    """What a finding was, and the state it gets."""

    finding: Finding  # as it was
    state: FindingState


@dataclass(frozen=True, slots=True)
class TriageResult:
    """What is decided, or would be, and what is refused."""

    moves: tuple[TriageMove, ...]
    refused: dict[str, str]
    problems: tuple[str, ...] = ()

    def as_json(self, word: str) -> dict[str, Any]:
        """The decisions for a program; `word` says whether they were applied or are only planned."""
        told = [{"id": id, "from": str(before), "state": str(after)} for id, before, after in self.told]
        return {word: told, "refused": self.refused, "problems": list(self.problems)}

    @property
    def told(self) -> list[tuple[str, FindingState, FindingState]]:
        """Which findings it is about, and each from where to where."""
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
        """Each reason of a refusal once, with the names that it is about."""
        reasons = defaultdict[str, list[str]](list)
        for name, reason in self.refused.items():
            reasons[reason].append(name)
        return reasons

    @property
    def seal(self) -> str:
        """What somebody agrees to when they say yes to this, and to nothing else."""
        return sha256(repr(self.told).encode()).hexdigest()


def preview_triage(choice: Choose, wish: TriageRequest, store: Path, root: Path, now: datetime) -> TriageResult:
    """What a decision would come to. Nothing is written."""
    at = timestamp(now)
    return plan_triage(choice, wish, read_snapshot(store, root, at), at)


def plan_triage(choice: Choose, wish: TriageRequest, found: LedgerSnapshot, at: str) -> TriageResult:
    """What a decision about findings that are at hand would come to."""
    return _weighed(found.ledger, choice(found.ledger), wish, at, found.problems)[1]


def apply_triage(
    choice: Choose,
    wish: TriageRequest,
    store: Path,
    root: Path,
    now: datetime,
    *,
    agreed: str = "",
    trust: Trust = NO_TRUST,
) -> TriageResult:
    """Apply what may be applied, and rewrite the files. What was agreed to, by its seal, must still come of it."""
    at = timestamp(now)
    with open_ledger(store, root, at, trust) as open_book:
        ledger = open_book.book.ledger()
        triaged, done = _weighed(ledger, choice(ledger), wish, at, open_book.problems)
        if agreed and agreed != done.seal:
            raise AwfError("findings changed since they were shown; nothing was decided", help="look at them again")
        open_book.book.append(triaged.events)
        shown = open_book.views.refresh(open_book.book.ledger(), at)
    return TriageResult(done.moves, done.refused, done.problems + shown)


def _weighed(
    ledger: Ledger, chosen: ChosenFindings, wish: TriageRequest, at: str, problems: tuple[str, ...]
) -> tuple[TriageOutcome, TriageResult]:
    triaged = triage(ledger, chosen.names, wish.status, note=wish.note, by=wish.by, at=at, expires=wish.expires)
    moves = tuple(TriageMove(ledger.findings[event.id], event.state) for event in triaged.events)
    return triaged, TriageResult(moves, triaged.refused, problems + chosen.notes)

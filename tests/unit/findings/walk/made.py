"""Findings to be walked through, people who answer by keys, and trackers that do as they are told."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.findings.model import (
    AutofixClass,
    Category,
    Finding,
    FindingId,
    FindingState,
    Location,
    Owner,
    PassId,
    RawFinding,
    Severity,
    Vote,
)
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import (
    Dispatch,
    FallBack,
    File,
    Next,
    Question,
    Validate,
    WalkDone,
    answer,
    ask,
    begin,
    dispatched,
    fell_back,
    filed,
    validated,
)
from pipeline.findings.walk.present import Fixes, Item, Validation, Walk, walk_items

AT = "2026-01-02T03:04:05Z"
LINEAR = TrackerStatus("Linear", "high", named_sink_available=True, any_sink_available=True)
ISSUES = TrackerStatus("GitHub Issues", "low", named_sink_available=False, any_sink_available=True)


def finding(number: int = 1, **changes: Any) -> Finding:
    """A finding that needs a decision; its fix is ready."""
    given: dict[str, Any] = {
        "id": FindingId(f"fnd_{number:08x}"),
        "number": number,
        "signature": f"sha256:{number:064x}",
        "title": "Path traversal in loadUserFromCache",
        "impact": "Any caller reads any file. That is bad.",
        "fix": "Check the id before the path is built.",
        "category": Category.SECURITY,
        "severity": Severity.HIGH,
        "confidence": confidence_from_anchor(100),
        "autofix_class": AutofixClass.GATED_AUTO,
        "locations": (Location(path="src/cache.py", start=36, end=37),),
        "sources": ("correctness",),
        "pass_id": PassId("REV-1-abc"),
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**{**given, **changes})


def advisory(number: int = 1, **changes: Any) -> Finding:
    """A finding with nothing to fix."""
    given = {"autofix_class": AutofixClass.ADVISORY, "severity": Severity.LOW, "fix": None}
    return finding(number, **{**given, **changes})


def vote(reviewer: str, action: str = "", confidence: int = 75, **changes: Any) -> Vote:
    """What one reviewer said."""
    given: dict[str, Any] = {
        "severity": Severity.HIGH,
        "autofix_class": AutofixClass.MANUAL,
        "owner": Owner.HUMAN,
    }
    return Vote(reviewer=reviewer, action=action, confidence=confidence, **{**given, **changes})


def claim(**changes: Any) -> RawFinding:
    """What one reviewer wrote at length."""
    given: dict[str, Any] = {
        "input_id": "correctness#1",
        "reviewer": "correctness",
        "title": "Path traversal in loadUserFromCache",
        "severity": Severity.HIGH,
        "confidence": confidence_from_anchor(75),
        "category": Category.BUG,
        "impact": "Any file can be read.",
        "locations": (Location(path="src/cache.py", start=36),),
    }
    return RawFinding(**{**given, **changes})


def items(*findings: Finding, sinks: TrackerStatus = ISSUES) -> tuple[Item, ...]:
    """What is asked about these findings, advice as well."""
    return walk_items(findings, sinks, advisory=True)


def walk_of(*findings: Finding, sinks: TrackerStatus = ISSUES, **how: Any) -> Walk:
    """A walk through these findings."""
    return begin(items(*findings, sinks=sinks), sinks, **how)


def question(walk: Walk) -> Question:
    """What is asked now; it must be a question."""
    asked = ask(walk)
    assert isinstance(asked, Question), asked
    return asked


def done(walk: Walk) -> WalkDone:
    """The end, which it must be."""
    over = ask(walk)
    assert isinstance(over, WalkDone), over
    return over


def keys(walk: Walk) -> list[str]:
    """The options there are."""
    return [str(option.key) for option in question(walk).options]


@dataclass
class Drive:
    """Drives walks: tickets, looks and fixes come out as given, and all that was asked for is kept."""

    tickets: Callable[[Finding], Filed | TicketFailed] = lambda finding: Filed(f"T-{finding.number}")
    judge: Callable[[Finding], Validation | None] = lambda _finding: Validation(validated=True)
    sinks: list[TrackerStatus] = field(default_factory=list)  # what is left after each fall back
    fixes: Callable[[Sequence[FindingId]], Fixes] = lambda ids: Fixes(frozenset(ids))
    asked: list[Next] = field(default_factory=list)

    def run(self, walk: Walk, answers: Iterable[str] = ()) -> Walk:
        """Answer questions as long as there are answers, and carry out everything else."""
        left = list(answers)
        while not isinstance(coming := ask(walk), WalkDone):
            if isinstance(coming, Question) and not left:
                return walk
            self.asked.append(coming)
            walk = self._after(walk, coming, left)
        assert not left, f"not asked: {left}"
        return walk

    def of(self, kind: type[Next]) -> list[Any]:
        """Everything of a kind that was asked for."""
        return [one for one in self.asked if isinstance(one, kind)]

    def _after(self, walk: Walk, coming: Next, left: list[str]) -> Walk:
        match coming:
            case Question():
                return answer(walk, left.pop(0))
            case File():
                return filed(walk, self.tickets(coming.finding))
            case FallBack():
                return fell_back(walk, self.sinks.pop(0) if self.sinks else NO_TRACKER)
            case Validate():
                told = {one.id: self.judge(one) for one in coming.findings}
                return validated(walk, {id: said for id, said in told.items() if said})
            case Dispatch():
                return dispatched(walk, self.fixes(coming.ids))
            case WalkDone():
                raise AssertionError


DISMISSED = (FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)

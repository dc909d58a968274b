"""Lines of work to walk through, a driver that answers by keys, and trackers that do as they are told."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.findings.events import Coverage, Look, Pass, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import (
    Actor,
    AutofixClass,
    Category,
    Change,
    Draft,
    Finding,
    FindingId,
    Location,
    PassId,
    ReportStatus,
    Severity,
    What,
)
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers import TrackerChain
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerContext, TrackerStatus
from pipeline.findings.walk.machine import Effect, FileTicket, NextTracker, Tell, Validate, walk
from pipeline.findings.walk.session import open_walk
from pipeline.findings.walk.state import Fixes, Route, Validation, Walk, WalkItem
from pipeline.handlers.questions import Question

AT = "2026-01-02T03:04:05Z"
LINEAR = TrackerStatus("Linear", certain=True)
ISSUES = TrackerStatus("GitHub Issues")
LOOKED = Coverage(looks=(Look(reviewer="correctness", status=ReportStatus.RETURNED),))


def finding(number: int = 1, **changes: Any) -> Finding:
    """A finding that needs a decision; its fix is ready."""
    given: dict[str, Any] = {
        "id": FindingId(f"fnd_{number:08x}"),
        "number": number,
        "line": FindingId(f"fnd_{number:08x}"),
        "signature": f"sha256:{number:064x}",
        "reviewer": "correctness",
        "title": "Path traversal in loadUserFromCache",
        "impact": "Any caller reads any file. That is bad.",
        "fix": "Check the id before the path is built.",
        "category": Category.SECURITY,
        "severity": Severity.HIGH,
        "confidence": confidence_from_anchor(100),
        "autofix_class": AutofixClass.GATED_AUTO,
        "locations": (Location(path="src/cache.py", start=36, end=37),),
        "pass_id": PassId("REV-1-abc"),
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**{**given, **changes})


def advisory(number: int = 1, **changes: Any) -> Finding:
    """A finding with nothing to fix."""
    given = {"autofix_class": AutofixClass.ADVISORY, "severity": Severity.LOW, "fix": None}
    return finding(number, **{**given, **changes})


def joined(*findings: Finding) -> tuple[Finding, ...]:
    """The findings as members of one line of work, which has the number of the first."""
    return tuple(replace(one, line=findings[0].id) for one in findings)


def line(*findings: Finding) -> Line:
    """The findings as a line of work."""
    return Line(findings[0].id, findings[0].number, joined(*findings))


def recommending(*actions: str, **changes: Any) -> tuple[Finding, ...]:
    """A line of work whose reviewers `a`, `b` ... recommend these actions."""
    made = [finding(n, reviewer="abc"[n - 1], action=action, **changes) for n, action in enumerate(actions, 1)]
    return joined(*made)


def decision(word: str, at: str = AT, **changes: Any) -> Change:
    """What was decided about a finding in an earlier walk."""
    return Change(at=at, what=What.DECISION, who="anna", by=Actor.USER, word=word, **changes)


def draft(**changes: Any) -> Draft:
    """What one reviewer returned."""
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
    return Draft(**{**given, **changes})


def ledger_of(*findings: Finding, **passed: Any) -> Ledger:
    """A ledger with these findings and their numbers, after a pass."""
    given: dict[str, Any] = {"id": "REV-1-a", "started_at": AT, "review": "01234567", "coverage": LOOKED}
    ledger = Ledger([PassRecorded(at=AT, assessment=Pass(**given | passed))])
    for one in findings:
        ledger.findings[one.id] = one
        ledger.passes_before[one.id] = [1] * len(one.history)
        ledger._members.setdefault(one.line, {})[one.id] = None
    return ledger


class FixedChain(TrackerChain):
    """Trackers with a given status."""

    def __init__(self, status: TrackerStatus) -> None:
        super().__init__(TrackerContext(Path(), Path(), {}), trackers={})
        self._status = status

    def status(self) -> TrackerStatus:
        return self._status


def walk_of(*findings: Finding, trackers: TrackerStatus = ISSUES, ledger: Ledger | None = None, **how: Any) -> Walk:
    """A walk through these findings before its first question, with advice."""
    ledger = ledger_of(*findings) if ledger is None else ledger
    return open_walk(ledger, FixedChain(trackers), advisory=True, **how)


def items(*findings: Finding, trackers: TrackerStatus = ISSUES) -> tuple[WalkItem, ...]:
    """What is asked about these findings, advice as well."""
    return walk_of(*findings, trackers=trackers).items


@dataclass
class Drive:
    """Drives a walk: tickets, validations and fixes come out as given, and what was asked for is kept."""

    tickets: Callable[[Line], Filed | TicketFailed] = lambda line: Filed(f"T-{line.number}")
    validate: Callable[[Line], Validation | None] = lambda _line: Validation(validated=True)
    trackers: list[TrackerStatus] = field(default_factory=list)  # what is left after each fall back
    fixes: Callable[[Sequence[FindingId]], Fixes] = lambda ids: Fixes(frozenset(ids))
    filed: list[int] = field(default_factory=list)  # the numbers of lines of work
    validated: list[list[int]] = field(default_factory=list)
    fixed: list[list[int]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)

    def run(self, begun: Walk, answers: Iterable[str] = (), route: Route = Route.EACH) -> Walk | None:
        """Answer questions as long as there are answers; the walk if it is done, with its fixes."""
        left, steps = list(answers), walk(replace(begun, route=route))
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Question):
                    step = steps.send(self._carry_out(step))
                    continue
                self.asked.append(step)
                if not left:
                    return None
                assert step.accepts(left[0]), f"{left[0]} is not offered by: {step.text}"
                step = steps.send(left.pop(0))
        except StopIteration as stopped:
            assert not left, f"not asked: {left}"
            done: Walk = stopped.value
            if not done.accepted:
                return done
            self.fixed.append([one.number for one in done.accepted])
            return replace(done, fixes=self.fixes([one.id for one in done.accepted]))

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case FileTicket():
                self.filed.append(effect.line.number)
                return self.tickets(effect.line)
            case NextTracker():
                return self.trackers.pop(0) if self.trackers else NO_TRACKER
            case Validate():
                self.validated.append([one.number for one in effect.lines])
                return self._validations(effect.lines)
            case Tell():
                return self.told.append(effect.text)

    def _validations(self, lines: Sequence[Line]) -> Mapping[FindingId, Validation]:
        results = {one.id: self.validate(one) for one in lines}
        return {id: result for id, result in results.items() if result}


def finish(begun: Walk, *answers: str, drive: Drive | None = None, route: Route = Route.EACH) -> Walk:
    """The walk after these answers, which end it."""
    done = (drive or Drive()).run(begun, answers, route)
    assert done is not None, "something else is asked"
    return done


def ask(begun: Walk, *answers: str, drive: Drive | None = None, route: Route = Route.EACH) -> Question:
    """What is asked after these answers."""
    drive = drive or Drive()
    assert drive.run(begun, answers, route) is None, "the walk is done"
    return drive.asked[-1]

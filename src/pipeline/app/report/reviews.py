"""What the ledger of a store has about one run. Ledger and rounds are read at once, so that they agree."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.app.report.model import FindingRow, ReviewSummary, RoundCounts
from pipeline.app.rounds import ledger_of
from pipeline.engine.ports import Journal

if TYPE_CHECKING:
    from pipeline.findings.ledger import Ledger
    from pipeline.findings.model import Change, Finding, FixAttempt
    from pipeline.findings.rounds import Round


def reviews_of(journal: Journal, run_id: str) -> ReviewSummary:
    """The rounds and findings of a run; nothing for a run without findings that code can read."""
    ledger = ledger_of(journal)
    return ReviewSummary() if ledger is None else reviewed_in(ledger, run_id)


def reviewed_in(ledger: "Ledger", run_id: str) -> ReviewSummary:
    """What a ledger has about a run: its rounds, and every finding that one of its passes or attempts was about."""
    from pipeline.findings.rounds import rounds  # noqa: PLC0415 - most runs have no ledger, and it takes a while to load

    passes = {str(passed.id) for passed in ledger.passes.values() if passed.run == run_id}
    found = sorted((one for one in ledger if _is_about(one, passes, run_id)), key=_weight)
    return ReviewSummary(tuple(map(_counts, rounds(ledger, run_id))), tuple(map(_told, found)))


def _is_about(finding: "Finding", passes: set[str], run_id: str) -> bool:
    touched = any(change.pass_id in passes for change in finding.history)
    return touched or any(attempt.run == run_id for attempt in finding.attempts)


def _weight(finding: "Finding") -> tuple[bool, bool, int, int]:
    return not finding.state.active, finding.gate.value != "must", finding.severity.rank, finding.number


def _counts(one: "Round") -> RoundCounts:
    return RoundCounts(
        number=one.number,
        outstanding=len({*one.carried, *one.new, *one.regressed}),
        new=len(one.new),
        resolved=len(one.resolved),
        carried=len(one.carried),
        regressed=len(one.regressed),
        late=len(one.late),
        caused_by_fix=len(one.caused_by_fix),
    )


def _told(finding: "Finding") -> FindingRow:
    return FindingRow(
        number=finding.number,
        title=finding.title,
        severity=finding.severity,
        state=finding.state.replace("_", " "),
        must=finding.gate.value == "must",
        place=finding.place.spot if finding.place else "",
        history=tuple(map(_change, finding.history)),
        attempts=tuple(map(_attempt, finding.attempts)),
    )


def _change(change: "Change") -> str:
    return " ".join(_words(change))


def _words(change: "Change") -> Iterator[str]:
    yield f"{change.at}: {change.what}"
    if change.state:
        yield change.state.replace("_", " ")
    if change.by:
        yield f"by {change.by}"
    if change.note:
        yield f"({change.note})"


def _attempt(attempt: "FixAttempt") -> str:
    round_ = f"round {attempt.round}" if attempt.round else ""
    words = [round_, attempt.by, attempt.outcome.replace("_", " "), attempt.what]
    return ", ".join(word for word in words if word) or "an attempt"

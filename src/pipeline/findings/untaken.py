"""What stopped runs were told and no pass has taken in: nothing is green before that.

Answers of parallel reviewers are taken in when all have answered. A run that is paused, killed or interrupted before
that has them in its journal only. Resuming the run takes them in; cancelling it by name drops them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipeline.findings.ledger import Untaken

if TYPE_CHECKING:  # every command that shows findings loads this, and most runs have ended
    from pipeline.engine.outcome import Outcome
    from pipeline.engine.ports import Journal
    from pipeline.engine.state import State


def untaken(journal: "Journal") -> Untaken:
    """Return who found something that is not in the ledger yet, by the run that asked, the newest first."""
    found = ((run, answered(state)) for run, state in stopped_runs(journal))
    return {run: names for run, names in found if names}


def stopped_runs(journal: "Journal") -> "Iterator[tuple[str, State]]":
    """Yield the runs that are in the middle of a stage and that nobody cancelled by name, the newest first."""
    for run in reversed(journal.runs()):
        if journal.last_kind(run) == "visit_completed":
            continue
        from pipeline.engine.records import RunCancelled  # noqa: PLC0415 - most runs have ended
        from pipeline.engine.state import replay  # noqa: PLC0415 - as above

        last = journal.last(run).record
        if isinstance(last, RunCancelled) and last.reason:
            continue
        yield run, replay([entry.record for entry in journal.entries(run)])


def answered(state: "State") -> tuple[str, ...]:
    """Return the reviewers and tools that found something which no pass has taken in yet."""
    from pipeline.findings.reports import reviewer_of  # noqa: PLC0415 - as above

    found = state.progress.branches.items()
    return tuple(reviewer_of(state.workflow.stage(name)) for name, outcome in found if _lists(name, outcome, state))


def _lists(name: str, outcome: "Outcome", state: "State") -> bool:
    """Return whether a branch reports anything, in its list or, without one, by its status."""
    from pipeline.engine.outcome import Status  # noqa: PLC0415 - as above
    from pipeline.findings.reports import report_of_review  # noqa: PLC0415 - as above
    from pipeline.language.model import LlmStage  # noqa: PLC0415 - as above

    stage = state.workflow.stage(name)
    if outcome.status is Status.ERROR or not isinstance(stage, LlmStage):
        return outcome.status not in (Status.ERROR, Status.SUCCESS)
    report = report_of_review(stage, outcome.answers or (outcome.response,), state.directory)
    if report is None:
        return outcome.status is not Status.SUCCESS
    return bool(report.drafts)

"""A run at a glance: in one line, on one screen, and how to resume it."""

from collections.abc import Sequence

import pytest
from tests.unit.app.sample_run import CREATED, ERROR, PARALLEL, branch_done, done
from tests.unit.findings.ledgers import finding, ledger_of

from pipeline.app.history import RunHistory
from pipeline.app.overview import RunOverview, RunSummary, overview_of, summarize, summarize_run
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import (
    AnyRecord,
    RunCancelled,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitStarted,
)
from pipeline.findings.model import FindingState, Severity
from pipeline.findings.reviews import Review, review_of_run
from pipeline.journal.memory import MemoryJournal

REPORT = {"stageId": "build", "iteration": 1, "status": "fail", "failureReason": "no tests", "response": "..."}


def summary_of(*records: AnyRecord, driven: bool | None = False) -> RunSummary:
    return summarize(RunHistory.read(records)).resolve_status(lambda _: driven)


def overview(*records: AnyRecord, driven: bool | None = False, review: Review | None = None) -> RunOverview:
    return overview_of(RunHistory.read(records), review, driven=driven)


@pytest.mark.parametrize(
    ("records", "status", "at"),
    [
        ([], "interrupted", ("build", 1)),
        ([done("build", 1, "deploy")], "interrupted", ("deploy", 1)),
        ([done("build", 1, "build")], "interrupted", ("build", 2)),
        ([done("build", 1, "ask"), RunWaiting(at=4, stage="ask", visit=1)], "waiting", ("ask", 1)),
        ([RunCancelled(at=4, stage="build", visit=1)], "cancelled", ("build", 1)),
        ([done("build", 1, "exit"), done("exit", 1, None, ends=Status.SUCCESS)], "success", ("exit", 1)),
    ],
)
def test_a_run_in_one_line(records: Sequence[AnyRecord], status: str, at: tuple[str, int]) -> None:
    """The list has the status of a run and where it is; one that no process drives was interrupted."""
    summary = summary_of(CREATED, *records)
    assert (summary.status, (summary.stage, summary.visit)) == (status, at)
    assert (summary.workflow, summary.goal) == ("Ship", "Ship it")


@pytest.mark.parametrize(("driven", "status"), [(True, "running"), (False, "interrupted"), (None, "unknown")])
def test_the_status_of_a_running_run_is_observed(*, driven: bool | None, status: str) -> None:
    """A run that is recorded as running is running only while a process drives it."""
    assert summary_of(CREATED, driven=driven).status == status
    assert overview(CREATED, driven=driven).status == status


def test_reports_are_counted_as_the_context_has_them() -> None:
    """What was appended and not discarded is open; `outstanding` is an earlier name of the number."""
    append = ("append", "review.findings", REPORT)
    discard = ("discard", "review.findings", {"stageId": "build"})
    one = done("build", 1, "build", operations=(append, append))
    assert summary_of(CREATED, one).reports == summary_of(CREATED, one).as_json()["outstanding"] == 2
    assert overview(CREATED, one).open_reports[0] == {"stage": "build", "iteration": 1, "reason": "no tests"}
    two = done("build", 2, "deploy", operations=(discard,))
    assert summary_of(CREATED, one, two).reports == 0


def test_a_review_is_shown_with_everything_that_is_open_about_its_target() -> None:
    """Lines of work are counted, not findings; without a review there is no verdict."""
    first = finding(1, severity=Severity.CRITICAL)
    fixed = finding(3, state=FindingState.VERIFIED_FIXED)
    ledger = ledger_of(first, finding(2, reviewer="security", line=first.id), fixed, run=CREATED.run_id)
    shown = overview(CREATED, review=review_of_run(ledger, CREATED.run_id))
    assert (shown.findings, shown.verdict, shown.filtered) == (1, "FAIL (1 critical)", 0)
    assert [(row["number"], len(row["members"])) for row in shown.open_findings] == [(1, 2)]
    assert (overview(CREATED).findings, overview(CREATED).verdict, overview(CREATED).open_findings) == (0, "", ())


def test_notes_about_view_files_are_shown_as_far_as_they_can_be_read() -> None:
    """A stage can write anything into the context."""
    notes = [("append", "review.notes", note) for note in ({"stage": "fix", "visit": "2", "note": "put back"}, "x")]
    (note,) = overview(CREATED, done("build", 1, "build", operations=tuple(notes))).notes
    assert note == {"stage": "fix", "visit": 0, "at": "", "note": "put back"}


def test_a_run_that_cannot_be_replayed_is_still_listed() -> None:
    """A workflow in a language that this version does not read leaves the file, the goal, the times and the status."""
    journal = MemoryJournal()
    journal.create("r1", CREATED.model_copy(update={"source": "workflow {", "goal": "Ship"}))
    journal.append("r1", RunPaused(at=9, limit="max_visits", stage="build", count=2, allowed=2, reason="reached"))
    summary = summarize_run(journal, "r1")
    assert (summary.workflow, summary.goal, summary.began, summary.last) == ("ship.awf.kdl", "Ship", 0, 9)
    assert summary.status == "paused"
    assert "cannot be read" in summary.reason


def paused(limit: str) -> RunPaused:
    return RunPaused(at=4, limit=limit, stage="build", count=2, allowed=2, reason="reached")


@pytest.mark.parametrize(
    ("records", "resume"),
    [
        ([], ()),
        ([done("build", 1, "deploy"), VisitStarted(at=1, stage="deploy", visit=1, attempt=1)], ("--repeat",)),
        (
            [done("build", 1, "build"), done("build", 2, "build"), paused("max_visits")],
            ("--raise max_visits=+10", "--raise max_cost_usd=+2"),
        ),
        ([done("build", 1, "deploy", operations=(("set", "run.hold", "look"),))], ()),  # killed before it was paused
        ([done("exit", 1, None, ends=Status.SUCCESS)], None),
    ],
)
def test_what_resume_needs(records: Sequence[AnyRecord], resume: tuple[str, ...] | None) -> None:
    """The options raise every limit in the way and repeat what has to be repeated."""
    assert overview(CREATED, *records).resume == resume


def test_a_waiting_run_has_its_question() -> None:
    """A run that waits for a person has what it asks and the possible answers."""
    run = overview(CREATED, done("build", 1, "ask"), RunWaiting(at=4, stage="ask", visit=1))
    assert (run.question, run.options, run.resume) == ("Well?", ("yes", "no"), ())


def test_an_error_has_its_kind_and_advice() -> None:
    """A branch that errored names its parallel stage, the kind of error, what to do, and when its quota resets."""
    records: list[AnyRecord] = [
        PARALLEL,
        StageErrored(at=1, stage="a", visit=1, attempt=1, outcome=ERROR, until=90.0),
        branch_done("b", 2, Outcome(status=Status.SUCCESS)),
        RunPaused(at=3, limit="error", stage="a", count=1, allowed=0, reason="no key", until=90.0),
    ]
    (error,) = overview(*records).errors
    assert (error.stage, error.within, error.kind, error.until) == ("a", "both", "auth", 90.0)
    assert error.advice
    assert summary_of(*records).until == 90.0


def test_an_error_that_failed_the_run_is_at_its_visit() -> None:
    """A run that failed within a visit is listed at that visit, and after a resume nothing is errored."""
    records: list[AnyRecord] = [
        PARALLEL,
        StageErrored(at=1, stage="a", visit=1, attempt=1, outcome=ERROR, ends_run=True),
        RunFailed(at=2, stage="a", reason="no key"),
    ]
    summary = summary_of(*records)
    assert (summary.status, summary.stage, summary.visit) == ("fail", "both", 1)
    resumed = overview(*records, RunResumed(at=3), driven=True)
    assert (resumed.errors, resumed.until) == ((), None)

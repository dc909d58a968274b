"""What a run's records say to somebody who looks at it."""

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.app.history import (
    AttemptEnd,
    RunHistory,
    RunNote,
    VisitRecord,
    stage_totals,
    story_of,
    unknown_stage_error,
    visits_of,
)
from pipeline.app.overview import overview_of, summarise
from pipeline.app.store import find_run
from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status, Usage
from pipeline.engine.ports import UnknownRun
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    RunCancelled,
    RunCreated,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
    VisitStarted,
)
from pipeline.engine.routing import Selection
from pipeline.engine.state import begin
from pipeline.errors import AwfError

SOURCE = """
workflow "Ship" {
  version 2
  goal "Ship it"
  start "build"
  settings { max_visits 2; max_cost_usd 1; }
  stage "build" kind="llm" prompt="Build"
  stage "deploy" kind="tool" command="deploy" effects="external"
  stage "ask" kind="human" prompt="Well?" {
    option "yes" label="Yes" to="exit"
    option "no" label="No" to="build"
  }
  stage "exit" kind="exit"
  transition from="build" to="deploy"
  transition from="deploy" to="ask"
}
"""
ERROR = Outcome(status=Status.ERROR, reason="no key", failure=Failure(kind=FailureClass.AGENT, error=ErrorKind.AUTH))
FINDING = {"stageId": "build", "iteration": 1, "status": "fail", "failureReason": "no tests", "response": "..."}
BOTH = """
workflow "Both" {
  version 2
  start "both"
  stage "both" kind="parallel" { branch "a"; branch "b"; }
  stage "a" kind="tool" command="a"
  stage "b" kind="tool" command="b"
  stage "exit" kind="exit"
  transition from="both" to="exit"
}
"""
PARALLEL = RunCreated(at=0, run_id="r2", file="both.awf.kdl", source=BOTH, cwd="/", version="1")
ENDS = ((2, "b"), (3, "a"))
CREATED = RunCreated(at=0, run_id="r1", file="ship.awf.kdl", source=SOURCE, cwd="/", version="1")


def started(stage: str, visit: int, attempt: int = 1, at: float = 1) -> VisitStarted:
    return VisitStarted(at=at, stage=stage, visit=visit, attempt=attempt)


def done(stage: str, visit: int, to: str | None, **more: Any) -> VisitCompleted:
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.6)
    given: dict[str, Any] = {
        "outcome": Outcome(status=Status.SUCCESS, duration=2.0, usage=usage if stage == "build" else None),
        "attempt": 1,
        "operations": (),
        "chosen": Selection(target=to, reason="because"),
    }
    return VisitCompleted(at=3, stage=stage, visit=visit, **{**given, **more})


def seen(*records: AnyRecord) -> VisitRecord:
    return visits_of([CREATED, *records])[0]


def test_a_torn_attempt_is_told() -> None:
    """An attempt that never ended was interrupted once its run is resumed, and the next one gives the outcome."""
    visit = seen(RunResumed(at=2), done("build", 1, "deploy", attempt=2))
    assert [(one.number, one.ended) for one in visit.attempts] == [(1, AttemptEnd.TORN), (2, AttemptEnd.DONE)]


def test_an_attempt_that_was_not_due_was_not_interrupted() -> None:
    """A run that is resumed in the wait between two attempts tells of no attempt that never was."""
    failed = AttemptFailed(at=2, stage="build", visit=1, attempt=1, outcome=Outcome(status=Status.FAIL), delay=4)
    visit = seen(failed, RunResumed(at=3), done("build", 1, "deploy", attempt=2))
    assert [(one.number, one.ended) for one in visit.attempts] == [(1, AttemptEnd.FAILED), (2, AttemptEnd.DONE)]


def test_a_failed_attempt_keeps_its_reason() -> None:
    """A failed attempt is told with why it failed and how long the next one waited."""
    failed = AttemptFailed(
        at=2, stage="build", visit=1, attempt=1, outcome=Outcome(status=Status.FAIL, reason="refused"), delay=4
    )
    visit = seen(failed, done("build", 1, "deploy", attempt=2))
    first = visit.attempts[0]
    assert first.outcome is not None
    assert (first.ended, first.outcome.reason, first.delay) == (AttemptEnd.FAILED, "refused", 4)


def test_a_cancelled_attempt_is_not_torn() -> None:
    """Somebody who stopped a run is told so, also after it went on."""
    visit = seen(RunCancelled(at=2, stage="build", visit=1), RunResumed(at=3))
    assert [one.ended for one in visit.attempts] == [AttemptEnd.CANCELLED, AttemptEnd.OPEN]
    assert visit.outcome is None


def test_branches_come_before_their_stage() -> None:
    """The branches of a parallel stage are visits of their own, and belong to it."""
    outcome = Outcome(status=Status.FAIL, reason="found")
    branch = BranchCompleted(at=2, stage="both", visit=1, branch="a", branch_visit=1, outcome=outcome)
    visits = visits_of([PARALLEL, branch])
    assert [(one.stage, one.within, one.ended) for one in visits] == [("a", "both", 2), ("b", "both", None)]
    other = BranchCompleted(at=3, stage="both", visit=1, branch="b", branch_visit=1, outcome=outcome)
    results = tuple(BranchResult(stage=name, visit=1, outcome=outcome) for name in ("a", "b"))
    joined = done("both", 1, None, branches=results, ends=Status.FAIL)
    visits = visits_of([PARALLEL, branch, other, joined])
    assert [(one.stage, one.within, one.ended) for one in visits] == [
        ("a", "both", 2),
        ("b", "both", 3),
        ("both", "", 3),
    ]


def test_what_stopped_the_run_stands_between_the_visits() -> None:
    """Pauses and the limits that were raised are part of the story, in their place."""
    paused = RunPaused(at=4, limit="max_visits", stage="build", count=2, allowed=2, reason="max_visits is reached")
    story = story_of([CREATED, done("build", 1, "build"), paused, RunResumed(at=5, raised={"max_visits": 12})])
    assert [part.text for part in story if isinstance(part, RunNote)] == [
        "paused: max_visits is reached",
        "resumed with max_visits=12",
    ]


def test_stages_are_summed_over_all_visits() -> None:
    """A stage's time, tokens and money count every visit."""
    records: list[AnyRecord] = [CREATED, done("build", 1, "build"), done("build", 2, "deploy")]
    build, _ = stage_totals(visits_of(records))
    assert (build.visits, build.seconds, build.tokens, build.cost_usd) == (2, 4.0, 30, 1.2)


def test_stages_are_summed_in_one_order() -> None:
    """Branches in the order of the file, then their stage, whichever of them ended first."""
    outcome = Outcome(status=Status.SUCCESS, duration=0.5)
    ended = [BranchCompleted(at=n, stage="both", visit=1, branch=b, branch_visit=1, outcome=outcome) for n, b in ENDS]
    results = tuple(BranchResult(stage=name, visit=1, outcome=outcome) for name in ("a", "b"))
    whole = done("both", 1, "exit").model_copy(update={"branches": results})
    assert [one.stage for one in stage_totals(visits_of([PARALLEL, *ended, whole]))][:3] == ["a", "b", "both"]


@pytest.mark.parametrize("stage", ["x", "biuld"])
def test_a_stage_that_is_not_there_brings_those_that_are(stage: str) -> None:
    """The nearest one, or all in the order of the file."""
    told = {"x": "its stages are build, deploy, ask, exit", "biuld": 'did you mean "build"?'}
    assert unknown_stage_error(begin(CREATED), stage, ()).help == told[stage]


@pytest.mark.parametrize(
    ("records", "status", "at"),
    [
        ([], "interrupted", ("build", 1)),
        ([done("build", 1, "deploy")], "interrupted", ("deploy", 1)),
        ([done("build", 1, "build")], "interrupted", ("build", 2)),
        ([done("build", 1, "ask"), RunWaiting(at=4, stage="ask", visit=1)], "waiting", ("ask", 1)),
        ([RunCancelled(at=4, stage="build", visit=1)], "cancelled", ("build", 1)),
        ([done("exit", 1, None, ends=Status.SUCCESS)], "success", ("exit", 1)),
    ],
)
def test_a_run_in_one_line(records: Sequence[AnyRecord], status: str, at: tuple[str, int]) -> None:
    """The list says how a run stands and where; one that nobody drives was interrupted."""
    summary = summarise([CREATED, *records], lambda _: False)
    assert (summary.status, (summary.stage, summary.visit)) == (status, at)
    assert (summary.workflow, summary.goal) == ("Ship", "Ship it")


def test_a_run_that_is_driven_is_running() -> None:
    """While its owner lives, a run is running."""
    assert summarise([CREATED], lambda _: True).status == "running"


def test_findings_are_counted_as_the_context_has_them() -> None:
    """What was appended and discarded since leaves what is outstanding."""
    append = ("append", "review.findings", FINDING)
    discard = ("discard", "review.findings", {"stageId": "build"})
    one = done("build", 1, "build", operations=(append, append))
    assert summarise([CREATED, one], lambda _: False).outstanding == 2
    two = done("build", 2, "deploy", operations=(discard,))
    assert summarise([CREATED, one, two], lambda _: False).outstanding == 0


def paused(limit: str) -> RunPaused:
    return RunPaused(at=4, limit=limit, stage="build", count=2, allowed=2, reason="reached")


@pytest.mark.parametrize(
    ("records", "resume"),
    [
        ([], ()),
        ([done("build", 1, "deploy"), started("deploy", 1)], ("--repeat",)),
        (
            [done("build", 1, "build"), done("build", 2, "build"), paused("max_visits")],
            ("--raise max_visits=+10", "--raise max_cost_usd=+2"),
        ),
        ([done("build", 1, "deploy", operations=(("set", "run.hold", "look"),))], ()),  # killed before it was paused
        ([done("exit", 1, None, ends=Status.SUCCESS)], None),
    ],
)
def test_what_resume_needs(records: Sequence[AnyRecord], resume: tuple[str, ...] | None) -> None:
    """The command that goes on raises every limit in its way and repeats what has to be repeated."""
    assert overview_of([CREATED, *records], driven=False).resume == resume


def test_a_waiting_run_tells_its_question() -> None:
    """A run that waits for a person says what it asks and what may be answered."""
    standing = overview_of([CREATED, done("build", 1, "ask"), RunWaiting(at=4, stage="ask", visit=1)], driven=False)
    assert (standing.question, standing.options, standing.resume) == ("Well?", ("yes", "no"), ())


def test_a_run_is_found_by_its_beginning() -> None:
    """A full id, a unique beginning, `latest` and `-` name a run."""
    runs = ["20261116-083012-aaaaa", "20261117-083012-bbbbb", "20261117-083012-b"]
    assert find_run("20261116", runs) == runs[0]
    assert find_run(runs[2], runs) == runs[2]
    assert find_run("latest", runs) == find_run("-", runs) == runs[2]


def test_an_unknown_run_brings_the_nearest() -> None:
    """A run that does not exist is refused with those that are like it, and so is a beginning of several."""
    runs = ["20261116-083012-aaaaa", "20261117-083012-bbbbb"]
    with pytest.raises(UnknownRun, match="no run") as unknown:
        find_run("20261116-083012-aaaab", runs)
    assert runs[0] in str(unknown.value.help)
    with pytest.raises(AwfError, match="2 runs start"):
        find_run("2026", runs)
    with pytest.raises(AwfError) as several:
        find_run("r", ["rz", "ra", "rm"])
    assert several.value.help == "write more of the id: rm, ra, rz"  # the newest first, whatever they are called
    with pytest.raises(UnknownRun) as strange:
        find_run("0", ["rz", "ra", "rm"])
    assert strange.value.help == "the newest are rm, ra, rz"
    with pytest.raises(UnknownRun) as alike:
        find_run("run-0", ["run-1", "other", "run-3", "run-2"])
    assert alike.value.help == "did you mean run-2, run-3, run-1?"
    with pytest.raises(UnknownRun, match="no runs yet"):
        find_run("latest", [])


def test_telling_changes_nothing() -> None:
    """A story can be told again and again while it goes on: what is under way is told once each time."""
    first = RunCreated(at=0, run_id="r1", file="x", source=SOURCE, cwd="/", version="1")
    story = RunHistory(first)
    assert story.told() == story.told() == story_of([first])
    resumed = RunResumed(at=1)
    story.take(resumed)
    assert story.told() == story.told() == story_of([first, resumed])


def test_an_error_is_told_before_the_pause_that_follows() -> None:
    """A branch that errored and one that is done come before the pause; the error has its time, kind and advice."""
    records: list[AnyRecord] = [
        PARALLEL,
        StageErrored(at=1, stage="a", visit=1, attempt=1, outcome=ERROR, until=90.0),
        BranchCompleted(
            at=2, stage="both", visit=1, branch="b", branch_visit=1, outcome=Outcome(status=Status.SUCCESS)
        ),
        RunPaused(at=3, limit="error", stage="a", count=1, allowed=0, reason="no key", until=90.0),
    ]
    story = story_of(records)
    assert [part.text if isinstance(part, RunNote) else part.stage for part in story] == ["a", "b", "paused: no key"]
    assert isinstance(story[0], VisitRecord)
    assert (story[0].stopped, story[0].ended, story[0].error) == (1, None, ERROR)
    (error,) = overview_of(records, driven=False).errors
    assert (error.stage, error.within, error.kind, error.until) == ("a", "both", "auth", 90.0)
    assert error.advice
    assert summarise(records, lambda _: False).until == 90.0


def test_what_an_error_failed_is_told_at_its_visit() -> None:
    """A run that failed within a visit is listed at that visit, and after a resume nothing is errored."""
    records: list[AnyRecord] = [
        PARALLEL,
        StageErrored(at=1, stage="a", visit=1, attempt=1, outcome=ERROR, ends_run=True),
        RunFailed(at=2, stage="a", reason="no key"),
    ]
    summary = summarise(records, lambda _: False)
    assert (summary.status, summary.stage, summary.visit) == ("fail", "both", 1)
    resumed = overview_of([*records, RunResumed(at=3)], driven=True)
    assert (resumed.errors, resumed.until) == ((), None)

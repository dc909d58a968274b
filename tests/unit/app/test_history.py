"""The history of a run, told by its records."""

import pytest
from tests.unit.app.sample_run import CREATED, ERROR, PARALLEL, both_done, branch_done, done

from pipeline.app.history import AttemptEnd, HistoryBuilder, RunHistory, RunNote, VisitRecord
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.records import AnyRecord, AttemptFailed, RunCancelled, RunPaused, RunResumed, StageErrored
from pipeline.errors import AwfError

FAILED = AttemptFailed(
    at=2, stage="build", visit=1, attempt=1, outcome=Outcome(status=Status.FAIL, reason="refused"), delay=4
)


def first_visit(*records: AnyRecord) -> VisitRecord:
    return RunHistory.read([CREATED, *records]).visits[0]


def test_an_interrupted_attempt_is_part_of_its_visit() -> None:
    """An attempt that never ended was interrupted once its run is resumed, and the next one gives the outcome."""
    visit = first_visit(RunResumed(at=2), done("build", 1, "deploy", attempt=2))
    assert [(one.number, one.end) for one in visit.attempts] == [(1, AttemptEnd.INTERRUPTED), (2, AttemptEnd.DONE)]


def test_an_attempt_that_was_not_due_was_not_interrupted() -> None:
    """Resuming a run in the wait between two attempts makes up no attempt."""
    visit = first_visit(FAILED, RunResumed(at=3), done("build", 1, "deploy", attempt=2))
    assert [(one.number, one.end) for one in visit.attempts] == [(1, AttemptEnd.FAILED), (2, AttemptEnd.DONE)]


def test_a_failed_attempt_keeps_its_reason() -> None:
    """A failed attempt has its outcome, its record, and how long the next one waited."""
    first = first_visit(FAILED, done("build", 1, "deploy", attempt=2)).attempts[0]
    assert first.outcome == FAILED.outcome
    assert (first.end, first.delay, first.seq, first.at) == (AttemptEnd.FAILED, 4, 2, 2)


def test_a_cancelled_attempt_was_not_interrupted() -> None:
    """A cancelled attempt stays cancelled after the run is resumed."""
    visit = first_visit(RunCancelled(at=2, stage="build", visit=1), RunResumed(at=3))
    assert [one.end for one in visit.attempts] == [AttemptEnd.CANCELLED, AttemptEnd.OPEN]
    assert visit.outcome is None


def test_branches_come_before_their_stage() -> None:
    """The branches of a parallel stage are visits of their own and name that stage."""
    outcome = Outcome(status=Status.FAIL, reason="found")
    records: list[AnyRecord] = [PARALLEL, branch_done("a", 2, outcome)]
    visits = RunHistory.read(records).visits
    assert [(one.stage, one.within, one.ended) for one in visits] == [("a", "both", 2), ("b", "both", None)]
    records += [branch_done("b", 3, outcome), both_done(outcome, None, ends=Status.FAIL)]
    visits = RunHistory.read(records).visits
    assert [(one.stage, one.within, one.ended) for one in visits] == [
        ("a", "both", 2),
        ("b", "both", 3),
        ("both", "", 3),
    ]


def test_a_branch_began_before_another_one_ended() -> None:
    """A branch that runs for a while began that long ago, not when the record before its own was written."""
    outcome = Outcome(status=Status.SUCCESS, duration=7.0)
    visits = RunHistory.read([PARALLEL, branch_done("a", 8, outcome), branch_done("b", 9, outcome)]).visits
    assert [one.began for one in visits] == [0, 2]


def test_a_branch_has_the_outcome_of_the_join() -> None:
    """Plugins may have amended it since the branch was recorded; its attempt ended when it did."""
    first, final = Outcome(status=Status.SUCCESS), Outcome(status=Status.FAIL, reason="amended")
    branches = [branch_done("a", 2, first), branch_done("b", 3, first)]
    visit = RunHistory.read([PARALLEL, *branches, both_done(final, None, ends=Status.FAIL)]).visits[0]
    assert (visit.outcome, visit.ended, visit.attempts[0].seq) == (final, 2, 2)


def test_a_branch_that_is_an_error_after_all_ended_once() -> None:
    """Its attempt is not counted twice, and its prompt is still that of the record that the agent's answer is in."""
    used = Outcome(status=Status.SUCCESS, usage=Usage(input_tokens=10))
    refused = used.model_copy(update={"status": Status.ERROR, "reason": "amended"})
    errored = StageErrored(at=4, stage="a", visit=1, attempt=1, outcome=refused)
    records: list[AnyRecord] = [PARALLEL, branch_done("a", 2, used), branch_done("b", 3, used), errored]
    history = RunHistory.read(records)
    attempts = history.visits_of("a")[0].attempts
    assert [(one.number, one.end, one.seq) for one in attempts] == [(1, AttemptEnd.ERRORED, 2)]
    assert [(one.stage, one.tokens) for one in history.stage_totals()] == [("a", 10), ("b", 10)]
    records += [RunResumed(at=5), branch_done("a", 6, used)]
    attempts = RunHistory.read(records).visits_of("a")[0].attempts
    assert [(one.number, one.end) for one in attempts] == [(1, AttemptEnd.ERRORED), (2, AttemptEnd.DONE)]


def test_what_stopped_the_run_is_between_the_visits() -> None:
    """Pauses and the limits that were raised are part of the timeline, in their place."""
    paused = RunPaused(at=4, limit="max_visits", stage="build", count=2, allowed=2, reason="max_visits is reached")
    records: list[AnyRecord] = [CREATED, done("build", 1, "build"), paused, RunResumed(at=5, raised={"max_visits": 12})]
    assert [one.text for one in RunHistory.read(records).timeline if isinstance(one, RunNote)] == [
        "paused: max_visits is reached",
        "resumed with max_visits=12",
    ]


def test_an_error_comes_before_the_pause_that_followed() -> None:
    """A branch that errored and one that is done come before the pause, and the error has its time."""
    history = RunHistory.read(
        [
            PARALLEL,
            StageErrored(at=1, stage="a", visit=1, attempt=1, outcome=ERROR, until=90.0),
            branch_done("b", 2, Outcome(status=Status.SUCCESS)),
            RunPaused(at=3, limit="error", stage="a", count=1, allowed=0, reason="no key", until=90.0),
        ]
    )
    entries = [one.text if isinstance(one, RunNote) else one.stage for one in history.timeline]
    assert entries == ["a", "b", "paused: no key"]
    errored = history.visits[0]
    assert (errored.ended, errored.outcome, errored.error) == (1, None, ERROR)


def test_totals_count_every_visit() -> None:
    """The time, tokens and cost of a stage count all of its visits."""
    history = RunHistory.read([CREATED, done("build", 1, "build"), done("build", 2, "deploy")])
    build, _ = history.stage_totals()
    assert (build.visits, build.seconds, build.tokens, build.cost_usd) == (2, 4.0, 30, 1.2)


def test_totals_have_one_order() -> None:
    """Branches in the order of the file, then their stage, whichever of them ended first."""
    outcome = Outcome(status=Status.SUCCESS, duration=0.5)
    ended = [branch_done("b", 2, outcome), branch_done("a", 3, outcome)]
    history = RunHistory.read([PARALLEL, *ended, both_done(outcome, "exit")])
    assert [one.stage for one in history.stage_totals()][:3] == ["a", "b", "both"]


@pytest.mark.parametrize(
    ("stage", "help"),
    [
        ("x", "its stages are build, deploy, ask, exit"),
        ("biuld", 'did you mean "build"?'),
        ("ask", "it visited build, deploy"),
    ],
)
def test_an_unknown_stage_is_answered_with_those_that_exist(stage: str, help: str) -> None:
    """The nearest one, all in the order of the file, or those that were visited."""
    with pytest.raises(AwfError) as error:
        RunHistory.read([CREATED, done("build", 1, "deploy")]).visits_of(stage)
    assert error.value.help == help


def test_a_history_can_be_built_while_it_grows() -> None:
    """Building changes nothing: a builder gives what reading all records gives, at any time."""
    builder = HistoryBuilder(CREATED)
    assert builder.build() == builder.build() == RunHistory.read([CREATED])
    resumed = RunResumed(at=1)
    builder.add(resumed)
    assert builder.build() == builder.build() == RunHistory.read([CREATED, resumed])
    assert (builder.build().position, builder.build().at) == (2, 1)

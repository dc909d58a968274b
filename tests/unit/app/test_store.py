"""The local run store: which run is meant, what it asks, and what happens to an answer and a cancel request."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.unit.app.waiting_run import CREATED, first_question

from pipeline.app.run_names import find_run
from pipeline.app.store import (
    AlreadyAnswered,
    InvalidAnswer,
    LocalRunStore,
    NotWaiting,
    RunFinished,
    load_records,
    load_state,
)
from pipeline.engine.machine import complete
from pipeline.engine.outcome import Outcome, Status, stage_operations
from pipeline.engine.ports import CancelRequest, UnknownRun
from pipeline.engine.records import RunCancelled, RunWaiting
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError, ExitCode
from pipeline.handlers.human import choice_outcome
from pipeline.handlers.questions import Reply
from pipeline.journal.lock import lock_run
from pipeline.journal.memory import MemoryJournal, MemoryMailbox
from pipeline.language.model import HumanStage
from pipeline.redaction import redactor_of

SECRET = "s3cret-s3cret-s3cret"  # noqa: S105 - nobody's


@pytest.fixture
def store(tmp_path: Path) -> LocalRunStore:
    journal = MemoryJournal()
    journal.create("r", CREATED)
    ticks = count(100)
    redactor = redactor_of({"API_TOKEN": SECRET})
    return LocalRunStore("runs", tmp_path, journal, MemoryMailbox(), redactor, lambda: float(next(ticks)))


@pytest.fixture
def driven(store: LocalRunStore) -> Iterator[None]:
    """A process drives the run."""
    with lock_run(store.directory / "locks", "r", lambda: 0.0):
        yield


def pick_up(store: LocalRunStore, option: str, feedback: str = "") -> None:
    """Record an answer as the process that drives the run does."""
    state = load_state(store.journal, "r")
    assert isinstance(state.stage, HumanStage)
    outcome = choice_outcome(state.stage, Reply(option, feedback, by="anna"))
    operations = stage_operations(state.stage, outcome)
    store.journal.append("r", complete(state, outcome, operations, 50.0, option=option))


def fail(store: LocalRunStore) -> None:
    """Let the run end in failure at the stage after the question."""
    pick_up(store, "yes")
    state = load_state(store.journal, "r")
    store.journal.append("r", complete(state, Outcome(status=Status.FAIL), (), 60.0))


def test_a_question_has_everything_a_person_needs(store: LocalRunStore) -> None:
    """The text with its variables, the options, the details, and what was answered at earlier visits."""
    found = store.question("r")
    assert found is not None
    assert (found.question, found.earlier, found.answered) == (first_question(), (), None)
    assert (found.question.text, found.question.values) == ("Is it good?", (("graph.name", "W"),))
    assert [one.key for one in found.question.options if one.needs_feedback] == ["no"]
    assert [one.key for one in found.question.options if one.approves] == ["yes"]
    pick_up(store, "no", "Not yet.")
    again = store.question("r")
    assert again is not None
    assert again.question.visit == 2
    assert [(one.visit, one.option, one.feedback, one.by, one.at) for one in again.earlier] == [
        (1, "no", "Not yet.", "anna", 50.0)
    ]


def test_a_run_that_works_or_has_finished_asks_nothing(store: LocalRunStore) -> None:
    """There is no question, and no error."""
    pick_up(store, "yes")
    assert store.question("r") is None
    state = load_state(store.journal, "r")
    store.journal.append("r", complete(state, Outcome(status=Status.FAIL), (), 60.0))
    assert load_state(store.journal, "r").status is RunStatus.FAIL
    assert store.question("r") is None


def test_an_answer_is_kept_for_the_visit_that_waits(store: LocalRunStore) -> None:
    """It has its author and time but no secrets, whether or not the run was recorded as waiting."""
    store.journal.append("r", RunWaiting(at=2.0, stage="ask", visit=1))
    given = store.answer("r", "NO", by="anna", stage="ask", feedback=f"It shows {SECRET}.")
    kept = given.answer
    assert (kept.run_id, kept.stage, kept.visit, kept.option, kept.by, kept.at) == ("r", "ask", 1, "no", "anna", 100.0)
    assert SECRET not in kept.feedback
    assert not given.driven
    found = store.question("r")
    assert found is not None
    assert found.answered == kept == store.mailbox.answer("r", "ask", 1)


@pytest.mark.usefixtures("driven")
def test_the_receipt_says_whether_a_process_picks_the_answer_up(store: LocalRunStore) -> None:
    """A caller knows whether the run has to be resumed."""
    assert store.answer("r", "yes", by="anna").driven


@pytest.mark.parametrize(
    ("words", "error", "named", "help"),
    [
        ({"option": "yse"}, InvalidAnswer, '"yse"', 'did you mean "yes"?'),
        ({"option": "xx"}, InvalidAnswer, "yes, no", "awf answer r"),
        ({"option": "no"}, InvalidAnswer, '"no"', "--feedback"),
        ({"option": "no", "feedback": " \n"}, InvalidAnswer, '"no"', "--feedback"),
        ({"option": "yes", "stage": "aks"}, NotWaiting, '"aks"', 'did you mean "ask"?'),
        ({"option": "yes", "stage": "work"}, NotWaiting, '"work"', '"ask", visit 1'),
        ({"option": "yes", "visit": 2}, NotWaiting, "run r", '"ask", visit 1'),
    ],
)
def test_an_invalid_answer_is_refused(
    store: LocalRunStore, words: dict[str, object], error: type[AwfError], named: str, help: str
) -> None:
    """The error names what is wrong and what was probably meant; nothing is kept."""
    with pytest.raises(error) as refused:
        store.answer("r", by="anna", **words)  # type: ignore[arg-type]  # a table of words
    assert named in refused.value.message
    assert help in str(refused.value.help)
    assert refused.value.exit_code is ExitCode.USAGE
    assert store.mailbox.answer("r", "ask", 1) is None


def test_a_second_answer_is_refused_with_the_first(store: LocalRunStore) -> None:
    """While the first waits and after it was picked up; the next visit of the stage can be answered again."""
    first = store.answer("r", "no", by="anna", feedback="Not yet.").answer
    for moment in ("waiting", "picked up"):
        with pytest.raises(AlreadyAnswered) as late:
            store.answer("r", "yes", by="ben", stage="ask", visit=1)
        assert late.value.kept == first, moment
        assert late.value.exit_code is ExitCode.RUN_FAILED
        assert all(part in late.value.message for part in ("anna", '"ask" #1', '"no"', "1970-01-01"))
        assert "Not yet." in str(late.value.help)
        if moment == "waiting":
            pick_up(store, "no", "Not yet.")
    assert store.answer("r", "yes", by="ben", stage="ask").answer.visit == 2


@pytest.mark.parametrize("stage", ["", "ask"])
def test_the_answer_that_let_the_run_continue_is_named(store: LocalRunStore, stage: str) -> None:
    """Who answers a run that already works learns why it does not wait."""
    first = store.answer("r", "yes", by="anna").answer
    pick_up(store, "yes")
    with pytest.raises(AlreadyAnswered) as late:
        store.answer("r", "no", by="ben", stage=stage, feedback="Late.")
    assert late.value.kept == first


def test_a_run_that_works_without_an_answer_from_the_mailbox(store: LocalRunStore) -> None:
    """The refusal says where it is."""
    pick_up(store, "yes")
    with pytest.raises(NotWaiting) as refused:
        store.answer("r", "yes", by="ben")
    assert 'running at "work"' in str(refused.value.help)


def test_a_run_without_a_process_is_recorded_as_cancelled(store: LocalRunStore) -> None:
    """It is recorded once, as Ctrl-C records it, with the reason but no secrets, and can still be answered."""
    reason = store.cancel("r", by="anna", reason=f"wrong {SECRET}")
    assert reason is not None
    assert reason.startswith("by anna: wrong ")
    assert SECRET not in reason
    assert store.journal.last("r").record == RunCancelled(at=100.0, stage="ask", visit=1, reason=reason)
    assert store.cancel("r", by="ben", reason="me too") == reason
    assert len(load_records(store.journal, "r")) == 2
    assert store.mailbox.cancel_requests("r") == 0
    assert store.question("r") is not None


@pytest.mark.usefixtures("driven")
def test_the_process_that_drives_a_run_is_asked_to_stop(store: LocalRunStore) -> None:
    """Nothing is recorded on its behalf."""
    assert store.cancel("r", by="anna") is None
    assert store.mailbox.cancel_request("r", 0) == CancelRequest("r", "", "anna", 100.0)
    assert len(load_records(store.journal, "r")) == 1


def test_a_process_that_just_took_the_run_is_asked_to_stop(store: LocalRunStore) -> None:
    """It gets the request although nobody drove the run a moment ago."""
    with store.journal.lock("r"):
        assert store.cancel("r", by="anna") is None
    assert store.mailbox.cancel_requests("r") == 1


def test_a_finished_run_cannot_be_cancelled(store: LocalRunStore) -> None:
    """It is refused, and nothing is recorded."""
    fail(store)
    before = store.journal.last("r")
    with pytest.raises(RunFinished) as refused:
        store.cancel("r", by="anna")
    assert refused.value.exit_code is ExitCode.RUN_FAILED
    assert store.journal.last("r") == before


def test_an_unknown_run_cannot_be_cancelled(store: LocalRunStore) -> None:
    """It leaves no request and no lock behind."""
    with pytest.raises(UnknownRun):
        store.cancel("nobody", by="anna")
    assert store.mailbox.cancel_requests("nobody") == 0
    assert not (store.directory / "locks").exists()


def test_a_run_is_found_by_its_beginning() -> None:
    """A full id, a unique beginning, `latest` and `-` name a run."""
    runs = ["20261116-083012-aaaaa", "20261117-083012-bbbbb", "20261117-083012-b"]
    assert find_run("20261116", runs) == runs[0]
    assert find_run(runs[2], runs) == runs[2]
    assert find_run("latest", runs) == find_run("-", runs) == runs[2]


@pytest.mark.parametrize(
    ("name", "runs", "named"),
    [
        ("run-0", ["run-1", "other", "run-3", "run-2"], "run-2, run-3 or run-1"),  # those like it
        ("0", ["rz", "ra", "rm"], "rm, ra and rz"),  # none is like it
        ("r", ["rz", "ra", "rm"], "rm, ra and rz"),  # it means several
    ],
)
def test_a_name_that_means_no_single_run_is_answered_with_the_newest(name: str, runs: list[str], named: str) -> None:
    """The error names the runs that may be meant, newest first, whatever they are called."""
    with pytest.raises(AwfError) as error:
        find_run(name, runs)
    assert named in str(error.value.help)


def test_latest_needs_a_run() -> None:
    """Without runs, `latest` is unknown."""
    with pytest.raises(UnknownRun):
        find_run("latest", [])

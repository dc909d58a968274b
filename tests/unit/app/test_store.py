"""Answering and stopping runs that no process is at: what is checked, what is kept, what is told."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.unit.app.gate import CREATED, question

from pipeline.app.runs import load_state
from pipeline.app.store import (
    AlreadyAnswered,
    Desk,
    InvalidAnswer,
    NotWaiting,
    RunFinished,
    answer,
    cancel,
    find_question,
)
from pipeline.engine.machine import complete
from pipeline.engine.outcome import Outcome, Status, stage_operations
from pipeline.engine.ports import CancelRequest
from pipeline.engine.records import RunCancelled, RunWaiting
from pipeline.engine.state import RunStatus
from pipeline.errors import AwfError, ExitCode
from pipeline.handlers.human import HumanReply, choice_outcome
from pipeline.journal.lock import lock_run
from pipeline.journal.memory import MemoryJournal, MemoryMailbox
from pipeline.language.model import HumanStage
from pipeline.redaction import redactor_of

SECRET = "s3cret-s3cret-s3cret"  # noqa: S105 - nobody's


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    journal = MemoryJournal()
    journal.create("r", CREATED)
    ticks = count(100)
    return Desk(tmp_path, journal, MemoryMailbox(), lambda: float(next(ticks)), redactor_of({"API_TOKEN": SECRET}))


@pytest.fixture
def driven(desk: Desk) -> Iterator[None]:
    """Somebody is at the run."""
    with lock_run(desk.store / "locks", "r", lambda: 0.0):
        yield


def taken_up(desk: Desk, option: str, feedback: str = "") -> None:
    """What the process at the run does with an answer."""
    state = load_state(desk.journal, "r")
    assert isinstance(state.stage, HumanStage)
    outcome = choice_outcome(state.stage, HumanReply(option, feedback, by="anna"))
    operations = stage_operations(state.stage, outcome)
    desk.journal.append("r", complete(state, outcome, operations, 50.0, option=option))


def done(desk: Desk, status: Status) -> None:
    state = load_state(desk.journal, "r")
    desk.journal.append("r", complete(state, Outcome(status=status), (), 60.0))


def test_what_a_run_asks(desk: Desk) -> None:
    """Everything a person needs: the text with its variables, options, details, and what was said before."""
    found = find_question(desk, "r")
    assert found is not None
    assert (found.question, found.earlier, found.answered, found.driven) == (question(), (), None, False)
    assert (found.question.text, found.question.details) == ("Is it good?", (("graph.name", "W"),))
    assert found.question.needs_feedback == {"no"}
    taken_up(desk, "no", "Not yet.")
    again = find_question(desk, "r")
    assert again is not None
    assert again.question.visit == 2
    assert [(one.visit, one.option, one.feedback, one.by, one.at) for one in again.earlier] == [
        (1, "no", "Not yet.", "anna", 50.0)
    ]


def test_a_run_at_work_or_at_its_end_asks_nothing(desk: Desk) -> None:
    """There is no question, and no error."""
    taken_up(desk, "yes")
    assert find_question(desk, "r") is None
    done(desk, Status.FAIL)
    assert load_state(desk.journal, "r").status is RunStatus.FAIL
    assert find_question(desk, "r") is None


def test_an_answer_is_kept_for_the_visit_that_waits(desk: Desk) -> None:
    """With its writer and time, without secrets, whether the run was recorded as waiting or not."""
    desk.journal.append("r", RunWaiting(at=2.0, stage="ask", visit=1))
    given = answer(desk, "r", "NO", by="anna", stage="ask", feedback=f"It shows {SECRET}.")
    kept = given.answer
    assert (kept.run_id, kept.stage, kept.visit, kept.option, kept.by, kept.at) == ("r", "ask", 1, "no", "anna", 100.0)
    assert SECRET not in kept.feedback
    assert not given.driven
    found = find_question(desk, "r")
    assert found is not None
    assert found.answered == kept == desk.letters.answer("r", "ask", 1)


@pytest.mark.usefixtures("driven")
def test_whether_a_process_will_take_it_up_is_told(desk: Desk) -> None:
    """A caller can say what happens next."""
    found = find_question(desk, "r")
    assert found is not None
    assert found.driven
    assert answer(desk, "r", "yes", by="anna").driven


@pytest.mark.parametrize(
    ("words", "error", "message", "help"),
    [
        ({"option": "yse"}, InvalidAnswer, '"yse" is none of the options of "ask": yes, no', 'did you mean "yes"?'),
        ({"option": "xx"}, InvalidAnswer, '"xx" is none of the options', "see what each does with: awf answer r"),
        ({"option": "no"}, InvalidAnswer, 'the option "no" needs feedback', "add --feedback TEXT"),
        ({"option": "no", "feedback": " \n"}, InvalidAnswer, 'the option "no" needs feedback', "add --feedback TEXT"),
        ({"option": "yes", "stage": "aks"}, NotWaiting, 'wait for a person at "aks"', 'did you mean "ask"?'),
        ({"option": "yes", "stage": "work"}, NotWaiting, 'at "work"', 'it waits at "ask", visit 1'),
        ({"option": "yes", "visit": 2}, NotWaiting, "run r does not wait", 'it waits at "ask", visit 1'),
    ],
)
def test_what_is_no_answer_is_refused(
    desk: Desk, words: dict[str, object], error: type[AwfError], message: str, help: str
) -> None:
    """The error says what is wrong and what was probably meant; nothing is kept."""
    with pytest.raises(error, match=message) as refused:
        answer(desk, "r", by="anna", **words)  # type: ignore[arg-type]  # a table of words
    assert refused.value.help == help
    assert refused.value.exit_code is ExitCode.USAGE
    assert desk.letters.answer("r", "ask", 1) is None


def test_the_second_to_answer_is_told_of_the_first(desk: Desk) -> None:
    """Who, what and when: while the answer waits, after it was taken up, and when the same stage asks again."""
    first = answer(desk, "r", "no", by="anna", feedback="Not yet.").answer
    for moment in ("kept", "taken up"):
        with pytest.raises(AlreadyAnswered) as late:
            answer(desk, "r", "yes", by="ben", stage="ask", visit=1)
        assert late.value.kept == first, moment
        assert 'anna has answered "ask" #1 of run r already: "no", at 1970-01-01' in late.value.message
        assert (late.value.help, late.value.exit_code) == ("they said: Not yet.", ExitCode.RUN_FAILED)
        if moment == "kept":
            taken_up(desk, "no", "Not yet.")
    assert answer(desk, "r", "yes", by="ben", stage="ask").answer.visit == 2


@pytest.mark.parametrize("stage", ["", "ask"])
def test_the_answer_that_moved_the_run_on_is_told(desk: Desk, stage: str) -> None:
    """Whoever comes when the run is at work already learns why it does not wait."""
    answer(desk, "r", "yes", by="anna")
    taken_up(desk, "yes")
    with pytest.raises(AlreadyAnswered, match="anna has answered"):
        answer(desk, "r", "no", by="ben", stage=stage, feedback="Late.")


def test_a_run_at_work_that_nobody_answered_by_letter(desk: Desk) -> None:
    """The refusal says where it is."""
    taken_up(desk, "yes")
    with pytest.raises(NotWaiting, match="run r does not wait for a person") as refused:
        answer(desk, "r", "yes", by="ben")
    assert refused.value.help == 'it is running at "work"; look with: awf status r'


def test_a_run_that_nobody_drives_is_recorded_as_cancelled(desk: Desk) -> None:
    """As Ctrl-C records it, with the reason; once, and it can be resumed."""
    cancelled = cancel(desk, "r", by="anna", reason=f"wrong {SECRET}")
    assert (cancelled.recorded, SECRET in cancelled.reason) == (True, False)
    assert desk.journal.last("r").record == RunCancelled(at=100.0, stage="ask", visit=1, reason=cancelled.reason)
    assert cancelled.reason.startswith("by anna: wrong ")
    again = cancel(desk, "r", by="ben", reason="me too")
    assert again == cancelled
    assert len(list(desk.journal.entries("r"))) == 2
    assert desk.letters.cancel_requests("r") == 0
    assert find_question(desk, "r") is not None


@pytest.mark.usefixtures("driven")
def test_the_process_at_a_run_is_told_to_stop(desk: Desk) -> None:
    """Nothing is recorded in its place."""
    told = cancel(desk, "r", by="anna")
    assert (told.recorded, told.reason) == (False, "by anna")
    assert desk.letters.cancel_request("r", 0) == CancelRequest("r", "", "anna", 100.0)
    assert len(list(desk.journal.entries("r"))) == 1


def test_a_process_that_has_just_come_is_told(desk: Desk) -> None:
    """Who takes the run between the look and the record gets the wish."""
    with desk.journal.lock("r"):
        assert not cancel(desk, "r", by="anna").recorded
    assert desk.letters.cancel_requests("r") == 1


def test_a_run_that_is_over_stays_so(desk: Desk) -> None:
    """It is refused, and nothing is added."""
    taken_up(desk, "yes")
    done(desk, Status.FAIL)
    before = desk.journal.last("r")
    with pytest.raises(RunFinished, match=r"run r is over \(fail\)") as refused:
        cancel(desk, "r", by="anna")
    assert refused.value.exit_code is ExitCode.RUN_FAILED
    assert desk.journal.last("r") == before

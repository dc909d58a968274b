"""Human stages: a choice, no answer yet, and an answer that is too late."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.handlers.jobs import job_of

from pipeline.engine.context import Key
from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Job, Waiting
from pipeline.engine.state import Progress
from pipeline.handlers.human import HumanHandler, choice_outcome
from pipeline.handlers.questions import AutoApprove, Question, Reply, Responder, Silent
from pipeline.language.model import HumanOption, HumanStage

YES, NO = HumanOption(key="yes", label="Merge it", to="merge"), HumanOption(key="no", label="Try again", to="fix")


def stage(**more: Any) -> HumanStage:
    return HumanStage(id="ask", prompt="Good?", options=(YES, NO), **more)


@dataclass
class FakeResponder(Silent):
    """Gives a reply, or never returns."""

    reply: Reply | None = None
    silent: bool = False
    asked: list[Question] = field(default_factory=list)

    async def ask(self, question: Question) -> Reply | None:
        self.asked.append(question)
        if self.silent:
            await asyncio.Event().wait()
        return self.reply


def run_stage(responder: Responder, job: Job, now: float = 100.0) -> Outcome | Waiting:
    return asyncio.run(HumanHandler(responder, lambda: now, lambda _, default: default).run(job))


def test_a_choice_is_recorded() -> None:
    """The option, its label, the feedback, and who gave it."""
    outcome = choice_outcome(stage(), Reply("no", "too slow", by="anna"))
    assert (outcome.status, outcome.source, outcome.response) == (Status.SUCCESS, StatusSource.HUMAN, "too slow")
    assert outcome.updates == {
        Key.HUMAN_SELECTED: "no",
        Key.HUMAN_LABEL: "Try again",
        Key.HUMAN_FEEDBACK: "too slow",
        Key.HUMAN_BY: "anna",
    }


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("perhaps"), 'unknown option "perhaps"; the options are yes, no'),
        (Reply("no"), 'the option "no" needs feedback, and none was given'),
        (Reply("no", "  \n"), 'the option "no" needs feedback, and none was given'),
    ],
)
def test_an_invalid_choice_fails_the_stage(reply: Reply, reason: str) -> None:
    """An unknown option, or one without the feedback it needs, is not interpreted."""
    outcome = choice_outcome(stage(require_feedback_on=("no",)), reply)
    assert (outcome.status, outcome.reason, outcome.updates) == (Status.FAIL, reason, {})


@pytest.mark.parametrize("timeout", [None, timedelta(seconds=60)])
def test_a_run_waits_if_nobody_can_answer(tmp_path: Path, timeout: timedelta | None) -> None:
    """Forever, or until the timeout."""
    assert run_stage(FakeResponder(), job_of(stage(timeout=timeout), tmp_path)) == Waiting()


@pytest.mark.parametrize("silent", [True, False])
def test_after_the_timeout_the_default_counts(tmp_path: Path, *, silent: bool) -> None:
    """The time counts from the first question, whether or not anybody can answer now; the source is recorded."""
    job = job_of(stage(timeout=timedelta(seconds=60), default="no"), tmp_path)
    job = job._replace(state=job.state._replace(progress=Progress(asked_at=39.0)))
    outcome = run_stage(FakeResponder(silent=silent), job)
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.source) == (Status.SUCCESS, StatusSource.DEFAULT)
    assert (outcome.updates[Key.HUMAN_SELECTED], outcome.response) == ("no", "nobody answered in time")


@pytest.mark.parametrize("default", ["yes", None])
def test_an_answer_at_the_last_moment_counts(tmp_path: Path, default: str | None) -> None:
    """It replaces the default, and the failure of a stage without one."""
    job = job_of(stage(timeout=timedelta(seconds=60), default=default), tmp_path)
    job = job._replace(state=job.state._replace(progress=Progress(asked_at=0.0)))
    handler = HumanHandler(FakeResponder(), lambda: 100.0, lambda *_: Reply("no", "Wait.", by="anna"))
    outcome = asyncio.run(handler.run(job))
    assert isinstance(outcome, Outcome)
    assert (outcome.updates[Key.HUMAN_SELECTED], outcome.updates[Key.HUMAN_BY]) == ("no", "anna")


def test_without_a_default_a_timeout_is_a_failure(tmp_path: Path) -> None:
    """Silence is never approval."""
    job = job_of(stage(timeout=timedelta(seconds=60)), tmp_path)
    job = job._replace(state=job.state._replace(progress=Progress(asked_at=0.0)))
    outcome = run_stage(FakeResponder(), job)
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.reason) == (
        Status.FAIL,
        "nobody answered in time, and the stage has no default option",
    )


def test_a_question_is_complete(tmp_path: Path) -> None:
    """It has the text with its variables replaced, the options, which of them approve, and which need a reason."""
    responder = FakeResponder(Reply("yes"))
    asking = stage(require_feedback_on=("no",), details_from=("graph.goal", "not.there"))
    run_stage(responder, job_of(asking.model_copy(update={"prompt": "Good: $goal?"}), tmp_path))
    (question,) = responder.asked
    assert (question.text, question.keys) == ("Good: a goal?", ("yes", "no"))
    assert [(option.approves, option.needs_feedback) for option in question.options] == [(True, False), (False, True)]
    assert question.values == (("graph.goal", "a goal"),)


def test_auto_approval_never_wins_over_an_objection(tmp_path: Path) -> None:
    """While something is against the change the run waits for a person, and says what it is."""
    handler = partial(HumanHandler, AutoApprove(), lambda: 0.0, lambda _, default: default)
    approved = asyncio.run(handler().run(job_of(stage(), tmp_path)))
    assert isinstance(approved, Outcome)
    assert (approved.source, approved.updates[Key.HUMAN_SELECTED]) == (StatusSource.OVERRIDE, "yes")
    assert asyncio.run(handler(lambda _state: "FAIL").run(job_of(stage(), tmp_path))) == Waiting("FAIL")


def test_after_the_timeout_no_default_approves_against_an_objection(tmp_path: Path) -> None:
    """The run waits for a person, who can still answer; a default that approves nothing counts."""

    def after_timeout(default: str, reply: Reply | None = None, *, silent: bool = False, asked: float = 0.0) -> Any:
        job = job_of(stage(timeout=timedelta(seconds=60), default=default), tmp_path)
        job = job._replace(state=job.state._replace(progress=Progress(asked_at=asked)))
        responder = FakeResponder(reply, silent=silent)
        handler = HumanHandler(responder, lambda: 100.0, lambda _, default: default, lambda _state: "FAIL")
        return asyncio.run(handler.run(job))

    assert after_timeout("yes") == Waiting("FAIL")
    assert after_timeout("yes", silent=True, asked=40.01) == Waiting("FAIL")
    assert after_timeout("yes", Reply("yes", by="anna")).updates[Key.HUMAN_BY] == "anna"
    assert after_timeout("no").updates[Key.HUMAN_SELECTED] == "no"

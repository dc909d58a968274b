"""Human stages: a person chooses one of the options, or the run waits. Nothing typed is ever guessed at."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pipeline.engine.context import Key
from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Job, Waiting
from pipeline.engine.routing import approving_options
from pipeline.engine.state import State
from pipeline.handlers.variables import context_text, expand_prompt
from pipeline.language.model import HumanOption, HumanStage


@dataclass(frozen=True, slots=True)
class HumanQuestion:
    """What a person is asked, and what they may answer."""

    run_id: str
    stage: str
    visit: int
    text: str
    options: tuple[HumanOption, ...]
    approving: tuple[HumanOption, ...]
    details: tuple[tuple[str, str], ...]  # context values that help to decide
    needs_feedback: frozenset[str]  # the keys of options that need a reason

    def fits(self, option: str, feedback: str) -> bool:
        """Whether this is an answer to it."""
        lacking = option in self.needs_feedback and not feedback.strip()
        return any(one.key == option for one in self.options) and not lacking


@dataclass(frozen=True, slots=True)
class HumanReply:
    """A choice, and whose it was."""

    option: str
    feedback: str = ""
    source: StatusSource = StatusSource.HUMAN
    by: str = ""  # the name of the person, where it is known


class Responder(Protocol):
    """Whoever can be asked. None means that nobody is there now."""

    async def ask(self, question: HumanQuestion) -> HumanReply | None: ...


Settle = Callable[[HumanQuestion, HumanReply | None], HumanReply | None]


def _undisputed(question: HumanQuestion, default: HumanReply | None) -> HumanReply | None:
    """Nobody else can have answered."""
    del question
    return default


class HumanHandler:
    """Asks, and waits when nobody is there; after the stage's timeout its default is taken.

    `settle` says what counts then: the default, or an answer that came at the last moment.
    """

    def __init__(self, people: Responder, now: Callable[[], float], settle: Settle = _undisputed) -> None:
        self._people = people
        self._now = now
        self._settle = settle

    async def run(self, job: Job) -> Outcome | Waiting:
        stage = job.stage
        assert isinstance(stage, HumanStage)  # noqa: S101 - the registry sees to it
        left, question = self._time_left(job, stage), build_question(job.state, stage, job.visit)
        try:
            async with asyncio.timeout(left):
                reply = await self._people.ask(question)
        except TimeoutError:
            return self._timed_out(stage, question)
        if reply is None:
            return Waiting() if left is None or left > 0 else self._timed_out(stage, question)
        return choice_outcome(stage, reply)

    def _timed_out(self, stage: HumanStage, question: HumanQuestion) -> Outcome:
        default = HumanReply(stage.default, "nobody answered in time", StatusSource.DEFAULT) if stage.default else None
        reply = self._settle(question, default)
        if reply is None:
            return Outcome(status=Status.FAIL, reason="nobody answered in time, and the stage has no default option")
        return choice_outcome(stage, reply)

    def _time_left(self, job: Job, stage: HumanStage) -> float | None:
        if stage.timeout is None:
            return None
        asked = job.state.progress.asked_at
        return stage.timeout.total_seconds() - (self._now() - asked if asked is not None else 0.0)


def choice_outcome(stage: HumanStage, reply: HumanReply) -> Outcome:
    """The outcome of a choice; one that does not exist, or lacks its feedback, fails the stage."""
    option = next((option for option in stage.options if option.key == reply.option), None)
    if option is None:
        keys = ", ".join(option.key for option in stage.options)
        return Outcome(status=Status.FAIL, reason=f'"{reply.option}" is none of the options {keys}')
    if option.key in stage.require_feedback_on and not reply.feedback.strip():
        return Outcome(status=Status.FAIL, reason=f'the option "{option.key}" needs feedback, and none was given')
    updates = {
        Key.HUMAN_SELECTED: option.key,
        Key.HUMAN_LABEL: option.label,
        Key.HUMAN_FEEDBACK: reply.feedback,
        Key.HUMAN_BY: reply.by,
    }
    return Outcome(status=Status.SUCCESS, source=reply.source, response=reply.feedback, updates=updates)


def build_question(state: State, stage: HumanStage, visit: int) -> HumanQuestion:
    """What is asked at a human stage of a run that stands there."""
    context = state.context
    return HumanQuestion(
        run_id=state.run_id,
        stage=stage.id,
        visit=visit,
        text=expand_prompt(stage.prompt, state.goal, context),
        options=stage.options,
        approving=approving_options(stage),
        details=tuple((key, context_text(context, key)) for key in stage.details_from if key in context),
        needs_feedback=frozenset(stage.require_feedback_on),
    )

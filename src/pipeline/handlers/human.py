"""Human stages: a person chooses one of the options, or the run waits. An unclear answer is never interpreted."""

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
    needs_feedback: frozenset[str]  # keys of the options that need a reason

    def accepts(self, option: str, feedback: str) -> bool:
        """Whether this is a valid answer."""
        is_known = any(option == known.key for known in self.options)
        return is_known and (option not in self.needs_feedback or bool(feedback.strip()))


@dataclass(frozen=True, slots=True)
class HumanReply:
    """A choice, and who made it."""

    option: str
    feedback: str = ""
    source: StatusSource = StatusSource.HUMAN
    by: str = ""  # the person's name, if it is known


class Responder(Protocol):
    """Answers questions, or returns None if nobody can answer now."""

    async def ask(self, question: HumanQuestion) -> HumanReply | None: ...


ResolveTimeout = Callable[[HumanQuestion, HumanReply | None], HumanReply | None]


class HumanHandler:
    """Asks, and lets the run wait if nobody can answer; after the stage's timeout its default counts.

    `resolve_timeout` may replace that default with an answer that arrived at the last moment.
    """

    def __init__(self, responder: Responder, now: Callable[[], float], resolve_timeout: ResolveTimeout) -> None:
        self._responder = responder
        self._now = now
        self._resolve_timeout = resolve_timeout

    async def run(self, job: Job) -> Outcome | Waiting:
        stage = job.stage
        assert isinstance(stage, HumanStage)  # noqa: S101 - ensured by the registry
        remaining, question = self._remaining(job, stage), build_question(job.state, stage, job.visit)
        try:
            async with asyncio.timeout(remaining):
                reply = await self._responder.ask(question)
        except TimeoutError:
            return self._time_out(stage, question)
        if reply is not None:
            return choice_outcome(stage, reply)
        return Waiting() if remaining is None or remaining > 0 else self._time_out(stage, question)

    def _remaining(self, job: Job, stage: HumanStage) -> float | None:
        """Seconds until the stage's timeout, counted from when it was first asked; None without a timeout."""
        if stage.timeout is None:
            return None
        asked = job.state.progress.asked_at
        return stage.timeout.total_seconds() - (self._now() - asked if asked is not None else 0.0)

    def _time_out(self, stage: HumanStage, question: HumanQuestion) -> Outcome:
        default = HumanReply(stage.default, "nobody answered in time", StatusSource.DEFAULT) if stage.default else None
        reply = self._resolve_timeout(question, default)
        if reply is None:
            return Outcome(status=Status.FAIL, reason="nobody answered in time, and the stage has no default option")
        return choice_outcome(stage, reply)


def choice_outcome(stage: HumanStage, reply: HumanReply) -> Outcome:
    """The outcome of a choice; an unknown option, or one without its feedback, fails the stage."""
    option = next((option for option in stage.options if option.key == reply.option), None)
    if option is None:
        keys = ", ".join(option.key for option in stage.options)
        return Outcome(status=Status.FAIL, reason=f'unknown option "{reply.option}"; the options are {keys}')
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
    """The question of a human stage that a run has reached."""
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

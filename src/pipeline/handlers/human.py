"""Human stages: a person chooses one of the options, or the run waits. An unclear answer is never interpreted."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from pipeline.engine.context import Key
from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Job, Waiting
from pipeline.engine.routing import approving_options
from pipeline.engine.state import State
from pipeline.handlers.questions import Option, Question, Reply, Responder
from pipeline.handlers.variables import context_text, expand_prompt
from pipeline.language.model import HumanStage

Objection = Callable[[State], str | None]
"""Says why nobody but a person may approve now."""
ResolveTimeout = Callable[[Question, Reply | None], Reply | None]


class HumanHandler:
    """Asks, and lets the run wait if nobody can answer; after the stage's timeout its default counts.

    `resolve_timeout` may replace that default with an answer that arrived at the last moment. An approving default does
    not count while `objection` says why nobody but a person may approve.
    """

    def __init__(
        self,
        responder: Responder,
        now: Callable[[], float],
        resolve_timeout: ResolveTimeout,
        objection: Objection = lambda _state: None,
    ) -> None:
        self._responder = responder
        self._now = now
        self._resolve_timeout = resolve_timeout
        self._objection = objection

    async def run(self, job: Job) -> Outcome | Waiting:
        stage = job.stage
        assert isinstance(stage, HumanStage)  # noqa: S101 - ensured by the registry
        question = build_question(job.state, stage, job.visit)
        question = replace(question, objection=self._objection(job.state) or "")
        remaining = self._remaining(job, stage, question)
        try:
            async with asyncio.timeout(remaining):
                reply = await self._responder.ask(question)
        except TimeoutError:
            return self._time_out(stage, question)
        finally:
            self._responder.leave()
        if reply is not None:
            return choice_outcome(stage, reply)
        if remaining is None or remaining > 0:
            return Waiting(question.objection)
        return self._time_out(stage, question)

    def _remaining(self, job: Job, stage: HumanStage, question: Question) -> float | None:
        """Seconds until the stage's timeout, counted from when it was first asked; None if none ends the wait."""
        if stage.timeout is None:
            return None
        asked = job.state.progress.asked_at
        remaining = stage.timeout.total_seconds() - (self._now() - asked if asked is not None else 0.0)
        return None if remaining <= 0 and _is_withheld(stage, question) else remaining

    def _time_out(self, stage: HumanStage, question: Question) -> Outcome | Waiting:
        """Choose the default, unless nobody but a person may choose it."""
        withheld = _is_withheld(stage, question)
        default: Reply | None = None
        if stage.default and not withheld:
            default = Reply(stage.default, "nobody answered in time", StatusSource.DEFAULT)
        reply = self._resolve_timeout(question, default)
        if reply is not None:
            return choice_outcome(stage, reply)
        if withheld:
            return Waiting(question.objection)
        return Outcome(status=Status.FAIL, reason="nobody answered in time, and the stage has no default option")


def _is_withheld(stage: HumanStage, question: Question) -> bool:
    """Return whether the default approves against an objection: nobody approves by not answering."""
    approving = {option.key for option in question.options if option.approves}
    return bool(question.objection) and stage.default in approving


def choice_outcome(stage: HumanStage, reply: Reply) -> Outcome:
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


def build_question(state: State, stage: HumanStage, visit: int) -> Question:
    """The question of a human stage that a run has reached."""
    context = state.context
    approving = approving_options(stage)
    return Question(
        text=expand_prompt(stage.prompt, state.goal, context),
        options=tuple(
            Option(
                option.key,
                option.label,
                approves=option in approving,
                needs_feedback=option.key in stage.require_feedback_on,
            )
            for option in stage.options
        ),
        values=tuple((key, context_text(context, key)) for key in stage.details_from if key in context),
        run_id=state.run_id,
        stage=stage.id,
        visit=visit,
    )

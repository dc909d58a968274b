"""People elsewhere: they answer a waiting run, or stop it, through the letter-box. Who is at the run looks into it.

A letter is read and never taken out: what makes an answer count is the record of the visit that it is about.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pipeline.engine.driver import Driver
from pipeline.engine.outcome import StatusSource
from pipeline.engine.ports import HumanAnswer, JournalError, Mailbox
from pipeline.errors import AwfError
from pipeline.handlers.human import HumanQuestion, HumanReply, Responder
from pipeline.language.model import HumanStage, Workflow
from pipeline.redaction import Redactor
from pipeline.text import did_you_mean

T = TypeVar("T")
Pause = Callable[[], Awaitable[None]]

POLL_INTERVAL = 0.3  # seconds between two looks into the letter-box
TIMEOUT = "the timeout"  # whose answer a default is, to those who come too late


async def a_while() -> None:
    """Let the time between two looks pass."""
    await asyncio.sleep(POLL_INTERVAL)


async def poll(look: Callable[[], T | None], pause: Pause) -> T:
    """What a look finds, as soon as it finds something. A store that cannot be read is looked at again.

    Whether that is the end of the run is decided where the run is recorded.
    """
    while True:
        with suppress(JournalError):
            if (found := look()) is not None:
                return found
        await pause()


class MailboxResponder:
    """Somebody who has left an answer to exactly this visit."""

    def __init__(self, letters: Mailbox) -> None:
        self._letters = letters

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        return self.look(question)

    def look(self, question: HumanQuestion) -> HumanReply | None:
        """The answer that is there, unless the workflow has changed so that it is none any more."""
        answer = self._letters.answer(question.run_id, question.stage, question.visit)
        return _reply(answer) if answer and question.fits(answer.option, answer.feedback) else None


@dataclass(frozen=True, slots=True)
class FirstResponder:
    """Whoever is here, and whoever answers from elsewhere meanwhile: the first answer counts, and is kept.

    When nobody here can answer, nobody is waited for unless `stay`.
    """

    here: Responder
    letters: Mailbox
    now: Callable[[], float]
    redactor: Redactor
    pause: Pause = a_while
    stay: bool = False

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        box = MailboxResponder(self.letters)
        here = asyncio.ensure_future(self.here.ask(question))
        elsewhere = asyncio.ensure_future(poll(lambda: box.look(question), self.pause))
        try:
            await asyncio.wait((here, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            if not elsewhere.done() and (reply := here.result()):
                return self._kept(question, reply)
            return await elsewhere if self.stay or elsewhere.done() else box.look(question)
        finally:
            here.cancel(_told(elsewhere))
            elsewhere.cancel()
            await asyncio.wait((here, elsewhere))  # a terminal is given back before anything else happens

    def settle(self, question: HumanQuestion, default: HumanReply | None) -> HumanReply | None:
        """What counts when the time is up; a default is kept like an answer, so that nobody is told theirs does."""
        return self._kept(question, default) if default else MailboxResponder(self.letters).look(question)

    def _kept(self, question: HumanQuestion, reply: HumanReply) -> HumanReply:
        """The answer that counts: somebody elsewhere may have been quicker by a moment."""
        feedback = self.redactor.text(reply.feedback)
        visit = (question.run_id, question.stage, question.visit)
        by = TIMEOUT if reply.source is StatusSource.DEFAULT else reply.by
        kept = self.letters.put_answer(HumanAnswer(*visit, reply.option, feedback, by, self.now()))
        return _reply(kept) if question.fits(kept.option, kept.feedback) else reply


def _reply(answer: HumanAnswer) -> HumanReply:
    if answer.by == TIMEOUT:
        return HumanReply(answer.option, answer.feedback, StatusSource.DEFAULT)
    return HumanReply(answer.option, answer.feedback, by=answer.by)


def _told(elsewhere: "asyncio.Future[HumanReply]") -> str:
    """What whoever is asked here is told when the question is taken away."""
    if not elsewhere.done() or elsewhere.cancelled():
        return ""
    return f"{elsewhere.result().by or 'somebody'} answered: {elsewhere.result().option}"


@contextmanager
def cancel_on_request(driver: Driver, letters: Mailbox, heard: int) -> Iterator[None]:
    """Cancel the task that drives a run, as Ctrl-C does, when somebody elsewhere wishes it."""
    driving = asyncio.current_task()
    run_id = driver.state.run_id

    async def listen() -> None:
        wish = await poll(lambda: letters.cancel_request(run_id, heard), a_while)
        driver.cancelled_because = str(wish)
        if driving is not None:
            driving.cancel()

    listening = asyncio.ensure_future(listen())
    try:
        yield
    finally:
        listening.cancel()


_EXAMPLE = 'write {"stage": ["option", {"option": "revise", "feedback": "why"}]}, one for each visit'


class FileResponder:
    """Answers by stage and visit: an option's key, or an object with `option` and `feedback`."""

    def __init__(self, answers: Mapping[str, Sequence[Any]]) -> None:
        self._answers = answers

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        given = self._answers.get(question.stage, ())
        if question.visit > len(given):
            return None
        answer = given[question.visit - 1]
        if not isinstance(answer, dict):
            return HumanReply(str(answer))
        return HumanReply(answer["option"], answer.get("feedback", ""))


class AutoApprove:
    """Takes the approving option, and says that nobody was asked."""

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        return HumanReply(question.approving[0].key, "approved in advance", StatusSource.OVERRIDE)


class ResponderChain:
    """Asks one after the other until somebody answers."""

    def __init__(self, people: Sequence[Responder]) -> None:
        self._people = people

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        for person in self._people:
            reply = await person.ask(question)
            if reply is not None:
                return reply
        return None


def read_answers(text: str) -> dict[str, list[Any]]:
    """The answers of a file, or an error that says what is wrong with them."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AwfError(f"the answers are not JSON: {error}", help=_EXAMPLE) from None
    if not isinstance(data, dict):
        raise AwfError("the answers are no object with the names of stages", help=_EXAMPLE)
    return {stage: _checked(stage, given) for stage, given in data.items()}


def _checked(stage: str, given: Any) -> list[Any]:
    answers = given if isinstance(given, list) else [given]
    for number, answer in enumerate(answers, 1):
        whole = isinstance(answer, dict) and isinstance(answer.get("option"), str)
        words = answer if isinstance(answer, list) else [answer]  # a triage takes several at a visit
        if not all(isinstance(word, str) for word in words) and not (whole and set(answer) <= {"option", "feedback"}):
            said = (
                f'answer {number} for "{stage}" is neither an option\'s key nor an object with "option" and "feedback"'
            )
            raise AwfError(said, help=_EXAMPLE)
    return answers


def check_answers(answers: Mapping[str, Sequence[Any]], workflow: Workflow) -> None:
    """Refuse an answer that its stage cannot take: when it is reached, hours later, that would end the run."""
    for stage in workflow.stages:
        if isinstance(stage, HumanStage):
            for number, answer in enumerate(answers.get(stage.id, ()), 1):
                _check_answer(stage, number, answer if isinstance(answer, dict) else {"option": str(answer)})


def _check_answer(stage: HumanStage, number: int, answer: Mapping[str, str]) -> None:
    option, keys = answer["option"], [option.key for option in stage.options]
    said = f'answer {number} for "{stage.id}" is "{option}", '
    if option not in keys:
        help = did_you_mean(option, keys) or "name an option by its key"
        raise AwfError(f"{said}which is none of its options {', '.join(keys)}", help=help)
    if option in stage.require_feedback_on and not answer.get("feedback", "").strip():
        raise AwfError(f"{said}which needs feedback, and none is given", help=_EXAMPLE)

"""People elsewhere: they answer a waiting run, or stop it, through the letter-box. Who is at the run looks into it.

A letter is read and never taken out: what makes an answer count is the record of the visit that it is about.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from pipeline.engine.outcome import Source
from pipeline.engine.ports import Answer, JournalError, Letters
from pipeline.engine.run import Driver
from pipeline.handlers.human import People, Question, Reply
from pipeline.redaction import Redactor

T = TypeVar("T")
Pause = Callable[[], Awaitable[None]]

LOOK_EVERY = 0.3  # seconds between two looks into the letter-box
TIMEOUT = "the timeout"  # whose answer a default is, to those who come too late


async def a_while() -> None:
    """Let the time between two looks pass."""
    await asyncio.sleep(LOOK_EVERY)


async def arrival(look: Callable[[], T | None], pause: Pause) -> T:
    """What a look finds, as soon as it finds something. A store that cannot be read is looked at again.

    Whether that is the end of the run is decided where the run is recorded.
    """
    while True:
        with suppress(JournalError):
            if (found := look()) is not None:
                return found
        await pause()


class Elsewhere:
    """Somebody who has left an answer to exactly this visit."""

    def __init__(self, letters: Letters) -> None:
        self._letters = letters

    async def ask(self, question: Question) -> Reply | None:
        return self.look(question)

    def look(self, question: Question) -> Reply | None:
        """The answer that is there, unless the workflow has changed so that it is none any more."""
        answer = self._letters.answer(question.run_id, question.stage, question.visit)
        return _reply(answer) if answer and question.fits(answer.option, answer.feedback) else None


@dataclass(frozen=True, slots=True)
class Beside:
    """Whoever is here, and whoever answers from elsewhere meanwhile: the first answer counts, and is kept.

    When nobody here can answer, nobody is waited for unless `stay`.
    """

    here: People
    letters: Letters
    now: Callable[[], float]
    redactor: Redactor
    pause: Pause = a_while
    stay: bool = False

    async def ask(self, question: Question) -> Reply | None:
        box = Elsewhere(self.letters)
        here = asyncio.ensure_future(self.here.ask(question))
        elsewhere = asyncio.ensure_future(arrival(lambda: box.look(question), self.pause))
        try:
            await asyncio.wait((here, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            if not elsewhere.done() and (reply := here.result()):
                return self._kept(question, reply)
            return await elsewhere if self.stay or elsewhere.done() else box.look(question)
        finally:
            here.cancel(_told(elsewhere))
            elsewhere.cancel()
            await asyncio.wait((here, elsewhere))  # a terminal is given back before anything else happens

    def settle(self, question: Question, default: Reply | None) -> Reply | None:
        """What counts when the time is up; a default is kept like an answer, so that nobody is told theirs does."""
        return self._kept(question, default) if default else Elsewhere(self.letters).look(question)

    def _kept(self, question: Question, reply: Reply) -> Reply:
        """The answer that counts: somebody elsewhere may have been quicker by a moment."""
        feedback = self.redactor.text(reply.feedback)
        visit = (question.run_id, question.stage, question.visit)
        by = TIMEOUT if reply.source is Source.DEFAULT else reply.by
        kept = self.letters.put(Answer(*visit, reply.option, feedback, by, self.now()))
        return _reply(kept) if question.fits(kept.option, kept.feedback) else reply


def _reply(answer: Answer) -> Reply:
    if answer.by == TIMEOUT:
        return Reply(answer.option, answer.feedback, Source.DEFAULT)
    return Reply(answer.option, answer.feedback, by=answer.by)


def _told(elsewhere: "asyncio.Future[Reply]") -> str:
    """What whoever is asked here is told when the question is taken away."""
    if not elsewhere.done() or elsewhere.cancelled():
        return ""
    return f"{elsewhere.result().by or 'somebody'} answered: {elsewhere.result().option}"


@contextmanager
def stopped_on_request(driver: Driver, letters: Letters, heard: int) -> Iterator[None]:
    """Cancel the task that drives a run, as Ctrl-C does, when somebody elsewhere wishes it."""
    driving = asyncio.current_task()
    run_id = driver.state.run_id

    async def listen() -> None:
        wish = await arrival(lambda: letters.cancellation(run_id, heard), a_while)
        driver.cancelled_because = wish.words()
        if driving is not None:
            driving.cancel()

    listening = asyncio.ensure_future(listen())
    try:
        yield
    finally:
        listening.cancel()

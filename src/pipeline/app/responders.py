"""The mailbox as one who answers human stages, alone or beside a person at the terminal; and files of answers."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pipeline.engine.driver import Driver
from pipeline.engine.outcome import StatusSource
from pipeline.engine.ports import HumanAnswer, JournalError, Mailbox
from pipeline.errors import AwfError
from pipeline.handlers.questions import Question, Reply, Responder, Silent
from pipeline.language.model import HumanStage, Workflow
from pipeline.redaction import Redactor
from pipeline.text import did_you_mean

T = TypeVar("T")

POLL_INTERVAL = 0.3  # seconds between two reads of the mailbox
TIMEOUT = "the timeout"  # who gave a default answer, as the mailbox records it
_EXAMPLE = 'write {"stage": ["option", {"option": "revise", "feedback": "why"}]}, one answer per visit'


async def poll(read: Callable[[], T | None], interval: float = POLL_INTERVAL) -> T:
    """Call `read` every `interval` seconds until it returns a value.

    A store that cannot be read for a moment is read again: the driver decides when a run is lost, not the mailbox.
    """
    while True:
        with suppress(JournalError):
            if (found := read()) is not None:
                return found
        await asyncio.sleep(interval)


class MailboxResponder(Silent):
    """Answers with what `awf answer` or the dashboard left for this visit.

    An answer stays in the mailbox: what makes it count is the record of the visit.
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    async def ask(self, question: Question) -> Reply | None:
        return self.read(question)

    def read(self, question: Question) -> Reply | None:
        """The answer left for a visit, unless a changed workflow no longer accepts it."""
        answer = self._mailbox.answer(question.run_id, question.stage, question.visit)
        return _to_reply(answer) if answer and question.accepts(answer.option, answer.feedback) else None


@dataclass(frozen=True, slots=True)
class FirstResponder:
    """Asks the person at the terminal while it polls the mailbox: the first answer counts, and is kept there.

    Without a person at the terminal it waits for the mailbox only if `stay`.
    """

    terminal: Responder
    mailbox: Mailbox
    now: Callable[[], float]
    redactor: Redactor
    stay: bool = False
    interval: float = POLL_INTERVAL

    async def ask(self, question: Question) -> Reply | None:
        inbox = MailboxResponder(self.mailbox)
        typed = asyncio.ensure_future(self.terminal.ask(question))
        sent = asyncio.ensure_future(poll(partial(inbox.read, question), self.interval))
        try:
            await asyncio.wait((typed, sent), return_when=asyncio.FIRST_COMPLETED)
            if not sent.done() and (reply := typed.result()):
                return self._keep(question, reply)
            return await sent if self.stay or sent.done() else inbox.read(question)
        finally:
            answer = sent.result() if sent.done() and not sent.cancelled() and not sent.exception() else None
            typed.cancel(f"{answer.by or 'somebody'} answered: {answer.option}" if answer else "")
            sent.cancel()
            await asyncio.wait((typed, sent))  # the terminal is released before anything else happens

    def tell(self, line: str) -> None:
        """Say it to the person at the terminal."""
        self.terminal.tell(line)

    def leave(self) -> None:
        """Release the person at the terminal."""
        self.terminal.leave()

    def settle(self, question: Question, default: Reply | None) -> Reply | None:
        """The answer that counts after the timeout; a default is kept too, so that a later answer is refused."""
        return self._keep(question, default) if default else MailboxResponder(self.mailbox).read(question)

    def _keep(self, question: Question, reply: Reply) -> Reply:
        """Put a reply into the mailbox and return the one that counts, which may have come a moment earlier."""
        by = TIMEOUT if reply.source is StatusSource.DEFAULT else reply.by
        visit = (question.run_id, question.stage, question.visit)
        feedback = self.redactor.text(reply.feedback)
        kept = self.mailbox.put_answer(HumanAnswer(*visit, reply.option, feedback, by, self.now()))
        return _to_reply(kept) if question.accepts(kept.option, kept.feedback) else reply


def _to_reply(answer: HumanAnswer) -> Reply:
    if answer.by == TIMEOUT:
        return Reply(answer.option, answer.feedback, StatusSource.DEFAULT)
    return Reply(answer.option, answer.feedback, by=answer.by)


@contextmanager
def cancel_on_request(driver: Driver, mailbox: Mailbox, seen: int) -> Iterator[None]:
    """Cancel the task that drives a run, as Ctrl-C does, when the mailbox gets more cancel requests than `seen`."""
    driving = asyncio.current_task()
    run_id = driver.state.run_id

    async def listen() -> None:
        request = await poll(lambda: mailbox.cancel_request(run_id, seen))
        driver.cancelled_because = str(request)
        if driving is not None:
            driving.cancel()

    listening = asyncio.ensure_future(listen())
    try:
        yield
    finally:
        listening.cancel()


def read_answers(text: str) -> dict[str, list[Any]]:
    """The answers in a file's text, by stage; raises AwfError when they are malformed."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AwfError(f"answers are not JSON: {error}", help=_EXAMPLE) from None
    if not isinstance(data, dict):
        raise AwfError("answers must be a JSON object keyed by stage", help=_EXAMPLE)
    answers = {stage: given if isinstance(given, list) else [given] for stage, given in data.items()}
    for stage, given in answers.items():
        for number, answer in enumerate(given, 1):
            if not _is_answer(answer):
                words = f'answer {number} for "{stage}" must be an option or an object with "option" and "feedback"'
                raise AwfError(words, help=_EXAMPLE)
    return answers


def _is_answer(answer: Any) -> bool:
    """Return whether this answers one visit: an option, an object, or a list of words for a triage."""
    match answer:
        case str():
            return True
        case list():
            return all(isinstance(word, str) for word in answer)
        case {"option": str(), **more}:
            return more.keys() <= {"feedback"} and isinstance(more.get("feedback", ""), str)
    return False


def check_answers(answers: Mapping[str, Sequence[Any]], workflow: Workflow) -> None:
    """Refuse an answer that its stage does not accept: it would end the run when the stage is reached, hours later."""
    for stage in workflow.stages:
        if not isinstance(stage, HumanStage):
            continue
        keys = [option.key for option in stage.options]
        for number, answer in enumerate(answers.get(stage.id, ()), 1):
            given = answer if isinstance(answer, dict) else {"option": str(answer)}
            option, where = given["option"], f'answer {number} for "{stage.id}"'
            if option not in keys:
                help = did_you_mean(option, keys) or "use the key of an option"
                raise AwfError(f'{where}: unknown option "{option}"; choose one of {", ".join(keys)}', help=help)
            if option in stage.require_feedback_on and not given.get("feedback", "").strip():
                raise AwfError(f'{where}: option "{option}" needs feedback', help=_EXAMPLE)

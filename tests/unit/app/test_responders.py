"""A question at the terminal and a mailbox beside it: the first answer counts. Nothing here waits for a clock."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.app.waiting_run import first_question

from pipeline.app.responders import FirstResponder, MailboxResponder, poll
from pipeline.engine.outcome import StatusSource
from pipeline.engine.ports import HumanAnswer, JournalError
from pipeline.handlers.questions import Question, Reply, Responder, Silent
from pipeline.journal.memory import MemoryMailbox
from pipeline.redaction import PATTERNS_ONLY, redactor_of

QUESTION = first_question()
ANNA = HumanAnswer("r", "ask", 1, "no", "Not yet.", "anna", 5.0)
NEVER = 3600.0  # seconds between two reads of the mailbox
SECRET = "s3cret-s3cret-s3cret"  # noqa: S105 - nobody's


class Nobody(Silent):
    """Nobody is at the terminal."""

    async def ask(self, question: Question) -> Reply | None:  # noqa: ARG002 - the port's signature
        return None


class Somebody(Silent):
    """Somebody at the terminal who replies after something else has happened."""

    def __init__(self, reply: Reply, before: Callable[[], object] = lambda: None) -> None:
        self._reply = reply
        self._before = before

    async def ask(self, question: Question) -> Reply | None:  # noqa: ARG002 - the port's signature
        self._before()
        return self._reply


class Thinker(Silent):
    """Somebody at the terminal who never replies."""

    def __init__(self) -> None:
        self.withdrawn: list[str] = []

    async def ask(self, question: Question) -> Reply | None:  # noqa: ARG002 - the port's signature
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as withdrawn:
            self.withdrawn.append(str(withdrawn))
            raise
        return None


def ask(terminal: Responder, mailbox: MemoryMailbox, *, interval: float = NEVER, stay: bool = False) -> Reply | None:
    responder = FirstResponder(terminal, mailbox, lambda: 7.0, redactor_of({"API_TOKEN": SECRET}), stay, interval)
    return asyncio.run(asyncio.wait_for(responder.ask(QUESTION), 10))


class LateMailbox(MemoryMailbox):
    """A mailbox that has Anna's answer when it is read for the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        self.reads += 1
        if self.reads == 2:
            self.put_answer(ANNA)
        return super().answer(run_id, stage, visit)


def test_an_answer_in_the_mailbox_withdraws_the_question_from_the_terminal() -> None:
    """Whoever was asked there sees who answered; the answer is the one that was sent."""
    thinker = Thinker()
    assert ask(thinker, LateMailbox(), interval=0.0) == Reply("no", "Not yet.", by="anna")
    assert thinker.withdrawn == ["anna answered: no"]


def test_an_answer_at_the_terminal_is_kept_in_the_mailbox_without_secrets() -> None:
    """Whoever answers later is told about it."""
    mailbox = MemoryMailbox()
    reply = ask(Somebody(Reply("no", f"It shows {SECRET}.", by="ben")), mailbox)
    kept = mailbox.answer("r", "ask", 1)
    assert kept is not None
    assert (kept.option, kept.by, kept.at) == ("no", "ben", 7.0)
    assert reply == Reply("no", kept.feedback, by="ben")
    assert SECRET not in kept.feedback


def test_an_answer_that_was_sent_a_moment_earlier_counts() -> None:
    """The one typed after it does not, even if the mailbox was not read in between."""
    mailbox = MemoryMailbox()
    terminal = Somebody(Reply("yes", by="ben"), before=lambda: mailbox.put_answer(ANNA))
    assert ask(terminal, mailbox) == Reply("no", "Not yet.", by="anna")


DEFAULT = Reply("yes", "nobody answered in time", StatusSource.DEFAULT)


def settle(mailbox: MemoryMailbox, default: Reply | None) -> Reply | None:
    return FirstResponder(Nobody(), mailbox, lambda: 7.0, PATTERNS_ONLY).settle(QUESTION, default)


@pytest.mark.parametrize("default", [DEFAULT, None])
def test_an_answer_that_was_sent_before_the_timeout_counts(default: Reply | None) -> None:
    """Its author was told so, even if the mailbox has not been read since."""
    mailbox = MemoryMailbox()
    mailbox.put_answer(ANNA)
    assert settle(mailbox, default) == Reply("no", "Not yet.", by="anna")


def test_a_default_answer_is_kept_in_the_mailbox() -> None:
    """A later answer is refused, and a process that resumes knows that nobody answered."""
    mailbox = MemoryMailbox()
    assert settle(mailbox, DEFAULT) == DEFAULT
    assert (mailbox.put_answer(ANNA).option, mailbox.put_answer(ANNA).by) == ("yes", "the timeout")
    assert MailboxResponder(mailbox).read(QUESTION) == DEFAULT


def test_without_a_person_at_the_terminal_the_mailbox_is_awaited_only_on_request() -> None:
    """Otherwise the run stops and waits."""
    assert ask(Nobody(), MemoryMailbox()) is None
    assert ask(Nobody(), LateMailbox(), interval=0.0, stay=True) == Reply("no", "Not yet.", by="anna")


@pytest.mark.parametrize("unfit", [replace(ANNA, option="gone"), replace(ANNA, feedback=" ")])
def test_an_answer_that_a_changed_workflow_does_not_accept_is_ignored(unfit: HumanAnswer) -> None:
    """People are asked again, and their answer counts."""
    mailbox = MemoryMailbox()
    mailbox.put_answer(unfit)
    assert asyncio.run(MailboxResponder(mailbox).ask(QUESTION)) is None
    assert ask(Somebody(Reply("yes", by="ben")), mailbox) == Reply("yes", by="ben")


def test_an_answer_counts_for_its_own_visit_only() -> None:
    """Nothing is answered twice by one answer."""
    mailbox = MemoryMailbox()
    mailbox.put_answer(ANNA)
    assert asyncio.run(MailboxResponder(mailbox).ask(QUESTION)) == Reply("no", "Not yet.", by="anna")
    assert asyncio.run(MailboxResponder(mailbox).ask(replace(QUESTION, visit=2))) is None


def test_a_store_that_cannot_be_read_for_a_moment_is_read_again() -> None:
    """A busy disk ends neither the polling nor the run."""
    reads = iter([JournalError("busy"), None, "an answer"])

    def read() -> str | None:
        found = next(reads)
        if isinstance(found, JournalError):
            raise found
        return found

    assert asyncio.run(poll(read, 0.0)) == "an answer"

"""A question at a terminal and a letter-box beside it: the first answer counts. Nothing here waits for a clock."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.app.gate import question

from pipeline.app.responders import FirstResponder, MailboxResponder, Pause, poll
from pipeline.engine.outcome import StatusSource
from pipeline.engine.ports import HumanAnswer, JournalError
from pipeline.handlers.human import HumanQuestion, HumanReply, Responder
from pipeline.journal.memory import MemoryMailbox
from pipeline.redaction import PATTERNS_ONLY, redactor_of

ASKED = question()
ANNA = HumanAnswer("r", "ask", 1, "no", "Not yet.", "anna", 5.0)
SECRET = "s3cret-s3cret-s3cret"  # noqa: S105 - nobody's


class Nobody:
    """Nobody is here."""

    async def ask(self, question: HumanQuestion) -> HumanReply | None:  # noqa: ARG002 - the port's signature
        return None


class Somebody:
    """Somebody here who says something, after something else has happened."""

    def __init__(self, reply: HumanReply, before: Callable[[], object] = lambda: None) -> None:
        self._reply = reply
        self._before = before

    async def ask(self, question: HumanQuestion) -> HumanReply | None:  # noqa: ARG002 - the port's signature
        self._before()
        return self._reply


class Thinker:
    """Somebody here who never gets to an answer."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def ask(self, question: HumanQuestion) -> HumanReply | None:  # noqa: ARG002 - the port's signature
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as taken_away:
            self.told.append(str(taken_away))
            raise
        return None


async def never() -> None:
    await asyncio.Event().wait()


def asked(here: Responder, letters: MemoryMailbox, pause: Pause = never, *, stay: bool = False) -> HumanReply | None:
    redactor = redactor_of({"API_TOKEN": SECRET})
    beside = FirstResponder(here, letters, lambda: 7.0, redactor, pause, stay)
    return asyncio.run(asyncio.wait_for(beside.ask(ASKED), 10))


def delivered(letters: MemoryMailbox, answer: HumanAnswer = ANNA) -> Pause:
    """A pause in which a letter comes."""

    async def pause() -> None:
        letters.put_answer(answer)

    return pause


def test_a_letter_takes_the_question_away_from_the_terminal() -> None:
    """Whoever was asked here is told who answered; the answer is as it was given."""
    letters, thinker = MemoryMailbox(), Thinker()
    assert asked(thinker, letters, delivered(letters)) == HumanReply("no", "Not yet.", by="anna")
    assert thinker.told == ["anna answered: no"]


def test_an_answer_here_is_kept_in_the_box_without_secrets() -> None:
    """It is on record for those who come too late."""
    letters = MemoryMailbox()
    reply = asked(Somebody(HumanReply("no", f"It shows {SECRET}.", by="ben")), letters)
    kept = letters.answer("r", "ask", 1)
    assert kept is not None
    assert (kept.option, kept.by, kept.at) == ("no", "ben", 7.0)
    assert reply == HumanReply("no", kept.feedback, by="ben")
    assert SECRET not in kept.feedback


def test_a_letter_that_was_quicker_by_a_moment_counts() -> None:
    """An answer typed here after it does not, even when the box was not looked into in between."""
    letters = MemoryMailbox()
    here = Somebody(HumanReply("yes", by="ben"), before=lambda: letters.put_answer(ANNA))
    assert asked(here, letters) == HumanReply("no", "Not yet.", by="anna")


DEFAULT = HumanReply("yes", "nobody answered in time", StatusSource.DEFAULT)


def settled(letters: MemoryMailbox, default: HumanReply | None) -> HumanReply | None:
    return FirstResponder(Nobody(), letters, lambda: 7.0, PATTERNS_ONLY).settle(ASKED, default)


@pytest.mark.parametrize("default", [DEFAULT, None])
def test_a_letter_that_came_before_the_time_was_up_counts(default: HumanReply | None) -> None:
    """Its sender was told so, even when nobody had looked into the box since."""
    letters = MemoryMailbox()
    letters.put_answer(ANNA)
    assert settled(letters, default) == HumanReply("no", "Not yet.", by="anna")


def test_a_default_that_was_taken_is_told_to_who_comes_too_late() -> None:
    """It is kept as the answer to its visit, and a process that takes it up again knows that it was nobody's."""
    letters = MemoryMailbox()
    assert settled(letters, DEFAULT) == DEFAULT
    assert (letters.put_answer(ANNA).option, letters.put_answer(ANNA).by) == ("yes", "the timeout")
    assert MailboxResponder(letters).look(ASKED) == DEFAULT


def test_with_nobody_here_nobody_is_waited_for() -> None:
    """Unless it is to stay: then it waits for a letter."""
    letters = MemoryMailbox()
    assert asked(Nobody(), letters) is None
    assert asked(Nobody(), letters, delivered(letters), stay=True) == HumanReply("no", "Not yet.", by="anna")


@pytest.mark.parametrize("unfit", [replace(ANNA, option="gone"), replace(ANNA, feedback=" ")])
def test_a_letter_that_is_no_answer_any_more_is_not_taken(unfit: HumanAnswer) -> None:
    """The workflow may have been changed since; then people are asked, and their answer counts."""
    letters = MemoryMailbox()
    letters.put_answer(unfit)
    assert asyncio.run(MailboxResponder(letters).ask(ASKED)) is None
    assert asked(Somebody(HumanReply("yes", by="ben")), letters) == HumanReply("yes", by="ben")


def test_a_letter_for_another_visit_is_not_taken() -> None:
    """Nothing is answered twice by one answer."""
    letters = MemoryMailbox()
    letters.put_answer(ANNA)
    assert asyncio.run(MailboxResponder(letters).ask(ASKED)) == HumanReply("no", "Not yet.", by="anna")
    assert asyncio.run(MailboxResponder(letters).ask(replace(ASKED, visit=2))) is None


def test_a_store_that_cannot_be_read_for_a_moment_is_looked_at_again() -> None:
    """A hiccup of the disk neither ends the waiting nor the run."""
    looks = iter([JournalError("busy"), None, "a letter"])

    def look() -> str | None:
        found = next(looks)
        if isinstance(found, JournalError):
            raise found
        return found

    async def pause() -> None: ...

    assert asyncio.run(poll(look, pause)) == "a letter"

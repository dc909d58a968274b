"""Questions to a person, and everything that may answer them: a terminal, a mailbox, recorded answers, approval.

Human stages ask one question, walks through findings ask many. Both ask a `Responder`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.engine.outcome import StatusSource
from pipeline.errors import AwfError
from pipeline.text import sanitize_line, truncate

RECOMMENDED = " (recommended)"
SHORT_NAMES = {"rest": ("lfg", "lfg the rest")}  # understood as well as a key


@dataclass(frozen=True, slots=True)
class Option:
    """One thing to choose."""

    key: str
    label: str
    recommended: bool = False  # chosen by someone who only agrees
    approves: bool = False  # chosen if nobody is to be asked
    needs_feedback: bool = False

    def __str__(self) -> str:
        """The label as it is shown."""
        return f"{self.label}{RECOMMENDED}" if self.recommended else self.label


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked, and what they may answer."""

    text: str
    options: tuple[Option, ...]
    block: str = ""  # markdown, shown above
    plan: str = ""  # plain text, shown above
    details: str = ""  # markdown, shown on request
    values: tuple[tuple[str, str], ...] = ()  # context values that help to decide
    about: str = ""  # the finding that it is about, if it is about one
    objection: str = ""  # why nobody but a person may approve
    run_id: str = ""
    stage: str = ""
    visit: int = 0

    @property
    def recommended(self) -> Option | None:
        """The option of someone who only agrees."""
        return next((option for option in self.options if option.recommended), None)

    @property
    def first_line(self) -> str:
        """The question in one line."""
        return self.text.split("\n", 1)[0]

    @property
    def keys(self) -> tuple[str, ...]:
        """What can be answered."""
        return tuple(option.key for option in self.options)

    def accepts(self, key: str, feedback: str = "") -> bool:
        """Return whether this is a valid answer."""
        found = next((option for option in self.options if option.key == key), None)
        return found is not None and (not found.needs_feedback or bool(feedback.strip()))

    def parse(self, typed: str) -> str | None:
        """Return the key meant by a key, its first letter, its number or its label; None for anything else."""
        word = " ".join(typed.casefold().split()).removesuffix(RECOMMENDED)
        for number, option in enumerate(self.options, 1):
            names = {option.key.casefold(), str(number), option.label.casefold(), *SHORT_NAMES.get(option.key, ())}
            if word in names:
                return option.key
        return self._letters().get(word)

    def _letters(self) -> Mapping[str, str]:
        """Return the keys by their first letters, if each has a letter of its own."""
        letters = {option.key[:1].casefold(): option.key for option in self.options}
        return letters if len(letters) == len(self.options) else {}


@dataclass(frozen=True, slots=True)
class Reply:
    """A choice, and who made it."""

    option: str
    feedback: str = ""
    source: StatusSource = StatusSource.HUMAN
    by: str = ""  # the person's name, if it is known


class Responder(Protocol):
    """Answers questions. What it does between them is optional."""

    async def ask(self, question: Question) -> Reply | None:
        """Return the answer, which may take long; None if nobody can answer now."""

    def tell(self, line: str) -> None:
        """Say what was done."""

    def leave(self) -> None:
        """Release the person: nothing more is asked for now."""


class Silent:
    """The base of responders that show nothing."""

    def tell(self, line: str) -> None:
        """Say nothing."""

    def leave(self) -> None:
        """Release nobody."""


@dataclass(frozen=True, slots=True)
class ResponderChain:
    """Asks one responder after the other until one answers."""

    responders: Sequence[Responder]

    async def ask(self, question: Question) -> Reply | None:
        """Return the first answer."""
        for responder in self.responders:
            if reply := await responder.ask(question):
                return reply
        return None

    def tell(self, line: str) -> None:
        """Say it to everybody."""
        for responder in self.responders:
            responder.tell(line)

    def leave(self) -> None:
        """Release everybody."""
        for responder in self.responders:
            responder.leave()


class AutoApprove(Silent):
    """Chooses the approving option, and records that nobody was asked; never against an objection."""

    async def ask(self, question: Question) -> Reply | None:
        """Return the approving option."""
        approving = [option.key for option in question.options if option.approves]
        if question.objection or not approving:
            return None
        return Reply(approving[0], "approved in advance", StatusSource.OVERRIDE)


@dataclass(slots=True)
class RecordedAnswers(Silent):
    """Answers that were written down beforehand: one for each question, in the order in which they are asked."""

    words: Sequence[str]
    given: int = 0

    @property
    def remaining(self) -> int:
        """How many answers were not asked for."""
        return len(self.words) - self.given

    async def ask(self, question: Question) -> Reply | None:
        """Return the next answer."""
        return self.next(question)

    def next(self, question: Question) -> Reply | None:
        """Return the next answer, or None after the last. Raises AwfError if it is not one of the options."""
        if not self.remaining:
            return None
        word = self.words[self.given]
        self.given += 1
        key = question.parse(word)
        if key is None:
            shown = truncate(sanitize_line(word), 60)
            message = f'answer {self.given}, "{shown}", is not an answer to: {question.first_line}'
            raise AwfError(message, help=f"choose one of {', '.join(question.keys)}")
        return Reply(key)


def answer_for_visit(answers: Mapping[str, Sequence[Any]], stage: str, visit: int) -> Any:
    """Return what was written down for one visit of a stage; None if nothing was."""
    given = answers.get(stage, ())
    return given[visit - 1] if visit <= len(given) else None


@dataclass(frozen=True, slots=True)
class AnswersByVisit(Silent):
    """Answers from a file, by stage and visit: the key of an option, or an object with `option` and `feedback`."""

    answers: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    async def ask(self, question: Question) -> Reply | None:
        """Return the answer for this visit."""
        answer = answer_for_visit(self.answers, question.stage, question.visit)
        if answer is None:
            return None
        if not isinstance(answer, dict):
            return Reply(str(answer))
        return Reply(answer["option"], answer.get("feedback", ""))


@dataclass(frozen=True, slots=True)
class Decided(Silent):
    """What was decided elsewhere, such as on a page, by what a question is about."""

    keys: Mapping[str, str]

    async def ask(self, question: Question) -> Reply | None:
        """Return what was decided about it, if that is still possible."""
        key = self.keys.get(question.about, "")
        return Reply(key) if question.accepts(key) else None

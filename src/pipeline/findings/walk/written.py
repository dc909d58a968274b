"""Answers that somebody wrote down beforehand: one for each question, in the order in which they are asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.walk.effects import Question
from pipeline.findings.walk.menu import OptionKey, chosen
from pipeline.findings.walk.wording import flat

_SHOWN = 60  # characters of an answer


@dataclass(slots=True)
class RecordedAnswers:
    """Answers, and how many of them were given."""

    words: Sequence[str]
    given: int = 0

    @property
    def left(self) -> int:
        """How many were not asked for."""
        return len(self.words) - self.given

    def choose(self, question: Question) -> OptionKey | None:
        """The next answer, which must be one of the options; None when there is no more."""
        if not self.left:
            return None
        word = self.words[self.given]
        self.given += 1
        if (key := chosen(question.options, word)) is None:
            keys = ", ".join(option.key for option in question.options)
            asked = question.stem.split("\n", 1)[0]
            message = f'answer {self.given}, "{flat(word, _SHOWN)}", is no answer to: {asked}'
            raise AwfError(message, help=f"one of {keys}")
        return key


def of_visit(given: Sequence[Any], visit: int) -> Sequence[str]:
    """What was written for one visit of a stage: the visit's list of words. Words in no list are for the first."""
    visits = given if any(isinstance(one, list) for one in given) else [[*given]]
    found = visits[visit - 1] if visit <= len(visits) else []
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise AwfError(f"the answers to visit {visit} are no list of words", help='write ["apply", "skip"]')
    return words

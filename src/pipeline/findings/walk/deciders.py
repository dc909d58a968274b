"""Who decides at a triage: a file of answers, a word given in advance, whoever is there. Nobody else is guessed at."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.engine.outcome import StatusSource
from pipeline.findings.walk.effects import Question
from pipeline.findings.walk.menu import OptionKey
from pipeline.findings.walk.written import RecordedAnswers

_ONWARD = (
    OptionKey.REST,
    OptionKey.PROCEED,
    OptionKey.FALLBACK,
)  # what accepts all that is recommended, wherever it is offered


class Decider(Protocol):
    """Somebody who may be asked."""

    @property
    def source(self) -> StatusSource:
        """Where their decisions come from."""

    async def choose(self, question: Question) -> OptionKey | None:
        """The option they choose; None when they have no answer."""

    def tell(self, line: str) -> None:
        """Let them know what was done."""

    def leave(self) -> None:
        """Let them go: nothing more is asked."""


class _Absent:
    """Somebody who is not there to hear anything."""

    def tell(self, line: str) -> None:
        """Say it to nobody."""

    def leave(self) -> None:
        """Nobody has to go."""


@dataclass(frozen=True, slots=True)
class ByFile(_Absent):
    """Whoever wrote down answers."""

    written: RecordedAnswers
    source: StatusSource = StatusSource.HUMAN

    async def choose(self, question: Question) -> OptionKey | None:
        """The next answer."""
        return self.written.choose(question)


@dataclass(frozen=True, slots=True)
class AsRecommended(_Absent):
    """A word given in advance: every recommendation is accepted, and no ticket is given up while a tracker is left."""

    source: StatusSource = StatusSource.OVERRIDE

    async def choose(self, question: Question) -> OptionKey | None:
        """All of the rest where that is offered, else what is recommended."""
        keys = [option.key for option in question.options]
        marked = next((option.key for option in question.options if option.marked), keys[0])
        return next((key for key in _ONWARD if key in keys), marked)


@dataclass(slots=True)
class Panel:
    """Everybody who may decide at one visit: each question goes to the first who has an answer."""

    deciders: Sequence[Decider]
    heard: set[StatusSource] = field(default_factory=set)  # where decisions came from so far

    async def choose(self, question: Question) -> OptionKey | None:
        """The answer of the first who has one; None when nobody has."""
        for decider in self.deciders:
            if (key := await decider.choose(question)) is not None:
                self.heard.add(decider.source)
                return key
        return None

    @property
    def source(self) -> StatusSource:
        """Where the whole decision comes from: once a person was bypassed, it is nobody's."""
        asked = (StatusSource.OVERRIDE, StatusSource.HUMAN)
        return next((source for source in asked if source in self.heard), StatusSource.DEFAULT)

    def tell(self, line: str) -> None:
        """Let all of them know what was done."""
        for decider in self.deciders:
            decider.tell(line)

    def leave(self) -> None:
        """Let all of them go."""
        for decider in self.deciders:
            decider.leave()

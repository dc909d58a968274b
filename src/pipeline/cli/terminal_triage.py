"""A person at the terminal who decides on findings at the triage of a run, as in `awf findings walk`."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipeline.cli.terminal_responder import read_line
from pipeline.engine.outcome import StatusSource

if TYPE_CHECKING:
    from pipeline.cli.findings.screen import Screen
    from pipeline.findings.walk.effects import Question
    from pipeline.findings.walk.menu import OptionKey


class TerminalTriage:
    """Asks on standard error and reads standard input. An end of input is no answer."""

    source = StatusSource.HUMAN

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before = before  # what else writes to the terminal steps aside from the first question to the last
        self._after = after
        self._screen: Screen | None = None

    async def choose(self, question: "Question") -> "OptionKey | None":
        """Ask until the answer is one of the options; None at the end of the input."""
        screen = self._begun()
        screen.ask(question)
        screen.prompt(question)
        while (typed := await read_line()) is not None:
            if key := screen.understood(question, typed):
                return key
            screen.prompt(question)
        return None

    def tell(self, line: str) -> None:
        """Say what was done, to somebody who was asked."""
        if self._screen:
            self._screen.good(line)

    def leave(self) -> None:
        """Give the terminal back."""
        if self._screen:
            self._screen = None
            self._after()

    def _begun(self) -> "Screen":
        if self._screen is None:
            from pipeline.cli.findings.screen import Screen  # noqa: PLC0415 - most runs have no triage

            self._before()
            self._screen = Screen(sys.stderr)
        return self._screen

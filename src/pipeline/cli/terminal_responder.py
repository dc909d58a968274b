"""A person at the terminal, asked on standard error: about a human stage, or about findings in a triage."""

import asyncio
import sys
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

import click

from pipeline.cli.terminal import Style, sanitize
from pipeline.handlers.human import HumanQuestion, HumanReply

if TYPE_CHECKING:
    from pipeline.cli.findings.screen import Screen
    from pipeline.findings.walk.machine import OptionKey
    from pipeline.findings.walk.present import Question

DETAIL_LINES = 40


class TerminalResponder:
    """Asks until the answer is one of the options; the end of the input is not an answer."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None], name: str) -> None:
        self._before = before  # hides the live view
        self._after = after  # shows it again
        self._name = name

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        self._before()
        try:
            show_question(question, sys.stderr)
            return await self._read_reply(question)
        except asyncio.CancelledError as withdrawn:
            if sys.stdin.isatty():
                termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed must not answer the next question
            erase = "\r\x1b[K" if sys.stderr.isatty() else "\n"
            _say(f"{erase}{sanitize(str(withdrawn))}\n" if str(withdrawn) else "\n")
            raise
        finally:
            self._after()

    async def _read_reply(self, question: HumanQuestion) -> HumanReply | None:
        keys = {option.key.lower(): option.key for option in question.options}
        keys |= {str(number): option.key for number, option in enumerate(question.options, 1)}
        listed = ", ".join(option.key for option in question.options)
        option = None
        while option is None:
            _say(f"Your choice ({listed}): ")
            if (line := await read_line()) is None:
                return None
            option = keys.get(line.strip().lower())
            if option is None:
                _say(f'Unknown option "{sanitize(line.strip())}". Choose one of {listed}.\n')
        feedback = ""
        while option in question.needs_feedback and not feedback:
            _say("Why? ")
            if (line := await read_line()) is None:
                return None
            feedback = line.strip()
        return HumanReply(option, feedback, by=self._name)


class TerminalTriage:
    """Asks about findings one by one, as `awf findings walk` does; the end of the input is not an answer."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before = before  # hides the live view from the first question to the last
        self._after = after
        self._screen: Screen | None = None

    async def choose(self, question: "Question") -> "OptionKey | None":
        """Ask until the answer is one of the options; None if the person stops or the input ends."""
        from pipeline.cli.findings.screen import Screen, stops  # noqa: PLC0415 - most runs have no triage

        if self._screen is None:
            self._before()
            self._screen = Screen(sys.stderr)
        self._screen.ask(question)
        self._screen.prompt(question)
        while (typed := await read_line()) is not None and not stops(typed):
            if key := self._screen.parse(question, typed):
                return key
            self._screen.prompt(question)
        return None

    def tell(self, line: str) -> None:
        """Report what was done, if a question was asked."""
        if self._screen:
            self._screen.confirm(line)

    def leave(self) -> None:
        """Release the terminal."""
        if self._screen:
            self._screen = None
            self._after()


def show_question(question: HumanQuestion, stream: TextIO) -> None:
    """Print a question with its details and options."""
    style = Style.of(stream)

    def say(text: str) -> None:
        click.echo(text, nl=False, file=stream)

    say(f"\n{style.name(sanitize(question.stage))}: {sanitize(question.text)}\n")
    for key, value in question.details:
        lines = value.splitlines()
        say(f"\n  {style.quiet(sanitize(key))}\n")
        say("".join(f"    {sanitize(line)}\n" for line in lines[:DETAIL_LINES]))
        if len(lines) > DETAIL_LINES:
            say(f"    ... {len(lines) - DETAIL_LINES} more lines: awf context {question.run_id} {sanitize(key)}\n")
    say("\n")
    for number, option in enumerate(question.options, 1):
        say(f"  {number}) {style.name(sanitize(option.key))}  {sanitize(option.label)}\n")


def _say(text: str) -> None:
    click.echo(text, nl=False, err=True)


async def read_line() -> str | None:
    """A line of standard input, read without blocking the run; None at its end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
        return sys.stdin.readline() or None
    finally:
        loop.remove_reader(sys.stdin.fileno())

"""A person at the terminal, asked about a human stage, or about findings in a walk."""

import asyncio
import sys
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

import click

from pipeline.cli.terminal import Style
from pipeline.handlers.questions import Question, Reply
from pipeline.text import sanitize

if TYPE_CHECKING:
    from pipeline.cli.findings.screen import Screen

DETAIL_LINES = 40


def _nothing() -> None:
    """There is no live view."""


class TerminalResponder:
    """Asks until the answer is one of the options; the end of the input is not an answer, and neither is `q`."""

    def __init__(
        self,
        name: str,
        stream: TextIO,
        before: Callable[[], None] = _nothing,  # hides the live view, from the first question until the person leaves
        after: Callable[[], None] = _nothing,
    ) -> None:
        self.stopped = False  # whether the person wants no more questions
        self._name, self._stream = name, stream
        self._before, self._after = before, after
        self._screen: Screen | None = None

    async def ask(self, question: Question) -> Reply | None:
        """Show the question and read the answer, and the feedback if it needs some."""
        screen = self._open()
        if question.stage:
            show_question(question, self._stream)
        else:
            screen.ask(question)
        try:
            key = await self._read_key(screen, question)
            return await self._read_feedback(question, key) if key else None
        except asyncio.CancelledError as withdrawn:
            if sys.stdin.isatty():
                termios.tcflush(sys.stdin, termios.TCIFLUSH)  # what was typed must not answer the next question
            erase = "\r\x1b[K" if self._stream.isatty() else "\n"
            self._say(f"{erase}{sanitize(str(withdrawn))}\n" if str(withdrawn) else "\n")
            raise

    def tell(self, line: str) -> None:
        """Say what was done, if a question was asked."""
        if self._screen:
            self._screen.confirm(line)

    def leave(self) -> None:
        """Release the terminal."""
        if self._screen:
            self._screen = None
            self._after()

    def _open(self) -> "Screen":
        from pipeline.cli.findings.screen import Screen  # noqa: PLC0415 - most runs ask nobody

        if self._screen is None:
            self._before()
            self._screen = Screen(self._stream)
        return self._screen

    async def _read_key(self, screen: "Screen", question: Question) -> str | None:
        key = None
        while key is None:
            screen.prompt(question)
            typed = await read_line()
            if typed is None:
                return None
            key = question.parse(typed)
            if key is None and typed.strip().lower() in ("q", "quit"):
                self.stopped = True
                return None
            key = key or screen.parse(question, typed)
        return key

    async def _read_feedback(self, question: Question, key: str) -> Reply | None:
        feedback = ""
        while not question.accepts(key, feedback):
            self._say("Why? ")
            typed = await read_line()
            if typed is None:
                return None
            feedback = typed.strip()
        return Reply(key, feedback, by=self._name)

    def _say(self, text: str) -> None:
        click.echo(text, nl=False, file=self._stream)


def show_question(question: Question, stream: TextIO) -> None:
    """Print a question with its details and options."""
    style = Style.of(stream)

    def say(text: str) -> None:
        click.echo(text, nl=False, file=stream)

    say(f"\n{style.name(sanitize(question.stage))}: {sanitize(question.text)}\n")
    for key, value in question.values:
        lines = value.splitlines()
        say(f"\n  {style.quiet(sanitize(key))}\n")
        say("".join(f"    {sanitize(line)}\n" for line in lines[:DETAIL_LINES]))
        if len(lines) > DETAIL_LINES:
            say(f"    ... {len(lines) - DETAIL_LINES} more lines: awf context {question.run_id} {sanitize(key)}\n")
    say(f"\n  {style.name(sanitize(question.objection))}\n" if question.objection else "")
    say("\n")
    for number, option in enumerate(question.options, 1):
        say(f"  {number}) {style.name(sanitize(option.key))}  {sanitize(option.label)}\n")


async def read_line() -> str | None:
    """Return a line of standard input, read without blocking a run; None at its end."""
    if not sys.stdin.isatty():  # of a file or a pipe more than a line may be read at once
        return sys.stdin.readline() or None
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
        return sys.stdin.readline() or None
    finally:
        loop.remove_reader(sys.stdin.fileno())

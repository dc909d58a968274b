"""A person at the terminal: shown what there is to decide, asked again until the answer is one of the options."""

import asyncio
import sys
import termios
from collections.abc import Callable
from typing import TextIO

import click

from pipeline.cli.terminal import Style, sanitize
from pipeline.handlers.human import HumanQuestion, HumanReply

DETAIL_LINES = 40


class TerminalResponder:
    """Asks on standard error and reads standard input. An end of input is no answer."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None], name: str) -> None:
        self._before = before  # what else writes to the terminal steps aside while a person is asked
        self._after = after
        self._name = name

    async def ask(self, question: HumanQuestion) -> HumanReply | None:
        self._before()
        try:
            show_question(question, sys.stderr)
            return await _answer(question, self._name)
        except asyncio.CancelledError as taken_away:
            _take_away(str(taken_away))
            raise
        finally:
            self._after()


def _take_away(why: str) -> None:
    """Wipe the question out, and what was typed at it: it must not answer the next one."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    wipe = "\r\x1b[K" if sys.stderr.isatty() else "\n"
    _say(f"{wipe}{sanitize(why)}\n" if why else "\n")


async def _answer(question: HumanQuestion, name: str) -> HumanReply | None:
    option = await _option(question)
    if option is None or option not in question.needs_feedback:
        return None if option is None else HumanReply(option, by=name)
    feedback = ""
    while not feedback:
        _say("Why? ")
        line = await read_line()
        if line is None:
            return None
        feedback = line.strip()
    return HumanReply(option, feedback, by=name)


async def _option(question: HumanQuestion) -> str | None:
    keys = {option.key.lower(): option.key for option in question.options}
    keys |= {str(number): option.key for number, option in enumerate(question.options, 1)}
    while True:
        _say(f"Your choice ({', '.join(option.key for option in question.options)}): ")
        line = await read_line()
        if line is None:
            return None
        if (typed := line.strip().lower()) in keys:
            return keys[typed]
        _say(f'"{sanitize(line.strip())}" is none of the options.\n')


def show_question(question: HumanQuestion, stream: TextIO) -> None:
    """Write what there is to decide."""
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
    """A line of standard input without blocking the run; None at its end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
        return sys.stdin.readline() or None
    finally:
        loop.remove_reader(sys.stdin.fileno())

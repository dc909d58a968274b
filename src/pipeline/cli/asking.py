"""A person at the terminal: shown what there is to decide, asked again until the answer is one of the options."""

import asyncio
import sys
from collections.abc import Callable

import click

from pipeline.cli.terminal import Style, inert
from pipeline.handlers.human import Question, Reply

DETAIL_LINES = 40


class TerminalPerson:
    """Asks on standard error and reads standard input. An end of input is no answer."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._before = before  # what else writes to the terminal steps aside while a person is asked
        self._after = after

    async def ask(self, question: Question) -> Reply | None:
        self._before()
        try:
            _show(question)
            return await _answer(question)
        finally:
            self._after()


async def _answer(question: Question) -> Reply | None:
    option = await _option(question)
    if option is None or option not in question.needs_feedback:
        return None if option is None else Reply(option)
    feedback = ""
    while not feedback:
        _say("Why? ")
        line = await _read_line()
        if line is None:
            return None
        feedback = line.strip()
    return Reply(option, feedback)


async def _option(question: Question) -> str | None:
    keys = {option.key.lower(): option.key for option in question.options}
    keys |= {str(number): option.key for number, option in enumerate(question.options, 1)}
    while True:
        _say(f"Your choice ({', '.join(option.key for option in question.options)}): ")
        line = await _read_line()
        if line is None:
            return None
        if (typed := line.strip().lower()) in keys:
            return keys[typed]
        _say(f'"{inert(line.strip())}" is none of the options.\n')


def _show(question: Question) -> None:
    style = Style.of(sys.stderr)
    _say(f"\n{style.name(inert(question.stage))}: {inert(question.text)}\n")
    for key, value in question.details:
        lines = value.splitlines()
        _say(f"\n  {style.quiet(inert(key))}\n")
        _say("".join(f"    {inert(line)}\n" for line in lines[:DETAIL_LINES]))
        if len(lines) > DETAIL_LINES:
            _say(f"    ... {len(lines) - DETAIL_LINES} more lines: awf context {question.run_id} {inert(key)}\n")
    _say("\n")
    for number, option in enumerate(question.options, 1):
        _say(f"  {number}) {style.name(inert(option.key))}  {inert(option.label)}\n")


def _say(text: str) -> None:
    click.echo(text, nl=False, err=True)


async def _read_line() -> str | None:
    """A line of standard input without blocking the run; None at its end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
        return sys.stdin.readline() or None
    finally:
        loop.remove_reader(sys.stdin.fileno())

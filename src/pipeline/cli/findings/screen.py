"""Where a walk is shown and what is typed there, in `awf findings walk` and at the triage of a run."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TextIO

import click

from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.walk.machine import Question
from pipeline.findings.walk.present import Block, OptionKey, columns, parse_choice

_ESCAPE = re.compile(r"^(\d*)\\(?=[#>*+\-=|~<`_.)])")
_TITLED = re.compile(r"^(## .*|\*\*.*\*\*)\n\n(?!## |\*\*)", re.MULTILINE)  # a title stands right above its text
_INDENT = "  "


def plain(markdown: str, width: int, bold: Callable[[str], str]) -> str:
    """A text in markdown for a terminal of so many columns."""
    return "\n".join(_lines(markdown, width, bold))


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """A text in lines of at most so many columns, the first and the others set in; a longer word has its own line."""
    lines, line = [], first
    for word in text.split():
        if line.strip() and line not in (first, then) and columns(f"{line} {word}") > width:
            lines.append(line)
            line = then
        line = f"{line}{word}" if line in (first, then) else f"{line} {word}"
    return [*lines, line]


def _lines(markdown: str, width: int, bold: Callable[[str], str]) -> Iterator[str]:
    code = False
    for line in _TITLED.sub(r"\1\n", markdown).split("\n"):
        if line == "```":
            code = not code
        elif code:
            yield f"{_INDENT * 2}{line}"
        elif line.startswith("## "):
            yield from map(bold, wrapped(line.removeprefix("## "), width))
        elif line.startswith("**") and line.endswith("**"):
            yield bold(line.strip("*"))
        elif line.startswith("- "):
            yield from wrapped(line.removeprefix("- "), width, f"{_INDENT}- ", _INDENT * 2)
        else:
            yield from wrapped(_ESCAPE.sub(r"\1", line), width, _INDENT, _INDENT) if line else [""]


_WIDEST = 100  # columns in which text is easily read


@dataclass(slots=True)
class Screen:
    """Where a walk is shown: markdown as it is into a file or a pipe, set plainly on a terminal."""

    stream: TextIO
    begun: bool = False  # whether anything stands on it

    def show(self, text: str) -> None:
        """Show our markdown, with a line free before it."""
        self._part(plain(text, self.width, self.style.name) if self.stream.isatty() else text)

    def ask(self, question: Question) -> None:
        """Show a question with what belongs above it and its options below."""
        if isinstance(question.above, Block):
            self.show(str(question.above))
        elif question.above:
            self._part(question.above)
        self._part("\n".join(line for part in question.stem.split("\n") for line in wrapped(part, self.width)))
        for number, option in enumerate(question.options, 1):
            self.say("\n".join(wrapped(str(option), self.width, f"  {number}. ", "     ")))

    def prompt(self, question: Question) -> None:
        """Ask for one of the options."""
        self.say(f"Your choice ({'/'.join(option.key[0] for option in question.options)}): ", nl=False)

    def understood(self, question: Question, typed: str) -> OptionKey | None:
        """The option that was typed: a key, its first letter or its number. What is none is told."""
        key = parse_choice(question.options, typed)
        if key is None and typed.strip():
            self.say(f'"{sanitize(typed.strip())}" is none of the options.')
        return key

    def good(self, line: str) -> None:
        """Say what was done."""
        self.say(self.style.good(line))

    def say(self, text: str, *, nl: bool = True) -> None:
        """Say something as it is."""
        click.echo(text, file=self.stream, nl=nl)
        self.begun = True

    def _part(self, text: str) -> None:
        self.say(f"\n{text}" if self.begun else text)

    @property
    def style(self) -> Style:
        """Its colours."""
        return Style.of(self.stream)

    @property
    def width(self) -> int:
        """The columns of a terminal; in a pipe nothing is wrapped."""
        return min(shutil.get_terminal_size().columns, _WIDEST) if self.stream.isatty() else sys.maxsize

"""Where a walk is shown and what is typed there, in `awf findings walk` and at the triage of a run."""

import shutil
import sys
from dataclasses import dataclass
from typing import TextIO

import click

from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.walk.block import Block
from pipeline.findings.walk.effects import Question
from pipeline.findings.walk.menu import OptionKey, chosen
from pipeline.findings.walk.plain import plain, wrapped

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
        key = chosen(question.options, typed)
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

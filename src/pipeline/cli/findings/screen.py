"""Where a walk is shown and answered, in `awf findings walk` and at the triage of a run."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TextIO

import click

from pipeline.cli.terminal import Style, sanitize
from pipeline.findings.walk.machine import OptionKey
from pipeline.findings.walk.present import Question, parse_choice
from pipeline.text import display_width

_ESCAPE = re.compile(r"^(\d*)\\(?=[#>*+\-=|~<`_.)])")
_TITLE = re.compile(r"^(## .*|\*\*.*\*\*)\n\n(?!## |\*\*)", re.MULTILINE)  # no blank line below it on a terminal
_INDENT = "  "
_MAX_WIDTH = 100  # columns in which text is easy to read


@dataclass(slots=True)
class Screen:
    """Shows a walk: as markdown in a file or a pipe, as plain text on a terminal."""

    stream: TextIO
    used: bool = False  # whether anything was shown

    def show_markdown(self, text: str) -> None:
        """Show a text after a blank line."""
        self._show(layout(text, self.width, self.style.name) if self.stream.isatty() else text)

    def ask(self, question: Question) -> None:
        """Show a question with what belongs above it and its options below."""
        if question.block:
            self.show_markdown(question.block)
        if question.plan:
            self._show(question.plan)
        self._show("\n".join(line for part in question.stem.split("\n") for line in wrap(part, self.width)))
        for number, option in enumerate(question.options, 1):
            self.say("\n".join(wrap(str(option), self.width, f"  {number}. ", "     ")))

    def prompt(self, question: Question) -> None:
        """Prompt for one of the options."""
        self.say(f"Your choice ({'/'.join(option.key[0] for option in question.options)}): ", nl=False)

    def parse(self, question: Question, typed: str) -> OptionKey | None:
        """Return the option that was typed: a key, its first letter or its number. Anything else is reported."""
        key = parse_choice(question.options, typed)
        if key is None and typed.strip():
            self.say(f'Unknown option "{sanitize(typed.strip())}".')
        return key

    def confirm(self, line: str) -> None:
        """Say what was done."""
        self.say(self.style.good(line))

    def say(self, text: str, *, nl: bool = True) -> None:
        """Show a text as it is."""
        click.echo(text, file=self.stream, nl=nl)
        self.used = True

    def _show(self, text: str) -> None:
        self.say(f"\n{text}" if self.used else text)

    @property
    def style(self) -> Style:
        """The colors of the stream."""
        return Style.of(self.stream)

    @property
    def width(self) -> int:
        """The columns of the terminal; nothing is wrapped in a pipe."""
        return min(shutil.get_terminal_size().columns, _MAX_WIDTH) if self.stream.isatty() else sys.maxsize


def layout(markdown: str, width: int, bold: Callable[[str], str]) -> str:
    """Return our own markdown as plain text in `width` columns.

    Everything but headings and labels is indented, so that no text of a finding can pass for one.
    """
    return "\n".join(_lines(markdown, width, bold))


def wrap(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return a text in lines of at most `width` columns, indented; a longer word has a line of its own."""
    lines, line = [], first
    for word in text.split():
        if line.strip() and line not in (first, then) and display_width(f"{line} {word}") > width:
            lines.append(line)
            line = then
        line = f"{line}{word}" if line in (first, then) else f"{line} {word}"
    return [*lines, line]


def _lines(markdown: str, width: int, bold: Callable[[str], str]) -> Iterator[str]:
    code = False
    for line in _TITLE.sub(r"\1\n", markdown).split("\n"):
        if line == "```":
            code = not code
        elif code:
            yield f"{_INDENT * 2}{line}"
        elif line.startswith("## "):
            yield from map(bold, wrap(line.removeprefix("## "), width))
        elif line.startswith("**") and line.endswith("**"):
            yield bold(line.strip("*"))
        elif line.startswith("- "):
            yield from wrap(line.removeprefix("- "), width, f"{_INDENT}- ", _INDENT * 2)
        else:
            yield from wrap(_ESCAPE.sub(r"\1", line), width, _INDENT, _INDENT) if line else [""]

"""A walk on the screen: the question and everything that belongs to it fit the terminal, and the rest is on request."""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

import click

from pipeline.cli.terminal import Style
from pipeline.findings.walk.prose import read_markdown
from pipeline.handlers.questions import Question
from pipeline.text import ELLIPSIS, display_width, sanitize

_TITLE = re.compile(r"^(## .*|\*\*.*\*\*)\n\n(?!## |\*\*)", re.MULTILINE)  # no blank line below it on a terminal
_INDENT = "  "
_MAX_WIDTH = 100  # columns in which text is easy to read
_MIN_LINES = 6  # of a block, on however small a terminal
_AROUND = 3  # lines: the last confirmation, and the blank lines around a block


@dataclass(slots=True)
class Screen:
    """Shows a walk: as markdown in a file or a pipe, as plain text on a terminal."""

    stream: TextIO
    used: bool = False  # whether anything was shown
    pages: list[str] = field(default_factory=list)  # of the details, those not shown yet

    def show_markdown(self, text: str) -> None:
        """Show a text after a blank line."""
        self._show(layout(text, self.width, self.style.name) if self.stream.isatty() else text)

    def ask(self, question: Question) -> None:
        """Show a question with what belongs above it and its options below."""
        asked = self._question_lines(question)
        room = max(self.height - len(asked) - 1 - _AROUND, _MIN_LINES)
        if question.block:
            text = layout(question.block, self.width, self.style.name) if self.stream.isatty() else question.block
            self._show("\n".join(fit(text.split("\n"), room, self.width)))
        if question.plan:
            self._show("\n".join(fit(question.plan.split("\n"), room, self.width)))
        self.pages = []
        self._show("\n".join(asked))

    def prompt(self, question: Question) -> None:
        """Prompt for one of the options: at a human stage by its key, in a walk by its letter."""
        if question.stage:
            self.say(f"Your choice ({', '.join(question.keys)}): ", nl=False)
            return
        letters = "/".join(key[0] for key in question.keys)
        agree = f", Enter for {question.recommended.key}" if question.recommended else ""
        self.say(f"Your choice ({letters}{agree}, ? for help): ", nl=False)

    def parse(self, question: Question, typed: str) -> str | None:
        """Return the option that was meant by what is no option: a blank line agrees.

        Details and help are shown on request, then the question again. Anything else is reported.
        """
        word = typed.strip().lower()
        if not word and question.recommended:
            return question.recommended.key
        if word == "v" and question.details:
            self._show_details(question)
        elif word == "?" and not question.stage:
            self._show("\n".join(_help(question, self.width)))
        elif word:
            hint = f"Choose one of {', '.join(question.keys)}." if question.stage else "Type ? for help."
            self.say(f'Unknown option "{sanitize(typed.strip())}". {hint}')
        return None

    def confirm(self, line: str) -> None:
        """Say what was done."""
        self.say(self.style.good(line))

    def say(self, text: str, *, nl: bool = True) -> None:
        """Show a text as it is."""
        click.echo(text, file=self.stream, nl=nl)
        self.used = True

    def _show(self, text: str) -> None:
        self.say(f"\n{text}" if self.used else text)

    def _question_lines(self, question: Question) -> list[str]:
        lines = [line for part in question.text.split("\n") for line in wrap(part, self.width)]
        for number, option in enumerate(question.options, 1):
            lines += wrap(str(option), self.width, f"  {number}. ", "     ")
        return lines

    def _show_details(self, question: Question) -> None:
        """Show the next page of the details and the question below it; after the last page, the first again."""
        asked = self._question_lines(question)
        if not self.pages:
            text = layout(question.details, self.width, self.style.name)
            lines = [part for line in text.split("\n") for part in _chop(line, self.width)]
            size = max(self.height - len(asked) - 1 - _AROUND - 1, _MIN_LINES)
            parts = ["\n".join(lines[start : start + size]).strip("\n") for start in range(0, len(lines), size)]
            notes = [f"{_INDENT}({number} of {len(parts)}; v shows more)" for number in range(1, len(parts))]
            self.pages = ["\n".join([part, *notes[n : n + 1]]) for n, part in enumerate(parts)]
        self._show(self.pages.pop(0))
        self._show("\n".join(asked))

    @property
    def style(self) -> Style:
        """The colors of the stream."""
        return Style.of(self.stream)

    @property
    def width(self) -> int:
        """The columns of the terminal; nothing is wrapped in a pipe."""
        return min(shutil.get_terminal_size().columns, _MAX_WIDTH) if self.stream.isatty() else sys.maxsize

    @property
    def height(self) -> int:
        """The lines of the terminal; a pipe has no end."""
        return shutil.get_terminal_size().lines if self.stream.isatty() else sys.maxsize


def _help(question: Question, width: int) -> Iterator[str]:
    for number, option in enumerate(question.options, 1):
        yield from wrap(str(option), width, f"  {option.key[0]}, {number}, {option.key:<12} ", " " * 21)
    if question.recommended:
        yield f"  {'Enter':<18} accept the recommendation"
    if question.details:
        yield f"  {'v':<18} show the whole fix, the evidence and the code around it"
    yield f"  {'?':<18} this list"
    yield f"  {'q':<18} stop: decisions are discarded, filed tickets stay"


def fit(lines: list[str], room: int, width: int) -> list[str]:
    """Return lines in at most `room` lines: long paragraphs are shortened first, then blank lines are left out.

    What was left out is marked, so that nobody takes a part for the whole.
    """
    groups: list[list[str]] = [[]]
    for line in lines:
        if line:
            groups[-1].append(line)
        else:
            groups.append([])
    sizes, blanks = [len(group) for group in groups], len(groups) - 1
    for shortest in (3, 2):  # a label with two lines of its text, or with one
        while sum(sizes) + blanks > room and max(sizes) > shortest:
            sizes[sizes.index(max(sizes))] -= 1
        blanks = max(min(blanks, room - sum(sizes)), 0)
    kept = list[str]()
    for number, (group, size) in enumerate(zip(groups, sizes, strict=True)):
        kept += [""] if 0 < number <= blanks else []
        kept += group[:size]
        if size < len(group):
            fits = display_width(kept[-1]) + 2 <= width
            kept[-1] = f"{kept[-1] if fits else kept[-1].rpartition(' ')[0]} {ELLIPSIS}"
    return kept if len(kept) <= room else [*kept[: room - 1], f"{_INDENT}{ELLIPSIS} v shows the rest"]


def _chop(line: str, width: int) -> Iterator[str]:
    """A line in parts that fit the width, between words if there are any, all indented like the first."""
    indent = line[: len(line) - len(line.lstrip())]
    while display_width(line) > width:
        size = width
        while display_width(line[:size]) > width:
            size -= 1
        words = line[:size].rpartition(" ")[0]
        size = len(words) + 1 if len(words) > max(len(indent), size // 2) else size
        yield line[:size].rstrip()
        line = indent + line[size:]
    yield line


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
    for kind, line in read_markdown(_TITLE.sub(r"\1\n", markdown)):
        match kind:
            case "code":
                yield f"{_INDENT * 2}{line}"
            case "heading":
                yield from map(bold, wrap(line, width))
            case "label":
                yield bold(line)
            case "item":
                yield from wrap(line, width, f"{_INDENT}- ", _INDENT * 2)
            case _:
                yield from wrap(line, width, _INDENT, _INDENT) if line else [""]

"""The text of a file, and how offsets in it become lines and columns."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


class Span(NamedTuple):
    """A range of characters; `end` is exclusive."""

    start: int
    end: int


class Position(NamedTuple):
    """A line and a column, both counted from 1 as editors do."""

    line: int
    column: int


START = Span(0, 0)


@dataclass(frozen=True, slots=True)
class SourceSpans:
    """Where an element and its attributes are in the file.

    All spans are equal: workflows compare by their content, wherever it is written.
    """

    node: Span = field(default=START, compare=False)
    attributes: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def of(self, attribute: str) -> Span:
        """The span of an attribute's value, or of the whole element if the attribute is not in the file."""
        return self.attributes.get(attribute, self.node)


NO_SPANS = SourceSpans()


@dataclass(frozen=True)
class SourceText:
    """A named text whose line breaks are line feeds; `decode` makes one from bytes."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def position(self, offset: int) -> Position:
        """The line and column of an offset."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def offset(self, position: Position) -> int:
        """The offset of a line and column; the inverse of `position`."""
        return self._line_starts[position.line - 1] + position.column - 1

    def line(self, number: int) -> str:
        """One line without its line break."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


def decode(name: str, data: bytes) -> SourceText:
    """Decode UTF-8, without a byte order mark and with every line break as a line feed. Raises UnicodeDecodeError."""
    text = data.decode("utf-8-sig")
    return SourceText(name, text.replace("\r\n", "\n").replace("\r", "\n"))


_OPENING_QUOTE = re.compile(r'(r#*)?"')
_CHARACTER = re.compile(r"\\u\{[0-9a-fA-F]+\}|\\.|.", re.DOTALL)


def span_inside(text: str, string: Span, inside: Span) -> Span:
    """Find a part of a KDL string's value in the file, where the string is written with quotes and escapes."""
    opening = _OPENING_QUOTE.match(text, string.start)
    if opening is None:
        return string
    start = opening.end()
    if opening[1]:  # a raw string has no escapes
        return Span(start + inside.start, start + inside.end)
    offsets = [character.start() for character in _CHARACTER.finditer(text, start, string.end)]
    return Span(*(offsets[min(index, len(offsets) - 1)] for index in inside))

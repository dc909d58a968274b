"""A workflow's text and the one way to turn an offset in it into a line and a column."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Span(NamedTuple):
    """A stretch of the text, as offsets in characters; `end` is not part of it."""

    start: int
    end: int


class Position(NamedTuple):
    """A place a person can find in an editor; both count from 1."""

    line: int
    column: int


START = Span(0, 0)


class SourceSpans:
    """Where an element and its attributes stand in the file.

    A note in the margin: it never makes two elements differ, so that workflows compare by what they say.
    """

    __slots__ = ("attributes", "span")

    def __init__(self, span: Span = START, attributes: dict[str, Span] | None = None) -> None:
        self.span = span
        self.attributes = attributes or {}

    def of(self, attribute: str) -> Span:
        """The span of an attribute's value, or of the whole element when it is not written down."""
        return self.attributes.get(attribute, self.span)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceSpans)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"SourceSpans({self.span.start}, {self.span.end})"


NO_SPANS = SourceSpans()


@dataclass(frozen=True)
class SourceText:
    """A named text. Its line breaks are line feeds alone: whoever reads the bytes sees to that (`decode`)."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def position(self, offset: int) -> Position:
        """The line and column of an offset."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def offset(self, position: Position) -> int:
        """The offset of a line and column; the inverse of `position`."""
        return self._line_starts[position.line - 1] + position.column - 1

    def line(self, number: int) -> str:
        """One line of the text without its line break."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


def decode(name: str, data: bytes) -> SourceText:
    """A source from a file's bytes: UTF-8, a byte order mark dropped, every line break a line feed.

    Raises UnicodeDecodeError: only the caller knows what the bytes were meant to be.
    """
    text = data.decode("utf-8-sig")
    return SourceText(name, text.replace("\r\n", "\n").replace("\r", "\n"))

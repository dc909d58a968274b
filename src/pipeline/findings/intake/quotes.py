"""Finding a quotation in a file. Spacing does not count, letters do.

A search costs what the lines around the cited ones hold, not what the file holds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from pipeline.findings.signature import QUOTE

AWAY = 30  # lines that a quotation may stand from where it is said to be
_LONG = 4096  # characters of a line that are looked at
_WIDE = 400  # lines of a cited range that are looked at

Span = tuple[int, int]  # first and last line, counted from 1


class Text:
    """The lines of a file, ready to be searched."""

    __slots__ = ("_numbers", "_starts", "_text", "length")

    def __init__(self, lines: Sequence[str]) -> None:
        self.length = len(lines)
        self._numbers: list[int] = []  # of the lines that are not blank
        self._starts: list[int] = []  # where each of them begins in `_text`
        plain: list[str] = []
        place = 0
        for number, line in enumerate(lines, 1):
            if kept := compact(line[:_LONG]):
                self._numbers.append(number)
                self._starts.append(place)
                plain.append(kept)
                place += len(kept) + 1
        self._text = " ".join(plain)

    def near(self, needle: str, cited: Span) -> Span | None:
        """Where a compacted quotation stands, as close to the cited lines as can be, and not too far from them."""
        last = min(cited[1], cited[0] + _WIDE)
        here, low, high = self._offset(cited[0]), self._offset(cited[0] - AWAY), self._offset(last + AWAY + 1)
        after = self._text.find(needle, here, high + len(needle))
        before = self._text.rfind(needle, low, here + len(needle) - 1)
        spans = [self._span(place, needle) for place in (before, after) if place >= 0]
        close = [span for span in spans if _distance(span, cited) <= AWAY]
        return min(close, key=lambda span: (_distance(span, cited), span), default=None)

    def anywhere(self, needle: str) -> tuple[Span, bool] | None:
        """Where a compacted quotation stands first, and whether it stands nowhere else."""
        place = self._text.find(needle)
        if place < 0:
            return None
        return self._span(place, needle), self._text.find(needle, place + 1) < 0

    def _offset(self, number: int) -> int:
        """Where the first line that is not blank, from one on, begins."""
        index = bisect_left(self._numbers, number)
        return self._starts[index] if index < len(self._starts) else len(self._text)

    def _span(self, place: int, needle: str) -> Span:
        first = bisect_right(self._starts, place) - 1
        last = bisect_right(self._starts, place + len(needle) - 1) - 1
        return self._numbers[first], self._numbers[last]


def compact(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def needle_of(quote: str) -> str:
    """What to look for: the quotation without spacing and the marks of a diff; empty when it has no word."""
    text = quote[:QUOTE]
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and all(line.startswith("+") and not line.startswith("++") for line in lines):
        text = "\n".join(line[1:] for line in lines)
    needle = compact(text)
    return needle if any(letter.isalnum() for letter in needle) else ""


def _distance(span: Span, cited: Span) -> int:
    """How many lines lie between two ranges; 0 when they touch."""
    return max(0, span[0] - cited[1], cited[0] - span[1])

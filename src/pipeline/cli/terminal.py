"""What a terminal can show: colours where they are wanted, and text from files made inert."""

import os
import unicodedata
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Style:
    """The colours in use; without them every text stays as it is."""

    colours: bool

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        """Colours only on a terminal, and not when `NO_COLOR` is set."""
        return cls(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")

    def error(self, text: str) -> str:
        return self._paint("1;31", text)

    def warning(self, text: str) -> str:
        return self._paint("1;33", text)

    def good(self, text: str) -> str:
        return self._paint("32", text)

    def name(self, text: str) -> str:
        return self._paint("1", text)

    def quiet(self, text: str) -> str:
        return self._paint("36", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text


def inert(text: str) -> str:
    """Text on one line that can neither move the cursor, change colours nor reverse the reading direction."""
    return "".join(" " if c in "\t\n" else "\N{REPLACEMENT CHARACTER}" if _acts(c) else c for c in text)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_width(character) for character in text)


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

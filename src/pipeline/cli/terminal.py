"""What a terminal can show: colours where they are wanted, and text from files made inert."""

import os
from dataclasses import dataclass
from typing import TextIO

from pipeline.observe.text import REPLACED, is_active


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
    """Text on one line that keeps its columns and can neither move the cursor nor reverse the reading direction."""
    return "".join(" " if c in "\t\n" else REPLACED if is_active(c) else c for c in text)

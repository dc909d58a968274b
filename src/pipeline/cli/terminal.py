"""What a terminal can show: colours where they are wanted, and text from files made inert."""

import os
import shutil
from dataclasses import dataclass
from typing import TextIO

from pipeline.observe.text import REPLACED, is_active

UNLIMITED = 1000  # columns of a line that no terminal has to fit


@dataclass(frozen=True, slots=True)
class Style:
    """The colours in use; without them every text stays as it is. And how wide a line may be."""

    colours: bool
    width: int = UNLIMITED

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        """Colours only on a terminal, and not when `NO_COLOR` is set."""
        if not stream.isatty():
            return cls(colours=False)
        colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colours, shutil.get_terminal_size().columns)

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

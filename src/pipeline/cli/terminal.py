"""What a terminal can show: colours where they are wanted, and text from files made inert."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from pipeline.text import REPLACEMENT, is_control

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


def sanitize(text: str) -> str:
    """Text on one line that keeps its columns and can neither move the cursor nor reverse the reading direction."""
    return "".join(" " if c in "\t\n" else REPLACEMENT if is_control(c) else c for c in text)


def reopen_closed_streams() -> None:
    """Have streams that are closed lead nowhere, so that no file of the command comes to stand in their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8", errors="replace")  # noqa: SIM115 - open to the end
            setattr(sys, name, nowhere)


def flush_streams() -> None:
    """Write what is left to be written; what takes no more leads nowhere, or Python would complain of it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@contextmanager
def best_effort_output() -> Iterator[None]:
    """Print how a command ended: where nobody can read it, the exit code says it all the same."""
    try:
        yield
    except BrokenPipeError:
        flush_streams()
    except OSError as error:
        flush_streams()
        with suppress(OSError):
            click.echo(f"error: the output cannot be written: {error.strerror}", err=True)

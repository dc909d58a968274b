"""The terminal and the standard streams: colors, safe text, and output that nobody can read."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from pipeline.text import sanitize as sanitize  # noqa: PLC0414 - for the commands about findings and reviews

UNLIMITED = 1000  # columns where no terminal wraps the lines


@dataclass(frozen=True, slots=True)
class Style:
    """The colors and the width of an output stream; without colors every text stays as it is."""

    colors: bool
    width: int = UNLIMITED

    @classmethod
    def of(cls, stream: TextIO) -> "Style":
        """Use colors only on a terminal, and not if `NO_COLOR` is set."""
        if not stream.isatty():
            return cls(colors=False)
        colors = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colors, shutil.get_terminal_size().columns)

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
        return f"\x1b[{code}m{text}\x1b[0m" if self.colors else text


def reopen_closed_streams() -> None:
    """Connect closed standard streams to /dev/null, so that no file the command opens takes their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = Path(os.devnull).open(mode, encoding="utf-8", errors="replace")  # noqa: SIM115 - open until exit
            setattr(sys, name, null)


def flush_streams() -> None:
    """Write buffered output; redirect a stream that fails to /dev/null, or Python would complain about it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


@contextmanager
def best_effort_output() -> Iterator[None]:
    """Print a result that the exit code repeats: output that cannot be written does not change the exit code."""
    try:
        yield
    except BrokenPipeError:
        flush_streams()
    except OSError as error:
        flush_streams()
        with suppress(OSError):
            click.echo(f"error: cannot write the output: {error.strerror}", err=True)

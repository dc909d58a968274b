"""A command on a terminal of a given size, and what stands on its screen in the end."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

QUESTION = b"): "  # how a question to a person ends
_PIECES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|([\r\n])|([^\x1b\r\n]+)")


def run_on_screen(argv: Sequence[str], cwd: Path, columns: int = 80, lines: int = 24, typed: Sequence[str] = ()) -> str:
    """Run a command with a terminal for everything, and type a line at each question; all that it wrote."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with subprocess.Popen(argv, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        written = _conversation(ours, iter(typed))
        program.wait(60)
    os.close(ours)
    return written.decode()


def run_until(argv: Sequence[str], cwd: Path, words: bytes) -> tuple[str, int]:
    """Run a command on a terminal and interrupt it when it shows some words; all that it wrote, and its exit code."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with subprocess.Popen(argv, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        written, interrupted = b"", False
        with suppress(OSError):  # how a terminal says that nobody is left on its other end
            while more := os.read(ours, 65536):
                written += more
                if words in written and not interrupted:
                    program.send_signal(signal.SIGINT)
                    interrupted = True
        code = program.wait(60)
    os.close(ours)
    return written.decode(), code


def _conversation(descriptor: int, typed: Iterator[str]) -> bytes:
    gathered = b""
    try:
        while more := os.read(descriptor, 65536):
            gathered += more
            if gathered.endswith(QUESTION) and (line := next(typed, None)) is not None:
                os.write(descriptor, f"{line}\n".encode())
    except OSError:  # how a terminal says that nobody is left on its other end
        pass
    return gathered


def shown(written: str) -> list[str]:
    """The lines of a screen, scrolled away or not, after what was written; only what the commands use is understood."""
    rows, row, column = [""], 0, 0
    for piece in _PIECES.finditer(written):
        numbers, action, control, text = piece.groups()
        if text:
            rows[row] = (rows[row].ljust(column)[:column] + text + rows[row][column + len(text) :]).rstrip()
            column += len(text)
        elif control == "\r":
            column = 0
        elif control == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif action == "A":
            row = max(row - int(numbers or 1), 0)
        elif action == "K":
            rows[row] = ""
        elif action not in (None, "m", "h", "l"):
            raise AssertionError(f"not understood: {piece.group()!r}")
    return rows

"""The standard streams as a command finds them: closed from the start, full, or with nobody at the other end."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click


def open_closed() -> None:
    """Have streams that are closed lead nowhere, so that no file of the command comes to stand in their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8", errors="replace")  # noqa: SIM115 - open to the end
            setattr(sys, name, nowhere)


def let_go() -> None:
    """Write what is left to be written; what takes no more leads nowhere, or Python would complain of it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@contextmanager
def telling() -> Iterator[None]:
    """Print how a command ended: where nobody can read it, the exit code says it all the same."""
    try:
        yield
    except BrokenPipeError:
        let_go()
    except OSError as error:
        let_go()
        with suppress(OSError):
            click.echo(f"error: the output cannot be written: {error.strerror}", err=True)

"""Programs on this machine. Whatever happens, nothing that a program started is left when `run` returns or raises.

What a program writes is kept and handed on without the secrets in it.
"""

import asyncio
import errno
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from subprocess import DEVNULL, PIPE, Popen
from typing import IO

from pipeline.backends import sweep
from pipeline.backends.child import Child
from pipeline.backends.spool import Lines, Redacted, Spool
from pipeline.engine.process import Command, Ending, Finished, OnLine
from pipeline.redaction import PATTERNS_ONLY, Redactor


class LocalProcesses:
    """Runs programs here. Each carries `label` in its marker, by which `sweep.kill_labelled` finds what was left."""

    def __init__(self, label: str, grace: float = 5.0, redactor: Redactor = PATTERNS_ONLY) -> None:
        self._label = label
        self._grace = grace
        self._redactor = redactor

    async def run(self, command: Command, on_line: OnLine | None = None) -> Finished:
        """Run a program to its end; a command that cannot be run is an ending too."""
        token = f"{self._label}:{secrets.token_hex(16)}"
        command.artifacts.mkdir(parents=True, exist_ok=True)
        lines = Lines(on_line or _nobody)
        with spool(command, "stdout") as out, spool(command, "stderr") as err:
            program = start(command, token)
            if isinstance(program, str):
                return finished(out, err, Ending.SPAWN_ERROR, message=self._redactor.text(program))
            sinks = (out.write, lines.feed) if on_line else (out.write,)
            with Redacted(self._redactor, *sinks) as said, Redacted(self._redactor, err.write) as complained:
                child = Child(program, (said.feed,), (complained.feed,))
                ending, code = await self._see_through(command, child, token)
            lines.finish()
            return finished(out, err, *how_it_ended(ending, code), duration=child.duration)

    async def _see_through(self, command: Command, child: Child, token: str) -> tuple[Ending, int | None]:
        try:
            ending = await self._watch(command, child, token)
            if ending is not Ending.EXITED:
                await child.drained()
        finally:
            code = child.close()
        return ending, code

    async def _watch(self, command: Command, child: Child, token: str) -> Ending:
        try:
            child.watch()
            ending = await child.over(command.timeout, command.idle)
            if ending is Ending.EXITED:
                await child.drained()
            return ending
        finally:
            grace = 0.0 if child.exited else self._grace
            await to_the_end(partial(sweep.stop, child.pid, token, grace))


async def to_the_end(stop: Callable[[], None]) -> None:
    """Run `stop` in a thread of its own until it is done; a cancellation that comes meanwhile is raised afterwards.

    A task would not do: whoever cancels every task of the loop would cancel it too.
    """
    pool = ThreadPoolExecutor(1)
    done = asyncio.get_running_loop().run_in_executor(pool, stop)
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError as error:
            cancelled = error
    pool.shutdown()
    done.result()
    if cancelled:
        raise cancelled


def _nobody(line: bytes) -> None:
    """Take no notice."""


def spool(command: Command, name: str) -> Spool:
    """What takes one of the two streams that a command writes."""
    return Spool(command.artifacts / f"{name}.log", command.output_bytes)


def start(command: Command, token: str, *, talks: bool = False) -> Popen[bytes] | str:
    """The program, with its marker, or why it could not be started. One that talks has a pipe for its input."""
    if not command.argv:
        return "there is no program to run: the command is empty"
    with _stdin(command, talks=talks) as stdin:
        try:
            return Popen(
                command.argv,
                cwd=command.cwd,
                env={**command.env, sweep.MARKER: token},
                stdin=stdin,
                stdout=PIPE,
                stderr=PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _why(command, error)


@contextmanager
def _stdin(command: Command, *, talks: bool) -> Iterator[IO[bytes] | int]:
    """A file, since a pipe that nobody reads would stop the writer; nothing to say is no file, which some search."""
    if talks or not command.stdin:
        yield PIPE if talks else DEVNULL
        return
    with tempfile.TemporaryFile(dir=command.artifacts) as file:
        file.write(command.stdin.encode(errors="replace"))
        file.seek(0)
        yield file


def _why(command: Command, error: OSError | ValueError) -> str:
    name = command.argv[0]
    if isinstance(error, ValueError):
        return (
            f'"{name}" could not be started: its arguments or environment hold what no program can be given ({error})'
        )
    if error.filename is not None and str(error.filename) == str(command.cwd):
        return f'"{name}" could not be started in "{command.cwd}": {_words(error)}'
    match error:
        case FileNotFoundError():
            return f'"{name}" was not found, or is a script whose interpreter was not found'
        case PermissionError():
            return f'"{name}" may not be executed'
        case _:
            return f'"{name}" could not be started: {_words(error)}'


def _words(error: OSError) -> str:
    match error.errno:
        case errno.ENOENT:
            return "there is no such directory"
        case errno.E2BIG:
            return "its arguments and environment are too long; give long text on its standard input"
        case _:
            return error.strerror or str(error)


def how_it_ended(ending: Ending, code: int | None) -> tuple[Ending, int | None, str]:
    """An ending with the exit code, or the signal that somebody else sent."""
    if ending is not Ending.EXITED:
        return ending, None, ""
    if code is not None and code < 0:
        return Ending.SIGNAL, None, _signal_name(-code)
    return Ending.EXITED, code, ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def finished(
    out: Spool,
    err: Spool,
    ending: Ending,
    exit_code: int | None = None,
    message: str = "",
    *,
    duration: float = 0.0,
) -> Finished:
    """How a program ended, with what it wrote."""
    return Finished(
        ending=ending,
        exit_code=exit_code,
        duration=duration,
        stdout=out.path,
        stderr=err.path,
        stdout_tail=out.tail(),
        stderr_tail=err.tail(),
        truncated=out.truncated or err.truncated,
        message=message,
    )

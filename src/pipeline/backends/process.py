"""Programs on this machine. Whatever happens, nothing that a program started is left when `run` returns or raises.

What a program writes is kept and handed on without the secrets in it.
"""

import asyncio
import errno
import fcntl
import os
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO

from pipeline.backends import process_tree as sweep
from pipeline.backends.spool import LineSplitter, RedactionFilter, Spool
from pipeline.engine.ports import ExitReason, OnLine, ProcessCommand, ProcessResult
from pipeline.redaction import PATTERNS_ONLY, Redactor

Sink = Callable[[bytes], None]

_CHUNK = 64 * 1024  # what a pipe usually holds
_WIDE = 1024 * 1024  # what ours hold: some programs exit without waiting for what they wrote to be read
_LAST_WORDS = 1.0  # seconds an ended program's pipes are read on: an orphan may hold them open for ever
_POLL = 0.05  # seconds between two looks, where the system does not tell by itself that a program exited


class ChildProcess:
    """A started program, whose leader stays unreaped until `close`: so long its id is nobody else's."""

    def __init__(self, program: Popen[bytes], out: Sequence[Sink], err: Sequence[Sink]) -> None:
        self.pid = program.pid
        self.exited = False
        self._program = program
        self._loop = asyncio.get_running_loop()
        self._began = self._ended = self._last_output = self._loop.time()
        self._sinks = [(pipe, sinks) for pipe, sinks in ((program.stdout, out), (program.stderr, err)) if pipe]
        self._reading: set[IO[bytes]] = set()
        self._pidfd: int | None = None
        self._changed = asyncio.Event()
        self._silent = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def duration(self) -> float:
        """How long it ran, in seconds."""
        return self._ended - self._began

    def watch(self) -> None:
        """Begin to read what it writes and to notice that it exits."""
        for pipe, sinks in self._sinks:
            os.set_blocking(pipe.fileno(), False)
            _widen(pipe)
            self._reading.add(pipe)
            self._loop.add_reader(pipe.fileno(), self._read, pipe, sinks)
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._exit)
        except (AttributeError, OSError):
            self._poll()

    async def over(self, in_all: float | None, idle: float | None) -> ExitReason:
        """Wait until it exits, runs longer than `in_all` or is silent for `idle`; raises what a sink raised."""
        while not self.exited and not self._failure:
            limit, ending = self._limit(in_all, idle)
            if limit is not None and self._loop.time() >= limit:
                self._ended = self._loop.time()
                return ending
            with suppress(TimeoutError):
                async with asyncio.timeout_at(limit):
                    await self._changed.wait()
        self._raise_failure()
        return ExitReason.EXITED

    async def drain(self) -> None:
        """Wait until it has closed its pipes, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._silent.wait()
        self._raise_failure()

    def close(self) -> int | None:
        """Let go of it: no more is read, and its exit code (or minus its signal) is taken."""
        for pipe in tuple(self._reading):
            self._hang_up(pipe)
        for pipe, _ in self._sinks:
            pipe.close()
        self._forget_exit()
        with suppress(TimeoutExpired):
            self._program.wait(timeout=_LAST_WORDS)
        return self._program.returncode

    def _limit(self, in_all: float | None, idle: float | None) -> tuple[float | None, ExitReason]:
        limits = [(self._began, in_all, ExitReason.TIMEOUT), (self._last_output, idle, ExitReason.IDLE)]
        ends = [(since + seconds, ending) for since, seconds, ending in limits if seconds is not None]
        return min(ends, default=(None, ExitReason.EXITED))

    def _read(self, pipe: IO[bytes], sinks: Sequence[Sink]) -> None:
        try:
            data = os.read(pipe.fileno(), _CHUNK)
            if not data:
                self._hang_up(pipe)
                return
            self._last_output = self._loop.time()
            for take in sinks:
                take(data)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - a callback has nobody to raise it to: `over` and `drain` do
            self._fail(error)

    def _hang_up(self, pipe: IO[bytes]) -> None:
        self._loop.remove_reader(pipe.fileno())
        self._reading.discard(pipe)
        if not self._reading:
            self._silent.set()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        for pipe in tuple(self._reading):
            self._hang_up(pipe)
        self._changed.set()

    def _raise_failure(self) -> None:
        if self._failure:
            raise self._failure

    def _poll(self) -> None:
        if self._program.poll() is None:
            self._loop.call_later(_POLL, self._poll)
        else:
            self._exit()

    def _exit(self) -> None:
        self.exited = True
        self._ended = self._loop.time()
        self._forget_exit()
        self._changed.set()

    def _forget_exit(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


def _widen(pipe: IO[bytes]) -> None:
    with suppress(OSError, AttributeError):  # the system may have no such call, or not allow so much: it works without
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _WIDE)


class LocalProcesses:
    """Runs programs here. Each carries `label` in its marker, by which `sweep.kill_labelled` finds what was left."""

    def __init__(self, label: str, grace: float = 5.0, redactor: Redactor = PATTERNS_ONLY) -> None:
        self._label = label
        self._grace = grace
        self._redactor = redactor

    async def run(self, command: ProcessCommand, on_line: OnLine | None = None) -> ProcessResult:
        """Run a program to its end; a command that cannot be run is an ending too."""
        token = f"{self._label}:{secrets.token_hex(16)}"
        command.artifacts.mkdir(parents=True, exist_ok=True)
        lines = LineSplitter(on_line or _nobody)
        with open_spool(command, "stdout") as out, open_spool(command, "stderr") as err:
            program = start_program(command, token)
            if isinstance(program, str):
                return process_result(out, err, ExitReason.SPAWN_ERROR, message=self._redactor.text(program))
            sinks = (out.write, lines.feed) if on_line else (out.write,)
            with (
                RedactionFilter(self._redactor, *sinks) as said,
                RedactionFilter(self._redactor, err.write) as complained,
            ):
                child = ChildProcess(program, (said.feed,), (complained.feed,))
                ending, code = await self._see_through(command, child, token)
            lines.finish()
            return process_result(out, err, *describe_exit(ending, code), duration=child.duration)

    async def _see_through(
        self, command: ProcessCommand, child: ChildProcess, token: str
    ) -> tuple[ExitReason, int | None]:
        try:
            ending = await self._watch(command, child, token)
            if ending is not ExitReason.EXITED:
                await child.drain()
        finally:
            code = child.close()
        return ending, code

    async def _watch(self, command: ProcessCommand, child: ChildProcess, token: str) -> ExitReason:
        try:
            child.watch()
            ending = await child.over(command.timeout, command.idle)
            if ending is ExitReason.EXITED:
                await child.drain()
            return ending
        finally:
            grace = 0.0 if child.exited else self._grace
            await run_uninterrupted(partial(sweep.stop_process_tree, child.pid, token, grace))


async def run_uninterrupted(stop: Callable[[], None]) -> None:
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


def open_spool(command: ProcessCommand, name: str) -> Spool:
    """What takes one of the two streams that a command writes."""
    return Spool(command.artifacts / f"{name}.log", command.output_bytes)


def start_program(command: ProcessCommand, token: str, *, talks: bool = False) -> Popen[bytes] | str:
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
def _stdin(command: ProcessCommand, *, talks: bool) -> Iterator[IO[bytes] | int]:
    """A file, since a pipe that nobody reads would stop the writer; nothing to say is no file, which some search."""
    if talks or not command.stdin:
        yield PIPE if talks else DEVNULL
        return
    with tempfile.TemporaryFile(dir=command.artifacts) as file:
        file.write(command.stdin.encode(errors="replace"))
        file.seek(0)
        yield file


def _why(command: ProcessCommand, error: OSError | ValueError) -> str:
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


def describe_exit(ending: ExitReason, code: int | None) -> tuple[ExitReason, int | None, str]:
    """An ending with the exit code, or the signal that somebody else sent."""
    if ending is not ExitReason.EXITED:
        return ending, None, ""
    if code is not None and code < 0:
        return ExitReason.SIGNAL, None, _signal_name(-code)
    return ExitReason.EXITED, code, ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal has no name


def process_result(
    out: Spool,
    err: Spool,
    ending: ExitReason,
    exit_code: int | None = None,
    message: str = "",
    *,
    duration: float = 0.0,
) -> ProcessResult:
    """How a program ended, with what it wrote."""
    return ProcessResult(
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

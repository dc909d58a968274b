"""Starts programs on this machine: watched ones for stages and agents, and detached ones.

Nothing that a watched program started is left when `LocalProcesses.run` returns or raises, and its output is redacted
before it is kept or passed on.
"""

import asyncio
import errno
import fcntl
import os
import secrets
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired
from typing import IO

from pipeline.backends.process_tree import MARKER, stop_process_tree
from pipeline.backends.spool import LineSplitter, RedactionFilter, Spool, TextJoiner
from pipeline.engine.ports import ExitReason, FindPiece, OnLine, ProcessCommand, ProcessResult
from pipeline.redaction import PATTERNS_ONLY, Redactor

Sink = Callable[[bytes], None]
DetachedProgram = Popen[bytes]

_READ_SIZE = 64 * 1024
_PIPE_SIZE = 1024 * 1024  # some programs exit without waiting for their output to be read
_DRAIN_SECONDS = 1.0  # an orphan may hold the pipes of an ended program open forever
_POLL_SECONDS = 0.05  # between two looks where the system has no process descriptors


class ChildProcess:
    """A started program, watched by callbacks of the event loop, which no cancellation can stop.

    It stays unreaped until `close`, so that its pid cannot become another process's.
    """

    def __init__(self, program: Popen[bytes], stdout: Sequence[Sink], stderr: Sequence[Sink]) -> None:
        self.pid = program.pid
        self.exited = False
        self._program = program
        self._loop = asyncio.get_running_loop()
        self._started = self._ended = self._last_output = self._loop.time()
        self._sinks = [(pipe, sinks) for pipe, sinks in ((program.stdout, stdout), (program.stderr, stderr)) if pipe]
        self._open_pipes: set[IO[bytes]] = set()
        self._pidfd: int | None = None
        self._stopped = asyncio.Event()  # it exited, or a sink raised
        self._pipes_closed = asyncio.Event()
        self._sink_error: Exception | None = None

    @property
    def duration(self) -> float:
        """How long it ran, in seconds."""
        return self._ended - self._started

    def watch(self) -> None:
        """Start reading its output and waiting for its exit."""
        for pipe, sinks in self._sinks:
            os.set_blocking(pipe.fileno(), False)
            with suppress(OSError, AttributeError):  # the system may not support it, or not allow this size
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
            self._open_pipes.add(pipe)
            self._loop.add_reader(pipe.fileno(), self._read, pipe, sinks)
        try:
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._record_exit)
        except (AttributeError, OSError):
            self._poll()

    async def wait(self, time_limit: float | None = None, idle_limit: float | None = None) -> ExitReason:
        """Wait until it exits or reaches a limit, in seconds of running or of silence; raises what a sink raised."""
        while not self._stopped.is_set():
            limits = (
                (self._started, time_limit, ExitReason.TIMEOUT),
                (self._last_output, idle_limit, ExitReason.IDLE),
            )
            deadlines = [(since + seconds, reason) for since, seconds, reason in limits if seconds is not None]
            deadline, reason = min(deadlines, default=(None, ExitReason.EXITED))
            if deadline is not None and self._loop.time() >= deadline:
                self._ended = self._loop.time()
                return reason
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._stopped.wait()
        self._raise_sink_error()
        return ExitReason.EXITED

    async def drain(self) -> None:
        """Wait briefly for it to close its pipes; raise what a sink raised."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._pipes_closed.wait()
        self._raise_sink_error()

    def close(self) -> int | None:
        """Stop watching it, reap it and return its exit code, or minus the signal that killed it."""
        self._stop_reading()
        for pipe, _ in self._sinks:
            pipe.close()
        self._close_pidfd()
        with suppress(TimeoutExpired):
            self._program.wait(timeout=_DRAIN_SECONDS)
        return self._program.returncode

    def _read(self, pipe: IO[bytes], sinks: Sequence[Sink]) -> None:
        try:
            data = os.read(pipe.fileno(), _READ_SIZE)
            if not data:
                self._stop_reading(pipe)
                return
            self._last_output = self._loop.time()
            for sink in sinks:
                sink(data)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - a callback has no caller: `wait` and `drain` raise it
            self._sink_error = error
            self._stop_reading()
            self._stopped.set()

    def _stop_reading(self, *pipes: IO[bytes]) -> None:
        for pipe in pipes or tuple(self._open_pipes):
            self._loop.remove_reader(pipe.fileno())
            self._open_pipes.discard(pipe)
        if not self._open_pipes:
            self._pipes_closed.set()

    def _raise_sink_error(self) -> None:
        if self._sink_error:
            raise self._sink_error

    def _poll(self) -> None:
        if self._program.poll() is None:
            self._loop.call_later(_POLL_SECONDS, self._poll)
        else:
            self._record_exit()

    def _record_exit(self) -> None:
        self.exited = True
        self._ended = self._loop.time()
        self._close_pidfd()
        self._stopped.set()

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


class LocalProcesses:
    """Runs programs on this machine. `label` marks them, so that `kill_by_label` finds them after a crash."""

    def __init__(self, label: str, grace: float = 5.0, redactor: Redactor = PATTERNS_ONLY) -> None:
        self._label = label
        self._grace = grace
        self._redactor = redactor

    async def run(
        self, command: ProcessCommand, on_line: OnLine | None = None, on_error_line: OnLine | None = None
    ) -> ProcessResult:
        """Run a program to its end. A program that cannot be started is a result too."""
        token = new_token(self._label)
        command.artifacts.mkdir(parents=True, exist_ok=True)
        lines = LineSplitter(on_line or _ignore)
        error_lines = LineSplitter(on_error_line or _ignore)
        with open_spool(command, "stdout") as out, open_spool(command, "stderr") as err:
            program = start_program(command, token)
            if isinstance(program, str):
                return process_result(out, err, ExitReason.SPAWN_ERROR, message=self._redactor.text(program))
            with ExitStack() as stack:
                stdout: tuple[Sink, ...]
                if command.find_piece:  # then what is kept differs from what is read
                    kept = stack.enter_context(open_log(out, self._redactor, command.find_piece))
                    stdout = (kept, stack.enter_context(RedactionFilter(self._redactor, lines.feed)).feed)
                else:
                    stdout = (stack.enter_context(RedactionFilter(self._redactor, out.write, lines.feed)).feed,)
                stderr = stack.enter_context(RedactionFilter(self._redactor, err.write, error_lines.feed))
                child = ChildProcess(program, stdout, (stderr.feed,))
                reason, code = await self._watch(child, command, token)
            lines.finish()
            error_lines.finish()
            return process_result(out, err, reason, code, duration=child.duration)

    async def _watch(self, child: ChildProcess, command: ProcessCommand, token: str) -> tuple[ExitReason, int | None]:
        """Wait until the program ends or reaches a limit, and stop everything it started."""
        try:
            try:
                child.watch()
                reason = await child.wait(command.timeout, command.idle)
                if reason is ExitReason.EXITED:
                    await child.drain()
            finally:
                grace = 0.0 if child.exited else self._grace
                await run_uninterrupted(partial(stop_process_tree, child.pid, token, grace))
            if reason is not ExitReason.EXITED:
                await child.drain()
        finally:
            code = child.close()
        return reason, code


def _ignore(_: bytes) -> None:
    """Take a line that nobody reads."""


def new_token(label: str) -> str:
    """A marker for one program and all it starts; `label` says which run it belongs to."""
    return f"{label}:{secrets.token_hex(16)}"


async def run_uninterrupted(stop: Callable[[], None]) -> None:
    """Run `stop` in a thread to its end, and only then let a cancellation through.

    A task would not do: code that cancels every task of the loop would cancel it too.
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


def open_spool(command: ProcessCommand, stream: str) -> Spool:
    """The file in the command's artifacts that keeps one of its streams."""
    return Spool(command.artifacts / f"{stream}.log", command.output_bytes)


@contextmanager
def open_log(spool: Spool, redactor: Redactor, find_piece: FindPiece | None) -> Iterator[Sink]:
    """What takes the output of a program for its file, and keeps secrets out of it, whole or in pieces of a text."""
    with RedactionFilter(redactor, spool.write) as lines:
        if find_piece is None:
            yield lines.feed
        else:
            with TextJoiner(redactor, find_piece, lines.feed) as joined:
                yield joined.feed


def start_program(command: ProcessCommand, token: str, *, interactive: bool = False) -> Popen[bytes] | str:
    """Start a program with its marker, or say why it cannot be started. An interactive one gets a pipe as its input."""
    if not command.argv:
        return "the command is empty"
    with ExitStack() as stack:
        stdin: IO[bytes] | int = PIPE if interactive else DEVNULL  # search tools would search an empty file
        if command.stdin and not interactive:  # a file, because a pipe that nobody reads would block the writer
            stdin = stack.enter_context(tempfile.TemporaryFile(dir=command.artifacts))
            stdin.write(command.stdin.encode(errors="replace"))
            stdin.seek(0)
        try:
            return Popen(
                command.argv,
                cwd=command.cwd,
                env={**command.env, MARKER: token},
                stdin=stdin,
                stdout=PIPE,
                stderr=PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _start_error(command, error)


def _start_error(command: ProcessCommand, error: OSError | ValueError) -> str:
    name = f'"{command.argv[0]}"'
    if isinstance(error, ValueError):
        return f"{name} could not be started: invalid argument or environment variable ({error})"
    reason = error.strerror or str(error)
    if error.filename is not None and str(error.filename) == str(command.cwd):
        return f'{name} could not be started in "{command.cwd}": {reason}'
    match error.errno:
        case errno.ENOENT:
            return f"{name} was not found, or is a script whose interpreter was not found"
        case errno.EACCES | errno.EPERM:
            return f"{name} may not be executed"
        case errno.E2BIG:
            return f"{name} could not be started: arguments and environment are too long; use its standard input"
        case _:
            return f"{name} could not be started: {reason}"


def process_result(
    out: Spool,
    err: Spool,
    reason: ExitReason,
    code: int | None = None,
    *,
    message: str = "",
    duration: float = 0.0,
) -> ProcessResult:
    """How a program ended and what it wrote. A negative `code` is the signal that something else sent it."""
    if reason is ExitReason.EXITED and code is not None and code < 0:
        names = {number.value: number.name for number in signal.Signals}
        reason, message = ExitReason.SIGNAL, names.get(-code, f"signal {-code}")  # a real-time signal has no name
    return ProcessResult(
        ending=reason,
        exit_code=code if reason is ExitReason.EXITED else None,
        duration=duration,
        stdout=out.path,
        stderr=err.path,
        stdout_tail=out.tail(),
        stderr_tail=err.tail(),
        truncated=out.truncated or err.truncated,
        message=message,
    )


def start_detached(argv: Sequence[str], cwd: Path, output: IO[bytes]) -> DetachedProgram:
    """Start a program that outlives this process, with its output in a file. Raises OSError if it cannot be started."""
    program = Popen(argv, cwd=cwd, stdin=DEVNULL, stdout=output, stderr=STDOUT, start_new_session=True)
    threading.Thread(target=program.wait, daemon=True).start()  # reaps it, so that it does not stay a zombie
    return program

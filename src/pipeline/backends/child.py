"""A program that runs: its pipes and its exit are watched by callbacks of the loop, which no cancellation can stop."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from typing import IO

from pipeline.engine.process import Ending

Sink = Callable[[bytes], None]

_CHUNK = 64 * 1024  # what a pipe usually holds
_WIDE = 1024 * 1024  # what ours hold: some programs exit without waiting for what they wrote to be read
_LAST_WORDS = 1.0  # seconds an ended program's pipes are read on: an orphan may hold them open for ever
_POLL = 0.05  # seconds between two looks, where the system does not tell by itself that a program exited


class Child:
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

    async def over(self, in_all: float | None, idle: float | None) -> Ending:
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
        return Ending.EXITED

    async def drained(self) -> None:
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

    def _limit(self, in_all: float | None, idle: float | None) -> tuple[float | None, Ending]:
        limits = [(self._began, in_all, Ending.TIMEOUT), (self._last_output, idle, Ending.IDLE)]
        ends = [(since + seconds, ending) for since, seconds, ending in limits if seconds is not None]
        return min(ends, default=(None, Ending.EXITED))

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
        except Exception as error:  # noqa: BLE001 - a callback has nobody to raise it to: `over` and `drained` do
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

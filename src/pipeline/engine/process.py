"""The port behind which programs run: what to start, how it ended, and that nothing of it is left afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run. Its standard output and error are spooled whole to files in `artifacts`."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # the whole environment of the child
    artifacts: Path  # a directory, made when it is not there; gets stdout.log and stderr.log
    stdin: str = ""
    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without output
    output_bytes: int = 64 * 1024 * 1024  # of each stream; the rest is dropped and said so


class Ending(StrEnum):
    """How a program ended."""

    EXITED = "exited"
    SIGNAL = "signal"  # killed by somebody else
    TIMEOUT = "timeout"
    IDLE = "idle"
    SPAWN_ERROR = "spawn_error"  # it never started


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a program."""

    ending: Ending
    exit_code: int | None  # None unless it exited by itself
    duration: float
    stdout: Path
    stderr: Path
    stdout_tail: str  # the last 30 lines, at most 4 KB
    stderr_tail: str
    truncated: bool = False
    message: str = ""  # why it did not start, or which signal


OnLine = Callable[[bytes], None]


class Processes(Protocol):
    """Runs programs. Cancelling the task that awaits `run` stops the whole process tree before it is raised again."""

    async def run(self, command: Command, on_line: OnLine | None = None) -> Finished: ...

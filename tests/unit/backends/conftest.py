"""Real programs, and a look afterwards at whether anything of them is left."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.backends import process_tree as sweep
from pipeline.backends.process import LocalProcesses
from pipeline.engine.ports import OnLine, ProcessCommand, ProcessResult

PATH = "/usr/local/bin:/usr/bin:/bin"
DEADLINE = 30.0


def alive(pid: int) -> bool:
    """Whether a process still runs."""
    return any(process.pid == pid and sweep.is_alive(process) for process in sweep.list_processes())


def labelled(label: str) -> list[int]:
    """The processes that carry a label."""
    return [
        process.pid for process in sweep.list_processes() if (sweep.read_marker(process) or "").startswith(f"{label}:")
    ]


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


class Bench:
    """Starts commands in a directory of the test's own."""

    def __init__(self, directory: Path, label: str) -> None:
        self.label = label
        self.cwd = directory / "cwd"
        self.artifacts = directory / "artifacts"
        self.processes = LocalProcesses(label, grace=0.2)

    def command(self, *argv: str, **options: Any) -> ProcessCommand:
        """A command with an environment of its own and nothing else."""
        return ProcessCommand(argv, **{"cwd": self.cwd, "env": {"PATH": PATH}, "artifacts": self.artifacts, **options})

    def shell(self, script: str, **options: Any) -> ProcessCommand:
        """A shell command."""
        return self.command("/bin/sh", "-c", script, **options)

    def run(self, command: ProcessCommand, on_line: OnLine | None = None) -> ProcessResult:
        """Run a command to its end."""
        return asyncio.run(self.processes.run(command, on_line))

    def pid(self) -> int:
        """The process id that a script wrote down."""
        return int((self.cwd / "pid").read_text())

    def left(self) -> set[int]:
        """What still runs of all that was started."""
        written = [self.pid()] if (self.cwd / "pid").exists() else []
        return {*labelled(self.label), *filter(alive, written)}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench that is clean afterwards."""
    made = Bench(tmp_path, f"test-{uuid.uuid4().hex}")
    made.cwd.mkdir()
    made.artifacts.mkdir()
    yield made
    left = made.left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left running"

"""Processes and disks for the tests of the journal."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program.py")


class Program:
    """A running `program.py`."""

    def __init__(self, words: tuple[object, ...]) -> None:
        command = [sys.executable, str(PROGRAM), *map(str, words)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def let_go(self) -> None:
        """Close its stdin, which it may be waiting for."""
        assert self.process.stdin is not None
        self.process.stdin.close()


Start = Callable[..., Program]
Mount = Callable[..., None]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `program.py` with some words; whatever still runs at the end is killed."""
    with ExitStack() as running:

        def begin(*words: object) -> Program:
            program = Program(words)
            running.enter_context(program.process)
            running.callback(program.process.kill)
            return program

        yield begin


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts something until the test is over; without the right to, the test is skipped."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    with ExitStack() as mounted:

        def do(*words: object) -> None:
            done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"cannot mount here: {done.stderr.strip()}")
            if "remount" not in str(words):
                mounted.callback(subprocess.run, ["umount", "--lazy", str(words[-1])], check=True)

        yield do

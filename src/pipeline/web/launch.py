"""Processes that the dashboard starts to run or resume workflows. Each is a session of its own and survives the server.

What such a process prints is added to a file in the store, named after the run.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.runs import AWF_COMMAND
from pipeline.backends.process import DetachedProgram, start_detached
from pipeline.errors import AwfError
from pipeline.journal import check_run_id

OUTPUT_FOLDER = "started"
_TIMEOUT = 10.0  # seconds a page waits; the process continues
_POLL_INTERVAL = 0.05
_MAX_OUTPUT = 4_000  # bytes of a process's output that an error shows


class NotStarted(AwfError):
    """A process ended before it did anything for its run; `output` is what it printed."""

    def __init__(self, message: str, help: str, output: str = "") -> None:
        super().__init__(message, help=help)
        self.output = output


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that was started, and the file that its output is added to."""

    process: DetachedProgram
    output_file: Path
    start: int  # the size of the file before

    def output(self) -> str:
        """The end of what it has printed so far."""
        with self.output_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.start, size - _MAX_OUTPUT))
            return file.read().decode(errors="replace").strip()


def start_process(arguments: Sequence[str], store: Path, run_id: str, cwd: Path) -> StartedProcess:
    """Start awf with these arguments in a session of its own, so that stopping the server does not stop it."""
    check_run_id(run_id)
    output_file = store / OUTPUT_FOLDER / f"{run_id}.log"
    try:
        output_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            start = os.fstat(file.fileno()).st_size
            process = start_detached([*AWF_COMMAND, *arguments], cwd, file)
    except OSError as error:
        raise NotStarted(
            f"run {run_id} could not be started: {error.strerror} ({error.filename})",
            help="check that the store is writable and the project's directory exists",
        ) from None
    return StartedProcess(process, output_file, start)


def wait_until_started(started: StartedProcess, has_started: Callable[[], bool]) -> None:
    """Return as soon as the journal shows that the process works; raise NotStarted if it ended before, or is slow."""
    for _ in range(int(_TIMEOUT / _POLL_INTERVAL)):
        ended = started.process.poll() is not None
        if has_started():
            return
        if ended and started.process.returncode == 0:  # it has handed the run to a cluster
            return
        if ended:
            raise NotStarted(
                "the process ended before it recorded anything",
                help="its output may show why; the run was not changed",
                output=started.output(),
            )
        time.sleep(_POLL_INTERVAL)
    raise NotStarted(
        f"the process has recorded nothing in {_TIMEOUT:g} seconds",
        help="it still runs; its run appears in the list of runs",
        output=started.output(),
    )

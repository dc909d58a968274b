"""Runs that the dashboard starts or takes up: each a process of its own, which goes on when the dashboard ends.

What such a process prints is kept in the store, in a file of the run's name.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.runs import AWF_COMMAND
from pipeline.backends.process import DetachedProgram, start_detached
from pipeline.errors import AwfError
from pipeline.journal import check_run_id

STARTED = "started"  # the directory of these files in a store
_PATIENCE = 10.0  # seconds until the page stops waiting; the process goes on
_LOOK = 0.05
_SHOWN = 4_000  # bytes of what a process said before it ended


class NotStarted(AwfError):
    """A process ended before its run was under way; `output` is what it said."""

    def __init__(self, message: str, help: str, output: str = "") -> None:
        super().__init__(message, help=help)
        self.output = output


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that was started."""

    process: DetachedProgram
    output: Path
    before: int  # bytes that its file held

    def said(self) -> str:
        """The end of what it printed so far."""
        with self.output.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.before, size - _SHOWN))
            return file.read().decode(errors="replace").strip()


def launch(arguments: Sequence[str], store: Path, run_id: str, cwd: Path) -> Launched:
    """Start this program once more, in a session of its own: what ends the dashboard does not reach it."""
    check_run_id(run_id)
    output = store / STARTED / f"{run_id}.log"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            before = os.fstat(file.fileno()).st_size
            process = start_detached([*AWF_COMMAND, *arguments], cwd, file)
    except OSError as error:
        what = f"run {run_id} could not be started: {error.strerror} ({error.filename})"
        raise NotStarted(
            what, "see to it that the store can be written, and the project's directory is there"
        ) from None
    return Launched(process, output, before)


async def under_way(launched: Launched, is_there: Callable[[], bool]) -> None:
    """Wait until its run is seen to move; raises NotStarted with what was said when it ends before, or is slow."""
    for _ in range(int(_PATIENCE / _LOOK)):
        over = launched.process.poll() is not None
        if await asyncio.to_thread(is_there):
            return
        if over and launched.process.returncode == 0:  # it has handed the run over
            return
        if over:
            what = "the process that was started ended before it did anything"
            raise NotStarted(what, "what it said may help; nothing of the run was changed", launched.said())
        await asyncio.sleep(_LOOK)
    what = f"the process that was started has done nothing that is on record in {_PATIENCE:g} seconds"
    raise NotStarted(what, "it goes on, and its run appears in the list of runs", launched.said())

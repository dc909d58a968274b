"""Kills a run in the middle of its work, as a power cut would, and puts the terminal right."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

from pipeline.engine.records import VisitCompleted
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal

_LONGEST = 45.0  # seconds until it is killed wherever it is
_LOOK = 0.02
_WORK = 0.2  # seconds that the stage under way has, so that something is left half done
_SHOW_CURSOR = "\x1b[?25h"


def kill_after(child: "subprocess.Popen[bytes]", store: Path, run_id: str, stages: int) -> bool:
    """Kill the process that drives a run once so many stages are on record; False when it ended by itself."""
    deadline = time.monotonic() + _LONGEST
    while child.poll() is None and stages_done(store, run_id) < stages and time.monotonic() < deadline:
        time.sleep(_LOOK)
    time.sleep(_WORK)
    alive = child.poll() is None
    child.kill()
    child.wait()
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\n{_SHOW_CURSOR}")  # the live view had no time to do it
        sys.stderr.flush()
    return alive


def stages_done(store: Path, run_id: str) -> int:
    """How many stages of a run are on record."""
    with contextlib.closing(SqliteJournal(store)) as journal, contextlib.suppress(AwfError):
        return sum(isinstance(entry.record, VisitCompleted) for entry in journal.entries(run_id))
    return 0

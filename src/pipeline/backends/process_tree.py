"""Finds every process that a program started, and kills them until none is left.

A process belongs to a program if it has the program's marker in its environment, is in its session, descends from one
that does, or was seen doing so. A process that clears its environment and leaves the session after its parents ended
is not found.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil

MARKER = "AWF_PROCESS"
_POLL_SECONDS = 0.01
_KILL_SECONDS = 10.0  # a process stuck in the kernel dies when the kernel lets it; no run need wait for that


def list_processes() -> Iterator[psutil.Process]:
    """Yield every process of this machine. Two are equal if both the pid and the time of the start are."""
    for pid in psutil.pids():
        if pid == 0:  # macOS lists its kernel as 0, which means "myself" to every call that takes a pid
            continue
        with suppress(psutil.Error):  # it ended meanwhile
            yield psutil.Process(pid)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def read_marker(process: psutil.Process) -> str | None:
    """Return the marker of a process; None if it has none, has ended, or belongs to another user."""
    try:
        return process.environ().get(MARKER)
    except (psutil.Error, OSError):
        return None


def stop_process_tree(leader: int, token: str, grace: float) -> None:
    """Stop a program that leads its own session: SIGTERM to its group, then after `grace` seconds SIGKILL to its tree.

    It blocks. The leader must not have been reaped, or its pid might be another process's by now.
    """
    tree = ProcessTree(lambda process: _read_id(os.getsid, process) == leader or read_marker(process) == token)
    if grace > 0:
        tree.running()  # remembers the descendants, who are not known as such once their parents are gone
        _signal_group(leader, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while _group_runs(leader) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    _signal_group(leader, signal.SIGKILL)
    tree.kill()


def _group_runs(leader: int) -> bool:
    return any(is_alive(process) for process in list_processes() if _read_id(os.getpgid, process) == leader)


def _read_id(read: Callable[[int], int], process: psutil.Process) -> int | None:
    """Return the id of a process's session or group; None if it has ended."""
    try:
        return read(process.pid)
    except OSError:
        return None


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_by_label(label: str) -> int:
    """Kill what the programs with this label left running; returns how many processes that were."""
    return ProcessTree(lambda process: _read_label(process) == label).kill()


def kill_by_store(store: str) -> int:
    """Kill what the programs of all runs of a store left running; their labels end with `@` and the store."""
    return ProcessTree(lambda process: _read_label(process).endswith(f"@{store}")).kill()


def _read_label(process: psutil.Process) -> str:
    """Return what stands before the token in a process's marker; an empty text if it has none."""
    return (read_marker(process) or "").rpartition(":")[0]


class ProcessTree:
    """The processes that `belongs` accepts, with their descendants, and all that were ever among them."""

    def __init__(self, belongs: Callable[[psutil.Process], bool]) -> None:
        self._belongs = belongs
        self._seen: set[psutil.Process] = set()

    def running(self) -> list[psutil.Process]:
        """Return those that run now, without this process itself."""
        found: set[psutil.Process] = set()
        for process in list_processes():
            if process in found or process.pid == os.getpid():
                continue
            if process in self._seen or self._belongs(process):
                found |= {process, *_descendants(process)}
        found = {process for process in found if process.pid != os.getpid()}
        self._seen |= found
        return [process for process in found if is_alive(process)]

    def kill(self) -> int:
        """Kill them until none is left; returns how many there were."""
        killed: set[psutil.Process] = set()
        deadline = time.monotonic() + _KILL_SECONDS
        empty_looks = 0
        while empty_looks < 2 and time.monotonic() < deadline:  # twice: during an exec the environment is empty
            running = self.running()
            empty_looks = 0 if running else empty_looks + 1
            for process in running:
                with suppress(psutil.Error):
                    process.kill()  # not another process that got its pid meanwhile
            killed.update(running)
            time.sleep(_POLL_SECONDS if empty_looks < 2 else 0)
        return len(killed)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:  # it ended meanwhile
        return []

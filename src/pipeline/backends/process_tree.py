"""Finds every process that a program started, and kills them until none is left.

A process belongs to a program if it has the program's marker in its environment, is in its session, descends from one
that does, or was seen doing so. This needs Linux's /proc; elsewhere only the program's own process group is reached. A
process that clears its environment and leaves the session after its parents ended is not found.
"""

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARKER = "AWF_PROCESS"
_PROC = Path("/proc")
_POLL_SECONDS = 0.01
_KILL_SECONDS = 10.0  # a process stuck in the kernel dies when the kernel lets it; no run need wait for that


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it. A pid is reused; a pid together with a start time is not."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    alive: bool  # False for a zombie


def list_processes() -> Iterator[Process]:
    """Every process on this machine."""
    pids = [entry.name for entry in _PROC.iterdir() if entry.name.isdecimal()] if _PROC.is_dir() else []
    for pid in pids:
        try:
            stat = (_PROC / pid / "stat").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        state, *fields = stat[stat.rindex(b")") + 2 :].split()  # a program's name may contain spaces and brackets
        parent, group, session = map(int, fields[:3])
        yield Process(int(pid), parent, group, session, started=int(fields[18]), alive=state not in b"ZX")


def read_marker(pid: int) -> str | None:
    """The marker of a process; None if it has none, has ended, or belongs to another user."""
    try:
        entries = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{MARKER}=".encode()
    return next((os.fsdecode(entry.removeprefix(prefix)) for entry in entries if entry.startswith(prefix)), None)


def stop_process_tree(leader: int, token: str, grace: float) -> None:
    """Stop a program that leads its own session: SIGTERM to its group, then after `grace` seconds SIGKILL to its tree.

    It blocks. The leader must not have been reaped, or its pid might be another process's by now.
    """
    tree = ProcessTree(lambda process: process.session == leader or read_marker(process.pid) == token)
    if grace > 0:
        tree.running()  # remembers the descendants, who are not known as such once their parents are gone
        _signal_group(leader, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while any(process.group == leader and process.alive for process in list_processes()):
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_SECONDS)
    _signal_group(leader, signal.SIGKILL)
    tree.kill()


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_by_label(label: str) -> int:
    """Kill what the programs with this label left running; returns how many processes that were."""
    return ProcessTree(lambda process: _read_label(process.pid) == label).kill()


def kill_by_store(store: str) -> int:
    """Kill what the programs of all runs of a store left running; their labels end with `@` and the store."""
    return ProcessTree(lambda process: (_read_label(process.pid) or "").endswith(f"@{store}")).kill()


def _read_label(pid: int) -> str | None:
    marker = read_marker(pid)
    return None if marker is None else marker.rpartition(":")[0]


class ProcessTree:
    """The processes that `belongs` accepts, with their descendants, and all that were ever among them."""

    def __init__(self, belongs: Callable[[Process], bool]) -> None:
        self._belongs = belongs
        self._seen: set[tuple[int, int]] = set()

    def running(self) -> list[Process]:
        """Those that run now, without this process itself."""
        children: dict[int, list[Process]] = defaultdict(list)
        found: dict[int, Process] = {}
        pending: list[Process] = []
        for process in list_processes():
            if process.pid == os.getpid():
                continue
            children[process.parent].append(process)
            if (process.pid, process.started) in self._seen or self._belongs(process):
                pending.append(process)
        while pending:
            process = pending.pop()
            if process.pid not in found:
                found[process.pid] = process
                pending += children[process.pid]
        self._seen |= {(process.pid, process.started) for process in found.values()}
        return [process for process in found.values() if process.alive]

    def kill(self) -> int:
        """Kill them until none is left; returns how many there were."""
        killed: set[tuple[int, int]] = set()
        deadline = time.monotonic() + _KILL_SECONDS
        empty_looks = 0
        while empty_looks < 2 and time.monotonic() < deadline:  # twice: during an exec the environment is empty
            running = self.running()
            empty_looks = 0 if running else empty_looks + 1
            for process in running:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
            killed |= {(process.pid, process.started) for process in running}
            time.sleep(_POLL_SECONDS if empty_looks < 2 else 0)
        return len(killed)

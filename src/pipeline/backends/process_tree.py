"""Finding every process that a program started, and killing them until none is left.

A process belongs to a program when it carries the program's marker in its environment, is in its session, descends from
one that does, or was seen to. Needs Linux's /proc; elsewhere only the program's own process group is reached. What
empties its environment and leaves the session after its parents are gone is not found.
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
_ENTRY = f"{MARKER}=".encode()
_PROC = Path("/proc")
_PAUSE = 0.01  # seconds between two looks
_PATIENCE = 10.0  # a process stuck in the kernel dies when the kernel lets it; nobody need wait for that


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it. Ids come again; an id and a start time together do not."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    alive: bool  # False when it only waits to be reaped


def list_processes() -> Iterator[Process]:
    """Every process of this machine."""
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()] if _PROC.is_dir() else []
    for pid in pids:
        if process := _process(pid):
            yield process


def read_marker(pid: int) -> str | None:
    """What a process carries as its marker; None when it has none, is gone, or is somebody else's."""
    try:
        entries = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((os.fsdecode(entry[len(_ENTRY) :]) for entry in entries if entry.startswith(_ENTRY)), None)


def stop_process_tree(leader: int, token: str, grace: float) -> None:
    """End a program that leads its own session: TERM to its group, `grace` seconds, then KILL to all that is its own.

    It blocks. The leader must not have been reaped, or its id might by now be another's.
    """
    hunt = ProcessTree(lambda process: process.session == leader or read_marker(process.pid) == token)
    if grace > 0:
        hunt.alive()  # who descends from whom is lost once the parents are gone
        _signal_group(leader, signal.SIGTERM)
        _await_group(leader, grace)
    _signal_group(leader, signal.SIGKILL)
    hunt.kill()


def kill_by_label(label: str) -> int:
    """Kill what the programs with this label left running, and say how many processes that were."""
    return ProcessTree(lambda process: _label(read_marker(process.pid)) == label).kill()


def kill_by_store(store: str) -> int:
    """Kill what the programs of all runs of a store left running; their labels end with `@` and the store."""
    return ProcessTree(lambda process: (_label(read_marker(process.pid)) or "").endswith(f"@{store}")).kill()


def _label(value: str | None) -> str | None:
    return value.rpartition(":")[0] if value is not None else None


def _process(pid: int) -> Process | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    state, *fields = stat[stat.rindex(b")") + 2 :].split()  # a program's name may hold blanks and brackets
    parent, group, session = map(int, fields[:3])
    return Process(pid, parent, group, session, started=int(fields[18]), alive=state not in b"ZX")


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _await_group(leader: int, grace: float) -> None:
    deadline = time.monotonic() + grace
    while any(process.group == leader and process.alive for process in list_processes()):
        if time.monotonic() >= deadline:
            return
        time.sleep(_PAUSE)


class ProcessTree:
    """The search for the processes that belong together; it remembers all it has seen."""

    def __init__(self, belongs: Callable[[Process], bool]) -> None:
        self._belongs = belongs
        self._seen: set[tuple[int, int]] = set()

    def alive(self) -> list[Process]:
        """Those that run now. The caller's own process is never among them."""
        everyone = [process for process in list_processes() if process.pid != os.getpid()]
        found = _with_descendants([process for process in everyone if self._is_ours(process)], everyone)
        self._seen |= {(process.pid, process.started) for process in found}
        return [process for process in found if process.alive]

    def kill(self) -> int:
        """Kill them until none is left; the number of those that were."""
        killed: set[tuple[int, int]] = set()
        deadline = time.monotonic() + _PATIENCE
        unseen = 0
        while unseen < 2 and time.monotonic() < deadline:  # twice: in the midst of an exec the environment is empty
            alive = self.alive()
            unseen = 0 if alive else unseen + 1
            for process in alive:
                _kill(process.pid)
            killed |= {(process.pid, process.started) for process in alive}
            time.sleep(_PAUSE if unseen < 2 else 0)
        return len(killed)

    def _is_ours(self, process: Process) -> bool:
        return (process.pid, process.started) in self._seen or self._belongs(process)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _with_descendants(roots: list[Process], everyone: list[Process]) -> list[Process]:
    children: dict[int, list[Process]] = defaultdict(list)
    for process in everyone:
        children[process.parent].append(process)
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        process = waiting.pop()
        if process.pid not in found:
            found[process.pid] = process
            waiting += children[process.pid]
    return list(found.values())

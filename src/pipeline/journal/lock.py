"""Ownership of a run: a lock on a file, which the system releases when the owning process dies."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from pipeline.engine.errors import JournalError, RunIsOwned

LOCKS = "locks"  # the directory of a store's lock files
_ATTEMPTS, _PAUSE = 100, 0.02  # attempts to take the lock of a dead process, and seconds between two
_held: set[int] = set()  # the descriptors of this process's locks


@contextmanager
def lock_run(directory: Path, run_id: str, now: Callable[[], float]) -> Iterator[None]:
    """Own a run while the context lasts, or raise RunIsOwned that names the owner."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / run_id, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _acquire(descriptor, run_id, now())
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        message = f"run {run_id} cannot be locked in {directory}: {error.strerror}"
        raise JournalError(message, help="make the store writable, or free disk space, and try again") from error
    _held.add(descriptor)
    try:
        yield
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def is_driven(store: Path, run_id: str) -> bool:
    """Return whether a process is driving a run. What its owner wrote into the lock file stays."""
    try:
        descriptor = os.open(store / LOCKS / run_id, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _acquire(descriptor: int, run_id: str, now: float) -> None:
    """Take the lock and write down who has it.

    A program that a killed process was starting may hold the lock for another instant, so a dead owner is waited for.
    """
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            _flock_exclusive(descriptor)
        except BlockingIOError:
            owner, is_dead = _read_owner(descriptor, now)
            if not attempts_left or not is_dead:
                raise RunIsOwned(f"run {run_id} is being driven by {owner}; wait for it or stop it") from None
            time.sleep(_PAUSE)
        else:
            break
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _flock_exclusive(descriptor: int) -> None:
    """Lock the file, or raise BlockingIOError if it has an owner; `is_driven` in another process does not count."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises too if there is an owner


def _read_owner(descriptor: int, now: float) -> tuple[str, bool]:
    """Return the owner of a lock, as words, and whether that process is known to be dead."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        pid, host, since = owner["pid"], owner["host"], datetime.fromtimestamp(owner["since"]).astimezone()
        same_day = since.date() == datetime.fromtimestamp(now).astimezone().date()
        words = f"process {pid} on {host} since {since:{'%H:%M' if same_day else '%Y-%m-%d %H:%M'}}"
    except (ValueError, LookupError, TypeError, OverflowError, OSError):
        return "another process", False  # it has not written its name yet
    try:
        if host == socket.gethostname():
            os.kill(pid, 0)
    except ProcessLookupError:
        return words, True
    except (OSError, TypeError, OverflowError):
        return words, False
    return words, False


def _release_after_fork() -> None:
    """Close the locks in a forked child, which would otherwise outlive the parent with them."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_release_after_fork)

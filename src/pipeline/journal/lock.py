"""Ownership of a run: a lock on a file, which the system lets go when its process dies, however it dies."""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.engine.ports import JournalError, RunIsOwned

LOCKS = "locks"  # the directory of a store's locks
_LOOKS, _PAUSE = 100, 0.02  # looks at the lock of a process that is gone, and seconds between two
_held: set[int] = set()  # the descriptors of this process's locks


@contextmanager
def lock_run(directory: Path, run_id: str, now: Callable[[], float]) -> Iterator[None]:
    """Be the one at a run while the context lasts; raises RunIsOwned naming who else is."""
    descriptor = _opened(directory, run_id)
    try:
        _lock(descriptor, directory, run_id, now())
        _held.add(descriptor)
        yield
    finally:
        _held.discard(descriptor)
        os.close(descriptor)


def _opened(directory: Path, run_id: str) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return os.open(directory / run_id, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unlockable(run_id, directory, error) from error


def _lock(descriptor: int, directory: Path, run_id: str, now: float) -> None:
    """Lock and sign it. For an instant after a process is killed, a program it was starting may still have its lock."""
    for left in reversed(range(_LOOKS)):
        try:
            _take(descriptor)
            return _sign(descriptor, now)
        except BlockingIOError as error:
            if not left or not _owner_is_dead(descriptor):
                owner = _owner(descriptor, now)
                raise RunIsOwned(f"run {run_id} is being run by {owner}; wait for it or stop it") from error
        except OSError as error:
            raise _unlockable(run_id, directory, error) from error
        time.sleep(_PAUSE)
    raise AssertionError  # the last look takes the lock, or raises


def _take(descriptor: int) -> None:
    """Lock it; raises BlockingIOError when it has an owner, but not when somebody only looks whether it has."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises too, where there is an owner


def is_driven(store: Path, run_id: str) -> bool:
    """Whether a process is at a run. Its lock is tried and let go at once, and what its owner wrote stays."""
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


def _unlockable(run_id: str, directory: Path, error: OSError) -> JournalError:
    return JournalError(
        f"run {run_id} cannot be locked in {directory}: {error.strerror}",
        help="make the store writable, or make room on its disk, and try again",
    )


def _sign(descriptor: int, now: float) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _owner(descriptor: int, now: float) -> str:
    try:
        owner: dict[str, Any] = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {owner['pid']} on {owner['host']} since {_clock_time(owner['since'], now)}"
    except (ValueError, LookupError, TypeError, OverflowError):
        return "another process"  # which has the lock and has not signed yet


def _owner_is_dead(descriptor: int) -> bool:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        if owner["host"] == socket.gethostname():
            os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return False
    return False


def _clock_time(moment: float, now: float) -> str:
    local = datetime.fromtimestamp(moment).astimezone()
    same_day = local.date() == datetime.fromtimestamp(now).astimezone().date()
    return f"{local:%H:%M}" if same_day else f"{local:%Y-%m-%d %H:%M}"


def _let_go_after_fork() -> None:
    """A forked child would otherwise keep the lock of a parent that died."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go_after_fork)

"""Files that survive a crash and hostile surroundings: atomic writes, a lock per directory, bounded reads.

A file is written under a temporary name, synced unless it can be computed again, and then renamed. Agents can put
anything where a file is expected: links are not followed, anything but a regular file is not read, and it is moved
aside before a write.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from pipeline.errors import AwfError

LARGEST = 256 * 1024 * 1024  # bytes of one file
_SYNC_ALL = 64  # files, from which on one sync of the whole disk is cheaper than one for each
_LOCK_TIMEOUT = 60.0  # seconds to wait for another writer
_LOCK_INTERVAL = 0.02


class NotAFile(Exception):
    """A path that cannot be read as a regular file; the message says why."""


@contextmanager
def open_directory(directory: Path) -> Iterator[int]:
    """The descriptor of an open directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Be the only writer in a directory; the lock is released when its holder dies.

    Raises AwfError if the lock is not released in time, and for every OSError inside of the block.
    """
    try:
        with open_directory(directory) as descriptor:
            _wait_for_lock(descriptor, directory)
            yield
    except OSError as error:
        raise AwfError(
            f"cannot read or write {error.filename or directory}: {error.strerror}",
            help="check its permissions and the free space on its disk",
        ) from error


def _wait_for_lock(descriptor: int, directory: Path) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"another process has locked {directory}"
                raise AwfError(message, help="stop that process and try again") from None
            time.sleep(_LOCK_INTERVAL)
        else:
            return


def write_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace a file's content atomically and durably. The caller holds the lock of its directory.

    Without `sync` a power cut may leave the file empty or as it was: only for what can be computed again, by a reader
    that notices.
    """
    write_files({path: data}, sync=sync)


def write_files(files: Mapping[Path, bytes], *, sync: bool = True) -> None:
    """Replace the content of several files, each of them atomically and, unless told otherwise, durably."""
    sync_each = sync and len(files) < _SYNC_ALL
    temporaries = {path: _write_temporary(path, data, sync=sync_each) for path, data in files.items()}
    if sync and not sync_each:
        os.sync()
    for path, temporary in temporaries.items():
        try:
            temporary.replace(path)
        except IsADirectoryError:
            move_aside(path)
            temporary.replace(path)
    if not sync:
        return
    for directory in {path.parent for path in files}:
        sync_directory(directory)


def create_file(path: Path, data: bytes, *, sync: bool = True) -> bool:
    """Create a file with this content; return False, and do nothing, if it exists."""
    temporary = _write_temporary(path, data, sync=sync)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    if sync:
        sync_directory(path.parent)
    return True


def remove_file(path: Path) -> None:
    """Remove a file if it exists; a directory of that name is moved aside."""
    if path.is_dir() and not path.is_symlink():
        move_aside(path)
    else:
        path.unlink(missing_ok=True)


def read_file(path: Path, most: int = LARGEST) -> bytes | None:
    """Return a file's content, or None if there is none. Raises NotAFile for anything but a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO):
            raise NotAFile("is a link" if error.errno == errno.ELOOP else "cannot be opened") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile("is not a file")
        if status.st_size > most:
            raise NotAFile(f"is larger than {most:,} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def read_text(path: Path, help: str) -> str:
    """The text of a file that a user named. Raises AwfError with `help` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError as error:
        why = f"invalid UTF-8: {error.reason} at byte {error.start}"
    raise AwfError(f'cannot read "{path}": {why}', help=help)


def move_aside(path: Path) -> str:
    """Rename whatever has this name; return its new name."""
    names = (f"{path.name}.unreadable-{number}" for number in count(1))
    free = next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))
    path.rename(free)
    return free.name


def ensure_directory(path: Path, root: Path) -> str:
    """Make a path a directory inside of `root`; return a note about what was moved aside for that, if anything."""
    if not can_be_directory(path, root):
        name = move_aside(path)
        path.mkdir()
        return f"{path.relative_to(root)} was not a directory of this repository; it was moved aside to {name}"
    path.mkdir(exist_ok=True)
    return ""


def can_be_directory(path: Path, root: Path) -> bool:
    """Whether a path is a directory inside of `root`, or free to become one."""
    return not os.path.lexists(path) or (path.is_dir() and is_inside(root, path))


def is_inside(root: Path, path: Path) -> bool:
    """Whether a path is in a directory once its links are followed."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return False


def _write_temporary(path: Path, data: bytes, *, sync: bool) -> Path:
    """Write the content beside the path, replacing what a dead writer or an agent left under the temporary name."""
    temporary = path.with_name(f".{path.name}.tmp")
    with suppress(FileNotFoundError):
        remove_file(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(descriptor)
    return temporary


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    with open_directory(directory) as descriptor:
        os.fsync(descriptor)


def is_top(directory: str | Path) -> bool:
    """Return whether a directory is the top of a repository or a worktree.

    An empty `.git`, which agents' sandboxes leave behind, does not count.
    """
    return os.access(f"{directory}/.git/HEAD", os.F_OK) or os.path.isfile(f"{directory}/.git")  # noqa: PTH113 - a text


def repository_root(directory: Path) -> Path | None:
    """The root of the git repository or worktree around a directory; None outside of one."""
    return next(filter(is_top, (directory, *directory.parents)), None)

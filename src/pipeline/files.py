"""Files that are whole at any instant, however their writer dies, one writer at a time, and nothing read but files.

A file is written beside its name, made durable, and only then given its name. Agents can put anything in the place
of a view: what is not a regular file is never opened for long, never followed, and moved aside before a write.
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
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MANY = 64  # files, from which on one order to the whole disk is cheaper than one for each
_PATIENCE = 60.0  # seconds to wait for another writer
_PAUSE = 0.02


class NotAFile(Exception):
    """What has the name of a file cannot be read as one; the message says why."""


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Be the only writer in a directory. The lock is on the directory itself, and dies with its holder.

    What the system refuses meanwhile is raised as an AwfError, also a lock that nobody gives back.
    """
    try:
        descriptor = os.open(directory, _DIRECTORY)
        try:
            _lock(descriptor, directory)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AwfError(
            f"{error.filename or directory} could not be read or written: {error.strerror}",
            help="make it readable and writable, or make room on its disk, and try again",
        ) from error


def _lock(descriptor: int, directory: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise AwfError(
                    f"another process holds the lock of {directory}", help="end that process, and try again"
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def write_file(path: Path, data: bytes) -> None:
    """Give a file this content. The caller has the lock of what it is in."""
    write_files({path: data})


def write_files(files: Mapping[Path, bytes]) -> None:
    """Give files their contents, each of them whole at any instant."""
    each = len(files) < _MANY
    written = [(_write_temporary(path, data, durable=each), path) for path, data in files.items()]
    if not each:
        os.sync()
    for temporary, path in written:
        try:
            os.replace(temporary, path)  # noqa: PTH105 - it is said to the system itself, as all that is durable here
        except IsADirectoryError:
            move_aside(path)
            os.replace(temporary, path)  # noqa: PTH105 - as above
    for directory in {path.parent for path in files}:
        _sync_directory(directory)


def create_file(path: Path, data: bytes) -> bool:
    """Make a file that is not there; False, and nothing done, when it is."""
    temporary = _write_temporary(path, data, durable=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    _sync_directory(path.parent)
    return True


def remove_file(path: Path) -> None:
    """Take a file away, if it is there."""
    if path.is_dir() and not path.is_symlink():
        move_aside(path)
    else:
        path.unlink(missing_ok=True)


def read_file(path: Path, most: int = LARGEST) -> bytes | None:
    """The content of a file; None when there is none. Raises NotAFile for whatever cannot be read as one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO):
            raise NotAFile("is a link" if error.errno == errno.ELOOP else "cannot be opened") from error
        raise
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise NotAFile("is not a file")
        if about.st_size > most:
            raise NotAFile(f"is larger than {most:,} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def move_aside(path: Path) -> str:
    """Move whatever has a name out of the way; returns its new name."""
    names = (f"{path.name}.unreadable-{number}" for number in count(1))
    free = next(path.with_name(name) for name in names if not os.path.lexists(path.with_name(name)))
    path.rename(free)
    return free.name


def ensure_directory(path: Path, root: Path) -> str:
    """See that a path is a directory inside of another one; returns what was moved out of the way for that."""
    if os.path.lexists(path) and not (path.is_dir() and is_inside(root, path)):
        name = move_aside(path)
        path.mkdir()
        return f"{path.relative_to(root)} was not a directory of this repository; it was moved aside to {name}"
    path.mkdir(exist_ok=True)
    return ""


def is_inside(root: Path, path: Path) -> bool:
    """Whether a path stays in a directory when its links are followed."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # links that lead to one another
        return False


def _write_temporary(path: Path, data: bytes, *, durable: bool) -> Path:
    """Write the content under another name; what a dead writer or an agent left there goes first."""
    temporary = path.with_name(f".{path.name}.tmp")
    with suppress(FileNotFoundError):
        remove_file(temporary)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return temporary


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Files that are whole at any instant, however their writer dies, and one writer at a time.

A file is written beside its name, made durable, and only then given its name.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import AwfError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MANY = 64  # files, from which on one order to the whole disk is cheaper than one for each


class NotAFile(Exception):
    """A link, a directory or a device has the name of a file."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Be the only writer in a directory. The lock is on the directory itself, and dies with its holder.

    What the system refuses meanwhile is raised as an AwfError.
    """
    try:
        descriptor = os.open(directory, _DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise AwfError(
            f"{error.filename or directory} could not be read or written: {error.strerror}",
            help="make it readable and writable, or make room on its disk, and try again",
        ) from error


def replace(path: Path, data: bytes) -> None:
    """Give a file this content. The caller has the lock of what it is in."""
    replace_all({path: data})


def replace_all(files: Mapping[Path, bytes]) -> None:
    """Give files their contents, each of them whole at any instant."""
    each = len(files) < _MANY
    written = [(_beside(path, data, durable=each), path) for path, data in files.items()]
    if not each:
        os.sync()
    for temporary, path in written:
        os.replace(temporary, path)  # noqa: PTH105 - it is said to the system itself, as all that is durable here
    for directory in {path.parent for path in files}:
        _make_durable(directory)


def create(path: Path, data: bytes) -> bool:
    """Make a file that is not there; False, and nothing done, when it is."""
    temporary = _beside(path, data, durable=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    _make_durable(path.parent)
    return True


def remove(path: Path) -> None:
    """Take a file away, if it is there."""
    path.unlink(missing_ok=True)


def read(path: Path) -> bytes | None:
    """The content of a file; None when there is none. Raises NotAFile for a link and whatever else has the name."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotAFile from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFile
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def inside(root: Path, path: Path) -> bool:
    """Whether a path stays in a directory when its links are followed."""
    return path.resolve().is_relative_to(root.resolve())


def _beside(path: Path, data: bytes, *, durable: bool) -> Path:
    """Write the content under another name; one that a dead writer left there is written over."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return temporary


def _make_durable(directory: Path) -> None:
    descriptor = os.open(directory, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

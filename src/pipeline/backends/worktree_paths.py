"""Where worktrees lie on the disk: the note beside each, and how a directory goes away at once and completely."""

import asyncio
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from pipeline.engine.ports import WorkspaceError


def prepare(directory: Path) -> None:
    """Make the directory of worktrees; the checkout around it does not see it."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / ".gitignore").exists():
        (directory / ".gitignore").write_text("*\n")


def note(path: Path) -> Path:
    """The file beside a worktree that says which repository it belongs to; its lock is the worktree's lease."""
    return path.with_name(f".{path.name}")


def claim(path: Path, repository: Path) -> None:
    """Note the repository of a worktree; another repository's is not taken."""
    noted = note(path).read_bytes()
    if noted not in {b"", os.fsencode(repository)}:
        raise WorkspaceError(
            f"the worktree {path} belongs to the repository {os.fsdecode(noted)}",
            help="choose another name or another store",
        )
    note(path).write_bytes(os.fsencode(repository))


def owner(path: Path) -> Path:
    """The repository of a worktree, or, should the note be lost, a directory that may lie within it."""
    prepare(path.parent)
    noted = note(path).read_bytes() if note(path).exists() else b""
    return Path(os.fsdecode(noted)) if noted else path.parent


@contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """A directory for as long as a command needs one."""
    with tempfile.TemporaryDirectory(dir=_trash(path), ignore_cleanup_errors=True) as directory:
        yield Path(directory)


async def discard(path: Path) -> None:
    """Remove a directory: whoever looks sees it whole or not at all."""
    _throw(path)
    await asyncio.to_thread(_destroy, _trash(path))


def _throw(path: Path) -> None:
    if os.path.lexists(path):
        _allow(path)
        path.rename(Path(tempfile.mkdtemp(dir=_trash(path)), path.name))


def _trash(path: Path) -> Path:
    trash = path.with_name(".trash") / path.name
    trash.mkdir(parents=True, exist_ok=True)
    return trash


def _destroy(directory: Path) -> None:
    for folder, folders, _ in os.walk(directory):
        for name in folders:
            _allow(Path(folder, name))
    shutil.rmtree(directory, ignore_errors=True)


def _allow(directory: Path) -> None:
    # Caches of dependencies are often made read-only.
    if directory.is_dir() and not directory.is_symlink():
        directory.chmod(directory.stat().st_mode | stat.S_IRWXU)


PATIENCE = 60.0  # seconds for the git of a killed run to come to its end
_POLL = 0.01


@asynccontextmanager
async def hold_lease(path: Path, patience: float = PATIENCE) -> AsyncIterator[int]:
    """Hold the lock of a file, made if need be, or of a directory; children that inherit the descriptor hold it too."""
    descriptor = await _hold(path, patience)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _hold(path: Path, patience: float) -> int:
    while True:
        descriptor = _opened(path)
        try:
            await _wait(descriptor, path, patience)
        except BaseException:
            os.close(descriptor)
            raise
        if _is_still(path, descriptor):
            return descriptor
        os.close(descriptor)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)


async def _wait(descriptor: int, path: Path, patience: float) -> None:
    deadline = asyncio.get_running_loop().time() + patience
    while not _locked(descriptor):
        if asyncio.get_running_loop().time() > deadline:
            raise WorkspaceError(
                f"another process is still at work on the workspace of {path}",
                help=f"wait for it, or find it with: fuser -v {path}",
            )
        await asyncio.sleep(_POLL)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    # Whoever held it before may have removed the file: then the next one to come locks another file of that name.
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

"""Where worktrees lie on disk: the owner file and the lease beside each, and how one is removed at once."""

import asyncio
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from pipeline.engine.ports import WorkspaceError

_LEASE_SECONDS = 60.0  # for the git of a killed run to end
_POLL_SECONDS = 0.01


def prepare_directory(directory: Path) -> None:
    """Make the directory of all worktrees, ignored by the checkout around it."""
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / ".gitignore").exists():
        (directory / ".gitignore").write_text("*\n")


def owner_file(worktree: Path) -> Path:
    """The file beside a worktree that names its repository; its lock is the worktree's lease."""
    return worktree.with_name(f".{worktree.name}")


def claim(worktree: Path, repository: Path) -> None:
    """Write down that a worktree belongs to a repository. Raises WorkspaceError if it belongs to another one."""
    owner = owner_file(worktree).read_bytes()
    if owner not in {b"", os.fsencode(repository)}:
        raise WorkspaceError(
            f"the worktree {worktree} belongs to the repository {os.fsdecode(owner)}",
            help="choose another name or another store",
        )
    owner_file(worktree).write_bytes(os.fsencode(repository))


def find_repository(worktree: Path) -> Path:
    """The repository a worktree belongs to; if its owner file is lost, a directory that may lie within it."""
    prepare_directory(worktree.parent)
    file = owner_file(worktree)
    owner = file.read_bytes() if file.exists() else b""
    return Path(os.fsdecode(owner)) if owner else worktree.parent


@contextmanager
def scratch_directory(worktree: Path) -> Iterator[Path]:
    """A temporary directory on the worktree's disk."""
    with tempfile.TemporaryDirectory(dir=_trash(worktree), ignore_cleanup_errors=True) as directory:
        yield Path(directory)


async def discard(worktree: Path) -> None:
    """Remove a worktree's directory. Other processes see all of it or none."""
    if os.path.lexists(worktree):
        _make_writable(worktree)
        worktree.rename(Path(tempfile.mkdtemp(dir=_trash(worktree)), worktree.name))
    await asyncio.to_thread(_remove_tree, _trash(worktree))


def _trash(worktree: Path) -> Path:
    trash = worktree.with_name(".trash") / worktree.name
    trash.mkdir(parents=True, exist_ok=True)
    return trash


def _remove_tree(directory: Path) -> None:
    for parent, names, _ in os.walk(directory):
        for name in names:
            _make_writable(Path(parent, name))
    shutil.rmtree(directory, ignore_errors=True)


def _make_writable(directory: Path) -> None:
    # Caches of dependencies are often read-only.
    if directory.is_dir() and not directory.is_symlink():
        directory.chmod(directory.stat().st_mode | stat.S_IRWXU)


@asynccontextmanager
async def hold_lease(path: Path, max_wait: float = _LEASE_SECONDS) -> AsyncIterator[int]:
    """Lock a directory, or a file that is made if need be, and yield the descriptor of the lock.

    A child process that inherits the descriptor holds the lease too, even after this process was killed.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + max_wait
    while (descriptor := _try_lock(path)) is None:
        if loop.time() > deadline:
            raise WorkspaceError(
                f"another process is still working on the workspace of {path}",
                help=f"wait for it, or find it with: fuser -v {path}",
            )
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    locked = False
    try:
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The last holder may have removed the file: then the next process would lock a new one of that name.
            locked = os.path.samestat(path.stat(), os.fstat(descriptor))
    finally:
        if not locked:
            os.close(descriptor)
    return descriptor if locked else None

"""A lease on a workspace that lasts as long as any process that works on it, also one whose starter was killed."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pipeline.engine.workspace import WorkspaceError

PATIENCE = 60.0  # seconds for the git of a killed run to come to its end
_POLL = 0.01


@asynccontextmanager
async def lease(path: Path, patience: float = PATIENCE) -> AsyncIterator[int]:
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

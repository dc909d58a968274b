"""A run's own checkout as a git worktree: made, saved, put back, merged and removed, each safe to be called again.

No commit is ever lost: what a branch or a worktree held that its checkpoint does not is named by a ref before it goes.
"""

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from pipeline.backends import checkout as files
from pipeline.backends import merging
from pipeline.backends.checkout import Checkout
from pipeline.backends.git import Git, git_in, message, signed
from pipeline.backends.lease import lease
from pipeline.engine.workspace import Merge, Workspace, WorkspaceError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_SHOWN = 5  # files named in an error


class GitWorktrees:
    """Worktrees below one directory, on branches `awf/<name>`; `.<name>` beside each says whose it is and is its lease."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = environment

    async def create(self, repository: Path, name: str) -> Workspace:
        """Make worktree and branch from HEAD, or take up what an interrupted attempt left of them."""
        if not _NAME.fullmatch(name) or name.endswith(".lock"):
            raise WorkspaceError(f'"{name}" cannot name a worktree', help="use letters, digits, -, _ and single dots")
        path = self._directory.resolve() / name
        async with self._alone(path) as held:
            git = await self._open(repository, held)
            _claim(path, git.directory)
            base, commit = await _begin(git, name)
            workspace = Workspace(path, f"awf/{name}", base, commit)
            if not await files.find(git, path):
                await _keep(git, workspace, None, f"refs/awf/torn/{name}-remade")
                await _make(git, workspace)
        return workspace

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        """Commit whatever changed; what the agent committed itself counts too."""
        async with self._taken_up(workspace) as git:
            checkout = await files.find(git, workspace.path)
            if not checkout:
                raise WorkspaceError(
                    f"{workspace.path} is no longer a git worktree",
                    help="something removed or replaced it; resume the run to go back to the last checkpoint",
                )
            checkout.unlock()
            await files.follow(checkout, workspace.branch)
            await _save(checkout, subject, trailers)
            return replace(workspace, commit=await checkout.git.run("rev-parse", "HEAD"))

    async def restore(self, workspace: Workspace, keep_as: str) -> str | None:
        """Put everything back to the checkpoint; what differed is kept under the ref that is returned."""
        ref = f"refs/awf/torn/{re.sub('[^A-Za-z0-9_/-]', '-', keep_as).strip('/')}"
        async with self._taken_up(workspace, ref) as git:
            checkout = await files.find(git, workspace.path)
            if checkout:
                checkout.unlock()
            await _keep(git, workspace, checkout, ref)
            checkout = checkout or await _make(git, workspace)
            await files.put_back(checkout, workspace.branch, workspace.commit)
            return ref if await git.commit_at(ref) else None

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> Merge:
        """Merge the branch, or its checkpoint when it is gone, into the branch that is checked out."""
        async with self._alone(workspace.path, workspace.path.parent) as held:
            git = await self._open(repository, held)
            tip = await git.commit_at(f"refs/heads/{workspace.branch}") or workspace.commit
            with _scratch(workspace.path) as scratch:
                return await merging.merge(git, tip, subject, scratch)

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        """Remove worktree and branch; without `force` only when nothing would be lost by it."""
        path, name = workspace.path, workspace.path.name
        async with self._alone(path) as held:
            git = await self._open(repository, held)
            await _unlock(git, *_refs(name))
            await _free(git, workspace)
            if not force:
                await _refuse_loss(git, workspace)
            await _discard(path)
            await _forget(git, path)
            for ref in _refs(name):
                await git.run("update-ref", "-d", ref)
            _note(path).unlink(missing_ok=True)

    async def _open(self, repository: Path, held: tuple[int, ...]) -> Git:
        git = git_in(repository, self._environment, held)
        if await git.agrees("rev-parse", "--is-bare-repository") and await _is_bare(git):
            raise WorkspaceError(f"{repository} is a bare repository", help="clone it and run in the clone")
        reply = await git.ask("rev-parse", "--show-toplevel")
        if reply.code:
            said = reply.err.strip().removeprefix("fatal: ")
            raise WorkspaceError(
                f"{repository} is not a git repository that can be used: {said}",
                help="make one with `git init`, and a first commit in it",
            )
        git = replace(git, directory=Path(reply.out.removesuffix("\n")))
        if not await git.commit_at("HEAD"):
            raise WorkspaceError(
                f"the repository {git.directory} has no commit yet",
                help="make a first commit: git add --all && git commit",
            )
        return git

    @asynccontextmanager
    async def _taken_up(self, workspace: Workspace, *refs: str) -> AsyncIterator[Git]:
        async with self._alone(workspace.path) as held:
            owner = os.fsdecode(_note(workspace.path).read_bytes())
            # A note that is lost can be done without where the worktrees lie within the repository.
            git = await self._open(Path(owner) if owner else workspace.path.parent, held)
            await _unlock(git, *_refs(workspace.path.name), *refs)
            yield git

    @asynccontextmanager
    async def _alone(self, path: Path, *shared: Path) -> AsyncIterator[tuple[int, ...]]:
        try:
            _prepare(path.parent)
            async with AsyncExitStack() as stack:
                yield tuple([await stack.enter_async_context(lease(each)) for each in (_note(path), *shared)])
        except OSError as error:
            raise WorkspaceError(f"the workspace {path} cannot be used: {error}") from error

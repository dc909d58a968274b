"""A run's own checkout as a git worktree: made, saved, put back, merged and removed, each safe to be called again.

No commit is ever lost: what a branch or a worktree held that its checkpoint does not is named by a ref before it goes.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from pipeline.backends import checkout as files
from pipeline.backends import merge as merging
from pipeline.backends import worktree_paths as place
from pipeline.backends.checkout import Checkout
from pipeline.backends.git import Git, commit_message, git_in, with_identity
from pipeline.backends.worktree_paths import hold_lease
from pipeline.engine.ports import MergeResult, WorkspaceError
from pipeline.engine.state import Workspace

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_SHOWN = 5  # files that an error names
_FIRST = "make a repository and a first commit: git init && git add --all && git commit"


class GitWorktrees:
    """Worktrees in one directory, on branches `awf/<name>`, made with the git that an environment finds."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = environment

    async def create(self, repository: Path, name: str) -> Workspace:
        """Make worktree and branch from HEAD, or take up what an interrupted attempt left of them."""
        if not _NAME.fullmatch(name) or name.endswith(".lock"):
            raise WorkspaceError(f'"{name}" cannot name a worktree', help="use letters, digits, -, _ and single dots")
        path, found = self._directory.resolve() / name, await self._open(repository)
        if not await found.resolve_commit("HEAD"):
            raise WorkspaceError(f"the repository {found.directory} has no commit yet", help=_FIRST)
        async with self._alone(path, found) as git:
            place.claim(path, git.directory)
            base, commit = await _begin(git, name)
            workspace = Workspace(path, f"awf/{name}", base, commit)
            if not await files.find(git, path):
                await _keep(git, workspace, None, f"refs/awf/torn/{name}-remade")
                await _make(git, workspace)
        return workspace

    async def adopt(self, repository: Path, workspace: Workspace) -> None:
        """Take on a worktree that was made elsewhere, with its branch and base; `restore` makes it here."""
        path = workspace.path
        async with self._alone(path, await self._open(repository)) as git:
            place.claim(path, git.directory)
            await git.run("update-ref", _refs(path.name)[0], workspace.base)

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
                await checkout.repair_index(workspace.commit)
            await _keep(git, workspace, checkout, ref)
            checkout = checkout or await _make(git, workspace)
            await files.put_back(checkout, workspace.branch, workspace.commit)
            return ref if await git.resolve_commit(ref) else None

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> MergeResult:
        """Merge the branch, or its checkpoint when it is gone, into the branch that is checked out."""
        path = workspace.path
        async with self._alone(path, await self._open(repository), path.parent) as git:
            await _unlock(git, *merging.refs(path.name))
            tip = await git.resolve_commit(f"refs/heads/{workspace.branch}") or workspace.commit
            return await merging.merge(git, tip, subject, path)

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        """Remove worktree and branch; without `force` only when nothing would be lost by it."""
        path, name = workspace.path, workspace.path.name
        async with self._alone(path, await self._open(repository)) as git:
            await _unlock(git, *_refs(name))
            await _free(git, workspace)
            if not force:
                await _refuse_loss(git, workspace)
            await place.discard(path)
            await _forget(git, path)
            for ref in _refs(name):
                await git.run("update-ref", "-d", ref)
            place.note(path).unlink(missing_ok=True)

    async def _open(self, repository: Path) -> Git:
        git = git_in(repository, self._environment)
        reply = await git.ask("rev-parse", "--show-toplevel")
        top = reply.out.removesuffix("\n")
        if reply.code and "bare repository" in reply.err:
            raise WorkspaceError(f"{repository} is a bare repository", help="clone it and run in the clone")
        if reply.code:
            said = reply.err.strip().removeprefix("fatal: ")
            raise WorkspaceError(f"{repository} cannot be used: {said}", help=_FIRST)
        return replace(git, directory=Path(top))

    @asynccontextmanager
    async def _taken_up(self, workspace: Workspace, *refs: str) -> AsyncIterator[Git]:
        with _readable_errors(workspace.path):
            owner = place.owner(workspace.path)
        async with self._alone(workspace.path, await self._open(owner)) as git:
            await _unlock(git, *_refs(workspace.path.name), *refs)
            yield git

    @asynccontextmanager
    async def _alone(self, path: Path, git: Git, *shared: Path) -> AsyncIterator[Git]:
        with _readable_errors(path):
            place.prepare(path.parent)
            async with AsyncExitStack() as stack:
                held = [await stack.enter_async_context(hold_lease(each)) for each in (place.note(path), *shared)]
                yield replace(git, held=tuple(held))


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        help = "make the directory around it readable and writable, or make room on its disk"
        raise WorkspaceError(f"the workspace {path} cannot be used: {error}", help=help) from error


def _refs(name: str) -> tuple[str, str]:
    # The base goes first when both are removed: a base without its branch would be taken up by the next of that name.
    return f"refs/awf/base/{name}", f"refs/heads/awf/{name}"


async def _unlock(git: Git, *refs: str) -> None:
    # Nobody but the holder of the lease, or a process that the holder started and that is dead, writes these refs.
    common = await files.common_directory(git)
    for ref in refs:
        (common / f"{ref}.lock").unlink(missing_ok=True)


async def _begin(git: Git, name: str) -> tuple[str, str]:
    base_ref, branch = _refs(name)
    await _unlock(git, base_ref, branch)
    base, tip = await git.resolve_commit(base_ref), await git.resolve_commit(branch)
    if not base:
        base = await git.run("merge-base", "HEAD", tip or "HEAD")
        await git.run("update-ref", base_ref, base)
    if not tip:
        tip = base
        await git.run("update-ref", branch, tip)
    return base, tip


async def _make(git: Git, workspace: Workspace) -> Checkout:
    await _free(git, workspace)
    await place.discard(workspace.path)
    if not await git.resolve_commit(f"refs/heads/{workspace.branch}"):
        await git.run("update-ref", f"refs/heads/{workspace.branch}", workspace.commit)
    # Forced twice, git takes the place of a registration whose directory is gone, and of one it was killed in.
    await git.run("worktree", "add", "--force", "--force", str(workspace.path), workspace.branch)
    made = await files.find(git, workspace.path)
    if not made:
        help = "git worktree list shows those there are; git worktree prune forgets those that are gone"
        raise WorkspaceError(f"git made no worktree at {workspace.path}", help=help)
    return made


async def _free(git: Git, workspace: Workspace) -> None:
    for path, branch in await _registered(git):
        if branch == f"refs/heads/{workspace.branch}" and path != workspace.path and path.exists():
            raise WorkspaceError(
                f'the branch "{workspace.branch}" is checked out in {path}',
                help=f"check out another branch there: git -C {path} switch BRANCH",
            )


async def _registered(git: Git) -> list[tuple[Path, str]]:
    listing = await git.run("worktree", "list", "--porcelain")
    blocks = [dict(line.partition(" ")[::2] for line in block.splitlines()) for block in listing.split("\n\n")]
    return [(files.resolved(block["worktree"]), block.get("branch", "")) for block in blocks if "worktree" in block]


async def _forget(git: Git, path: Path) -> None:
    if any(registered == path for registered, _ in await _registered(git)):
        await git.run("worktree", "remove", "--force", "--force", str(path))


async def _save(checkout: Checkout, subject: str, trailers: Mapping[str, str]) -> None:
    left_out = await files.stage(checkout.git)
    unchanged = await checkout.git.agrees("diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD", "--")
    if unchanged and not checkout.merging():
        return
    text = commit_message(subject, [*trailers.items(), *(("Not-Captured", path) for path in left_out)])
    git = await with_identity(checkout.git)
    await git.run("commit", "--quiet", "--no-verify", "--cleanup=verbatim", "-F", "-", stdin=text)


async def _keep(git: Git, workspace: Workspace, checkout: Checkout | None, ref: str) -> None:
    ahead = [tip for tip in await _tips(git, workspace, checkout) if tip != workspace.commit]
    if checkout and not ahead and not await files.torn_changes(checkout.git):
        return
    tree = await _tree(git, workspace, (*ahead, workspace.commit)[0])
    if not checkout and not ahead and not await _holds_more(git, workspace.commit, tree):
        return
    earlier = await git.resolve_commit(ref)  # kept by an attempt to restore that was itself interrupted
    parents = dict.fromkeys([*(ahead or [workspace.commit]), *([earlier] if earlier else [])])
    kept = await files.record(git, tree, parents, f"What {workspace.branch} held beside its checkpoint")
    await git.run("update-ref", ref, kept)


async def _tips(git: Git, workspace: Workspace, checkout: Checkout | None) -> list[str]:
    head = await checkout.git.resolve_commit("HEAD") if checkout else None
    tips = dict.fromkeys([head, await git.resolve_commit(f"refs/heads/{workspace.branch}")])
    return [tip for tip in tips if tip]


async def _tree(git: Git, workspace: Workspace, base: str) -> str:
    if not workspace.path.is_dir():
        return await git.run("rev-parse", f"{base}^{{tree}}")
    with place.scratch(workspace.path) as scratch:
        return await files.snapshot(git, workspace.path, base, scratch)


async def _holds_more(git: Git, commit: str, tree: str) -> bool:
    # Of a worktree that was not made to the end only files are missing: nothing in it is worth keeping.
    return bool(await git.names("diff-tree", "-r", "-z", "--name-only", "--diff-filter=d", commit, tree))


async def _refuse_loss(git: Git, workspace: Workspace) -> None:
    checkout = await files.find(git, workspace.path)
    if not checkout and workspace.path.exists():
        raise _loss(f"{workspace.path} is no git worktree any more, and what it holds may be nowhere else")
    unsaved = await files.changes(checkout.git) if checkout else []
    if unsaved:
        raise _loss(f"{workspace.path} has uncommitted changes: {', '.join(unsaved[:_SHOWN])}")
    for tip in await _tips(git, workspace, checkout):
        if not await git.agrees("merge-base", "--is-ancestor", tip, "HEAD"):
            raise _loss(f'the branch "{workspace.branch}" is not merged into what is checked out in {git.directory}')


def _loss(what: str) -> WorkspaceError:
    return WorkspaceError(what, help="merge it first, or force the cleanup to throw it away")

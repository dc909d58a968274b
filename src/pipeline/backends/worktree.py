"""A run's own checkout as a git worktree: create, commit, restore, merge and clean up, each safe to repeat.

No commit is ever lost: what a branch or a worktree holds beyond its checkpoint gets a ref before it is removed.
"""

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from pipeline.backends import merge, worktree_paths
from pipeline.backends.checkout import (
    Checkout,
    common_directory,
    create_commit,
    find_checkout,
    has_restorable_changes,
    list_changes,
    stage_changes,
    write_snapshot,
)
from pipeline.backends.git import Git, commit_message, git_in, with_identity
from pipeline.engine.ports import MergeResult, WorkspaceError
from pipeline.engine.state import Workspace

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_MAX_NAMED = 5  # files that an error names
_FIRST_COMMIT = "make a repository and a first commit: git init && git add --all && git commit"


class GitWorktrees:
    """Worktrees in one directory, on branches `awf/<name>`. What plugins show in `views` is not part of the work."""

    def __init__(self, directory: Path, environment: Mapping[str, str], views: Iterable[str] = ()) -> None:
        self._directory = directory
        self._environment = environment
        self._views = tuple(views)

    async def create(self, repository: Path, name: str) -> Workspace:
        """Make worktree and branch from HEAD, or complete those of an interrupted attempt."""
        if not _NAME.fullmatch(name) or name.endswith(".lock"):
            raise WorkspaceError(f'"{name}" cannot name a worktree', help="use letters, digits, -, _ and single dots")
        path, found = self._directory.resolve() / name, await self._open(repository)
        if not await found.resolve_commit("HEAD"):
            raise WorkspaceError(f"the repository {found.directory} has no commit yet", help=_FIRST_COMMIT)
        async with self._lease(path, found) as git:
            worktree_paths.claim(path, git.directory)
            base, commit = await _ensure_refs(git, name)
            workspace = Workspace(path, f"awf/{name}", base, commit)
            if not await find_checkout(git, path):
                await _save_extra_work(git, workspace, None, f"refs/awf/torn/{name}-remade")
                await _add_worktree(git, workspace)
        return workspace

    async def adopt(self, repository: Path, workspace: Workspace) -> None:
        """Register a worktree that was made on another machine, with its branch and base; `restore` makes it here."""
        path = workspace.path
        async with self._lease(path, await self._open(repository)) as git:
            worktree_paths.claim(path, git.directory)
            await git.output("update-ref", _refs(path.name)[0], workspace.base)

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        """Commit everything that changed; commits that the agent made itself count too."""
        async with self._lease_existing(workspace) as git:
            checkout = await find_checkout(git, workspace.path)
            if not checkout:
                raise WorkspaceError(
                    f"{workspace.path} is no longer a git worktree",
                    help="something removed or replaced it; resume the run to go back to the last checkpoint",
                )
            checkout.unlock()
            await checkout.ensure_on_branch(workspace.branch)
            left_out = await stage_changes(checkout.git)
            options = ("--cached", "--quiet", "--ignore-submodules=none")
            unchanged = await checkout.git.succeeds("diff-index", *options, "HEAD", "--")
            if not unchanged or checkout.is_merging:
                message = commit_message(subject, [*trailers.items(), *(("Not-Captured", path) for path in left_out)])
                author = await with_identity(checkout.git)
                await author.output("commit", "--quiet", "--no-verify", "--cleanup=verbatim", "-F", "-", stdin=message)
            return replace(workspace, commit=await checkout.git.output("rev-parse", "HEAD"))

    async def restore(self, workspace: Workspace, keep_as: str) -> str | None:
        """Reset everything to the checkpoint; returns the ref under which differing work is kept, if there was any."""
        ref = f"refs/awf/torn/{re.sub('[^A-Za-z0-9_/-]', '-', keep_as).strip('/')}"
        async with self._lease_existing(workspace, ref) as git:
            checkout = await find_checkout(git, workspace.path)
            if checkout:
                checkout.unlock()
                await checkout.repair_index(workspace.commit)
            await _save_extra_work(git, workspace, checkout, ref)
            checkout = checkout or await _add_worktree(git, workspace)
            await checkout.reset(workspace.branch, workspace.commit)
            return ref if await git.resolve_commit(ref) else None

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> MergeResult:
        """Merge the branch, or its checkpoint if the branch is gone, into the branch that is checked out."""
        path = workspace.path
        async with self._lease(path, await self._open(repository), path.parent) as git:
            await _unlock_refs(git, *merge.merge_refs(path.name))
            tip = await git.resolve_commit(f"refs/heads/{workspace.branch}") or workspace.commit
            return await merge.merge_into_checkout(git, tip, subject, path)

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        """Remove worktree and branch; without `force` only if nothing would be lost."""
        path, name = workspace.path, workspace.path.name
        async with self._lease(path, await self._open(repository)) as git:
            await _unlock_refs(git, *_refs(name))
            await _require_branch_free(git, workspace)
            if not force:
                await _require_nothing_lost(git, workspace)
            await worktree_paths.discard(path)
            if any(registered == path for registered, _ in await _registered_worktrees(git)):
                await git.output("worktree", "remove", "--force", "--force", str(path))
            for ref in _refs(name):
                await git.output("update-ref", "-d", ref)
            worktree_paths.owner_file(path).unlink(missing_ok=True)

    async def _open(self, repository: Path) -> Git:
        git = git_in(repository, self._environment)
        top = await git.run("rev-parse", "--show-toplevel")
        if top.code and "bare repository" in top.err:
            raise WorkspaceError(f"{repository} is a bare repository", help="clone it and run in the clone")
        if top.code:
            reason = top.err.strip().removeprefix("fatal: ")
            raise WorkspaceError(f"{repository} cannot be used: {reason}", help=_FIRST_COMMIT)
        return replace(git, directory=Path(top.out.removesuffix("\n")), views=self._views)

    @asynccontextmanager
    async def _lease_existing(self, workspace: Workspace, *refs: str) -> AsyncIterator[Git]:
        """Git in the repository of a worktree, while no other process works on either."""
        with _explain_file_errors(workspace.path):
            repository = worktree_paths.find_repository(workspace.path)
        async with self._lease(workspace.path, await self._open(repository)) as git:
            await _unlock_refs(git, *_refs(workspace.path.name), *refs)
            yield git

    @asynccontextmanager
    async def _lease(self, path: Path, git: Git, *shared: Path) -> AsyncIterator[Git]:
        """The same git while no other process works on a worktree, nor on the `shared` directories."""
        with _explain_file_errors(path):
            worktree_paths.prepare_directory(path.parent)
            async with AsyncExitStack() as stack:
                leases = [worktree_paths.hold_lease(each) for each in (worktree_paths.owner_file(path), *shared)]
                yield replace(git, held=tuple([await stack.enter_async_context(lease) for lease in leases]))


@contextmanager
def _explain_file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        help = "make the directory around it readable and writable, or free space on its disk"
        raise WorkspaceError(f"the workspace {path} cannot be used: {error}", help=help) from error


def _refs(name: str) -> tuple[str, str]:
    # The base is removed first: a base without its branch would be taken for the start of the next run of that name.
    return f"refs/awf/base/{name}", f"refs/heads/awf/{name}"


async def _unlock_refs(git: Git, *refs: str) -> None:
    # Only the holder of the lease writes these refs, or a process it started that is dead by now.
    common = await common_directory(git)
    for ref in refs:
        (common / f"{ref}.lock").unlink(missing_ok=True)


async def _ensure_refs(git: Git, name: str) -> tuple[str, str]:
    """The base and the tip of a worktree's branch, created from HEAD where they are missing."""
    base_ref, branch = _refs(name)
    await _unlock_refs(git, base_ref, branch)
    base, tip = await git.resolve_commit(base_ref), await git.resolve_commit(branch)
    if not base:
        base = await git.output("merge-base", "HEAD", tip or "HEAD")
        await git.output("update-ref", base_ref, base)
    if not tip:
        tip = base
        await git.output("update-ref", branch, tip)
    return base, tip


async def _add_worktree(git: Git, workspace: Workspace) -> Checkout:
    await _require_branch_free(git, workspace)
    await worktree_paths.discard(workspace.path)
    if not await git.resolve_commit(f"refs/heads/{workspace.branch}"):
        await git.output("update-ref", f"refs/heads/{workspace.branch}", workspace.commit)
    # Forced twice, git replaces a registration whose directory is gone, and one it was killed while making.
    await git.output("worktree", "add", "--force", "--force", str(workspace.path), workspace.branch)
    checkout = await find_checkout(git, workspace.path)
    if not checkout:
        help = "git worktree list shows all worktrees; git worktree prune forgets the missing ones"
        raise WorkspaceError(f"git made no worktree at {workspace.path}", help=help)
    return checkout


async def _require_branch_free(git: Git, workspace: Workspace) -> None:
    for path, branch in await _registered_worktrees(git):
        if branch == f"refs/heads/{workspace.branch}" and path != workspace.path and path.exists():
            raise WorkspaceError(
                f'the branch "{workspace.branch}" is checked out in {path}',
                help=f"check out another branch there: git -C {path} switch BRANCH",
            )


async def _registered_worktrees(git: Git) -> list[tuple[Path, str]]:
    """The path and the branch of every worktree that git knows."""
    listing = await git.output("worktree", "list", "--porcelain")
    blocks = [dict(line.partition(" ")[::2] for line in block.splitlines()) for block in listing.split("\n\n")]
    return [(Path(block["worktree"]).resolve(), block.get("branch", "")) for block in blocks if "worktree" in block]


async def _save_extra_work(git: Git, workspace: Workspace, checkout: Checkout | None, ref: str) -> None:
    """Commit what the branch or the worktree holds beyond the checkpoint, and name it by a ref."""
    extra = [tip for tip in await _tips(git, workspace, checkout) if tip != workspace.commit]
    if checkout and not extra and not await has_restorable_changes(checkout.git):
        return
    base = (*extra, workspace.commit)[0]
    if workspace.path.is_dir():
        with worktree_paths.scratch_directory(workspace.path) as scratch:
            tree = await write_snapshot(git, workspace.path, base, scratch)
    else:
        tree = await git.output("rev-parse", f"{base}^{{tree}}")
    if not checkout and not extra:
        # From a worktree that was never completed files are only missing: then there is nothing worth keeping.
        added = ("-r", "-z", "--name-only", "--diff-filter=d", workspace.commit, tree)
        if not await git.output_list("diff-tree", *added):
            return
    earlier = await git.resolve_commit(ref)  # saved by a restore that was itself interrupted
    parents = dict.fromkeys([*(extra or [workspace.commit]), *([earlier] if earlier else [])])
    saved = await create_commit(git, tree, parents, f"What {workspace.branch} held beside its checkpoint")
    await git.output("update-ref", ref, saved)


async def _tips(git: Git, workspace: Workspace, checkout: Checkout | None) -> list[str]:
    """The commits that HEAD and the branch are at."""
    head = await checkout.git.resolve_commit("HEAD") if checkout else None
    tips = dict.fromkeys([head, await git.resolve_commit(f"refs/heads/{workspace.branch}")])
    return [tip for tip in tips if tip]


async def _require_nothing_lost(git: Git, workspace: Workspace) -> None:
    checkout = await find_checkout(git, workspace.path)
    if not checkout and workspace.path.exists():
        raise _loss(f"{workspace.path} is no longer a git worktree, and its files may exist nowhere else")
    unsaved = await list_changes(checkout.git) if checkout else []
    if unsaved:
        raise _loss(f"{workspace.path} has uncommitted changes: {', '.join(unsaved[:_MAX_NAMED])}")
    for tip in await _tips(git, workspace, checkout):
        if not await git.succeeds("merge-base", "--is-ancestor", tip, "HEAD"):
            raise _loss(f'the branch "{workspace.branch}" is not merged into what is checked out in {git.directory}')


def _loss(message: str) -> WorkspaceError:
    return WorkspaceError(message, help="merge it first, or force the cleanup to discard it")

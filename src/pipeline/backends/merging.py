"""Merging a branch into a checkout that a person works in: everything is decided before a file of theirs is touched."""

from pathlib import Path

from pipeline.backends.checkout import record
from pipeline.backends.git import USAGE, Git, refused, signed, unbroken
from pipeline.backends.place import scratch
from pipeline.engine.workspace import Merge, WorkspaceError

_CONFLICT = 1


async def merge(git: Git, tip: str, subject: str, path: Path) -> Merge:
    """Merge a commit into the branch that is checked out, with a merge commit; done before, there is nothing to do."""
    head = await _checked_out(git)
    if await git.agrees("merge-base", "--is-ancestor", tip, head):
        return Merge(head)
    tree, conflicts = await _merged_tree(git, head, tip, path)
    if conflicts:
        return Merge(None, conflicts)
    commit = await record(git, tree, (head, tip), subject)
    # A checkout of which half the files are merged would be worse than a cancellation that comes a moment later.
    await unbroken(_move_forward(git, commit))
    return Merge(commit)


async def _checked_out(git: Git) -> str:
    head = await git.commit_at("HEAD")
    if not head or not await git.agrees("symbolic-ref", "--quiet", "HEAD"):
        raise WorkspaceError(
            f"no branch is checked out in {git.directory}: HEAD is detached at {head}",
            help=f"check out the branch to merge into: git -C {git.directory} switch BRANCH",
        )
    return head


async def _merged_tree(git: Git, head: str, tip: str, path: Path) -> tuple[str, tuple[str, ...]]:
    reply = await git.ask("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, tip)
    if reply.code == USAGE:
        with scratch(path) as directory:
            return await _merged_aside(git, head, tip, directory / "merge")
    if reply.code not in {0, _CONFLICT}:
        raise refused("merge-tree", reply)
    tree, *files = reply.out.split("\0")
    return tree.strip(), tuple(dict.fromkeys(filter(None, files)))


async def _merged_aside(git: Git, head: str, tip: str, place: Path) -> tuple[str, tuple[str, ...]]:
    # Before version 2.38 git can merge only in a worktree: so in one that is nobody's.
    await git.run("worktree", "add", "--force", "--detach", str(place), head)
    try:
        return await _merged_in(await signed(git.within(place)), tip)
    finally:
        await git.run("worktree", "remove", "--force", str(place))


async def _merged_in(git: Git, tip: str) -> tuple[str, tuple[str, ...]]:
    reply = await git.ask("merge", "--no-commit", "--no-ff", "--quiet", tip)
    conflicts = await git.names("diff", "--name-only", "-z", "--no-ext-diff", "--diff-filter=U")
    if conflicts:
        return "", tuple(conflicts)
    if reply.code:
        raise refused("merge", reply)
    return await git.run("write-tree"), ()


async def _move_forward(git: Git, commit: str) -> None:
    reply = await git.ask("merge", "--ff-only", "--no-squash", "--quiet", "--no-overwrite-ignore", commit)
    if not reply.code:
        return
    files = [line.strip() for line in reply.err.splitlines() if line.startswith("\t")]
    if not files:
        raise refused("merge", reply)
    raise WorkspaceError(
        f"the merge would overwrite what is not committed in {git.directory}: {', '.join(files)}",
        help="commit, stash or move these files, then merge again",
    )

"""Merging a branch into a checkout that a person works in: everything is decided before a file of theirs is touched.

A ref names the merge commit while their files are written: what a killed git left of that is put back by the next call.
"""

import os
from pathlib import Path

from pipeline.backends.checkout import VIEWS, WORK, record
from pipeline.backends.git import USAGE, Git, await_uninterrupted, git_error, with_identity
from pipeline.backends.worktree_paths import scratch
from pipeline.engine.ports import MergeResult, WorkspaceError

_CONFLICT = 1


def refs(name: str) -> tuple[str, str]:
    """The ref of a merge that is being written, and that of what one left that never came to its end."""
    return f"refs/awf/merging/{name}", f"refs/awf/torn/{name}-merge"


async def merge(git: Git, tip: str, subject: str, path: Path) -> MergeResult:
    """Merge a commit into the branch that is checked out, with a merge commit; done before, there is nothing to do."""
    await _tidy(git, path)
    head = await _checked_out(git)
    if await git.agrees("merge-base", "--is-ancestor", tip, head):
        return MergeResult(head)
    tree, conflicts = await _merged_tree(git, head, tip, path)
    if conflicts:
        return MergeResult(None, conflicts)
    with scratch(path) as directory:
        tree = await _without_views(git, head, tree, directory)
    commit = await record(git, tree, (head, tip), subject)
    begun = refs(path.name)[0]
    await git.run("update-ref", begun, commit)
    try:
        # A checkout of which half the files are merged would be worse than a cancellation that comes a moment later.
        await await_uninterrupted(_move_forward(git, commit))
    except _MergeRefused:  # nothing was written: the files, and a lock that may be there, are somebody else's
        await git.run("update-ref", "-d", begun)
        raise
    except BaseException:
        await _tidy(git, path)
        raise
    await _tidy(git, path)
    return MergeResult(commit)


class _MergeRefused(WorkspaceError):
    """Git did not begin to write."""


async def _tidy(git: Git, path: Path) -> None:
    """Put back the files of a merge that git was killed in, if there is one, and let go of its ref."""
    begun, torn = refs(path.name)
    commit = await git.resolve_commit(begun)
    if not commit:
        return
    head = await git.resolve_commit("HEAD")
    lock = await git.run("rev-parse", "--path-format=absolute", "--git-path", "index.lock")
    written = await _is_in_index(git, commit)
    if head and head == await git.resolve_commit(f"{commit}^1") and (written or os.access(lock, os.F_OK)):
        with scratch(path) as directory:
            await _put_back(git, head, commit, directory, torn)
        if written:
            await git.run("read-tree", head)
        _unlock(lock)  # last: it is what tells that there is something to put back
    await git.run("update-ref", "-d", begun)


def _unlock(lock: str) -> None:
    Path(lock).unlink(missing_ok=True)


async def _is_in_index(git: Git, commit: str) -> bool:
    """Whether every file was written and only the branch was not moved."""
    return (await git.ask("write-tree")).out.strip() == await git.run("rev-parse", f"{commit}^{{tree}}")


async def _put_back(git: Git, head: str, commit: str, directory: Path, torn: str) -> None:
    """Bring the files that a merge changes back to what they were; as they are now they are kept under a ref."""
    names = await git.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, commit)
    aside = git.using({"GIT_INDEX_FILE": str(directory / "index")})
    await aside.run("read-tree", head)
    seen = "".join(f"{name}\0" for name in names)
    await aside.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=seen)
    subject = "What a merge that was interrupted had written"
    await git.run("update-ref", torn, await record(git, await aside.run("write-tree"), (head,), subject))
    await aside.run("read-tree", "-m", "-u", head)  # it touches no file but those


async def _checked_out(git: Git) -> str:
    head = await git.resolve_commit("HEAD")
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
        raise git_error("merge-tree", reply)
    tree, *files = reply.out.split("\0")
    return tree.strip(), tuple(name for name in dict.fromkeys(files) if name and not _is_view(name))


def _is_view(name: str) -> bool:
    return name.partition("/")[0] in VIEWS


async def _without_views(git: Git, head: str, tree: str, directory: Path) -> str:
    """A merged tree in which the files that show findings are those of the checkout, whatever an agent committed."""
    if not await git.names("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, tree, "--", *VIEWS):
        return tree
    aside = git.using({"GIT_INDEX_FILE": str(directory / "index")})
    await aside.run("read-tree", tree)
    await aside.run("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch", "--", *VIEWS)
    for name in VIEWS:
        if (await git.ask("cat-file", "-t", f"{head}:{name}")).out.strip() == "tree":
            await aside.run("read-tree", f"--prefix={name}/", f"{head}:{name}")
    return await aside.run("write-tree")


async def _merged_aside(git: Git, head: str, tip: str, place: Path) -> tuple[str, tuple[str, ...]]:
    # Before version 2.38 git can merge only in a worktree: so in one that is nobody's.
    await git.run("worktree", "add", "--force", "--detach", str(place), head)
    try:
        return await _merged_in(await with_identity(git.within(place)), tip)
    finally:
        await git.run("worktree", "remove", "--force", str(place))


async def _merged_in(git: Git, tip: str) -> tuple[str, tuple[str, ...]]:
    reply = await git.ask("merge", "--no-commit", "--no-ff", "--quiet", tip)
    conflicts = await git.names("diff", "--name-only", "-z", "--no-ext-diff", "--diff-filter=U", "--", *WORK)
    if conflicts:
        return "", tuple(conflicts)
    if reply.code:
        raise git_error("merge", reply)
    return await git.run("write-tree"), ()


async def _move_forward(git: Git, commit: str) -> None:
    reply = await git.ask("merge", "--ff-only", "--no-squash", "--quiet", "--no-overwrite-ignore", commit)
    if not reply.code:
        return
    files = [line.strip() for line in reply.err.splitlines() if line.startswith("\t")]
    if reply.code < 0:
        raise git_error("merge", reply)
    if not files:
        said = git_error("merge", reply)
        raise _MergeRefused(said.message, help="see to what git says, then resume")
    raise _MergeRefused(
        f"the merge would overwrite what is not committed in {git.directory}: {', '.join(files)}",
        help="commit, stash or move these files, then merge again",
    )

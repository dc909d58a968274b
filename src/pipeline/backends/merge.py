"""Merges a branch into a checkout that a person works in. Everything is decided before any of their files is touched.

A ref names the merge commit while their files are written. If git is killed meanwhile, the next call undoes what it
wrote.
"""

from pathlib import Path

from pipeline.backends.checkout import create_commit
from pipeline.backends.git import UNKNOWN_OPTION, Git, await_uninterrupted, git_error, with_identity
from pipeline.backends.worktree_paths import scratch_directory
from pipeline.engine.ports import MergeResult, WorkspaceError

_CONFLICT = 1  # git's exit code


def merge_refs(name: str) -> tuple[str, str]:
    """The ref of a merge in progress, and the ref that keeps what an interrupted one had written."""
    return f"refs/awf/merging/{name}", f"refs/awf/torn/{name}-merge"


async def merge_into_checkout(git: Git, tip: str, subject: str, worktree: Path) -> MergeResult:
    """Merge a commit into the branch that is checked out, with a merge commit unless it is merged already."""
    await _undo_interrupted(git, worktree)
    head = await git.resolve_commit("HEAD")
    if not head or not await git.succeeds("symbolic-ref", "--quiet", "HEAD"):
        raise WorkspaceError(
            f"no branch is checked out in {git.directory}: HEAD is detached at {head}",
            help=f"check out the branch to merge into: git -C {git.directory} switch BRANCH",
        )
    if await git.succeeds("merge-base", "--is-ancestor", tip, head):
        return MergeResult(head)
    tree, conflicts = await _merge_trees(git, head, tip, worktree)
    if conflicts:
        return MergeResult(None, conflicts)
    tree = await _keep_views(git, head, tree, worktree)
    commit = await create_commit(git, tree, (head, tip), subject)
    in_progress = merge_refs(worktree.name)[0]
    await git.output("update-ref", in_progress, commit)
    try:
        # Half-merged files would be worse than a cancellation that takes a moment longer.
        await await_uninterrupted(_fast_forward(git, commit))
    except _MergeRefused:  # nothing was written, and a lock that may exist is somebody else's
        await git.output("update-ref", "-d", in_progress)
        raise
    except BaseException:
        await _undo_interrupted(git, worktree)
        raise
    await _undo_interrupted(git, worktree)
    return MergeResult(commit)


class _MergeRefused(WorkspaceError):
    """Git did not start to write files."""


async def _undo_interrupted(git: Git, worktree: Path) -> None:
    """Put back the files of a merge in which git was killed, if there is one, and remove its ref."""
    in_progress, torn = merge_refs(worktree.name)
    commit = await git.resolve_commit(in_progress)
    if not commit:
        return
    head = await git.resolve_commit("HEAD")
    lock = Path(await git.output("rev-parse", "--path-format=absolute", "--git-path", "index.lock"))
    # Then every file was written, and only the branch was not moved.
    written = (await git.run("write-tree")).out.strip() == await git.output("rev-parse", f"{commit}^{{tree}}")
    if head and head == await git.resolve_commit(f"{commit}^1") and (written or lock.exists()):
        # Save the present content of the files that the merge changes, then restore them.
        names = await git.output_list("diff-tree", "-r", "-z", "--name-only", "--no-renames", head, commit)
        with scratch_directory(worktree) as scratch:
            aside = git.with_variables(GIT_INDEX_FILE=scratch / "index")
            await aside.output("read-tree", head)
            listed = "".join(f"{name}\0" for name in names)
            await aside.output("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=listed)
            tree = await aside.output("write-tree")
            saved = await create_commit(git, tree, (head,), "What an interrupted merge had written")
            await git.output("update-ref", torn, saved)
            await aside.output("read-tree", "-m", "-u", head)  # touches only those files
        if written:
            await git.output("read-tree", head)
        lock.unlink(missing_ok=True)  # last: it shows that there is something to put back
    await git.output("update-ref", "-d", in_progress)


async def _merge_trees(git: Git, head: str, tip: str, worktree: Path) -> tuple[str, tuple[str, ...]]:
    """The merged tree, or the files that conflict."""
    merged = await git.run("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, tip)
    if merged.code == UNKNOWN_OPTION:
        with scratch_directory(worktree) as scratch:
            return await _merge_in_worktree(git, head, tip, scratch / "merge")
    if merged.code not in {0, _CONFLICT}:
        raise git_error("merge-tree", merged)
    tree, *files = merged.out.split("\0")
    conflicts = [name for name in dict.fromkeys(files) if name and name.partition("/")[0] not in git.views]
    return tree.strip(), tuple(conflicts)


async def _merge_in_worktree(git: Git, head: str, tip: str, path: Path) -> tuple[str, tuple[str, ...]]:
    # Before version 2.38 git can merge only in a worktree: use a temporary one.
    await git.output("worktree", "add", "--force", "--detach", str(path), head)
    try:
        inner = await with_identity(git.in_worktree(path))
        merged = await inner.run("merge", "--no-commit", "--no-ff", "--quiet", tip)
        options = ("--name-only", "-z", "--no-ext-diff", "--diff-filter=U")
        if conflicts := await inner.output_list("diff", *options, "--", *git.work):
            return "", tuple(conflicts)
        if merged.code:
            raise git_error("merge", merged)
        return await inner.output("write-tree"), ()
    finally:
        await git.output("worktree", "remove", "--force", str(path))


async def _keep_views(git: Git, head: str, tree: str, worktree: Path) -> str:
    """A merged tree whose views are the checkout's, whatever an agent committed."""
    options = ("-r", "-z", "--name-only", "--no-renames")
    if not git.views or not await git.output_list("diff-tree", *options, head, tree, "--", *git.views):
        return tree
    with scratch_directory(worktree) as scratch:
        aside = git.with_variables(GIT_INDEX_FILE=scratch / "index")
        await aside.output("read-tree", tree)
        await aside.output("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch", "--", *git.views)
        for name in git.views:
            if (await git.run("cat-file", "-t", f"{head}:{name}")).out.strip() == "tree":
                await aside.output("read-tree", f"--prefix={name}/", f"{head}:{name}")
        return await aside.output("write-tree")


async def _fast_forward(git: Git, commit: str) -> None:
    merged = await git.run("merge", "--ff-only", "--no-squash", "--quiet", "--no-overwrite-ignore", commit)
    if not merged.code:
        return
    error = git_error("merge", merged)
    if merged.code < 0:
        raise error
    if files := [line.strip() for line in merged.err.splitlines() if line.startswith("\t")]:
        raise _MergeRefused(
            f"the merge would overwrite uncommitted changes in {git.directory}: {', '.join(files)}",
            help="commit, stash or move these files, then merge again",
        )
    raise _MergeRefused(error.message, help="fix what git reports, then resume")

"""One worktree from within: find it, list and stage its changes, save them aside, reset it.

Git runs in a worktree only after `find_checkout` has confirmed that it is one: otherwise git would work on the checkout
around it.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.git import Git, commit_message, with_identity
from pipeline.engine.errors import WorkspaceError

_NESTED = "/"  # git ends the name of a nested repository with it
_REBASES = ("rebase-merge", "rebase-apply")
# What git keeps of a merge or a rebase that is not finished.
UNFINISHED = (*_REBASES, "sequencer", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "BISECT_START")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A complete worktree: the git command in it, and the directory where git keeps its index and HEAD."""

    git: Git
    git_directory: Path

    def unlock(self) -> None:
        """Remove the locks that a killed git left; the lease guarantees that no git is running."""
        for name in ("index.lock", "HEAD.lock"):
            (self.git_directory / name).unlink(missing_ok=True)

    @property
    def is_merging(self) -> bool:
        """Whether a merge is unfinished."""
        return (self.git_directory / "MERGE_HEAD").exists()

    @property
    def is_rebasing(self) -> bool:
        """Whether a rebase is unfinished."""
        return any((self.git_directory / name).exists() for name in _REBASES)

    async def repair_index(self, commit: str) -> None:
        """Rebuild an index that git cannot read from a commit; the files stay as they are."""
        if not await self.git.succeeds("ls-files", "--cached", "-z"):
            (self.git_directory / "index").unlink(missing_ok=True)
            await self.git.output("read-tree", commit)

    async def ensure_on_branch(self, branch: str) -> None:
        """Require HEAD to be on the branch; a detached HEAD that only moved forward takes the branch along."""
        git, path, ref = self.git, self.git.directory, f"refs/heads/{branch}"
        current = await git.run("symbolic-ref", "--quiet", "HEAD")
        if current.out.strip() == ref:
            return
        if not current.code:
            found = f'the branch "{current.out.strip().removeprefix("refs/heads/")}" is checked out'
        elif self.is_rebasing:
            found = "a rebase is unfinished"
        else:
            head, tip = await git.resolve_commit("HEAD"), await git.resolve_commit(ref)
            if head and tip and await git.succeeds("merge-base", "--is-ancestor", tip, head):
                await git.output("update-ref", ref, head)
                await git.output("symbolic-ref", "HEAD", ref)
                return
            found = f"HEAD is detached at {head}"
        raise WorkspaceError(
            f'in the worktree {path} {found}, but its commits belong on "{branch}"',
            help=f"bring the commits you want to that branch and check it out: git -C {path} checkout {branch}",
        )

    async def reset(self, branch: str, commit: str) -> None:
        """Bring branch, index and files to a commit; ignored files stay."""
        for name in UNFINISHED:
            remove_path(self.git_directory / name)
        await self.git.output("update-ref", f"refs/heads/{branch}", commit)
        await self.git.output("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        await self.git.output("reset", "--hard", "--quiet", commit)
        await self.git.output("clean", "--force", "-d", "--quiet")


async def find_checkout(repository: Git, path: Path) -> Checkout | None:
    """The worktree at a path, if it belongs to the repository and is complete."""
    link = path / ".git"
    if path.is_symlink() or link.is_symlink() or not link.is_file():
        return None
    git = repository.in_worktree(path)
    found = await git.run("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir")
    if found.code:
        return None
    top, common, git_directory = (Path(line).resolve() for line in found.out.splitlines())
    if top != path or common != await common_directory(repository):
        return None
    try:
        back_link = (git_directory / (git_directory / "gitdir").read_text().removesuffix("\n")).resolve()
    except OSError:
        return None
    lock = git_directory / "locked"  # `git worktree add` gives this reason until every file is checked out
    initializing = lock.exists() and lock.read_text(errors="replace").startswith("initializing")
    is_complete = back_link == link and (git_directory / "index").exists() and not initializing
    return Checkout(git, git_directory) if is_complete else None


async def common_directory(repository: Git) -> Path:
    """Where a repository and all its worktrees keep objects and branches."""
    return Path(await repository.output("rev-parse", "--path-format=absolute", "--git-common-dir")).resolve()


async def list_changes(git: Git) -> list[str]:
    """Every path of the work that differs from HEAD, untracked ones too; `name/` is a nested repository."""
    options = ("--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
    return [entry[3:] for entry in await git.output_list("status", *options, "--", *git.work)]


async def has_restorable_changes(git: Git) -> bool:
    """Whether something changed that can be saved and put back: not a nested repository."""
    return any(not name.endswith(_NESTED) for name in await list_changes(git))


async def stage_changes(git: Git) -> tuple[str, ...]:
    """Add every change of the work to the index; returns the paths whose content git leaves out."""
    others = await git.output_list("ls-files", "-z", "--others", "--exclude-standard", "--", *git.work)
    nested = [name.removesuffix(_NESTED) for name in others if name.endswith(_NESTED)]
    linked = gitlinks(await git.output_list("ls-files", "-z", "--stage", "--", *git.work))
    # A nested repository in the index would be a commit that nobody else has. Git does not look into a linked one
    # either: its configuration, which an agent can write, may name programs. Only the commit it is at is recorded.
    excluded = [f":(exclude,top,literal){name}" for name in (*nested, *linked)]
    await git.output("add", "--all", "--", *git.work, *excluded)
    dirty = []
    for name in linked:
        inner = git.in_worktree(git.directory / name)
        if commit := await inner.resolve_commit("HEAD"):
            await git.output("update-index", "--cacheinfo", f"160000,{commit},{name}")
            dirty += [name] if await list_changes(inner) else []
    return (*nested, *dirty)


def remove_path(path: Path) -> None:
    """Remove a file, a link or a directory with all that is in it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def gitlinks(entries: Iterable[str]) -> list[str]:
    """The names among index entries, as `ls-files --stage` lists them, that are commits of other repositories."""
    return [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]


async def write_snapshot(repository: Git, path: Path, base: str, scratch: Path) -> str:
    """The tree of all files in a directory, which need not be a worktree any more; no index is changed."""
    common = await common_directory(repository)
    git = repository.in_worktree(path).with_variables(
        GIT_DIR=common, GIT_WORK_TREE=path, GIT_INDEX_FILE=scratch / "index"
    )
    await git.output("read-tree", base)
    await stage_changes(git)
    return await git.output("write-tree")


async def create_commit(git: Git, tree: str, parents: Iterable[str], subject: str) -> str:
    """A commit that no ref names yet."""
    options = [part for parent in parents for part in ("-p", parent)]
    author = await with_identity(git)
    return await author.output("commit-tree", tree, *options, "-F", "-", stdin=commit_message(subject))

"""What is done inside one worktree: find it, see what changed, stage it, keep it aside, put it back.

A command runs in a worktree only after `find` has said that it is one: else git would work on the checkout around it.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.git import Git, commit_message, with_identity
from pipeline.engine.ports import WorkspaceError

_NESTED = "/"  # how git ends the name of a directory that it does not look into: a repository of its own
_REBASES = ("rebase-merge", "rebase-apply")
VIEWS = (".wystack", ".code-review")  # files that show findings: awf writes them, and they are no part of the work
WORK = (":(top)", *(f":(exclude,top){name}" for name in VIEWS))  # everything else, as git wants it said
_UNFINISHED = (*_REBASES, "sequencer", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "BISECT_START")


@dataclass(frozen=True, slots=True)
class Checkout:
    """A whole worktree: the git command in it, and the directory in which git keeps its index and HEAD."""

    git: Git
    private: Path

    def unlock(self) -> None:
        """Remove the locks that a killed git left; the lease says that none is alive."""
        for name in ("index.lock", "HEAD.lock"):
            (self.private / name).unlink(missing_ok=True)

    async def repair_index(self, commit: str) -> None:
        """Read an index that git cannot read anew from a commit; the files stay as they are."""
        if not await self.git.agrees("ls-files", "--cached", "-z"):
            (self.private / "index").unlink(missing_ok=True)
            await self.git.run("read-tree", commit)

    def merging(self) -> bool:
        """Whether a merge was begun and not committed."""
        return (self.private / "MERGE_HEAD").exists()

    def rebasing(self) -> bool:
        """Whether a rebase was begun and not finished."""
        return any((self.private / name).exists() for name in _REBASES)


async def common_directory(repository: Git) -> Path:
    """Where a repository and all its worktrees keep objects and branches."""
    return resolved(await repository.run("rev-parse", "--path-format=absolute", "--git-common-dir"))


def resolved(name: str) -> Path:
    """A path that git told, without symbolic links."""
    return Path(name).resolve()


async def find(repository: Git, path: Path) -> Checkout | None:
    """The worktree at a path, if it belongs to the repository and was made to the end."""
    if not _is_linked(path):
        return None
    git = repository.within(path)
    reply = await git.ask("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-dir")
    if reply.code:
        return None
    top, common, private = (resolved(line) for line in reply.out.splitlines())
    whole = top == path and common == await common_directory(repository) and _is_whole(private, path / ".git")
    return Checkout(git, private) if whole else None


def _is_linked(path: Path) -> bool:
    link = path / ".git"
    return not path.is_symlink() and not link.is_symlink() and link.is_file()


def _is_whole(private: Path, link: Path) -> bool:
    try:
        back = private / (private / "gitdir").read_text().removesuffix("\n")
    except OSError:
        return False
    return back.resolve() == link and (private / "index").exists() and not _is_initializing(private / "locked")


def _is_initializing(lock: Path) -> bool:
    # `git worktree add` locks what it makes with this reason until every file is there.
    return lock.exists() and lock.read_text(errors="replace").startswith("initializing")


async def changes(git: Git) -> list[str]:
    """Every path of the work that differs from HEAD, also an untracked one; `name/` is a repository within."""
    options = ("--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty")
    return [entry[3:] for entry in await git.names("status", *options, "--", *WORK)]


async def torn_changes(git: Git) -> list[str]:
    """The changes that can be kept and put back: not those within repositories of their own."""
    return [name for name in await changes(git) if not name.endswith(_NESTED)]


async def stage(git: Git) -> tuple[str, ...]:
    """Put every change of the work into the index; returns the paths whose content git leaves out."""
    others = await git.names("ls-files", "-z", "--others", "--exclude-standard", "--", *WORK)
    nested = [name.removesuffix(_NESTED) for name in others if name.endswith(_NESTED)]
    linked = gitlinks(await git.names("ls-files", "-z", "--stage", "--", *WORK))
    # As an entry of the index a nested repository would be a commit that nobody else has. Git does not look into a
    # linked one: its configuration, which an agent can write, may name programs. Only the commit it is at is taken.
    apart = [f":(exclude,top,literal){name}" for name in (*nested, *linked)]
    await git.run("add", "--all", "--", *WORK, *apart)
    dirty = []
    for name in linked:
        within = git.within(git.directory / name)
        if commit := await within.resolve_commit("HEAD"):
            await git.run("update-index", "--cacheinfo", f"160000,{commit},{name}")
            dirty += [name] if await changes(within) else []
    return (*nested, *dirty)


def gitlinks(entries: Iterable[str]) -> list[str]:
    """The names among index entries, as `ls-files --stage` lists them, that are commits of other repositories."""
    return [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]


async def follow(checkout: Checkout, branch: str) -> None:
    """See that HEAD is on the branch; one that has only been detached and gone forward takes the branch with it."""
    git = checkout.git
    reply = await git.ask("symbolic-ref", "--quiet", "HEAD")
    if reply.out.strip() == f"refs/heads/{branch}":
        return
    if not reply.code:
        found = reply.out.strip().removeprefix("refs/heads/")
        raise _strayed(checkout, branch, f'the branch "{found}" is checked out')
    head, tip = await git.resolve_commit("HEAD"), await git.resolve_commit(f"refs/heads/{branch}")
    forward = head and tip and await git.agrees("merge-base", "--is-ancestor", tip, head)
    if not head or not forward or checkout.rebasing():
        where = "a rebase is unfinished" if checkout.rebasing() else f"HEAD is detached at {head}"
        raise _strayed(checkout, branch, where)
    await git.run("update-ref", f"refs/heads/{branch}", head)
    await git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")


def _strayed(checkout: Checkout, branch: str, found: str) -> WorkspaceError:
    path = checkout.git.directory
    return WorkspaceError(
        f'in the worktree {path} {found}, but its commits belong on "{branch}"',
        help=f"bring what is wanted to that branch and check it out: git -C {path} checkout {branch}",
    )


async def snapshot(repository: Git, path: Path, base: str, scratch: Path) -> str:
    """The tree of all files in a directory, which git need not know as a worktree any more; no index is changed."""
    common = await common_directory(repository)
    places = {"GIT_DIR": common, "GIT_WORK_TREE": path, "GIT_INDEX_FILE": scratch / "index"}
    git = repository.within(path).using({key: str(value) for key, value in places.items()})
    await git.run("read-tree", base)
    await stage(git)
    return await git.run("write-tree")


async def record(git: Git, tree: str, parents: Iterable[str], subject: str) -> str:
    """A commit that nothing names yet."""
    with_parents = [part for parent in parents for part in ("-p", parent)]
    return await (await with_identity(git)).run(
        "commit-tree", tree, *with_parents, "-F", "-", stdin=commit_message(subject)
    )


async def put_back(checkout: Checkout, branch: str, commit: str) -> None:
    """Bring branch, index and files to a commit; what is ignored stays."""
    for name in _UNFINISHED:
        _remove(checkout.private / name)
    await checkout.git.run("update-ref", f"refs/heads/{branch}", commit)
    await checkout.git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    await checkout.git.run("reset", "--hard", "--quiet", commit)
    await checkout.git.run("clean", "--force", "-d", "--quiet")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""What git says of the repository a pass is about; outside of one, nothing."""

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline import files
from pipeline.backends.checkout import VIEWS, gitlinks
from pipeline.backends.git import git_in
from pipeline.errors import AwfError

_PLAIN_NAMES = ("-c", "core.quotePath=true")  # an odd name is written in plain characters
_SECONDS = 10.0


class GitRefusedError(AwfError):
    """Git did not answer."""


def head_and_branch(root: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """The commit that is checked out, and the branch; empty where there is none."""
    return head(root, environ), query_git(root, environ, "symbolic-ref", "--short", "--quiet", "HEAD")


def head(root: Path, environ: Mapping[str, str]) -> str:
    """The commit that is checked out; empty where there is none."""
    return query_git(root, environ, "rev-parse", "--verify", "--quiet", "HEAD")


def repository_root(root: Path, environ: Mapping[str, str]) -> Path:
    """The top of the repository around a directory; the directory itself where there is none."""
    found = query_git(root, environ, "rev-parse", "--show-toplevel")
    return Path(found) if found else root


def query_git(root: Path, environ: Mapping[str, str], *arguments: str) -> str:
    """What git answers to a short question, without the white space around it; nothing where it cannot tell."""
    if not in_repository(root):
        return ""
    try:
        return run_git(root, environ, *arguments).strip()
    except GitRefusedError:  # there is no git here, or no repository, or no such thing in it: nothing is known
        return ""


def in_repository(root: Path) -> bool:
    """Whether a directory lies in a repository or a worktree. It costs no process, as below."""
    place, above = "", str(root)
    while place != above:
        place, above = above, os.path.dirname(above)  # noqa: PTH120 - asked with every review, and a path costs more
        if is_top(place):
            return True
    return False


def is_top(place: str | Path) -> bool:
    """Whether a repository or a worktree begins at a place. It costs no process: every review of a run asks.

    An empty `.git`, as sandboxes of agents leave behind, is not a repository.
    """
    return os.access(f"{place}/.git/HEAD", os.F_OK) or os.path.isfile(f"{place}/.git")  # noqa: PTH113 - a text


def run_git(
    root: Path,
    environ: Mapping[str, str],
    *arguments: str,
    variables: Mapping[str, str] | None = None,  # that git is to see besides
    accepted: Collection[int] = (0,),  # exit codes
) -> str:
    """What git answers; a GitRefusedError in one line where it does not, or takes too long."""
    verb, git = arguments[0], git_in(root, environ).with_variables(**variables or {})
    try:
        done = git.run_sync(*arguments, timeout=_SECONDS, options=_PLAIN_NAMES)
    except TimeoutError:
        raise GitRefusedError(f"git {verb} took longer than {_SECONDS:.0f} seconds") from None
    except OSError as error:
        raise GitRefusedError(f"git {verb} cannot be run: {error.strerror}") from None
    if done.returncode not in accepted:
        said = " ".join(done.stderr.decode(errors="replace").split()).removeprefix("fatal: ")
        raise GitRefusedError(f"git {verb} failed: {said or f'it ended with code {done.returncode}'}")
    return done.stdout.decode(errors="replace")


_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "-M", "--submodule=short")
_SHOWN = 50  # files that are named
_PARTLY = 1  # git's exit code when it left out what it could not read, and took the rest
_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class TreeSnapshots:
    """Trees of the files that a run without a worktree works on. Once git has had trouble, it is not asked again."""

    def __init__(self, environ: Mapping[str, str], store: Path | None = None) -> None:
        self._environ = environ
        self._store = store  # no part of the work
        self._trouble = ""
        self._outside: Path | None = None  # a directory with no repository around it; one may still be made in it

    def now(self, root: Path, ref: str = "") -> str:
        """The tree of all files that git would take, named by a ref if so wished; nothing outside of a repository."""
        if self._trouble:
            raise GitRefusedError(self._trouble)
        try:
            tree = self._made(root)
            if tree and ref:
                run_git(root, self._environ, "update-ref", ref, tree)  # else git throws it away some day
        except GitRefusedError as error:
            self._trouble = error.message
            raise
        except OSError as error:
            self._trouble = f"the index of {root} could not be copied: {error.strerror}"
            raise GitRefusedError(self._trouble) from error
        return tree

    def _made(self, root: Path) -> str:
        if root == self._outside and not is_top(root):
            return ""
        found = query_git(
            root, self._environ, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-path", "index"
        )
        if not found:
            self._outside = root
            return ""
        top, _, index = found.partition("\n")
        with TemporaryDirectory(prefix="awf-index-") as folder:
            mine = Path(folder, "index")
            with suppress(FileNotFoundError):  # nothing was ever added
                shutil.copy2(index, mine)  # with its time: git looks again at files that are not older
            variables = {"GIT_INDEX_FILE": str(mine)}
            entries = query_git(Path(top), self._environ, "ls-files", "--stage", "-z").split("\0")
            linked = [f":(exclude,top,literal){name}" for name in gitlinks(entries)]  # git is not to look into these
            everything = ("add", "--all", "--ignore-errors", "--", *_work_paths(), *self._apart(Path(top)), *linked)
            run_git(Path(top), self._environ, *everything, variables=variables, accepted=(0, _PARTLY))
            return run_git(Path(top), self._environ, "write-tree", variables=variables).strip()

    def _apart(self, top: Path) -> Iterator[str]:
        place = self._store.resolve() if self._store else top
        if place != top and place.is_relative_to(top):
            yield f":(exclude,top,literal){place.relative_to(top).as_posix()}"


def is_tree(name: object) -> bool:
    """Whether something is the name of a tree or a commit. A context can be written by stages: an option is none."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def stat_of(root: Path, environ: Mapping[str, str], old: str, new: str) -> str:
    """How much of which file differs, and in the last line the sum; nothing where nothing does."""
    return run_git(
        root, environ, *_DIFF, "--stat=100", f"--stat-count={_SHOWN}", old, new, "--", *_work_paths()
    ).rstrip()


def patch_of(root: Path, environ: Mapping[str, str], old: str, new: str) -> str:
    """Every line that differs, with what is around it; a binary file is only named."""
    options = ("-U3", "--src-prefix=a/", "--dst-prefix=b/")
    return run_git(root, environ, *_DIFF, *options, old, new, "--", *_work_paths()).rstrip()


def files_changed(root: Path, environ: Mapping[str, str], old: str, new: str) -> bool:
    """Whether a file of a tree is different or missing in another one; new files do not count."""
    options = ("-r", "-z", "--name-only", "--no-renames", "--diff-filter=MDT")
    return bool(run_git(root, environ, "diff-tree", *options, old, new))


def delete_ref(root: Path, environ: Mapping[str, str], ref: str) -> None:
    """Take a name of a tree away, if it is there."""
    query_git(root, environ, "update-ref", "-d", ref)


def _work_paths() -> tuple[str, ...]:
    """Everything but the files that show findings, as git wants it said."""
    return (":(top)", *(f":(exclude,top,glob)**/{name}/**" for name in VIEWS))


_MAX_PATH_FILE = 4096  # bytes of a file that holds one path


def main_checkout(start: Path) -> Path:
    """The main checkout of the repository around a directory, else the directory itself. Starts no process."""
    top = next((place for place in (start, *start.parents) if is_top(place)), None)
    if top is None:
        return start
    return _worktree_origin(top) or top


def _worktree_origin(worktree: Path) -> Path | None:
    """The checkout that a worktree was made from, if that agrees."""
    named = _read_path(worktree / ".git", "gitdir:", worktree)
    back = _read_path(named / "gitdir", "", named) if named else None
    common = _read_path(named / "commondir", "", named) if named else None
    if back is None or common is None or back != (worktree / ".git").resolve() or common.name != ".git":
        return None
    return common.parent


def _read_path(file: Path, label: str, base: Path) -> Path | None:
    try:
        text = (files.read_file(file, _MAX_PATH_FILE) or b"").decode(errors="surrogateescape").strip()
        return (base / text.removeprefix(label).strip()).resolve() if text.startswith(label) and text else None
    except (files.NotAFile, OSError, RuntimeError, ValueError):
        return None

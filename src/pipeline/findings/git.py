"""What git knows of the code under review: the commit, the branch, and the files that are not committed."""

import os
import re
import shutil
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pipeline import files
from pipeline.backends.checkout import gitlinks
from pipeline.backends.git import git_in
from pipeline.errors import AwfError

if TYPE_CHECKING:
    from pipeline.engine.state import State

OWN_FILES = (
    ".wystack/findings/*.json",
    ".wystack/reviews/*.json",
    ".code-review/*.json",
    ".code-review/abort-reason.md",
    f"**/{'[0-9]' * 4}-{'[0-9]' * 2}-{'[0-9]' * 2}-*-{'[0-9a-f]' * 8}.md",  # reports, wherever they are kept
)  # what awf itself writes beside the work, as globs: everything else is looked at
# What may be one of them in git's index: if nothing is, git need not be asked to forget any.
_OWN_ENTRY = re.compile(r"\t\.(?:wystack|code-review)/|\d{4}-\d\d-\d\d-[^/]*-[0-9a-f]{8}\.md$")
CONFIGURATION = ("config.kdl", "self-check", "workflows")  # what people commit of a store
_PLAIN_NAMES = ("-c", "core.quotePath=true")  # unusual file names are escaped
_SECONDS = 10.0
_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "-M", "--submodule=short")
_MAX_STAT_FILES = 50
_GITLINK = "160000"  # git's mode of a submodule
_MAX_BINARY = 100  # files that are looked into
_BINARY_BYTES = 8000  # of a file in which git looks for a null byte
_NO_COMMIT = 128  # git's exit code when HEAD names no commit yet
_SOME_FILES_UNREADABLE = 1  # git's exit code when it added everything else
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_PATH_FILE = 4096  # bytes of a file that holds one path


class GitRefusedError(AwfError):
    """Git could not be run, failed, or took too long."""


@dataclass(frozen=True, slots=True)
class CheckoutInfo:
    """A checkout as git sees it; every field is empty outside a repository."""

    root: str = ""
    index: str = ""  # the path of git's index
    head: str = ""  # a commit; empty before the first one
    branch: str = ""  # empty when no branch is checked out


def read_checkout(directory: Path, environ: Mapping[str, str]) -> CheckoutInfo:
    """The checkout around a directory, in one call of git."""
    if not in_repository(directory):
        return CheckoutInfo()
    question = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-path", "index")
    try:
        answer = run_git(
            directory, environ, *question, "HEAD", "--symbolic-full-name", "HEAD", accepted=(0, _NO_COMMIT)
        )
    except GitRefusedError:  # git is missing or broken: nothing is known
        return CheckoutInfo()
    match answer.splitlines():
        case [root, index, head, branch]:
            return CheckoutInfo(root, index, head, branch.removeprefix("refs/heads/") if branch != "HEAD" else "")
        case [root, index, _]:
            branch = query_git(directory, environ, "symbolic-ref", "--short", "--quiet", "HEAD")
            return CheckoutInfo(root, index, branch=branch)
        case _:
            return CheckoutInfo()


def query_git(directory: Path, environ: Mapping[str, str], *arguments: str) -> str:
    """Git's answer to a short question, stripped; empty if git does not know."""
    if not in_repository(directory):
        return ""
    try:
        return run_git(directory, environ, *arguments).strip()
    except GitRefusedError:  # no git, no repository, or nothing of that name in it
        return ""


def default_branch(root: Path, environ: Mapping[str, str]) -> str:
    """Return the branch that changes are made for; empty if git does not know it."""
    remote = query_git(root, environ, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
    for name in filter(None, (remote, "main", "master", "origin/main", "origin/master")):
        if query_git(root, environ, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return name
    return ""


def run_git(
    directory: Path,
    environ: Mapping[str, str],
    *arguments: str,
    variables: Mapping[str, str] | None = None,  # added to git's environment
    accepted: Collection[int] = (0,),  # exit codes
    seconds: float = _SECONDS,
) -> str:
    """What git prints; raises GitRefusedError with one line of explanation."""
    verb, git = arguments[0], git_in(directory, environ).with_variables(**variables or {})
    try:
        done = git.run_sync(*arguments, timeout=seconds, options=_PLAIN_NAMES)
    except TimeoutError:
        raise GitRefusedError(f"git {verb} took longer than {seconds:.0f} seconds") from None
    except OSError as error:
        raise GitRefusedError(f"git {verb} cannot be run: {error.strerror}") from None
    if done.returncode not in accepted:
        message = " ".join(done.stderr.decode(errors="replace").split()).removeprefix("fatal: ")
        raise GitRefusedError(f"git {verb} failed: {message or f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")


def in_repository(directory: Path) -> bool:
    """Whether a directory is in a repository or a worktree. Starts no process: every review of a run asks."""
    return files.repository_root(directory) is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a checkout: its commit and branch, and a tree of all its files, committed or not."""

    head: str
    branch: str
    tree: str  # empty outside a repository, and when there is a problem
    problem: str = ""  # why git could not make the tree


class TreeSnapshots:
    """Makes git trees of a checkout's files beside git's index; neither the index nor any file is touched.

    What awf itself writes is left out, committed or not, so that equal trees are equal work. After a first failure git
    is not asked again.
    """

    def __init__(self, environ: Mapping[str, str], store: Path | None = None) -> None:
        self._environ = environ
        self._store = store  # left out of the trees, apart from the configuration
        self._problem = ""
        self._taken: dict[Hashable, Snapshot] = {}  # by moment
        self._checkouts: dict[Path, CheckoutInfo] = {}  # by directory, as of the last `take`

    def take(self, directory: Path, moment: Hashable = None) -> Snapshot:
        """The state of the checkout around a directory. What was taken at the same moment is not taken again."""
        if moment is not None and moment in self._taken:
            return self._taken[moment]
        self._checkouts[directory] = read_checkout(directory, self._environ)
        return self._snapshot(directory, moment)

    def tree(self, directory: Path, moment: Hashable = None) -> str:
        """Return only the tree; raises GitRefusedError when git cannot make it."""
        located = self._checkouts.get(directory, CheckoutInfo()).root and moment not in self._taken
        taken = self._snapshot(directory, moment) if located else self.take(directory, moment)
        if taken.problem:
            raise GitRefusedError(taken.problem)
        return taken.tree

    def checkout(self, directory: Path) -> CheckoutInfo:
        """The checkout around a directory, as of the last `take`."""
        if directory not in self._checkouts:
            self._checkouts[directory] = read_checkout(directory, self._environ)
        return self._checkouts[directory]

    def _snapshot(self, directory: Path, moment: Hashable) -> Snapshot:
        checkout, tree = self._checkouts[directory], ""
        try:
            if checkout.root and not self._problem:
                tree = self._make_tree(Path(checkout.root), checkout.index)
        except GitRefusedError as error:
            self._problem = error.message
        except OSError as error:
            self._problem = f"the index of {directory} could not be copied: {error.strerror}"
        snapshot = Snapshot(checkout.head, checkout.branch, "" if self._problem else tree, self._problem)
        if moment is not None:
            self._taken[moment] = snapshot
        return snapshot

    def _make_tree(self, top: Path, index: str) -> str:
        with self._filled_index(top, index) as variables:
            return run_git(top, self._environ, "write-tree", variables=variables).strip()

    @contextmanager
    def _filled_index(self, top: Path, index: str) -> Iterator[Mapping[str, str]]:
        """The variables that give git a copy of its index, to which every file was added."""
        with TemporaryDirectory(prefix="awf-index-") as folder:
            copy = Path(folder, "index")
            with suppress(FileNotFoundError):  # nothing was ever added
                shutil.copy2(index, copy)  # with its time: git looks again at files that are not older
            variables = {"GIT_INDEX_FILE": str(copy)}
            listed = query_git(top, self._environ, "ls-files", "--stage", "-v", "-z", "--", ":(top)").split("\0")
            # Before each entry is a letter and a space. The letter is small for a file that git is told not to look at.
            entries = [entry[2:] for entry in listed]
            hidden = [entry.partition("\t")[2] for entry in listed if entry[:1].islower()]
            if hidden:
                look = ("update-index", "--no-assume-unchanged", "--", *hidden)
                run_git(top, self._environ, *look, variables=variables)
            left_out, committed = [*gitlinks(entries)], list[str]()  # submodules: git must not look into them
            store = self._store.resolve() if self._store else top
            if store != top and store.is_relative_to(top):
                inside = store.relative_to(top).as_posix()
                left_out.append(inside)
                committed = [f"{inside}/{name}" for name in CONFIGURATION if (store / name).exists()]
            if any(map(_OWN_ENTRY.search, entries)):
                own = (f":(top,glob){name}" for name in OWN_FILES)
                forget = ("rm", "-r", "--cached", "--force", "--quiet", "--ignore-unmatch", "--", *own)
                run_git(top, self._environ, *forget, variables=variables)
            self._add(top, variables, *pathspecs(), *(f":(exclude,top,literal){name}" for name in left_out))
            if committed:
                self._add(top, variables, *(f":(top,literal){name}" for name in committed))
            yield variables

    def _add(self, top: Path, variables: Mapping[str, str], *specs: str) -> None:
        """Add the files that some pathspecs mean and git does not ignore to the index that variables name."""
        add = ("add", "--all", "--ignore-errors", "--", *specs)
        run_git(top, self._environ, *add, variables=variables, accepted=(0, _SOME_FILES_UNREADABLE))


def round_moment(state: "State", attempt: int, word: str) -> Hashable:
    """A moment of the visit at the cursor, which all branches of a parallel stage share."""
    return "round", *state.cursor, attempt, word


def is_tree(name: object) -> bool:
    """Whether a value is the full name of a git object. Stages can write any text into the context."""
    return isinstance(name, str) and _OBJECT_NAME.fullmatch(name) is not None


def stat_of(directory: Path, environ: Mapping[str, str], old: str, new: str, within: Sequence[str] = ()) -> str:
    """The size of the change to each file, and the sum in the last line; empty when nothing changed.

    `within` are pathspecs, by default those of everything but awf's own files.
    """
    options = ("--stat=100", f"--stat-count={_MAX_STAT_FILES}")
    return run_git(directory, environ, *_DIFF, *options, old, new, "--", *(within or pathspecs())).rstrip()


def patch_of(directory: Path, environ: Mapping[str, str], old: str, new: str, within: Sequence[str] = ()) -> str:
    """Return every changed line with its context; binary files are only named.

    A file is binary if it has a null byte. That an attribute calls it so does not hide it: attributes are a part of the
    change, or were set by whoever made it.
    """
    diff = (*_DIFF, "-U3", "--src-prefix=a/", "--dst-prefix=b/")
    specs = within or pathspecs()
    texts, _ = _called_binary(directory, environ, old, new, specs)
    left_out = (f":(exclude,top,literal){name}" for name in texts)
    shown = run_git(directory, environ, *diff, old, new, "--", *specs, *left_out)
    if texts:
        named = (f":(top,literal){name}" for name in texts)
        shown += run_git(directory, environ, *diff, "--text", old, new, "--", *named)
    return shown.rstrip()


def unshown_names(directory: Path, environ: Mapping[str, str], old: str, new: str, within: Sequence[str]) -> list[str]:
    """Return the changed files whose lines no diff shows: binary files, and submodules."""
    fields = run_git(directory, environ, *_DIFF, "--raw", "--no-renames", "-z", old, new, "--", *within).split("\0")
    modules = [path for meta, path in pairwise(fields) if meta.startswith(":") and _GITLINK in meta.split()[:2]]
    _, binary = _called_binary(directory, environ, old, new, within)
    return [*modules, *binary]


def _called_binary(
    directory: Path, environ: Mapping[str, str], old: str, new: str, specs: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the changed files that git treats as binary: those that are text, and those that are not."""
    listed = run_git(directory, environ, *_DIFF, "--numstat", "--no-renames", "-z", old, new, "--", *specs)
    binary = [line.removeprefix("-\t-\t") for line in listed.split("\0") if line.startswith("-\t-\t")]
    texts = [name for name in binary[:_MAX_BINARY] if _is_text(directory, environ, (new, old), name)]
    return texts, [name for name in binary if name not in texts]


def _is_text(directory: Path, environ: Mapping[str, str], trees: Sequence[str], name: str) -> bool:
    """Return whether a file has no null byte at its beginning, in the first tree that has it."""
    for tree in trees:
        try:
            return "\0" not in run_git(directory, environ, "cat-file", "blob", f"{tree}:{name}")[:_BINARY_BYTES]
        except GitRefusedError:  # it is not in this tree
            continue
    return False


def changed_line_total(
    directory: Path, environ: Mapping[str, str], old: str, new: str, within: Sequence[str] = ()
) -> int:
    """Return how many lines were added and removed; a binary file counts as one."""
    listed = run_git(directory, environ, *_DIFF, "--numstat", old, new, "--", *(within or pathspecs()))
    counts = (line.split("\t")[:2] for line in listed.splitlines())
    return sum(int(count) if count.isdecimal() else 1 for pair in counts for count in pair)


def changed_names(
    directory: Path, environ: Mapping[str, str], old: str, new: str, within: Sequence[str] = ()
) -> list[str]:
    """The names of the files that differ, from the root of the repository."""
    if old == new:
        return []
    options = ("--name-only", "--no-renames", "-z")
    return run_git(directory, environ, *_DIFF, *options, old, new, "--", *(within or pathspecs())).split("\0")[:-1]


def files_changed(directory: Path, environ: Mapping[str, str], old: str, new: str) -> bool:
    """Whether a file of the old tree is different or missing in the new one; new files do not count."""
    options = ("-r", "-z", "--name-only", "--no-renames", "--diff-filter=MDT")
    return bool(run_git(directory, environ, "diff-tree", *options, old, new))


def object_names(directory: Path, environ: Mapping[str, str], places: Sequence[str]) -> list[str]:
    """Return the names of git's objects for `TREE:PATH`, each empty if there is none; raise GitRefusedError."""
    asked = "".join(f"{place}\n" for place in places)
    git = git_in(directory, environ)
    try:
        done = git.run_sync("cat-file", "--batch-check=%(objectname)", timeout=_SECONDS, stdin=os.fsencode(asked))
    except (OSError, TimeoutError) as error:
        raise GitRefusedError(f"git cat-file gave no answer: {error}") from None
    lines = done.stdout.decode(errors="replace").splitlines()
    if len(lines) != len(places):
        raise GitRefusedError(f"git cat-file gave {len(lines)} answers to {len(places)} questions")
    return [line if _OBJECT_NAME.fullmatch(line) else "" for line in lines]


def same_files(directory: Path, environ: Mapping[str, str], old: str, new: str) -> bool:
    """Whether two trees have the same files, apart from awf's own; no if git cannot tell."""
    options = ("-r", "--name-only", "--no-renames")
    try:
        return not run_git(directory, environ, "diff-tree", *options, old, new, "--", *pathspecs()).strip()
    except GitRefusedError:
        return False


def file_text(directory: Path, environ: Mapping[str, str], name: str) -> str:
    """Return the text of a file by the name of its object, empty without a name; raise GitRefusedError."""
    return run_git(directory, environ, "cat-file", "blob", name) if name else ""


def keep_tree(directory: Path, environ: Mapping[str, str], name: str, tree: str) -> None:
    """Have git keep a tree that no commit holds, so that what changed since can be told later."""
    query_git(directory, environ, "update-ref", f"refs/awf/trees/{name}", tree)


def pathspecs(paths: Sequence[str] = ()) -> tuple[str, ...]:
    """Return git's pathspecs for everything but awf's own files, or what is below some paths from the root."""
    included = [f":(top,literal){path}" for path in paths] or [":(top)"]
    return (*included, *(f":(exclude,top,glob){name}" for name in OWN_FILES))


def main_checkout(start: Path) -> Path:
    """The main checkout of the repository around a directory, else the directory itself. Starts no process."""
    top = files.repository_root(start)
    return start if top is None else _worktree_origin(top) or top


def _worktree_origin(worktree: Path) -> Path | None:
    """The checkout that a worktree belongs to, if both refer to each other."""
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

"""The files of a checkout as a git tree, where no commit says what they are. What changed is what two trees differ in.

A tree is made beside git's index: neither that nor any file is touched. What awf writes about a run is no part of it.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.backends.checkout import VIEWS, gitlinks
from pipeline.findings.repository import GitRefusedError, answer, asked, is_top

_DIFF = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "-M", "--submodule=short")
_SHOWN = 50  # files that are named
_PARTLY = 1  # git's exit code when it left out what it could not read, and took the rest
_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Trees:
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
                answer(root, self._environ, "update-ref", ref, tree)  # else git throws it away some day
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
        found = asked(
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
            entries = asked(Path(top), self._environ, "ls-files", "--stage", "-z").split("\0")
            linked = [f":(exclude,top,literal){name}" for name in gitlinks(entries)]  # git is not to look into these
            everything = ("add", "--all", "--ignore-errors", "--", *_work(), *self._apart(Path(top)), *linked)
            answer(Path(top), self._environ, *everything, variables=variables, accepted=(0, _PARTLY))
            return answer(Path(top), self._environ, "write-tree", variables=variables).strip()

    def _apart(self, top: Path) -> Iterator[str]:
        place = self._store.resolve() if self._store else top
        if place != top and place.is_relative_to(top):
            yield f":(exclude,top,literal){place.relative_to(top).as_posix()}"


def is_tree(name: object) -> bool:
    """Whether something is the name of a tree or a commit. A context can be written by stages: an option is none."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def stat_of(root: Path, environ: Mapping[str, str], old: str, new: str) -> str:
    """How much of which file differs, and in the last line the sum; nothing where nothing does."""
    return answer(root, environ, *_DIFF, "--stat=100", f"--stat-count={_SHOWN}", old, new, "--", *_work()).rstrip()


def patch_of(root: Path, environ: Mapping[str, str], old: str, new: str) -> str:
    """Every line that differs, with what is around it; a binary file is only named."""
    options = ("-U3", "--src-prefix=a/", "--dst-prefix=b/")
    return answer(root, environ, *_DIFF, *options, old, new, "--", *_work()).rstrip()


def replaced(root: Path, environ: Mapping[str, str], old: str, new: str) -> bool:
    """Whether a file of a tree is different or missing in another one; new files do not count."""
    options = ("-r", "-z", "--name-only", "--no-renames", "--diff-filter=MDT")
    return bool(answer(root, environ, "diff-tree", *options, old, new))


def forget(root: Path, environ: Mapping[str, str], ref: str) -> None:
    """Take a name of a tree away, if it is there."""
    asked(root, environ, "update-ref", "-d", ref)


def _work() -> tuple[str, ...]:
    """Everything but the files that show findings, as git wants it said."""
    return (":(top)", *(f":(exclude,top,glob)**/{name}/**" for name in VIEWS))

"""What matching may ask of a repository: the lines of a file, and what changed since a commit.

Nothing outside the repository is ever read, and a question that cannot be answered is None, not an error.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from pipeline.backends.git import git_in
from pipeline.findings.identity.linemap import LineMap, parse
from pipeline.findings.ledger import Ledger

LARGEST = 16 * 1024 * 1024  # bytes of a file that is looked at
LARGEST_DIFF = 64 * 1024 * 1024  # bytes of a diff; beyond, findings are recognised by their text alone
SECONDS = 30.0  # for one git command
NEWEST = 40  # commits that lines are followed from; older findings are recognised by their text alone

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_DIFF = (
    *("diff", "-M", "-U0", "--relative", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)


class FindingSources(Protocol):
    """The files that findings are about."""

    def lines(self, path: str) -> Sequence[str] | None:
        """A file's lines now; None when there is no such file in the repository."""
        ...


class History(Protocol):
    """What changed between commits."""

    def changes(self, old: str, new: str = "") -> LineMap | None:
        """Where lines of a commit are in another, or in the working tree; None when git cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class GitHistory:
    """A repository on the disk: both its files and its history."""

    root: Path
    environment: Mapping[str, str]
    seconds: float = SECONDS

    def lines(self, path: str, commit: str = "") -> Sequence[str] | None:
        """A file's lines now, or in a commit."""
        if not inside(path):
            return None
        content = self._shown(path, commit) if commit else self._read(path)
        return None if content is None else split(content)

    def changes(self, old: str, new: str = "") -> LineMap | None:
        """Where the lines of a commit are now; an unknown commit, as after a rebase, gives None."""
        commits = [commit for commit in (old, new) if commit]
        if not old or not all(_COMMIT.fullmatch(commit) for commit in commits):
            return None
        answer = self._git(*_DIFF, *commits, "--", limit=LARGEST_DIFF)
        return None if answer is None else parse(os.fsdecode(answer))

    def _read(self, path: str) -> bytes | None:
        root = self.root.resolve()
        with suppress(OSError, RuntimeError):  # a loop of links, or a file that nobody may read, is no source
            file = (root / path).resolve()
            if file.is_relative_to(root) and file.is_file() and file.stat().st_size <= LARGEST:
                return file.read_bytes()
        return None

    def _shown(self, path: str, commit: str) -> bytes | None:
        if not _COMMIT.fullmatch(commit):
            return None
        return self._git("cat-file", "blob", f"{commit}:./{path}", limit=LARGEST)

    def _git(self, *arguments: str, limit: int) -> bytes | None:
        """What git answers; None when it fails, is too slow or says too much."""
        git = git_in(self.root, self.environment)
        try:
            done = git.run_sync(*arguments, timeout=self.seconds, options=("--literal-pathspecs",), max_output=limit)
        except OSError:  # there is no git, or it does not answer: no past is known
            return None
        return None if done.returncode else done.stdout


def inside(path: str) -> bool:
    """Whether a name can be that of a file in a repository: relative, going nowhere up, and not git's own."""
    parts = PurePosixPath(path).parts
    return bool(parts) and "\0" not in path and parts[0] not in ("/", "//", ".git") and ".." not in parts


def split(content: bytes) -> list[str]:
    """The lines of a file as git counts them: only a newline ends one."""
    lines = content.decode("utf-8", "replace").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def line_maps(ledger: Ledger, history: History, now: str = "", *, newest: int = NEWEST) -> dict[str, LineMap]:
    """For every pass whose commit is still known, where its lines are now. One question for each commit.

    With `now`, the tree of the files as they are, the files of a pass are told apart also where nothing was committed.
    """
    seen = {id: (held.tree if now else "") or held.head for id, held in reversed(ledger.passes.items())}
    heads = {id: name for id, name in seen.items() if name}
    asked = list(dict.fromkeys(heads.values()))[:newest]
    maps = {head: history.changes(head, now) for head in asked}
    found = {id: maps.get(head) for id, head in heads.items()}
    return {id: lines for id, lines in found.items() if lines is not None}

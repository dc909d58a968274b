"""Where the lines of one commit are in another: a diff's text read as two maps, forward and back. Values only.

A line maps to a line with the same text, or to none: where an edit may have put it is a guess, and is asked for apart.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from pipeline.backends.checkout import WORK
from pipeline.backends.git import git_in
from pipeline.findings.ledger import Ledger

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_NOTHING = "/dev/null"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that were replaced: `size` of them from `start` on, by as many as `new_size` from `new_start` on."""

    start: int
    size: int
    new_start: int
    new_size: int

    def turned(self) -> "Hunk":
        """The same hunk of the opposite diff."""
        return Hunk(self.new_start, self.new_size, self.start, self.size)


@dataclass(frozen=True, slots=True)
class FileMap:
    """What became of one file: its name, nothing when it was deleted, and its hunks from top to bottom."""

    path: str
    hunks: tuple[Hunk, ...] = ()

    def line(self, line: int) -> int | None:
        """Where an unchanged line is; None for one that was changed or deleted."""
        hunk = self._before(line)
        if not self.path or (hunk is not None and line < hunk.start + hunk.size):
            return None
        return line if hunk is None else line - hunk.start - hunk.size + hunk.new_start + hunk.new_size

    def guess(self, line: int) -> int:
        """Where a line is or, when it was changed, where what replaced it is."""
        hunk = self._before(line)
        if hunk is None or line >= hunk.start + hunk.size:
            return self.line(line) or line
        return max(1, hunk.new_start + min(line - hunk.start, max(0, hunk.new_size - 1)))

    def whole(self, start: int, end: int) -> bool:
        """Whether lines are unchanged, with nothing changed between them."""
        return None not in (self.line(start), self.line(end)) and self._before(start) is self._before(end)

    def _before(self, line: int) -> Hunk | None:
        index = bisect_right(self.hunks, line, key=lambda hunk: hunk.start)
        return self.hunks[index - 1] if index else None


@dataclass(frozen=True, slots=True)
class LineMap:
    """Every file that differs between two commits. One that is not named is the same in both."""

    files: Mapping[str, FileMap] = field(default_factory=dict)  # by the old name
    origins: Mapping[str, FileMap] = field(default_factory=dict)  # by the new name, turned

    def path(self, path: str) -> str:
        """A file's name now; nothing when it was deleted."""
        return self.files[path].path if path in self.files else path

    def origin(self, path: str) -> str:
        """What a file was called before; nothing for a new one."""
        return self.origins[path].path if path in self.origins else path

    def line(self, path: str, line: int) -> int | None:
        """Where an unchanged line of an old file is in its new one."""
        return self.files[path].line(line) if path in self.files else line

    def guess(self, path: str, line: int) -> int:
        """Where a line is, or what replaced it."""
        return self.files[path].guess(line) if path in self.files else line

    def unchanged(self, path: str, start: int, end: int) -> bool:
        """Whether lines of a new file were there before, in this order and with nothing between them."""
        return path not in self.origins or self.origins[path].whole(start, end)

    def written(self) -> Iterator[tuple[str, int]]:
        """Every line of the new files that the old ones have not."""
        for path, origin in self.origins.items():
            for hunk in origin.hunks:
                yield from ((path, line) for line in range(hunk.start, hunk.start + hunk.size))


def parse_diff(diff: str) -> LineMap:
    """The maps in the text of `git diff -M`, with any number of context lines."""
    files: dict[str, FileMap] = {}
    origins: dict[str, FileMap] = {}
    for old, new, hunks in _Reader(diff.split("\n")).files():
        if old:
            files[old] = FileMap(new, hunks)
        if new:
            origins[new] = FileMap(old, tuple(hunk.turned() for hunk in hunks))
    return LineMap(files, origins)


class _Reader:
    """Goes through a diff once. What stands inside a hunk is counted, never read: a file may hold a diff."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    def files(self) -> Iterator[tuple[str, str, tuple[Hunk, ...]]]:
        """Old name, new name and hunks of every file whose names are told."""
        old, new, hunks = "", "", list[Hunk]()
        for line in self._headings():
            if line.startswith("diff --git "):
                if old or new:
                    yield old, new, tuple(hunks)
                old, new, hunks = "", "", []
            elif line.startswith(("rename from ", "--- ")):
                old = _name(line)
            elif line.startswith(("rename to ", "+++ ")):
                new = _name(line)
            elif match := _HUNK.match(line):
                hunks.extend(self._hunk(*(int(part) if part else 1 for part in match.groups())))
        if old or new:
            yield old, new, tuple(hunks)

    def _headings(self) -> Iterator[str]:
        while self.at < len(self.lines):
            self.at += 1
            yield self.lines[self.at - 1]

    def _hunk(self, start: int, size: int, new_start: int, new_size: int) -> Iterator[Hunk]:
        """The runs of changed lines in one hunk, its context left out."""
        old, new = start + (size == 0), new_start + (new_size == 0)
        ends, since = (old + size, new + new_size), (old, new)
        while (old, new) < ends and self.at < len(self.lines):
            mark = self.lines[self.at][:1]
            self.at += 1
            if mark == "-":
                old += 1
            elif mark == "+":
                new += 1
            elif mark != "\\":
                yield from _run(since, (old, new))
                old, new = old + 1, new + 1
                since = (old, new)
        yield from _run(since, (old, new))


def _run(since: tuple[int, int], until: tuple[int, int]) -> Iterator[Hunk]:
    if since != until:
        yield Hunk(since[0], until[0] - since[0], since[1], until[1] - since[1])


def _name(heading: str) -> str:
    """The name in a heading of a diff, as it is on the disk; nothing for no file."""
    prefixed = heading.startswith(("--- ", "+++ "))
    name = heading[4:].removesuffix("\t") if prefixed else heading.split(" ", 2)[2]
    if name == _NOTHING:
        return ""
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = _ESCAPE.sub(_unescaped, name[1:-1])
    return name[2:] if prefixed else name


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)


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
        if not is_repository_path(path):
            return None
        content = self._shown(path, commit) if commit else self._read(path)
        return None if content is None else split_lines(content)

    def changes(self, old: str, new: str = "") -> LineMap | None:
        """Where the lines of a commit are now; an unknown commit, as after a rebase, gives None."""
        commits = [commit for commit in (old, new) if commit]
        if not old or not all(_COMMIT.fullmatch(commit) for commit in commits):
            return None
        answer = self._git(*_DIFF, *commits, "--", *WORK, limit=LARGEST_DIFF)  # thousands of records would slow it down
        return None if answer is None else parse_diff(os.fsdecode(answer))

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
            done = git.run_sync(*arguments, timeout=self.seconds, max_output=limit)
        except OSError:  # there is no git, or it does not answer: no past is known
            return None
        return None if done.returncode else done.stdout


def is_repository_path(path: str) -> bool:
    """Whether a name can be that of a file in a repository: relative, going nowhere up, and not git's own."""
    parts = PurePosixPath(path).parts
    return bool(parts) and "\0" not in path and parts[0] not in ("/", "//", ".git") and ".." not in parts


def split_lines(content: bytes) -> list[str]:
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

"""Where the lines of one commit are in another, by `git diff`; what it cannot tell is None, never an error."""

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pipeline.backends.git import git_in
from pipeline.findings.git import pathspecs
from pipeline.findings.ledger import Ledger

MAX_DIFF_BYTES = 64 * 1024 * 1024  # beyond, findings are recognised by their text alone
GIT_SECONDS = 30.0  # for one command
MAX_COMMITS = 40  # that lines are followed from; older findings are recognised by their text alone
DIFF = (
    *("diff", "-M", "-w", "-U0", "--relative", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)  # spacing is ignored: it is what formatters change

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NAME = re.compile(r"^(---|\+\+\+|rename from|rename to) (.*)$", re.MULTILINE)
_HUNK = re.compile(r"-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_TOKEN = re.compile(r"\w+|[^\w\s]")
_COMPARED = 50  # lines to either side that a replaced line is compared with


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that were replaced: the `old` ones from `start` on, by the `new` ones from `new_start` on."""

    start: int
    new_start: int
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()

    def successor(self, line: int) -> tuple[int, float]:
        """The line that replaced one of these, and how similar the two are; the same position when none is similar."""
        at = line - self.start
        middle = at * len(self.new) // len(self.old)  # where it would be if all lines were stretched alike
        near = range(max(0, middle - _COMPARED), min(len(self.new), middle + _COMPARED))
        ranked = [(similarity(self.old[at], self.new[other]), -abs(other - middle), other) for other in near]
        alike, _, best = max(ranked, default=(0.0, 0, 0))
        if alike:
            return self.new_start + best, alike
        return self.new_start + max(0, min(at, len(self.new) - 1)), 0.0


@dataclass(frozen=True, slots=True)
class FileMap:
    """What became of one file: its name, empty when it was deleted, and its hunks from top to bottom."""

    path: str
    hunks: tuple[Hunk, ...] = ()

    def line(self, line: int) -> int | None:
        """Where an unchanged line is; None for one that was changed or deleted."""
        hunk = self._before(line)
        if not self.path:
            return None
        if hunk is None:
            return line
        after = line - hunk.start - len(hunk.old)
        return hunk.new_start + len(hunk.new) + after if after >= 0 else None

    def trace(self, line: int) -> tuple[int, float]:
        """Where a line is or what replaced it, and how similar that is: 1 if it is unchanged, 0 if it is unknown."""
        if (same := self.line(line)) is not None:
            return same, 1.0
        hunk = self._before(line)
        return hunk.successor(line) if hunk else (line, 0.0)

    def _before(self, line: int) -> Hunk | None:
        index = bisect_right(self.hunks, line, key=lambda hunk: hunk.start)
        return self.hunks[index - 1] if index else None


@dataclass(frozen=True, slots=True)
class LineMap:
    """Every file that differs between two commits. One that is not named is the same in both."""

    files: Mapping[str, FileMap] = field(default_factory=dict)  # by the old name
    added: frozenset[str] = frozenset()  # files that only the new one has

    def is_changed(self, path: str, start: int, end: int) -> bool:
        """Whether any of some lines of a new file was written or replaced."""
        if path in self.added:
            return True
        hunks = (hunk for file in self.files.values() if file.path == path for hunk in file.hunks)
        return any(start < hunk.new_start + len(hunk.new) and hunk.new_start <= end for hunk in hunks)

    def path(self, path: str) -> str:
        """A file's name now; empty when it was deleted."""
        return self.files[path].path if path in self.files else path

    def line(self, path: str, line: int) -> int | None:
        """Where an unchanged line of an old file is in its new one."""
        return self.files[path].line(line) if path in self.files else line

    def trace(self, path: str, line: int) -> tuple[int, float]:
        """Where a line is or what replaced it, and how similar that is, from 0 to 1."""
        return self.files[path].trace(line) if path in self.files else (line, 1.0)


@lru_cache(maxsize=1 << 12)  # the lines of a hunk are compared with many others
def _tokens(line: str) -> frozenset[tuple[str, int]]:
    """The words and signs of a line, equal ones numbered: sets are compared ten times as fast as counters."""
    seen = Counter[str]()
    found = []
    for token in _TOKEN.findall(line):
        seen[token] += 1
        found.append((token, seen[token]))
    return frozenset(found)


def similarity(one: str, other: str) -> float:
    """How much two lines of code have in common, from 0 to 1."""
    first, second = _tokens(one), _tokens(other)
    return 2 * len(first & second) / (len(first) + len(second)) if first or second else 0.0


def parse_diff(diff: str) -> LineMap:
    """Return the map in the output of `git diff -U0`.

    Every line of a file has a sign before it, so that no file can contain what looks like a heading.
    """
    files: dict[str, FileMap] = {}
    added = set[str]()
    for section in f"\n{diff}".split("\ndiff --git ")[1:]:
        head, *hunks = section.split("\n@@ ")
        names = dict(_NAME.findall(head))
        old = _name(names.get("---", "")) or _unquoted(names.get("rename from", ""))
        new = _name(names.get("+++", "")) or _unquoted(names.get("rename to", ""))
        if old:
            files[old] = FileMap(new, tuple(map(_hunk, hunks)) if new else ())
        elif new:
            added.add(new)
    return LineMap(files, frozenset(added))


def _hunk(text: str) -> Hunk:
    """Return a hunk. Git counts from the line before if there are no old ones, or no new ones."""
    head, *lines = text.split("\n")
    start, size, new_start, new_size = (int(part or 1) for part in _HUNK.match(head).groups())  # type: ignore[union-attr]
    old = tuple(line[1:] for line in lines if line.startswith("-"))
    new = tuple(line[1:] for line in lines if line.startswith("+"))
    return Hunk(start + (size == 0), new_start + (new_size == 0), old, new)


def _name(text: str) -> str:
    """The name in a heading after its prefix, `a/` or `b/`; empty for no file."""
    return _unquoted(text.removesuffix("\t"))[2:] if text != "/dev/null" else ""


def _unquoted(name: str) -> str:
    """A name as it is on the disk."""
    if len(name) > 1 and name[0] == name[-1] == '"':
        return _ESCAPE.sub(_unescape, name[1:-1])
    return name


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)


@dataclass(frozen=True, slots=True)
class GitHistory:
    """The history of a repository, by `git diff -M`."""

    root: Path
    environment: Mapping[str, str]
    seconds: float = GIT_SECONDS

    def changes(self, old: str, new: str = "") -> LineMap | None:
        """Return where the lines of a commit are in another, or in the working tree; None if git cannot tell."""
        commits = [commit for commit in (old, new) if commit]
        if not old or not all(_COMMIT.fullmatch(commit) for commit in commits):
            return None
        git = git_in(self.root, self.environment)
        try:
            done = git.run_sync(*DIFF, *commits, "--", *pathspecs(), timeout=self.seconds, max_output=MAX_DIFF_BYTES)
        except OSError:  # git is not installed, or does not answer in time
            return None
        if done.returncode:  # an unknown commit, as after a rebase
            return None
        return parse_diff(os.fsdecode(done.stdout))


def line_maps(
    ledger: Ledger, history: GitHistory, now: str = "", only: Collection[str] | None = None
) -> dict[str, LineMap]:
    """Return where the lines of each pass are now, by its id, for passes whose tree is still known.

    With `now`, the tree of the files as they are, passes are compared by their trees, and so without any commit. With
    `only`, git is asked about these passes and no others.
    """
    maps: dict[str, LineMap | None] = {}  # by tree or commit: git is asked once for each
    found: dict[str, LineMap] = {}
    for id, passed in reversed(ledger.passes.items()):
        if only is not None and id not in only:
            continue
        for name in filter(None, (passed.tree if now else "", passed.head)):  # git may have deleted the tree
            if name not in maps and len(maps) < MAX_COMMITS:
                maps[name] = history.changes(name, now)
            if lines := maps.get(name):
                found[id] = lines
                break
    return found

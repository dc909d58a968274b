"""Where the lines of one commit are in another, by `git diff`; what it cannot tell is None, never an error."""

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nlargest
from pathlib import Path, PurePosixPath

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
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPED = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SHORTEST = 8  # characters of a line that is recognised where it moved
_CONTEXT = 0.25  # what a neighbouring line counts, beside the line itself
_COMPARED = 50  # lines to either side that a replaced line is compared with
_LIKELY = 8  # of them whose neighbours are compared too
_REPLACED = 0.6  # how similar a line must be to be what replaced another, wherever else that is


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that were replaced: `size` of them from `start` on, by as many as `new_size` from `new_start` on."""

    start: int
    size: int
    new_start: int
    new_size: int
    old: tuple[str, ...] = ()  # their text, for files that have findings
    new: tuple[str, ...] = ()

    def successor(self, line: int) -> tuple[int, float]:
        """The line that replaced one of these, and how similar the two are; the same position when none is similar."""
        at = line - self.start
        position = max(1, self.new_start + min(at, max(0, self.new_size - 1)))
        if not self.old or not self.new:
            return position, 0.0
        middle = at * len(self.new) // len(self.old)
        near = range(max(0, middle - _COMPARED), min(len(self.new), middle + _COMPARED))
        alike = {candidate: similarity(self.old[at], self.new[candidate]) for candidate in near}
        likely = nlargest(_LIKELY, near, key=lambda candidate: (alike[candidate], -abs(candidate - middle)))
        best = max(likely, key=lambda candidate: alike[candidate] + self._around(at, candidate))
        return (self.new_start + best, alike[best]) if alike[best] else (position, 0.0)

    def _around(self, at: int, candidate: int) -> float:
        """How similar the neighbours of two lines are, as far as that counts."""
        steps = [step for step in (-1, 1) if 0 <= at + step < len(self.old) and 0 <= candidate + step < len(self.new)]
        return _CONTEXT * sum(similarity(self.old[at + step], self.new[candidate + step]) for step in steps)


@dataclass(frozen=True, slots=True)
class FileMap:
    """What became of one file: its name, empty when it was deleted, and its hunks from top to bottom."""

    path: str
    hunks: tuple[Hunk, ...] = ()
    moved: Mapping[str, int] = field(default_factory=dict)  # lines by their text, for those that moved within the file

    def line(self, line: int) -> int | None:
        """Where an unchanged line is; None for one that was changed or deleted."""
        hunk = self._before(line)
        if not self.path or (hunk is not None and line < hunk.start + hunk.size):
            return None
        return line if hunk is None else line - hunk.start - hunk.size + hunk.new_start + hunk.new_size

    def trace(self, line: int) -> tuple[int, float]:
        """Where a line is or what replaced it, and how similar that is: 1 if it is unchanged, 0 if it is unknown."""
        if (same := self.line(line)) is not None:
            return same, 1.0
        hunk = self._before(line)
        if hunk is None or not self.path:
            return line, 0.0
        found = hunk.successor(line)
        text = squeeze(hunk.old[line - hunk.start]) if hunk.old else ""
        return (self.moved[text], 1.0) if found[1] < _REPLACED and text in self.moved else found

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
        return any(start < hunk.new_start + hunk.new_size and hunk.new_start <= end for hunk in hunks)

    def path(self, path: str) -> str:
        """A file's name now; empty when it was deleted."""
        return self.files[path].path if path in self.files else path

    def line(self, path: str, line: int) -> int | None:
        """Where an unchanged line of an old file is in its new one."""
        return self.files[path].line(line) if path in self.files else line

    def trace(self, path: str, line: int) -> tuple[int, float]:
        """Where a line is or what replaced it, and how similar that is, from 0 to 1."""
        return self.files[path].trace(line) if path in self.files else (line, 1.0)


def squeeze(line: str) -> str:
    """A line without any spacing."""
    return "".join(line.split())


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


def parse_diff(diff: str, keep: Collection[str] | None = None) -> LineMap:
    """Return the map in the output of `git diff`, with the text of hunks for the file names in `keep`, or for all."""
    files: dict[str, FileMap] = {}
    added = set[str]()
    for old, new, hunks in _DiffReader(diff.split("\n"), keep).files():
        if old and new:
            files[old] = FileMap(new, hunks, _moved_lines(hunks))
        elif old:
            files.setdefault(old, FileMap(""))
        else:
            added.add(new)
    return LineMap(files, frozenset(added))


def _moved_lines(hunks: Sequence[Hunk]) -> dict[str, int]:
    """The lines that were deleted in one place and written in another, by their text without spacing."""
    gone = {squeeze(line) for hunk in hunks for line in hunk.old}
    written = [(squeeze(line), at) for hunk in hunks for at, line in enumerate(hunk.new, hunk.new_start)]
    counts = Counter(text for text, _ in written)
    return {text: at for text, at in written if counts[text] == 1 and text in gone and len(text) >= _SHORTEST}


_FileDiff = tuple[str, str, tuple[Hunk, ...]]  # old name, new name, hunks


class _DiffReader:
    """Reads a diff once. The lines of a hunk are counted, never interpreted: a file may contain a diff."""

    def __init__(self, lines: list[str], keep: Collection[str] | None) -> None:
        self.lines = lines
        self.keep = None if keep is None else {PurePosixPath(path).name for path in keep}
        self.at = 0

    def files(self) -> Iterator[_FileDiff]:
        """Old name, new name and hunks of every file."""
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
                hunks.extend(self._hunk(old or new, *(int(part) if part else 1 for part in match.groups())))
        if old or new:
            yield old, new, tuple(hunks)

    def _headings(self) -> Iterator[str]:
        while self.at < len(self.lines):
            self.at += 1
            yield self.lines[self.at - 1]

    def _hunk(self, name: str, start: int, size: int, new_start: int, new_size: int) -> Iterator[Hunk]:
        """The runs of changed lines in one hunk, without its context."""
        old, new = start + (size == 0), new_start + (new_size == 0)
        ends, since = (old + size, new + new_size), (old, new)
        before, after = list[str](), list[str]()
        kept = self.keep is None or PurePosixPath(name).name in self.keep

        def run() -> Iterator[Hunk]:
            if since != (old, new):
                texts = (tuple(before), tuple(after)) if kept else ((), ())
                yield Hunk(since[0], old - since[0], since[1], new - since[1], *texts)

        while (old, new) < ends and self.at < len(self.lines):
            mark, text = self.lines[self.at][:1], self.lines[self.at][1:]
            self.at += 1
            if mark == "-":
                old += 1
                before.append(text)
            elif mark == "+":
                new += 1
                after.append(text)
            elif mark != "\\":
                yield from run()
                old, new = old + 1, new + 1
                since, before, after = (old, new), [], []
        yield from run()


def _name(heading: str) -> str:
    """The name in a heading of a diff, as it is on the disk; empty for no file."""
    prefixed = heading.startswith(("--- ", "+++ "))
    name = heading[4:].removesuffix("\t") if prefixed else heading.split(" ", 2)[2]
    if name == "/dev/null":
        return ""
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = _ESCAPE.sub(_unescape, name[1:-1])
    return name[2:] if prefixed else name


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)


@dataclass(frozen=True, slots=True)
class GitHistory:
    """The history of a repository, by `git diff -M`."""

    root: Path
    environment: Mapping[str, str]
    seconds: float = GIT_SECONDS

    def changes(self, old: str, new: str = "", keep: Collection[str] | None = None) -> LineMap | None:
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
        return parse_diff(os.fsdecode(done.stdout), keep)


def line_maps(
    ledger: Ledger, history: GitHistory, now: str = "", only: Collection[str] | None = None
) -> dict[str, LineMap]:
    """Return where the lines of each pass are now, by its id, for passes whose tree is still known.

    With `now`, the tree of the files as they are, passes are compared by their trees, and so without any commit. With
    `only`, git is asked about these passes and no others.
    """
    keep = {finding.location.path for finding in ledger.findings.values() if finding.location}
    maps: dict[str, LineMap | None] = {}  # by tree or commit: git is asked once for each
    found: dict[str, LineMap] = {}
    for id, passed in reversed(ledger.passes.items()):
        if only is not None and id not in only:
            continue
        for name in filter(None, (passed.tree if now else "", passed.head)):  # git may have deleted the tree
            if name not in maps and len(maps) < MAX_COMMITS:
                maps[name] = history.changes(name, now, keep)
            if lines := maps.get(name):
                found[id] = lines
                break
    return found

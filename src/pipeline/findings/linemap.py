"""Where the lines of one commit are in another, by `git diff`; what it cannot tell is None, never an error."""

import os
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from heapq import nlargest
from pathlib import Path, PurePosixPath
from typing import Protocol

from pipeline.backends.checkout import WORK
from pipeline.backends.git import git_in
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
_MAX_MOVED = 10_000  # lines of a file that is compared with others of the same name
_NAMESAKES = 20  # that it is compared with
_COMMON = 3  # lines that make them one file
_MERGED = 0.1  # of the lines of a deleted file that are now in another one
_DISPUTED = 200  # moved files of which git is asked again
_TESTS = re.compile(r"(?:^|[/_.-])(?:tests?|spec|fixtures?|testdata)(?:[/_.-]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that were replaced: `size` of them from `start` on, by as many as `new_size` from `new_start` on."""

    start: int
    size: int
    new_start: int
    new_size: int
    old: tuple[str, ...] = ()  # their text, for files that have findings
    new: tuple[str, ...] = ()

    def reversed(self) -> "Hunk":
        """The same hunk of the opposite diff, without its text."""
        return Hunk(self.new_start, self.new_size, self.start, self.size)

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
    origins: Mapping[str, FileMap] = field(default_factory=dict)  # by the new name, reversed

    def path(self, path: str) -> str:
        """A file's name now; empty when it was deleted."""
        return self.files[path].path if path in self.files else path

    def origin(self, path: str) -> str:
        """What a file was called before; empty for a new one."""
        return self.origins[path].path if path in self.origins else path

    def line(self, path: str, line: int) -> int | None:
        """Where an unchanged line of an old file is in its new one."""
        return self.files[path].line(line) if path in self.files else line

    def trace(self, path: str, line: int) -> tuple[int, float]:
        """Where a line is or what replaced it, and how similar that is, from 0 to 1."""
        return self.files[path].trace(line) if path in self.files else (line, 1.0)

    def unchanged(self, path: str, start: int, end: int) -> bool:
        """Whether lines of a new file were there before, in this order and with nothing between them."""
        return path not in self.origins or self.origins[path].whole(start, end)

    def written(self) -> Iterator[tuple[str, int]]:
        """Every line of the new files that the old ones do not have."""
        for path, origin in self.origins.items():
            for hunk in origin.hunks:
                yield from ((path, line) for line in range(hunk.start, hunk.start + hunk.size))


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
    """The maps in the output of `git diff`; the text of hunks is kept for the file names in `keep`, None for all."""
    text = diff.split("\n")
    found = list(_DiffReader(text, keep).files())
    found = [*found, *_pair_namesakes(found)]
    kept = {old for old, new, _ in found if new}
    lost = {old: hunks[0].old for old, new, hunks in found if not new and old not in kept and hunks and hunks[0].old}
    files: dict[str, FileMap] = {}
    origins: dict[str, FileMap] = {}
    for old, new, hunks in _merge(lost, _DiffReader(text, None).files()) if lost else ():
        files[old] = FileMap(new, hunks, _moved_lines(hunks))
    for old, new, hunks in found:
        if old and new:
            files[old] = FileMap(new, hunks, _moved_lines(hunks))
        elif old:
            files.setdefault(old, FileMap(""))
        if new:
            origins[new] = FileMap(old, tuple(hunk.reversed() for hunk in hunks))
    return LineMap(files, origins)


def _moved_lines(hunks: Sequence[Hunk]) -> dict[str, int]:
    """The lines that were deleted in one place and written in another, by their text without spacing."""
    gone = {squeeze(line) for hunk in hunks for line in hunk.old}
    written = [(squeeze(line), at) for hunk in hunks for at, line in enumerate(hunk.new, hunk.new_start)]
    counts = Counter(text for text, _ in written)
    return {text: at for text, at in written if counts[text] == 1 and text in gone and len(text) >= _SHORTEST}


_FileDiff = tuple[str, str, tuple[Hunk, ...]]  # old name, new name, hunks


def _pair_namesakes(found: Sequence[_FileDiff]) -> Iterator[_FileDiff]:
    """Files that kept their name in another folder and changed too much for git, which wants half of the lines."""
    deleted = {old: [line for hunk in hunks for line in hunk.old] for old, new, hunks in found if not new}
    added = defaultdict[str, list[tuple[str, list[str]]]](list)
    for old, new, hunks in found:
        if not old:
            added[PurePosixPath(new).name].append((new, [line for hunk in hunks for line in hunk.new]))
    pairs = [
        (_common(before, after), old, new)
        for old, before in deleted.items()
        for new, after in added[PurePosixPath(old).name][:_NAMESAKES]
        if max(len(before), len(after)) <= _MAX_MOVED
    ]
    most = Counter[str]()
    for common, old, _ in pairs:
        most[old] = max(most[old], common)
    texts = {new: after for namesakes in added.values() for new, after in namesakes}
    taken = set[str]()
    for common, old, new in sorted(
        pairs, key=lambda pair: (2 * pair[0] < most[pair[1]], *(-part for part in _nearness(*pair[1:])), -pair[0], pair)
    ):
        if common >= _COMMON and taken.isdisjoint((old, new)):
            taken.update((old, new))
            yield old, new, tuple(_align(deleted[old], texts[new]))


def _merge(lost: Mapping[str, Sequence[str]], found: Iterable[_FileDiff]) -> Iterator[_FileDiff]:
    """Deleted files, each with the file into which most of its lines were written.

    Lines that were written into more than two files, such as a licence, tell nothing.
    """
    texts = {old: {text for line in lines if len(text := squeeze(line)) >= _SHORTEST} for old, lines in lost.items()}
    written = {new: hunks for _, new, hunks in found if new}
    places = {text: set[str]() for gone in texts.values() for text in gone}
    for new, hunks in written.items():
        for text in (squeeze(line) for hunk in hunks for line in hunk.new):
            if text in places:
                places[text].add(new)
    for old, lines in lost.items():
        shared = Counter(new for text in texts[old] if len(places[text]) <= 2 for new in places[text])
        likely = [new for new, common in shared.items() if common >= max(_COMMON, _MERGED * len(texts[old]))]
        new = max(likely, key=lambda new: (_nearness(old, new)[0], shared[new], new), default="")
        size = max((hunk.new_start + hunk.new_size for hunk in written.get(new, ())), default=0)
        if new and max(size, len(lines)) <= _MAX_MOVED:
            after = [""] * size  # what the file already had is not in the diff
            for hunk in written[new]:
                after[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_size] = hunk.new
            yield old, new, tuple(_align(lines, after))


def _nearness(old: str, new: str) -> tuple[bool, float]:
    """How likely a file moved between two folders. Code seldom becomes test data, but copies of it do."""
    before, after = PurePosixPath(old).parent, PurePosixPath(new).parent
    tests = [bool(_TESTS.search(str(folder))) for folder in (before, after)]
    return tests[0] == tests[1], SequenceMatcher(None, before.parts, after.parts, autojunk=False).ratio()


def read_changes(diff: Callable[..., str | None], keep: Collection[str] | None = None) -> LineMap | None:
    """The maps between two trees, from a function that runs `git diff` with more arguments on some or all paths.

    For git the most similar file is the moved one, even if that is an old copy that was kept elsewhere. Where another
    file of the same name is nearer, git is asked for both, and the nearer one is taken if it is similar enough.
    """
    found = diff()
    if found is None:
        return None
    lines = parse_diff(found, keep)
    disputed = list(_disputed(lines, keep))[:_DISPUTED]
    paths = sorted({path for dispute in disputed for path in dispute})
    again = diff("--no-renames", *(f":(literal){path}" for path in paths)) if paths else None
    if again is None:
        return lines
    nearer = parse_diff(again, keep)
    moved = {old: file for old, file in nearer.files.items() if file.path}
    names = {name for old, file in moved.items() for name in (file.path, lines.path(old))}
    return LineMap({**lines.files, **moved}, {**lines.origins, **{name: nearer.origins[name] for name in names}})


def _disputed(lines: LineMap, keep: Collection[str] | None) -> Iterator[tuple[str, ...]]:
    """Files that moved while new ones of the same name appeared nearer: the old name and all that it may have now."""
    added = defaultdict[str, list[str]](list)
    for new, origin in lines.origins.items():
        if not origin.path:
            added[PurePosixPath(new).name].append(new)
    for old, file in lines.files.items():
        name = PurePosixPath(old).name
        if file.path in ("", old) or PurePosixPath(file.path).name != name or (keep is not None and old not in keep):
            continue
        nearer = [new for new in added[name][:_NAMESAKES] if _nearness(old, new) > _nearness(old, file.path)]
        if nearer:
            yield old, file.path, *nearer


def _common(*texts: Iterable[str]) -> int:
    """How many lines two texts share, not counting short ones, which are everywhere."""
    first, second = ({squeeze(line) for line in text if len(squeeze(line)) >= _SHORTEST} for text in texts)
    return len(first & second)


def _align(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """The hunks between two texts."""
    matcher = SequenceMatcher(None, [squeeze(line) for line in old], [squeeze(line) for line in new])
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            texts = tuple(old[start:end]), tuple(new[new_start:new_end])
            yield Hunk(start + 1, end - start, new_start + 1, new_end - new_start, *texts)


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


class History(Protocol):
    """What changed between commits."""

    def changes(self, old: str, new: str = "", keep: Collection[str] | None = None) -> LineMap | None:
        """Where lines of a commit are in another, or in the working tree; None when git cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class GitHistory:
    """The history of a repository, by `git diff`."""

    root: Path
    environment: Mapping[str, str]
    seconds: float = GIT_SECONDS

    def changes(self, old: str, new: str = "", keep: Collection[str] | None = None) -> LineMap | None:
        """Where the lines of a commit are now; None for an unknown commit, as after a rebase."""
        commits = [commit for commit in (old, new) if commit]
        if not old or not all(_COMMIT.fullmatch(commit) for commit in commits):
            return None
        git = git_in(self.root, self.environment)

        def diff(*more: str) -> str | None:
            options, paths = more[:1], more[1:] or WORK  # without the records of reviews, which are thousands
            try:
                done = git.run_sync(
                    *DIFF, *options, *commits, "--", *paths, timeout=self.seconds, max_output=MAX_DIFF_BYTES
                )
            except OSError:  # git is not installed, or does not answer in time
                return None
            return None if done.returncode else os.fsdecode(done.stdout)

        return read_changes(diff, keep)


def line_maps(ledger: Ledger, history: History, now: str = "", *, newest: int = MAX_COMMITS) -> dict[str, LineMap]:
    """For every pass whose commit is still known, where its lines are now; git is asked once for each commit.

    With `now`, the tree of the files as they are, passes are compared by their trees, and so without any commit.
    """
    keep = {finding.location.path for finding in ledger.findings.values() if finding.location}
    maps: dict[str, LineMap | None] = {}  # by tree or commit
    found: dict[str, LineMap] = {}
    for id, held in reversed(ledger.passes.items()):
        for name in filter(None, (held.tree if now else "", held.head)):  # git may have deleted the tree
            if name not in maps and len(maps) < newest:
                maps[name] = history.changes(name, now, keep)
            if lines := maps.get(name):
                found[id] = lines
                break
    return found

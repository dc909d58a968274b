"""How often a finding is recognised after its code went on, and how often it is taken for another.

Findings are put on lines in and around what changed between two commits, and reported again at the later one in other
words. The truth is followed commit by commit through unchanged lines; identities see the two ends only. Decoys stand
beside them: other problems on near, equal and the same lines, and known findings whose line is gone. `clean` reports
cite the right line and kind; of the `sloppy`, 40 % cite a line one or two off and 15 % another kind. Prints recall
and precision in per cent. Without arguments the histories are made here: `python bench/identity.py [REPOSITORY...]`.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from pipeline.findings.fingerprints import SourceFile, fingerprints, signature, verdict_id
from pipeline.findings.linemap import GitHistory, LineMap, parse_diff
from pipeline.findings.match import match
from pipeline.findings.model import Category, Confidence, Evidence, Finding, FindingId, Location, PassId, Severity

SPANS = (3, 20, 100)
MADE, COMMITS = 3, 121  # repositories made here, and commits of each
PAIRS = 800  # true pairs of each span in each repository, about
ANCHORS, SPARSE = 160, 4  # findings of a case at most, and one for so many lines at most
OFF, RENAMED = 0.40, 0.15  # of sloppy reports, how many cite another line, another kind
SAID, KEPT, NAMED = 5, 0.5, 0.8  # words of a title, how many stay when it is told again, how many titles name the code
SUFFIXES = (".py", ".js", ".ts", ".go", ".rs", ".c", ".h", ".cc", ".java", ".rb", ".md", ".toml", ".yml")

CATEGORIES = tuple(Category)[:8]
WORDS = re.findall(
    r"\w+",
    """
    bound limit loop input shell value injection untrusted quadratic slow query race check thread lock contract
    return caller interface flush overwrite crash error branch edge case duplicate logic name dead null
    dereference leak handle timeout retry exception swallowed default argument mutable state global cache stale
    index key order sort encoding unicode offset overflow precision rounding zone date parse format escape quote
    permission token secret log password header cookie redirect origin schema migration column transaction
    rollback isolation deadlock starvation callback promise await cancel cleanup descriptor socket buffer copy
    alias reference cycle import version dependency flag option config environment path traversal symlink
    temporary umask signal fork exit status code message wording comment outdated example test fixture mock flaky
    assertion coverage boundary empty negative zero large recursion depth stack memory allocation pool queue drop
    delivery idempotent partial write atomic rename fsync
    """,
)


# --- repositories ------------------------------------------------------------------------------------------------


@dataclass
class Repository:
    """A history to follow findings through."""

    root: Path
    commits: list[str] = field(default_factory=list)
    steps: list[LineMap] = field(default_factory=list)  # from each commit to the next

    @classmethod
    def at(cls, root: Path) -> "Repository":
        """The first-parent history of a repository, oldest first."""
        commits = git(root, "rev-list", "--first-parent", "--reverse", "HEAD").split()[-400:]
        steps = [changes(root, *pair, "--histogram") for pair in pairwise(commits)]
        return cls(root, commits, steps)

    def truth(self, old: int, new: int, path: str, line: int) -> tuple[str, int] | None:
        """Where a line is some commits later, if nobody touched it."""
        for step in self.steps[old:new]:
            now = step.line(path, line)
            if now is None:
                return None
            path, line = step.path(path), now
        return path, line


def git(root: Path, *arguments: str, stdin: bytes = b"") -> str:
    """What git answers."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "core.quotePath=false", "-C", str(root), *arguments]
    return subprocess.run(command, input=stdin, env=environment, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )


def changes(root: Path, old: str, new: str, *options: str) -> LineMap:
    """Where the lines of a commit are in another."""
    return parse_diff(git(root, "diff", "-M", "-U0", "--no-ext-diff", "--no-textconv", *options, old, new, "--"))


def make(root: Path, seed: int) -> Repository:
    """A history of people at work: they insert, delete, move, copy, indent and reword, and rename files."""
    rng, files = random.Random(seed), dict[str, list[str]]()  # noqa: S311 - nothing here is secret
    for number in range(12):
        files[f"src/module_{number}.py"] = [line for _ in range(rng.randint(10, 22)) for line in function(rng)]
    git(root, "init", "--quiet")
    stream = b"".join(commits(rng, files))
    git(root, "fast-import", "--quiet", "--date-format=now", stdin=stream)
    git(root, "symbolic-ref", "HEAD", "refs/heads/main")
    return Repository.at(root)


def commits(rng: random.Random, files: dict[str, list[str]]) -> Iterator[bytes]:
    """The commits of a made history, for `git fast-import`."""
    for number in range(COMMITS):
        for _ in range(rng.randint(1, 4) if number else 0):
            edit(rng, files)
        yield b"commit refs/heads/main\ncommitter bench <bench@localhost> now\ndata 1\n.\ndeleteall\n"
        for path, lines in files.items():
            content = "".join(f"{line}\n" for line in lines).encode()
            yield f"M 644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n"


def function(rng: random.Random) -> list[str]:
    """A function like others: about every third line stands elsewhere too."""
    name, item = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}_{rng.randint(1, 99)}", rng.choice(NOUNS)
    body = [
        f"    {item} = load_{rng.choice(NOUNS)}(path, {rng.randint(1, 500)})",
        f"    for row in {item}.rows:",
        f"        total += row.{rng.choice(NOUNS)}",
        "    try:",
        f"        result = {rng.choice(VERBS)}({item}, limit={rng.randint(1, 50)})",
        "    except ValueError:",
        "        log.warning('it failed')",
        "        return None",
        f"    if not {item}:",
        "        continue_ = False",
        f"    store.save({item}, key={rng.choice(NOUNS)!r})",
        "    return result",
        "",
    ]
    kept = [line for line in body if line.startswith("    return") or rng.random() < 0.8]
    return [f"def {name}(path, {item}=None):", *kept, "", ""]


VERBS = ("parse", "load", "render", "check", "merge", "write", "split", "collect", "resolve", "close", "open", "send")
NOUNS = ("rows", "token", "user", "order", "cache", "index", "batch", "query", "path_map", "session", "report", "node")


def edit(rng: random.Random, files: dict[str, list[str]]) -> None:
    """One edit somewhere."""
    path = rng.choice(sorted(files))
    lines = files[path]
    start = rng.randrange(max(1, len(lines) - 12))
    size = rng.randint(1, 9)
    block = lines[start : start + size]
    match rng.choices(range(8), (60, 28, 12, 6, 12, 12, 60, 1))[0]:
        case 0:  # new code
            lines[start:start] = [line for line in function(rng) if line][: rng.randint(1, 10)]
        case 1:
            del lines[start : start + size]
        case 2:  # moved within the file
            del lines[start : start + size]
            at = rng.randrange(len(lines) + 1)
            lines[at:at] = block
        case 3:  # moved to another file
            other = files[rng.choice(sorted(files))]
            del lines[start : start + size]
            at = rng.randrange(len(other) + 1)
            other[at:at] = block
        case 4:  # copied
            at = rng.randrange(len(lines) + 1)
            lines[at:at] = block
        case 5:  # put under a condition
            lines[start : start + size] = ["    if enabled:", *(f"    {line}" for line in block)]
        case 6:  # reworded
            lines[start] = re.sub(r"\d+|total|result|path", lambda _: rng.choice(NOUNS), lines[start])
        case _:
            files[f"{path.removesuffix('.py')}_{rng.randint(2, 99)}.py"] = files.pop(path)


# --- findings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """A problem on a line, as somebody says it."""

    path: str
    line: int
    category: Category
    title: str

    def finding(self, id: str, page: SourceFile) -> Finding:
        """The finding of a pass, with its fingerprints. It quotes nothing: only the line leads to the code."""
        evidence = (Evidence(path=self.path, start=self.line),)
        draft = Finding(
            id=FindingId(id),
            signature=signature(self.category, evidence, self.title),
            title=self.title,
            category=self.category,
            severity=Severity.MEDIUM,
            confidence=Confidence(value=75),
            locations=(Location(path=self.path, start=self.line),),
            evidence=evidence,
            pass_id=PassId("old"),
            created_at="",
            updated_at="",
        )
        return replace(draft, fingerprints=fingerprints(draft, page))


@dataclass(frozen=True, slots=True)
class Case:
    """Known findings, a later pass, and which of its reports is which known one."""

    known: Sequence[Report]
    drafts: Sequence[Report]
    truth: Mapping[int, int]  # draft to known
    before: Mapping[str, SourceFile]
    after: Mapping[str, SourceFile]
    lines: LineMap


def cases(repository: Repository, span: int, rng: random.Random) -> Iterator[Case]:
    """Pairs of commits so far apart, anywhere in the history, until there are enough findings."""
    starts, enough = list(range(max(0, len(repository.commits) - span))), PAIRS
    rng.shuffle(starts)
    for start in starts:
        if enough > 0 and (case := case_of(repository, start, start + span, rng)):
            enough -= len(case.truth)
            yield case


def case_of(repository: Repository, old: int, new: int, rng: random.Random) -> Case | None:
    """Findings in and around what changed between two commits; None where too little did."""
    ends = repository.commits[old], repository.commits[new]
    lines = changes(repository.root, *ends)
    changed = [path for path in sorted(lines.files) if path.endswith(SUFFIXES) and lines.path(path)]
    before = pages(repository.root, ends[0], rng.sample(changed, min(24, len(changed))))
    after = pages(repository.root, ends[1], [lines.path(path) for path in before])
    spots = sorted({spot for path, page in before.items() for spot in around(path, page, lines)})
    known, drafts, truth = list[Report](), list[Report](), dict[int, int]()
    for path, line in rng.sample(spots, min(ANCHORS, len(spots) // SPARSE)):
        report = said(path, line, before[path], rng)
        now = repository.truth(old, new, path, line)
        if now is not None and now[0] in after and now[1] <= len(after[now[0]].lines):
            truth[len(drafts)] = len(known)
            drafts.append(again(report, *now, after[now[0]], rng))
        known.append(report)
    drafts.extend(decoys(drafts, after, rng))
    return Case(known, drafts, truth, before, after, lines) if truth else None


def pages(root: Path, commit: str, paths: Sequence[str]) -> dict[str, SourceFile]:
    """Files of a commit."""
    history = GitHistory(root, os.environ)
    found = {path: history.lines(path, commit) for path in paths}
    return {path: SourceFile.of(lines) for path, lines in found.items() if lines}


def around(path: str, page: SourceFile, lines: LineMap) -> Iterator[tuple[str, int]]:
    """The lines with any text in and at most five away from what changed."""
    for hunk in lines.files[path].hunks:
        for line in range(max(1, hunk.start - 5), min(len(page.lines), hunk.start + hunk.size + 5) + 1):
            if re.search(r"\w", page.lines[line - 1]):
                yield path, line


def said(path: str, line: int, page: SourceFile, rng: random.Random) -> Report:
    """Any problem on a line."""
    return Report(path, line, rng.choice(CATEGORIES), title(rng.sample(WORDS, SAID), page.lines[line - 1], rng))


def title(words: Sequence[str], text: str, rng: random.Random) -> str:
    """What is said of a line, most often with a name from it."""
    names = re.findall(r"[A-Za-z_]{3,}", text)
    return " ".join((*words, *(names[:1] if rng.random() < NAMED else ())))


def again(report: Report, path: str, line: int, page: SourceFile, rng: random.Random) -> Report:
    """The same problem later, told with about half of its words."""
    words = [word if rng.random() < KEPT else rng.choice(WORDS) for word in report.title.split()[:SAID]]
    return Report(path, line, report.category, title(words, page.lines[line - 1], rng))


def sloppy(case: Case, rng: random.Random) -> Case:
    """The same case with reports that are somewhat wrong."""
    return replace(case, drafts=[blurred(draft, case.after[draft.path], rng) for draft in case.drafts])


def blurred(report: Report, page: SourceFile, rng: random.Random) -> Report:
    """A report that may be a line or two off, or of another kind."""
    off = rng.choice((-2, -1, 1, 2)) if rng.random() < OFF else 0
    kind = (
        rng.choice([kind for kind in CATEGORIES if kind != report.category])
        if rng.random() < RENAMED
        else report.category
    )
    return replace(report, line=min(max(1, report.line + off), len(page.lines)), category=kind)


def decoys(drafts: Sequence[Report], after: Mapping[str, SourceFile], rng: random.Random) -> Iterator[Report]:
    """Other problems: some lines away, on an equal line elsewhere, anywhere, and now and then on the same line."""
    for draft in rng.sample(drafts, len(drafts) // 2):
        page = after[draft.path]
        equal = [line for line in page.places[page.lines[draft.line - 1]] if line != draft.line]
        near = draft.line + rng.choice((-5, -4, -3, -2, -1, 1, 2, 3, 4, 5))
        anywhere = rng.randint(1, len(page.lines))
        line = rng.choices((near, rng.choice(equal or [near]), anywhere, draft.line), (45, 25, 20, 10))[0]
        line = min(max(1, line), len(page.lines))
        if page.lines[line - 1]:
            other = said(draft.path, line, page, rng)
            if other.category != draft.category or line != draft.line:
                yield other


# --- identities --------------------------------------------------------------------------------------------------

Pairs = dict[int, int]


def by_key(
    key: Callable[[Report, Mapping[str, SourceFile]], Hashable], *, counted: bool = False
) -> Callable[[Case], Pairs]:
    """An identity that is equality of keys; `counted` tells equal ones apart by their order in the file."""

    def keys(reports: Sequence[Report], files: Mapping[str, SourceFile]) -> dict[Hashable, int]:
        found, seen = dict[Hashable, int](), defaultdict[Hashable, int](int)
        for index in sorted(range(len(reports)), key=lambda at: (reports[at].path, reports[at].line)):
            one = key(reports[index], files)
            seen[one] += 1
            found.setdefault((one, seen[one] if counted else 0), index)
        return found

    def pairs(case: Case) -> Pairs:
        known, drafts = keys(case.known, case.before), keys(case.drafts, case.after)
        return {index: known[one] for one, index in drafts.items() if one in known}

    return pairs


def position(report: Report, _files: Mapping[str, SourceFile]) -> Hashable:
    """The id of a verdict file."""
    return verdict_id(report.category, report.path, str(report.line))


def hundred(report: Report, files: Mapping[str, SourceFile]) -> Hashable:
    """A hash of the hundred characters from the line on, and which such place of the file it is."""
    lines = files[report.path].lines
    text = "".join("".join(lines[report.line - 1 : report.line + 30]).split())[:100]
    return report.category, report.path, sha256(text.encode()).hexdigest()


def text_of(report: Report, files: Mapping[str, SourceFile]) -> Hashable:
    """The line's text."""
    return report.category, report.path, files[report.path].lines[report.line - 1]


def ours(*, mapped: bool) -> Callable[[Case], Pairs]:
    """The cascade, with or without what git knows."""

    def pairs(case: Case) -> Pairs:
        known = [report.finding(f"{at}", case.before[report.path]) for at, report in enumerate(case.known)]
        drafts = [report.finding("", case.after[report.path]) for report in case.drafts]
        matching = match(known, drafts, {"old": case.lines} if mapped else {})
        return {one.draft: int(one.known) for one in matching.matches}

    return pairs


IDENTITIES: Mapping[str, Callable[[Case], Pairs]] = {
    "kind, file and line (verdict id)": by_key(position),
    "hash of 100 characters (like CodeQL)": by_key(hundred, counted=True),
    "text and index (like Semgrep)": by_key(text_of, counted=True),
    "awf, content only": ours(mapped=False),
    "awf, with git's line map": ours(mapped=True),
}


@dataclass
class Tally:
    """How often an identity was right."""

    true: int = 0
    claimed: int = 0
    right: int = 0

    def add(self, pairs: Pairs, truth: Mapping[int, int]) -> None:
        """Count one case."""
        self.true += len(truth)
        self.claimed += len(pairs)
        self.right += sum(truth.get(draft) == known for draft, known in pairs.items())

    def __str__(self) -> str:
        recall, precision = 100 * self.right / max(1, self.true), 100 * self.right / max(1, self.claimed)
        return f"{recall:5.1f} /{precision:5.1f}"


def measure(repositories: Sequence[Repository], span: int) -> tuple[dict[tuple[str, bool], Tally], int]:
    """Every identity on every case, clean and sloppy; and the number of true pairs."""
    rng = random.Random(span)  # noqa: S311 - nothing here is secret
    tallies = defaultdict[tuple[str, bool], Tally](Tally)
    for case in (case for repository in repositories for case in cases(repository, span, rng)):
        for told, off in ((case, False), (sloppy(case, rng), True)):
            for name, identify in IDENTITIES.items():
                tallies[name, off].add(identify(told), case.truth)
    return tallies, max((tally.true for tally in tallies.values()), default=0)


def main(paths: Sequence[str]) -> None:
    """Print the tables."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        roots = [Path(folder) / str(seed) for seed in range(0 if paths else MADE)]
        for root in roots:
            root.mkdir()
        repositories = [Repository.at(Path(path)) for path in paths] or [make(root, int(root.name)) for root in roots]
        results = {span: measure(repositories, span) for span in SPANS}
    spans = [span for span in SPANS if results[span][1]]
    for off, kind in ((False, "clean"), (True, "sloppy")):
        print(f"\n{kind}: recall / precision in %\n{'':38}", *(f"{f'{span} commits':>16}" for span in spans))
        for name in IDENTITIES:
            print(f"{name:38}", *(f"{results[span][0][name, off]!s:>16}" for span in spans))
    print(f"\n{'true pairs':38}", *(f"{results[span][1]:>16}" for span in spans))
    print(f"{time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main(sys.argv[1:])

"""How often a finding is recognised after its code changed, and how often a different defect is taken for it.

The truth is code-tracker's oracle: histories of code blocks that people validated, with their lines before and after
every change. The first line of a block is a finding at the parent commit; the same block at the child commit is that
finding, reported again in other words. Among them are other defects: on the same line by another source, on near lines
and on equal ones, and known findings that nobody reports again.

    python bench/identity.py                              a generated history, as a smoke test
    python bench/identity.py --oracle DIR --repo PATH     block histories against a repository, which may be bare
    python bench/identity.py --clusters DIR               comments of several reviewers on one commit (aacr-bench)
"""

import argparse
import difflib
import json
import os
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations, permutations
from pathlib import Path

from pipeline.findings.evidence import split_text
from pipeline.findings.fingerprints import SourceFile, content_words, fingerprints, signature, verdict_id
from pipeline.findings.linemap import DIFF, LineMap, parse_diff
from pipeline.findings.lines import NEAR, group
from pipeline.findings.match import match
from pipeline.findings.model import (
    Category,
    Confidence,
    Draft,
    Evidence,
    Finding,
    FindingId,
    Location,
    PassId,
    Severity,
)

REVIEWER, SCANNER = "reviewer", "scanner"
OFF, RECATEGORISED = 0.40, 0.15  # of sloppy reports: how many cite a line one or two off, and how many another category
SAID, KEPT, NAMED = 5, 0.5, 0.8  # words of a title, how many survive rewording, how many titles name part of the code
LABELS = Path(__file__).parent / "data" / "cluster-labels.json"
CATEGORIES = tuple(Category)[:8]
WORDS = (Path(__file__).parent / "data" / "words.txt").read_text().split()

Place = tuple[str, int]  # path and line
Block = tuple[Place, Place]  # before and after
Ends = tuple[str, str]  # commits
Pages = Mapping[str, SourceFile]
Label = tuple[str, ...]  # a pull request and two of its comments


# --- what is true ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """Two commits, and where each block is in them."""

    old: str
    new: str
    blocks: tuple[Block, ...]


def read_oracle(folder: Path, root: Path) -> tuple[list[Span], list[Span]]:
    """Every change of a block, and every block from its introduction to the commit it was followed back from."""
    steps, lives = defaultdict[Ends, set[Block]](set), defaultdict[Ends, set[Block]](set)
    for file in sorted(folder.rglob("*.json")):
        block = json.loads(file.read_text())
        if not git(root, "cat-file", "-t", block["startCommitId"]):
            continue
        for change in block["expectedChanges"]:
            after = change["elementFileAfter"], first_line(change["elementNameAfter"])
            if change["changeType"] == "introduced":
                last = block["filePath"], block["blockStartLine"]
                lives[change["commitId"], block["startCommitId"]].add((after, last))
            else:
                before = change["elementFileBefore"], first_line(change["elementNameBefore"])
                steps[change["parentCommitId"], change["commitId"]].add((before, after))
    return spans_of(steps), spans_of(lives)


def spans_of(found: Mapping[Ends, set[Block]]) -> list[Span]:
    """Blocks by the commits they were looked up at."""
    return [Span(old, new, tuple(sorted(blocks))) for (old, new), blocks in sorted(found.items())]


def first_line(name: str) -> int:
    """The first line of a block, from its name, as in `...#method(int)$for(12-30)`."""
    return int(name.rpartition("(")[2].partition("-")[0])


def git(root: Path, *arguments: str) -> bytes:
    """What git answers; nothing when it fails."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "core.quotePath=false", "-C", str(root), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, check=False).stdout


def read_pages(root: Path, commit: str, paths: Sequence[str]) -> dict[str, SourceFile]:
    """Files of a commit."""
    found = {path: git(root, "cat-file", "blob", f"{commit}:{path}") for path in sorted(set(paths))}
    return {
        path: SourceFile.of(split_text(content.decode(errors="replace"))) for path, content in found.items() if content
    }


def line_map(root: Path, span: Span) -> LineMap:
    """Where the lines of a commit are in another."""
    diff = git(root, *DIFF, span.old, span.new, "--")
    return parse_diff(os.fsdecode(diff))


# --- findings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Report:
    """A defect on a line, as somebody describes it."""

    path: str
    line: int
    category: Category
    title: str
    source: str = REVIEWER
    impact: str = ""

    def draft(self, page: SourceFile | None, *, quoted: bool) -> Draft:
        """The draft of a pass, with its fingerprints."""
        quote = page.lines[self.line - 1] if page and quoted else ""
        evidence = (Evidence(path=self.path, start=self.line, quote=quote),)
        draft = Draft(
            input_id=f"{self.source}#1",
            reviewer=self.source,
            title=self.title,
            severity=Severity.MEDIUM,
            confidence=Confidence(value=75),
            category=self.category,
            impact=self.impact,
            locations=(Location(path=self.path, start=self.line),),
            evidence=evidence,
            signature=signature(self.category, evidence, self.title),
        )
        return replace(draft, fingerprints=fingerprints(draft, page))

    def finding(self, id: str, page: SourceFile | None, *, quoted: bool) -> Finding:
        """The finding that was raised from such a draft in an earlier pass."""
        draft = self.draft(page, quoted=quoted)
        return Finding(
            id=FindingId(id),
            signature=draft.signature,
            fingerprints=dict(draft.fingerprints),
            reviewer=draft.reviewer,
            title=draft.title,
            impact=draft.impact,
            category=draft.category,
            severity=draft.severity,
            confidence=draft.confidence,
            locations=draft.locations,
            evidence=draft.evidence,
            pass_id=PassId("old"),
            created_at="",
            updated_at="",
        )


@dataclass(frozen=True, slots=True)
class Case:
    """Known findings, a later pass, and which of its reports is which known one."""

    known: Sequence[Report]
    drafts: Sequence[Report]
    truth: Mapping[int, int]  # draft to known
    edited: frozenset[int]  # drafts whose line was changed
    before: Pages
    after: Pages
    lines: LineMap | None
    quoted: bool = False  # whether reports quote the line that they cite


def make_case(span: Span, before: Pages, after: Pages, lines: LineMap, rng: random.Random, *, gone: bool) -> Case:
    """Blocks as findings, told again among decoys; with `gone`, all that is told is another defect on each line."""
    known, drafts, truth, edited = list[Report](), list[Report](), dict[int, int](), set[int]()
    for (path, line), (now, there) in span.blocks:
        if not (has_text(before, path, line) and has_text(after, now, there)):
            continue
        report = describe(path, line, before[path], rng)
        if gone:
            drafts.append(describe(now, there, after[now], rng, SCANNER, unlike=report))
        else:
            truth[len(drafts)] = len(known)
            if before[path].lines[line - 1] != after[now].lines[there - 1]:
                edited.add(len(drafts))
            drafts.append(retell(report, now, there, after[now], rng))
            drafts += decoys(report, (now, there), after, rng)
        known.append(report)
        known += decoys(report, (path, line), before, rng)[1:]
    return Case(known, drafts, truth, frozenset(edited), before, after, lines)


def has_text(pages: Pages, path: str, line: int) -> bool:
    """Whether a line exists and has any text."""
    return path in pages and 0 < line <= len(pages[path].lines) and bool(pages[path].lines[line - 1])


def describe(
    path: str, line: int, page: SourceFile, rng: random.Random, source: str = REVIEWER, unlike: Report | None = None
) -> Report:
    """A defect on a line, in no word of `unlike`."""
    taken = content_words((unlike.title,)) if unlike else frozenset()
    words = rng.sample([word for word in WORDS if taken.isdisjoint(content_words((word,)))], SAID)
    return Report(path, line, rng.choice(CATEGORIES), entitle(words, page.lines[line - 1], rng), source)


def entitle(words: Sequence[str], text: str, rng: random.Random) -> str:
    """A title about a line, most often with a name from it."""
    names = re.findall(r"[A-Za-z_]{3,}", text)
    return " ".join((*words, *(names[:1] if rng.random() < NAMED else ())))


def retell(report: Report, path: str, line: int, page: SourceFile, rng: random.Random) -> Report:
    """The same defect later, with about half of its words and at least one of them."""
    kept = rng.randrange(SAID)
    words = [
        word if at == kept or rng.random() < KEPT else rng.choice(WORDS)
        for at, word in enumerate(report.title.split()[:SAID])
    ]
    return replace(report, path=path, line=line, title=entitle(words, page.lines[line - 1], rng))


def decoys(report: Report, place: Place, pages: Pages, rng: random.Random) -> list[Report]:
    """Other defects: on the same line by another source, and on an equal line elsewhere or else some lines away."""
    path, line = place
    page = pages[path]
    near = line + rng.choice((-5, -4, -3, -2, -1, 1, 2, 3, 4, 5))
    equal = sorted(
        (other for other in page.places[page.lines[line - 1]] if other != line), key=lambda at: abs(at - line)
    )
    places = [(line, SCANNER), (rng.choice([*equal[:1], near]), REVIEWER)]
    return [describe(path, at, page, rng, source, report) for at, source in places if has_text(pages, path, at)]


def blur(case: Case, rng: random.Random) -> Case:
    """The same case with reports that cite a line or a category wrongly."""

    def blurred(report: Report) -> Report:
        line = report.line + (rng.choice((-2, -1, 1, 2)) if rng.random() < OFF else 0)
        others = [category for category in CATEGORIES if category != report.category]
        category = rng.choice(others) if rng.random() < RECATEGORISED else report.category
        return replace(report, line=min(max(1, line), len(case.after[report.path].lines)), category=category)

    return replace(case, drafts=[blurred(draft) for draft in case.drafts])


# --- identities --------------------------------------------------------------------------------------------------


def by_verdict_id(case: Case) -> dict[int, int]:
    """The id of a verdict file: domain, file and line."""
    return pair(case, lambda report, _: verdict_id(report.source, report.path, str(report.line)))


def by_title(case: Case) -> dict[int, int]:
    """The same source and file, at most three lines away, and half of the title's words."""
    found, taken = dict[int, int](), set[int]()
    for at, draft in enumerate(case.drafts):
        said = set(draft.title.split())
        near = [
            (abs(known.line - draft.line), index)
            for index, known in enumerate(case.known)
            if index not in taken
            and (known.path, known.source) == (draft.path, draft.source)
            and abs(known.line - draft.line) <= 3
            and 2 * len(said & set(known.title.split())) >= len(said)
        ]
        if near:
            found[at] = min(near)[1]
            taken.add(found[at])
    return found


def by_text(case: Case) -> dict[int, int]:
    """Like Semgrep: the rule, which here is source and category, the text of the line, and the index among equals."""
    counts = defaultdict[object, int](int)

    def key(report: Report, page: SourceFile) -> object:
        same = (report.path, report.source, report.category, page.lines[report.line - 1])
        counts[id(page), same] += 1
        return same, counts[id(page), same]

    return pair(case, key)


def pair(case: Case, key: Callable[[Report, SourceFile], object]) -> dict[int, int]:
    """Drafts and known findings with the same key."""
    known = dict[object, int]()
    for at, report in enumerate(case.known):
        known.setdefault(key(report, case.before[report.path]), at)
    names = [(at, key(report, case.after[report.path])) for at, report in enumerate(case.drafts)]
    return {at: known.pop(name) for at, name in names if name in known}


def by_awf(case: Case) -> dict[int, int]:
    """This project's matcher: what a reviewer reported is looked for first, then what others did."""
    maps = {"old": case.lines} if case.lines else {}
    known = [
        report.finding(f"known {at}", case.before.get(report.path), quoted=case.quoted)
        for at, report in enumerate(case.known)
    ]
    drafts = [report.draft(case.after.get(report.path), quoted=case.quoted) for report in case.drafts]
    found = dict[int, int]()
    for its_own in (True, False):
        for reviewer in sorted({draft.reviewer for draft in drafts}):
            mine = [at for at, draft in enumerate(drafts) if draft.reviewer == reviewer and at not in found]
            candidates = [finding for finding in known if (finding.reviewer == reviewer) == its_own]
            matches = match(candidates, [drafts[at] for at in mine], maps)
            found |= {mine[one.draft]: int(one.known.split()[1]) for one in matches if one.is_sure}
    return found


def by_content(case: Case) -> dict[int, int]:
    """This project's matcher where git cannot tell anything."""
    return by_awf(replace(case, lines=None))


IDENTITIES: Mapping[str, Callable[[Case], Mapping[int, int]]] = {
    "domain, file and line (verdict id)": by_verdict_id,
    "file, three lines and title": by_title,
    "text and index (like Semgrep)": by_text,
    "awf, without git": by_content,
    "awf": by_awf,
}


@dataclass(slots=True)
class Tally:
    """What an identity made of some cases."""

    true: int = 0
    right: int = 0
    swallowed: int = 0  # a different defect was taken for a known one

    def add(self, case: Case, found: Mapping[int, int], only: frozenset[int] | None = None) -> None:
        """Count one case; with `only`, of these drafts alone."""
        drafts = [draft for draft in range(len(case.drafts)) if only is None or draft in only]
        self.true += sum(draft in case.truth for draft in drafts)
        self.right += sum(draft in found and found[draft] == case.truth.get(draft) for draft in drafts)
        self.swallowed += sum(draft in found and found[draft] != case.truth.get(draft) for draft in drafts)

    def __str__(self) -> str:
        told = self.right + self.swallowed
        recall = f"{100 * self.right / self.true:.1f}" if self.true else "–"
        precision = f"{100 * self.right / told:.1f}" if self.true and told else "–"
        return f"{recall:>5} / {precision:<5}  {self.true - self.right:>3} duplicated {self.swallowed:>3} swallowed"


def print_rows(name: str, cases: Sequence[Case], *, quoted: bool = False, edited: bool = False) -> None:
    """What every identity makes of some cases, in per cent: recall / precision."""
    reports = sum(len(case.edited) if edited else len(case.truth or case.drafts) for case in cases)
    print(f"\n{name}{', quoted' if quoted else ''}: {reports}")
    for title, identity in IDENTITIES.items():
        tally = Tally()
        for case in cases:
            tally.add(case, identity(replace(case, quoted=quoted)), case.edited if edited else None)
        print(f"  {title:36}{tally}")


def measure_oracle(folder: Path, roots: Sequence[Path], seed: int) -> None:
    """The tables of some repositories, all blocks together."""
    rng = random.Random(seed)  # noqa: S311 - nothing here is secret
    clean, gone, years = list[Case](), list[Case](), list[Case]()
    for root in roots:
        steps, lives = read_oracle(folder, root)
        for spans, cases in ((steps, clean), (lives, years)):
            for span in spans:
                before, after = (
                    read_pages(root, commit, [block[at][0] for block in span.blocks])
                    for at, commit in enumerate((span.old, span.new))
                )
                lines = line_map(root, span)
                cases.append(make_case(span, before, after, lines, rng, gone=False))
                if cases is clean:
                    gone.append(make_case(span, before, after, lines, rng, gone=True))
    sloppy = [blur(case, rng) for case in clean]
    for quoted in (False, True):
        print_rows("blocks that changed, commit by commit, clean", clean, quoted=quoted)
        print_rows("those of them whose first line was edited", clean, quoted=quoted, edited=True)
        print_rows("blocks that changed, commit by commit, sloppy", sloppy, quoted=quoted)
        print_rows("from introduction to head, over years", years, quoted=quoted)
        print_rows("fixed, and another defect on the same line", gone, quoted=quoted)


# --- several reviewers on one commit -----------------------------------------------------------------------------


def measure_comments(folder: Path) -> None:
    """Clusters within a pass, and one reviewer's comments recognised in another's.

    A pair belongs to one of two halves by its hash. The balanced figures are of as many different pairs as same ones:
    those with the least hashes of the different pairs that are near.
    """
    labels = json.loads(LABELS.read_text())
    same, unsure = ({(name, *sorted(pair)) for name, *pair in labels[kind]} for kind in ("same", "unsure"))
    clustered, rewording, beside = dict[Label, bool](), Tally(), list[bool]()
    for request, comments in read_comments(folder).items():
        names = list(comments)
        drafts = [comments[name].draft(None, quoted=False) for name in names]
        groups = {index: number for number, members in enumerate(group(drafts)) for index in members}
        for one, other in combinations(range(len(names)), 2):
            label = (request, *sorted((names[one], names[other])))
            if label in same or (label not in unsure and may_be_same(*(comments[name] for name in label[1:]))):
                clustered[label] = groups[one] == groups[other]
        for old, new in permutations(comments.values(), 2):
            if old.source == new.source and old.path == new.path and abs(old.line - new.line) <= NEAR:
                beside.append(bool(by_awf(Case([old], [new], {}, frozenset(), {}, {}, LineMap()))))
        sources = sorted({report.source for report in comments.values()})
        for first, second in permutations(sources, 2):
            known, later = ([name for name in names if comments[name].source == source] for source in (first, second))
            reports = [[comments[name] for name in side] for side in (known, later)]
            found = by_awf(Case(reports[0], reports[1], {}, frozenset(), {}, {}, LineMap()))
            for at, draft in enumerate(later):
                for index, earlier in enumerate(known):
                    label = (request, *sorted((draft, earlier)))
                    if label not in unsure:
                        count(rewording, true=label in same, found=found.get(at) == index)
    for half, name in enumerate(("thresholds were chosen on", "only measured")):
        pairs = sorted((label for label in clustered if digest(label) % 2 == half), key=digest)
        alike = [label for label in pairs if label in same]
        different = [label for label in pairs if label not in same]
        for rate, others in (("natural", different), ("balanced", different[: len(alike)])):
            tally = Tally()
            for label in (*alike, *others):
                count(tally, true=label in same, found=clustered[label])
            print(f"clusters, {name}, {rate}, {len(alike)} of {len(alike) + len(others)}: {tally}")
    print(f"another reviewer on the same commit, recognised: {rewording}")
    print(f"another comment of one reviewer, at most {NEAR} lines away: {sum(beside)} of {len(beside)} swallowed")


def may_be_same(one: Report, other: Report) -> bool:
    """Whether two reviewers are at one place."""
    return one.source != other.source and one.path == other.path and abs(one.line - other.line) <= NEAR


def digest(label: Label) -> int:
    """A number that has nothing to do with what a pair says."""
    return int(sha256("|".join(label).encode()).hexdigest(), 16)


def count(tally: Tally, *, true: bool, found: bool) -> None:
    """Count one pair."""
    tally.true += true
    tally.right += true and found
    tally.swallowed += found and not true


def read_comments(folder: Path) -> dict[str, dict[str, Report]]:
    """Comments by pull request and name; their first sentence is the title."""
    found = defaultdict[str, dict[str, Report]](dict)
    for kind in ("positive", "negative"):
        for request in json.loads((folder / f"{kind}_samples.json").read_text()):
            name = re.sub(r".*github.com/(.+)/pull/(\d+)", r"\1#\2", request["githubPrUrl"])
            for at, comment in enumerate(request["comments"]):
                text = re.sub(r"```.*?(```|$)", " ", comment["note"], flags=re.DOTALL)
                title, *rest = re.split(r"(?<=[.!?])\s+", " ".join(text.split()), maxsplit=1)
                line = min(comment["from_line"] or 1, comment["to_line"] or 1)
                source = comment["source_model"] or "person"
                path = f"{comment['side']}/{comment['path']}"
                found[name][f"{kind[0]}{at}"] = Report(path, line, Category.BUG, title, source, " ".join(rest))
    return found


# --- a generated history -----------------------------------------------------------------------------------------


def measure_generated(seed: int, files: int) -> None:
    """A smoke test: the figures of made code say little about real code."""
    rng = random.Random(seed)  # noqa: S311 - nothing here is secret
    cases = [made_case(rng) for _ in range(files)]
    print_rows("generated edits, clean", cases)
    print_rows("generated edits, sloppy", [blur(case, rng) for case in cases])


def made_case(rng: random.Random) -> Case:
    """A file before and after some edits; its lines are numbered, which is how they are followed."""
    old = [(number, f"value_{rng.randrange(60)} = load({rng.choice(WORDS)}, {number % 7})") for number in range(120)]
    new = list(old)
    for _ in range(12):
        at = rng.randrange(len(new) - 3)
        match rng.randrange(3):
            case 0:
                new[at:at] = [(-1, f"check({rng.choice(WORDS)})") for _ in range(3)]
            case 1:
                del new[at : at + 2]
            case _:
                new[at] = new[at][0], new[at][1].replace("load", "read")
    places = {number: line for line, (number, _) in enumerate(new, 1)}
    blocks = [(("a.py", number + 1), ("a.py", places[number])) for number in range(0, 120, 6) if number in places]
    texts = [[text for _, text in lines] for lines in (old, new)]
    diff = difflib.unified_diff(texts[0], texts[1], "a/a.py", "b/a.py", lineterm="", n=0)
    lines = parse_diff("\n".join(("diff --git a/a.py b/a.py", *diff)))
    before, after = ({"a.py": SourceFile.of(text)} for text in texts)
    return make_case(Span("", "", tuple(blocks)), before, after, lines, rng, gone=False)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", type=Path, help="code-tracker's folder src/main/resources/oracle/block")
    parser.add_argument("--repo", type=Path, action="append", default=[], help="a repository of the oracle")
    parser.add_argument("--clusters", type=Path, help="aacr-bench's folder dataset")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smallest", action="store_true", help="two generated files, to see that it works")
    given = parser.parse_args()
    if given.oracle:
        measure_oracle(given.oracle, given.repo, given.seed)
    if given.clusters:
        measure_comments(given.clusters)
    if not (given.oracle or given.clusters):
        measure_generated(given.seed, files=2 if given.smallest else 40)


if __name__ == "__main__":
    main()

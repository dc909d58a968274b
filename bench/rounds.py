"""What becomes of defects in long loops, and what it costs to stop a round at the first review that fails.

Long loops: four reviewers and sixteen planted defects, half of which several reviewers see. In eight rounds reviewers
say everything in other words, code moves and is edited, ratings change, fixes are claimed that were not made, and a
defect that was repaired comes back. All of it takes place inside one run of `awf review --apply all`, and as a session
in which each round is a commit and an `awf review` of its own. The findings are then held against what was in the code:
no defect may be lost, closed while it is there, or in one line of work with another. A loop whose reviewers rule on
nothing and report everything again shows what silence does: nothing.

Until green: a reviewer fails as long as a defect of theirs is open; a fix removes what its prompt names, and nothing
else. The replies of the scripted agent are computed from that for each way of going through the reviews. Both runs then
take place, and are counted from their journals: visits of the fix, and characters of all prompts.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.runs import build_record, result_of
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime, build_services
from pipeline.engine.driver import Driver
from pipeline.engine.records import VisitCompleted
from pipeline.engine.state import begin
from pipeline.findings.events import FindingChanged, LedgerEvent, PassRecorded, decode_event
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, What
from pipeline.journal.sqlite import SqliteJournal

HAPPENS = ("said in other words", "rated anew", "claims refuted", "came back")
REVIEWERS = ("review_code", "review_security", "review_perf", "review_tests")

# --- long loops ------------------------------------------------------------------------------------------------------

SEEDS = (1, 2, 3, 4, 5, 6)
ROUNDS = 8
PLANTED = 16
SMALLEST_LOOP = (2, 4)  # rounds and planted defects
MOST_LINES = 1.3  # of work, for each planted defect
SEEN_BY = (1, 2, 1, 1, 2, 3, 1, 2, 1, 4, 1, 2, 1, 3, 2, 1)  # how many reviewers see a defect, in turn
LATE = 3  # of so many defects one is noticed in a later round
NEIGHBOURS = 2  # defects in a file
FILLING = 40  # other lines of a file, at first
MOVES = 0.6  # how often lines of a file move
EDITED = 0.15  # how often the line of a defect is edited
MADE_UP = 0.15  # how many fixes are claimed and not made
# Twelve words describe a defect; a reviewer has eight of them, and the other defect of the file shares three. Of 100
# pairs of reports by two reviewers about one defect, 64 then have enough words in common to become one line of work.
WORDS_OF_DEFECT, WORDS_OF_REVIEWER, WORDS_OF_NEIGHBOUR = 12, 8, 3
WORDS = (Path(__file__).parent / "data" / "words.txt").read_text().split()
AGENT = Path(__file__).parent / "agents" / "planted.py"
AWF = Path(sys.executable).with_name("awf")
REVIEW = """workflow "Review" {{
  version 2
  start "reviews"
  input "fix" default="no"
  settings {{ max_visits 100; }}
  stage "reviews" kind="parallel" {{
{branches}
  }}
{stages}
  stage "gate" kind="decision" {{
    route when="findings() > 0 && input(\\"fix\\") == \\"all\\"" to="fix"
    route when="true" to="exit"
  }}
  stage "fix" kind="llm" prompt="You are \\"fixer\\"."
  stage "exit" kind="exit"
  loop "until-green" {{
    stages "reviews" "gate" "fix"
    max_rounds {rounds}
    on "exhausted" to="exit"
  }}
  transition from="reviews" to="gate"
  transition from="fix" to="reviews"
}}
"""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a defect is planted, and the round in which its line was edited last."""

    defect: int
    edited: int = 0

    def text(self, present: Iterable[int]) -> str:
        """Return the line as it is while these defects are in the code."""
        kind = "broken" if self.defect in present else "whole"
        since = f"  # since {self.edited}" if self.edited else ""
        return f"result_{self.defect} = load({kind}_{self.defect}){since}"


@dataclass(frozen=True, slots=True)
class Loop:
    """A plan of the code and of what agents notice, for some rounds."""

    seed: int
    rounds: int
    planted: int

    def plan(self, *, rules: bool) -> dict[str, Any]:
        """Return what the agent is told; with `rules`, reviewers rule on what they are asked about."""
        chance = random.Random(self.seed)  # noqa: S311 - no secret
        noticed = [1 if defect % LATE else chance.randint(1, max(1, self.rounds - 3)) for defect in range(self.planted)]
        repaired = [chance.randint(first, self.rounds - 1) for first in noticed]
        repaired[1] = self.rounds - 1  # so that no round before the last is green
        back = repaired.index(min(repaired))

        def present(round: int) -> list[int]:
            again = {back} if round in (repaired[back] + 2, repaired[back] + 3) and round < self.rounds else set[int]()
            return [defect for defect, last in enumerate(repaired) if round <= last or defect in again]

        return {
            "seed": self.seed,
            "rules": rules,
            "words": self._words(chance),
            "vocabulary": WORDS,
            "sees": self._sees(noticed, chance),
            "rounds": list(self._rounds(present, chance)),
        }

    def _words(self, chance: random.Random) -> dict[str, list[list[str]]]:
        """Return the words that each reviewer has for each defect."""
        words: list[list[str]] = []
        left: list[str] = []
        for defect in range(self.planted):
            shared = words[-1][:WORDS_OF_NEIGHBOUR] if defect % NEIGHBOURS else []
            if not shared:
                left = chance.sample(WORDS, len(WORDS))
            words.append(shared + [left.pop() for _ in range(WORDS_OF_DEFECT - len(shared))])
        return {reviewer: [chance.sample(own, WORDS_OF_REVIEWER) for own in words] for reviewer in REVIEWERS}

    def _sees(self, noticed: Sequence[int], chance: random.Random) -> dict[str, dict[int, int]]:
        """Return the defects that each reviewer sees, with the round in which they do first."""
        sees: dict[str, dict[int, int]] = {reviewer: {} for reviewer in REVIEWERS}
        for defect, first in enumerate(noticed):
            for reviewer in chance.sample(REVIEWERS, SEEN_BY[defect % len(SEEN_BY)]):
                sees[reviewer][defect] = first
        return sees

    def _rounds(self, present: Callable[[int], list[int]], chance: random.Random) -> Iterator[dict[str, Any]]:
        """Yield the code of each round, what is wrong with it, and what the fixer then claims without reason."""
        numbers = iter(range(10**6))
        files = {
            f"src/module_{n}.py": [_filling(numbers, chance) for _ in range(FILLING)] for n in range(self.planted // 2)
        }
        for number, lines in enumerate(files.values()):
            at = chance.randrange(5, FILLING // 2)
            for defect in range(number * NEIGHBOURS, (number + 1) * NEIGHBOURS):
                lines.insert(at, Spot(defect))
                at += chance.randint(2, 8)
        for round in range(1, self.rounds + 1):
            if round > 1:
                for lines in files.values():
                    _drift(lines, round, numbers, chance)
            here = present(round)
            left = [defect for defect in present(round + 1) if defect in here]
            yield {
                "present": here,
                "claimed": [defect for defect in left if chance.random() < MADE_UP],
                "files": {path: _text(lines, here) for path, lines in files.items()},
            }


def _filling(numbers: Iterator[int], chance: random.Random) -> str | Spot:
    return f"value_{next(numbers)} = {chance.randrange(10**9)}"


def _drift(lines: list[str | Spot], round: int, numbers: Iterator[int], chance: random.Random) -> None:
    """Add lines to a file somewhere, and edit some of those that a defect is on."""
    if chance.random() < MOVES:
        at = chance.randrange(len(lines))
        lines[at:at] = [_filling(numbers, chance) for _ in range(chance.randint(1, 6))]
    for at, line in enumerate(lines):
        if isinstance(line, Spot) and chance.random() < EDITED:
            lines[at] = Spot(line.defect, round)


def _text(lines: Iterable[str | Spot], present: Iterable[int]) -> str:
    return "".join(f"{line if isinstance(line, str) else line.text(present)}\n" for line in lines)


def command(cwd: Path, *words: str) -> str:
    """Run a program with an empty home; return what it prints, and stop if that is nothing or it is git that fails."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd.parent)}
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode and (words[0] == "git" or not done.stdout):
        sys.exit(done.stderr or done.stdout)
    return done.stdout


def commit(project: Path, texts: Mapping[str, str]) -> None:
    """Write files and commit all there is."""
    for name, text in texts.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command(project, "git", "add", "-A")
    command(project, "git", "-c", "user.name=n", "-c", "user.email=e", "commit", "--allow-empty", "-qm", "a step")


def prepare(folder: Path, plan: Mapping[str, Any]) -> Path:
    """Make a repository with the change of the first round on a branch, and the agent's plan beside it."""
    project = folder / "project"
    project.mkdir()
    command(project, "git", "init", "-q", "-b", "main")
    line = '  stage "{0}" kind="llm" findings="review" access="read-only" prompt="You are \\"{0}\\"."'
    stages, branches = map(line.format, REVIEWERS), map('    branch "{0}"'.format, REVIEWERS)
    text = REVIEW.format(stages="\n".join(stages), branches="\n".join(branches), rounds=len(plan["rounds"]))
    commit(project, {"workflows/review.awf.kdl": text})
    command(project, "git", "checkout", "-q", "-b", "topic")
    commit(project, plan["rounds"][0]["files"])
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "round").write_text("1")
    return project


def review(project: Path, *options: str) -> str:
    """Review the change; return the verdict."""
    folder = project.parent
    agent = f"{sys.executable} -I -S {AGENT} {folder / 'plan.json'}"
    chosen = ("--backend", "command", "--agent-command", agent, "--store", str(folder / "store"), "--no-report")
    printed = json.loads(command(project, str(AWF), "review", "--json", *chosen, *options))
    if printed["status"] != "success":
        sys.exit(f"{printed['status']}: {printed['reason']}")
    return str(printed["verdict"])


def inside(project: Path, plan: Mapping[str, Any]) -> str:
    """Let a fixer repair what is found, inside one run."""
    del plan  # the fixer knows it
    return review(project, "--apply", "all")


def pushes(project: Path, plan: Mapping[str, Any]) -> str:
    """Repair something, commit, and review again, round by round."""
    verdict = review(project)
    for number, round in enumerate(plan["rounds"][1:], 2):
        (project.parent / "round").write_text(str(number))
        commit(project, round["files"])
        verdict = review(project)
    return verdict


@dataclass(slots=True)
class Kept:
    """What became of planted defects, in one loop or several."""

    defects: int = 0
    findings: int = 0
    lines: int = 0  # of work
    left_open: int = 0  # lines of work, at the end
    lost: int = 0  # reported and in the code, and no finding about it is open; counted in each round
    wrongly_closed: int = 0  # findings that were closed while their defect was in the code
    merged: int = 0  # lines of work about two defects
    happened: dict[str, int] = field(default_factory=lambda: dict.fromkeys(HAPPENS, 0))
    verdicts: set[str] = field(default_factory=set)

    @property
    def is_good(self) -> bool:
        """Whether nothing at all was lost, closed wrongly or merged."""
        return not (self.lost or self.wrongly_closed or self.merged)

    @property
    def is_done(self) -> bool:
        """Whether every loop ended with nothing open, and few defects were shown twice."""
        return self.verdicts == {"PASS"} and self.lines_per_defect <= MOST_LINES

    @property
    def lines_per_defect(self) -> float:
        """How many lines of work there are for each planted defect."""
        return self.lines / self.defects


class Judge:
    """Follows a ledger, pass by pass, and holds it against what was in the code."""

    def __init__(self, folder: Path, plan: Mapping[str, Any], kept: Kept) -> None:
        self.kept = kept
        self.present: list[set[int]] = [set(round["present"]) for round in plan["rounds"]]
        self.defects: dict[str, int] = {}  # by the titles that were reported
        self.reported: list[set[int]] = [set() for _ in plan["rounds"]]  # by round
        for file in folder.glob("said-*.json"):
            said = json.loads(file.read_text())
            self.defects |= said
            self.reported[int(file.name.split("-")[1]) - 1] |= set(said.values())
        self.about: dict[FindingId, set[int]] = {}  # the defects that a finding has described
        self.closed: set[FindingId] = set()
        self.ledger = Ledger()

    def follow(self, events: Iterable[LedgerEvent]) -> None:
        """Apply all events; look after each pass, and count at the end."""
        for event in events:
            if isinstance(event, PassRecorded) and self.ledger.passes:
                self._look()
            self._note(event)
            self.ledger.apply(event)
            for finding in self.ledger.findings.values():
                self.about.setdefault(finding.id, set()).add(self.defects[finding.title])
        self._look()
        if len(self.ledger.passes) != len(self.present):
            sys.exit(f"{len(self.ledger.passes)} passes in {len(self.present)} rounds")
        lines = list(self.ledger.lines())
        self.kept.defects += len(set().union(*self.reported))
        self.kept.findings += len(self.ledger.findings)
        self.kept.lines += len(lines)
        self.kept.left_open += sum(line.is_open for line in lines)
        self.kept.merged += sum(len(self._about(line.members)) > 1 for line in lines)

    def _about(self, findings: Iterable[Finding]) -> set[int]:
        return {defect for finding in findings for defect in self.about[finding.id]}

    def _look(self) -> None:
        """Compare what is open after a round with what is in the code."""
        round = len(self.ledger.passes)
        present, findings = self.present[round - 1], self.ledger.findings.values()
        known = set().union(*self.reported[:round])
        self.kept.lost += len(known & present - self._about(one for one in findings if one.state.is_open))
        closed = {one.id for one in findings if not one.state.is_open}
        self.kept.wrongly_closed += sum(bool(self.about[id] & present) for id in closed - self.closed)
        self.closed = closed

    def _note(self, event: LedgerEvent) -> None:
        """Count what makes the loop hard."""
        if not isinstance(event, FindingChanged):
            return
        change, before = event.change, self.ledger.findings[event.id]
        happened = {
            "said in other words": change.what is What.SEEN and "title" in event.fields,
            "rated anew": "severity" in event.fields,
            "claims refuted": before.state == "fix_claimed" and change.state == "reopened",
            "came back": before.state == "verified_fixed" and change.state == "reopened",
        }
        for name, is_so in happened.items():
            self.kept.happened[name] += is_so


Form = tuple[str, Callable[[Path, Mapping[str, Any]], str], bool]  # its name, and whether reviewers rule
FORMS: tuple[Form, ...] = (
    ("inside one run", inside, True),
    ("as a session of pushes", pushes, True),
    ("without rulings", inside, False),
)


def go_through(
    folder: Path, loops: Sequence[Loop], form: Callable[[Path, Mapping[str, Any]], str], *, rules: bool
) -> Kept:
    """Go through loops in one form, and judge each."""
    kept = Kept()
    for loop in loops:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            plan = loop.plan(rules=rules)
            project = prepare(Path(own), plan)
            kept.verdicts.add(form(project, plan))
            with closing(SqliteJournal(Path(own) / "store")) as journal:
                events = [decode_event(line) for _, line in journal.ledger(0)]
            Judge(Path(own), plan, kept).follow(events)
    return kept


# --- until green ------------------------------------------------------------------------------------------------------

SEED = 33
DEFECTS = 24
SMALLEST = 6  # at least one for every reviewer
KINDS = ("does not close its file", "trusts its input", "reads everything twice", "is not tested")
WORKFLOW = """workflow "Rounds" {{
  version 2
  start "code"
  settings {{ max_visits 50; }}
  stage "code" kind="llm" prompt="Write it"
{reviews}
  stage "gate" kind="decision" {{
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }}
  stage "fix" kind="llm" prompt="Fix all outstanding issues listed in the review findings below."
  stage "exit" kind="exit"
  transition from="code" to="review_code"
{ways}
  transition from="fix" to="review_code"
}}
"""

Defects = Mapping[str, Sequence[str]]  # by the reviewer who finds them


@dataclass(frozen=True, slots=True)
class Rounds:
    """What it took until nothing was outstanding."""

    fixes: int
    reviews: int
    told: int  # characters of the prompts of all fixes
    characters: int  # of all prompts


def defects(count: int) -> Defects:
    """The seeded defects, each with a place of its own and at least one for every reviewer."""
    chance = random.Random(SEED)  # noqa: S311 - no secret
    owners = [*REVIEWERS, *chance.choices(REVIEWERS, k=count - len(REVIEWERS))]
    found: dict[str, list[str]] = {reviewer: [] for reviewer in REVIEWERS}
    for number, owner in enumerate(owners):
        kind = KINDS[REVIEWERS.index(owner)]
        found[owner].append(f"src/module_{number}.py:{chance.randint(1, 400)} {kind}.")
    return found


def workflow(*, stops: bool) -> str:
    """The reviews in a row; with `stops`, one that fails leads to the fix at once."""
    line = '  stage "{0}" kind="llm" auto_status=true access="read-only" prompt="Review it"'
    return WORKFLOW.format(reviews="\n".join(map(line.format, REVIEWERS)), ways="\n".join(_ways(stops=stops)))


def _ways(*, stops: bool) -> Iterator[str]:
    for reviewer, following in zip(REVIEWERS, (*REVIEWERS[1:], "gate"), strict=True):
        passed, failed = (f' when="outcome(\\"{reviewer}\\") {sign} \\"success\\""' for sign in ("==", "!="))
        yield f'  transition from="{reviewer}" to="{following}"' + (passed if stops else "")
        if stops:
            yield f'  transition from="{reviewer}" to="fix"{failed}'


def replies(found: Defects, *, stops: bool) -> dict[str, list[str]]:
    """What the reviewers say on each visit, when a fix removes the defects it is told of."""
    still_open = {reviewer: list(own) for reviewer, own in found.items()}
    said: dict[str, list[str]] = {reviewer: [] for reviewer in REVIEWERS}
    told = list(REVIEWERS)
    while told:
        told = []
        for reviewer in REVIEWERS:
            said[reviewer].append(_verdict(still_open[reviewer]))
            if still_open[reviewer]:
                told.append(reviewer)
                if stops:
                    break
        still_open.update({reviewer: [] for reviewer in told})
    return said


def _verdict(still_open: Sequence[str]) -> str:
    if not still_open:
        return "Nothing has to change.\n[STATUS: success]"
    text = "\n".join(f"- {defect}" for defect in still_open)
    return f"{text}\n[STATUS: fail]\n[FAILURE_REASON: {len(still_open)} defects]"


def run(folder: Path, found: Defects, *, stops: bool) -> Rounds:
    """Run one of the two workflows to its end, and count."""
    path = folder / f"{'stops' if stops else 'all'}.awf.kdl"
    path.write_text(workflow(stops=stops))
    entry = Catalog(folder, folder, folder).find(path.name)
    options = {"backend": "scripted", "script": json.dumps(replies(found, stops=stops))}
    record = build_record(entry, check(entry), "bench", "Be green", options, folder, time.time())
    store = folder / path.name.partition(".")[0]
    journal = SqliteJournal(store)
    journal.create("bench", record)
    state = begin(record)
    asyncio.run(Driver(state, build_services(state, journal, Runtime(store=store, environ={}))).drive())
    result = result_of(load_state(journal, "bench"), journal)
    if result.status != "success":
        sys.exit(f"the run did not succeed: {result}")
    return _count(_prompts(journal), found)


def _prompts(journal: SqliteJournal) -> list[tuple[str, str]]:
    visits = [(e.record.stage, e.seq) for e in journal.entries("bench") if isinstance(e.record, VisitCompleted)]
    return [(stage, journal.attached("bench", seq)) for stage, seq in visits]


def _count(prompts: Sequence[tuple[str, str]], found: Defects) -> Rounds:
    fixes = [text for stage, text in prompts if stage == "fix"]
    unmentioned = [defect for own in found.values() for defect in own if not any(defect in text for text in fixes)]
    if unmentioned:
        sys.exit(f"no fix prompt mentions {unmentioned[0]}")  # although the replies treat it as fixed
    reviews = sum(stage in REVIEWERS for stage, _ in prompts)
    return Rounds(len(fixes), reviews, sum(map(len, fixes)), sum(len(text) for _, text in prompts))


def print_long_loops(folder: Path, loops: Sequence[Loop], forms: Sequence[Form]) -> bool:
    """Go through loops in some forms; return whether all is as it should be."""
    first, total = loops[0], len(loops)
    print(f"{first.rounds} rounds, {len(REVIEWERS)} reviewers, {first.planted} planted defects; {total} loops each")
    names = ("findings", "lines", "a defect", "left open", "lost", "wrongly closed", "merged", *HAPPENS)
    print(f"{'':24}", *(f"{name:>{len(name)}}" for name in names), sep="  ")
    good, happened = True, Counter[str]()
    for name, form, rules in forms:
        kept = go_through(folder, loops, form, rules=rules)
        lines = kept.lines, f"{kept.lines_per_defect:.2f}", kept.left_open
        figures = (kept.findings, *lines, kept.lost, kept.wrongly_closed, kept.merged, *kept.happened.values())
        print(f"{name:<24}", *(f"{value:>{len(of)}}" for of, value in zip(names, figures, strict=True)), sep="  ")
        good = good and kept.is_good and (kept.is_done if rules else kept.left_open == kept.lines)
        happened.update(kept.happened)
    return good and (first.planted < PLANTED or all(happened.values()))


def print_until_green(folder: Path, found: Defects) -> bool:
    """Run both ways of going through the reviews; return whether all reviews need one fix, and the other way most."""
    everything, first = (run(folder, found, stops=stops) for stops in (False, True))
    failing = sum(map(bool, found.values()))
    print(f"until green: {sum(map(len, found.values()))} defects, found by {failing} of {len(REVIEWERS)} reviewers")
    print(f"{'':24} {'fixes':>6} {'reviews':>8} {'fix prompts':>12} {'all prompts':>12}")
    for name, took in (("all reviews run", everything), ("stop at the first fail", first)):
        print(f"{name:<24} {took.fixes:>6} {took.reviews:>8} {took.told:>12,} {took.characters:>12,}")
    return (everything.fixes, first.fixes) == (1, failing)


def main() -> None:
    """Measure both; fail if anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="where the runs are written; a temporary folder is made in it")
    parser.add_argument("--smallest", action="store_true", help="a few defects, to see that it works")
    given = parser.parse_args()
    loops, forms, count = [Loop(seed, ROUNDS, PLANTED) for seed in SEEDS], FORMS, DEFECTS
    if given.smallest:
        loops, forms, count = [Loop(SEEDS[0], *SMALLEST_LOOP)], FORMS[:2], SMALLEST
    folder = Path(tempfile.mkdtemp(prefix="awf-bench-", dir=given.folder))
    try:
        good = [print_long_loops(folder, loops, forms), print_until_green(folder, defects(count))]
    finally:
        shutil.rmtree(folder)
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()

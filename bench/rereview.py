"""What a second look costs: the characters that reviewers are given in each look of a session, against the first one.

A seeded change of thirty files has a defect in eight of them. In one session a person reviews, repairs some defects,
commits, and reviews again, until nothing is open: each look is a run of its own. In the other one `awf review --apply
all` does the same inside a run, with a scripted fixer. The prompts contain the whole diff, so that nothing is left to
be read from a file. Each later look may cost a quarter of the first one.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from pipeline.engine.records import BranchCompleted
from pipeline.journal.sqlite import SqliteJournal

SEED = 52
FILES = 30
LINES = 40  # of each file, half of them changed
DEFECTS = 8
FIXED = (4, 2, 2)  # defects that are repaired after each look
SMALLEST = (DEFECTS,)
REVIEWERS = ("correctness", "security", "tests", "maintainability")
LARGEST_SHARE = 0.25  # of the first look that a later one may cost
BUDGET = "400000"  # characters of a summary: more than the whole diff
AWF = str(Path(sys.executable).with_name("awf"))


def run(cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program with an empty home."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd.parent)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def git(cwd: Path, *arguments: str) -> None:
    """Run git; it must succeed."""
    run(cwd, "git", "-c", "user.name=n", "-c", "user.email=e", *arguments).check_returncode()


def path_of(number: int) -> str:
    """Return the path of a module."""
    return f"src/module_{number}.py"


def module(seed: int, number: int, *, changed: bool, broken: bool) -> str:
    """Return a file; every second line differs if it is changed, and the last one is a defect if it is broken."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    lines = [f"value_{number}_{line} = {chance.randrange(10**9)}" for line in range(LINES)]
    if changed:
        lines[::2] = (f"value_{number}_{line} = {chance.randrange(10**9)}  # now" for line in range(0, LINES, 2))
    return "\n".join([*lines, f"ratio_{number} = 1 / {0 if broken else 1}", ""])


def finding(number: int) -> dict[str, Any]:
    """Return a defect as its reviewer reports it."""
    return {
        "title": f"Division by zero in module {number}",
        "severity": "P1",
        "file": path_of(number),
        "line": LINES + 1,
        "why_it_matters": "importing the module raises",
        "autofix_class": "gated_auto",
        "owner": "review-fixer",
        "requires_verification": True,
        "suggested_fix": "divide by one",
        "confidence": 100,
        "evidence": [f"ratio_{number} = 1 / 0"],
        "pre_existing": False,
    }


@dataclass(frozen=True, slots=True)
class Change:
    """The change under review, and what is repaired after each look."""

    before: dict[str, str]  # texts by path
    after: dict[str, str]
    defects: tuple[int, ...]  # modules, in the order in which their findings are numbered
    repairs: tuple[tuple[int, ...], ...]

    @classmethod
    def seeded(cls, steps: Sequence[int]) -> "Change":
        """Make the change whose defects are repaired in steps of these sizes."""
        chance = random.Random(SEED)  # noqa: S311 - no secret
        broken = chance.sample(range(FILES), DEFECTS)
        ends = list(accumulate(steps))
        before, after = {}, {}
        for number in range(FILES):
            seed = chance.randrange(10**9)
            before[path_of(number)] = module(seed, number, changed=False, broken=False)
            after[path_of(number)] = module(seed, number, changed=True, broken=number in broken)
        repairs = tuple(tuple(broken[end - step : end]) for step, end in zip(steps, ends, strict=True))
        return cls(before, after, tuple(sorted(broken, key=path_of)), repairs)

    def repaired(self, look: int) -> dict[str, str]:
        """Return the files that change after a look."""
        return {path_of(number): self.after[path_of(number)].replace("1 / 0", "1 / 1") for number in self.repairs[look]}

    def claims(self, numbers: Sequence[int]) -> str:
        """Return a line for each of these modules that says that its finding is fixed."""
        return "\n".join(f"[FINDING {self.defects.index(number) + 1}: fixed]" for number in numbers)

    def answer(self, reviewer: str, look: int) -> str:
        """Return what a reviewer answers at a look: its defects first, and later a ruling on each that is open."""
        own = self.defects[REVIEWERS.index(reviewer) :: len(REVIEWERS)]
        gone = {number for repair in self.repairs[: look - 1] for number in repair} if look else set()
        fixed = [number for number in own if look and number in self.repairs[look - 1]]
        left = [number for number in own if look and number not in {*gone, *fixed}]
        rulings = [{"number": self.defects.index(number) + 1, "ruling": "not fixed"} for number in left]
        found = {
            "findings": [] if look else [finding(number) for number in own],
            "reviewed": [f"{path_of(number)}: what it divides by" for number in own],
            "rulings": rulings,
            "residual_risks": [],
            "testing_gaps": [],
        }
        return f"{self.claims(fixed)}\n\n{json.dumps(found)}"


def repository(folder: Path, change: Change) -> Path:
    """Make a repository with the change on a branch of its own."""
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for texts in (change.before, change.after):
        write(folder, texts)
        git(folder, "checkout", "-q", "-B", "topic")
    return folder


def write(project: Path, texts: dict[str, str]) -> None:
    """Write files and commit them."""
    for name, text in texts.items():
        (project / name).write_text(text)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "a step")


def review(project: Path, script: dict[str, Any], *options: str) -> str:
    """Review with scripted replies; return the verdict."""
    file, store = project.with_suffix(".json"), project.with_suffix(".store")
    file.write_text(json.dumps(script))
    chosen = ("--script", str(file), "--store", str(store), "--summary-budget", BUDGET, "--no-report", "--json")
    done = run(project, AWF, "review", *chosen, *options)
    if not done.stdout:
        sys.exit(done.stderr)
    return str(json.loads(done.stdout)["verdict"])


def characters(project: Path) -> list[int]:
    """Return the lengths of the prompts that all reviewers were given, look by look."""
    looks: dict[tuple[str, int], int] = {}
    with closing(SqliteJournal(project.with_suffix(".store"))) as journal:
        for name in journal.runs():
            for entry in journal.entries(name):
                record = entry.record
                if isinstance(record, BranchCompleted) and record.branch in REVIEWERS:
                    look = name, record.branch_visit
                    looks[look] = looks.get(look, 0) + len(journal.attached(name, entry.seq))
    return list(looks.values())


def pushes(folder: Path, change: Change) -> tuple[list[int], str]:
    """Review, repair some defects, commit, and review again; return the characters of each look and the verdict."""
    project = repository(folder / "pushes", change)
    verdict = ""
    for look in range(len(change.repairs) + 1):
        if look:
            write(project, change.repaired(look - 1))
        verdict = review(project, {reviewer: [change.answer(reviewer, look)] for reviewer in REVIEWERS})
    return characters(project), verdict


def loop(folder: Path, change: Change) -> tuple[list[int], str]:
    """Let a fixer repair the defects inside one run; return the characters of each look and the verdict."""
    project = repository(folder / "loop", change)
    looks = range(len(change.repairs) + 1)
    script: dict[str, Any] = {name: [change.answer(name, look) for look in looks] for name in REVIEWERS}
    script["fix"] = [
        {"write": change.repaired(look), "reply": change.claims(numbers)} for look, numbers in enumerate(change.repairs)
    ]
    verdict = review(project, script, "--apply", "all")
    return characters(project), verdict


def measure(folder: Path, steps: Sequence[int]) -> bool:
    """Measure both sessions and print them; return whether every later look is cheap and nothing is left open."""
    change = Change.seeded(steps)
    print(f"{FILES} changed files, {DEFECTS} defects, {len(REVIEWERS)} reviewers")
    print(f"{'session':<8} {'look':>4} {'characters':>11} {'of the first':>13}")
    good = True
    for session in (pushes, loop):
        looks, verdict = session(folder, change)
        for number, length in enumerate(looks, 1):
            print(f"{session.__name__:<8} {number:>4} {length:>11,} {length / looks[0]:>13.0%}")
        cheap = len(looks) == len(steps) + 1 and max(looks[1:]) <= LARGEST_SHARE * looks[0]
        size = "at most" if cheap else "MORE THAN"
        print(f"{session.__name__:<8} ends with {verdict}; a later look costs {size} {LARGEST_SHARE:.0%} of the first")
        good = good and cheap and verdict == "PASS"
    return good


def main() -> None:
    """Measure in a directory of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smallest", action="store_true", help="a single repair, to see that it works")
    steps = SMALLEST if parser.parse_args().smallest else FIXED
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if measure(Path(folder), steps) else 1)


if __name__ == "__main__":
    main()

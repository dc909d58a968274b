"""What a second look costs: the characters that reviewers are given in each round, after a fix and without a history.

A seeded change of thirty files has a defect in eight of them. `awf review --apply all` finds them, and a scripted fixer
removes some in each round. A delta round is what the reviewers are given in that run; a cold one is what they are given
by a new review of the same files. The prompts contain the whole diff, so that nothing is left to be read from a file.
Every third round is a full look again, and so is the first.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.findings.known import is_full_look

SEED = 52
FILES = 30
LINES = 40  # of each file, half of them changed
REVIEWERS = ("correctness", "security", "tests", "maintainability")
LARGEST_SHARE = 0.25  # of a cold round that a delta round may cost
BUDGET = "400000"  # characters of a summary: more than the whole diff
AWF = str(Path(sys.executable).with_name("awf"))


def run(cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program with an empty home."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd.parent)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def git(cwd: Path, *arguments: str) -> None:
    """Run git; it must succeed."""
    run(cwd, "git", "-c", "user.name=n", "-c", "user.email=e", *arguments).check_returncode()


def module(number: int, chance: random.Random, *, changed: bool, broken: bool) -> str:
    """The text of a file; every second line differs if it is changed, and the last one is a defect if it is broken."""
    lines = [f"value_{number}_{line} = {chance.randrange(10**9)}" for line in range(LINES)]
    if changed:
        lines[::2] = (f"value_{number}_{line} = {chance.randrange(10**9)}  # now" for line in range(0, LINES, 2))
    return "\n".join([*lines, f"ratio_{number} = 1 / {0 if broken else 1}", ""])


def finding(number: int) -> dict[str, Any]:
    """A defect as its reviewer reports it."""
    return {
        "title": f"Division by zero in module {number}",
        "severity": "P1",
        "file": f"src/module_{number}.py",
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


def answer(defects: Sequence[int], fixed: Sequence[int] = ()) -> str:
    """What a reviewer answers that sees these defects, and that the findings with some numbers are fixed."""
    found = json.dumps({"findings": [finding(one) for one in defects], "residual_risks": [], "testing_gaps": []})
    return "\n".join([*claims(fixed), "", found])


def claims(fixed: Sequence[int]) -> list[str]:
    """Answers that findings are fixed, by their numbers."""
    return [f"[FINDING {number}: fixed]" for number in fixed]


def characters(project: Path, store: Path, visit: int) -> int:
    """How long the prompts of all reviewers were on a visit of the newest run."""
    prompts = (
        run(project, AWF, "prompt", "latest", stage, "--visit", str(visit), "--store", str(store)).stdout
        for stage in REVIEWERS
    )
    return sum(map(len, prompts))


def review(project: Path, store: Path, script: dict[str, Any], *options: str) -> dict[str, Any]:
    """Review with scripted replies; return the result."""
    file = store.with_suffix(".json")
    file.write_text(json.dumps(script))
    chosen = ("--script", str(file), "--store", str(store), "--summary-budget", BUDGET, "--no-report", "--json")
    done = run(project, AWF, "review", *chosen, *options)
    if not done.stdout:
        sys.exit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(folder: Path) -> bool:
    """Print the characters of each round; return whether every delta round is cheap enough."""
    chance, project = random.Random(SEED), folder / "project"  # noqa: S311 - no secret
    (project / "src").mkdir(parents=True)
    git(project, "init", "-q", "-b", "main")
    broken = chance.sample(range(FILES), 8)
    texts: list[dict[str, str]] = [{}, {}]  # of each file before and after the change
    for number in range(FILES):
        seed = chance.randrange(10**9)
        for changed, files in enumerate(texts):
            text = module(number, random.Random(seed), changed=bool(changed), broken=bool(changed) and number in broken)  # noqa: S311 - no secret
            files[f"src/module_{number}.py"] = text
    for files in texts:
        for name, text in files.items():
            (project / name).write_text(text)
        git(project, "add", "-A")
        git(project, "commit", "-qm", "a step")
        git(project, "checkout", "-q", "-B", "topic")

    owned = {reviewer: broken[index :: len(REVIEWERS)] for index, reviewer in enumerate(REVIEWERS)}
    order = [one for own in owned.values() for one in sorted(own, key=str)]  # in which findings are numbered, from 1
    fixes = [broken[:4], broken[4:6], broken[6:]]  # what is repaired after each round
    script: dict[str, Any] = {}
    for reviewer, own in owned.items():
        left, replies = own, [answer(own)]
        for fixed in fixes:
            gone, left = [one for one in left if one in fixed], [one for one in left if one not in fixed]
            replies.append(answer(left, [order.index(one) + 1 for one in gone]))
        script[reviewer] = replies
    repaired = [
        {f"src/module_{one}.py": texts[1][f"src/module_{one}.py"].replace("1 / 0", "1 / 1") for one in fixed}
        for fixed in fixes
    ]
    script["fix"] = [
        {"write": files, "reply": "\n".join(claims([order.index(one) + 1 for one in fixed]))}
        for files, fixed in zip(repaired, fixes, strict=True)
    ]
    cold = []
    for step, files in enumerate([{}, *repaired]):  # the same trees, each reviewed by a new run
        for name, text in files.items():
            (project / name).write_text(text)
        store = folder / f"cold-{step}"
        review(project, store, {})
        cold.append(characters(project, store, 1))
    git(project, "checkout", "-q", "--", ".")

    store = folder / "delta"
    result = review(project, store, script, "--apply", "all")
    print(
        f"{FILES} changed files, {len(broken)} defects, {len(REVIEWERS)} reviewers; the verdict is {result['verdict']}"
    )
    print(f"{'round':>5}  {'cold':>9}  {'given':>9}  share")
    shares = []
    for visit, alone in enumerate(cold, 1):
        given = characters(project, store, visit)
        print(
            f"{visit:>5}  {alone:>9,}  {given:>9,}  {given / alone:>5.0%}  {'full' if is_full_look(visit) else 'delta'}"
        )
        shares += [] if is_full_look(visit) else [given / alone]
    cheap = max(shares) <= LARGEST_SHARE
    print(f"delta rounds cost {'at most' if cheap else 'MORE THAN'} {LARGEST_SHARE:.0%} of a cold one")
    return cheap and result["verdict"] == "PASS"


def main() -> None:
    """Measure in a directory of its own."""
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if measure(Path(folder)) else 1)


if __name__ == "__main__":
    main()

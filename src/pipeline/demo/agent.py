"""The demo's agent: reads a prompt on standard input, works in the current directory, answers on standard output.

It needs only Python and git, and it acts on its prompt: the fixer fixes what the findings name, a reviewer rules on the
findings it is shown and keeps quiet about what was dismissed.
"""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("answers")
PAUSE = 0.05  # seconds before each line, so that a person can follow
FIX = "Fix all outstanding issues listed in the review findings"  # the line after the findings in a fix prompt
NO_QUOTA = Path("../../../.git/demo-quota")  # of the project around its checkout: a reviewer has run out of quota
GIT = (
    *("git", "-c", "user.name=Demo Agent", "-c", "user.email=agent@localhost"),
    *("-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.autocrlf=false"),
)
_LISTED = re.compile(r"^- #(?P<number>\d+) .*(?:\n +.*)*", re.MULTILINE)  # a finding in a prompt, with its details


def main() -> None:
    """Answer the prompt of the current stage."""
    prompt, stage, visit = sys.stdin.read(), os.environ.get("AWF_STAGE", ""), os.environ.get("AWF_VISIT", "1")
    defects = tomllib.loads((ANSWERS / "defects.toml").read_text(encoding="utf-8"))["defect"]
    time.sleep(2 * PAUSE)
    match stage:
        case "plan":
            say("Write report.py with pages(), average() and matching(), as test_report.py expects them.")
        case "implement":
            say("Writing report.py")
            Path("report.py").write_bytes((ANSWERS / "report.py").read_bytes())
            commit("Add report.py: pages, average price, conditions")
            say("report.py is written and committed.")
        case "review_tests" if visit == "2" and not NO_QUOTA.exists():
            NO_QUOTA.touch()
            sys.exit("You have hit your usage limit. Try again later.")
        case "review_code" | "review_security" | "review_tests":
            review(stage, prompt, defects)
        case "fix":
            fix(prompt.partition(FIX)[0], defects)
        case _:
            sys.exit("the demo's agent knows only the stages of quick-dev")


def say(text: str) -> None:
    """Print one line of the answer at a readable pace."""
    time.sleep(PAUSE)
    print(text, flush=True)  # noqa: T201 - an agent answers on standard output


def section(prompt: str, heading: str) -> str:
    """Return the part of a prompt under a heading."""
    return prompt.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def listed_in(prompt: str, defect: dict[str, Any]) -> Iterator[re.Match[str]]:
    """Yield the findings of a prompt that are a defect, by the title that any reviewer gave it."""
    for report in defect.get("report", ()):
        yield from titled(prompt, report["title"])


def titled(prompt: str, title: str) -> Iterator[re.Match[str]]:
    """Yield the findings of a prompt with a title."""
    return (found for found in _LISTED.finditer(prompt) if title in found[0])


def is_fixed(defect: dict[str, Any]) -> bool:
    """Return whether the files hold the fix."""
    return "new" in defect and defect["new"] in Path(defect["file"]).read_text(encoding="utf-8")


# --- reviewers -------------------------------------------------------------------------------------------------------


def review(stage: str, prompt: str, defects: list[dict[str, Any]]) -> None:
    """Report the defects that are not fixed and were not dismissed, and rule on the known ones."""
    findings, rulings = [], []
    known, considered = section(prompt, "## Known findings"), section(prompt, "## Already considered")
    source = Path("report.py").read_text(encoding="utf-8").splitlines()
    for defect in defects:
        for report in defect.get("report", ()):
            if report["stage"] != stage:
                continue
            number = next((int(found["number"]) for found in titled(known, report["title"])), None)
            if number:
                rulings.append({"number": number, **ruling(defect)})
            elif not is_fixed(defect) and report["title"] not in considered:
                findings.append(finding(report, source))
    answer = {
        "reviewer": stage,
        "findings": findings,
        "rulings": rulings,
        "reviewed": ["report.py: pages, the average price, and conditions", "test_report.py: what it calls"],
        "residual_risks": [],
        "testing_gaps": [],
    }
    for line in json.dumps(answer, indent=1).splitlines():
        print(line, flush=True)  # noqa: T201 - an agent answers on standard output


def ruling(defect: dict[str, Any]) -> dict[str, str]:
    """Return what a reviewer says of a defect that it has reported."""
    if is_fixed(defect):
        return {"ruling": "fixed", "reason": "I looked again."}
    if "dispute" in defect:
        return {"ruling": "upheld", "reason": defect["upheld"]}
    return {"ruling": "not fixed", "reason": "The line is as it was."}


def finding(report: dict[str, Any], source: list[str]) -> dict[str, Any]:
    """Return a report in the review format."""
    line = next(number for number, text in enumerate(source, 1) if report["at"] in text)
    return {
        "title": report["title"],
        "severity": report["severity"],
        "file": "report.py",
        "line": line,
        "why_it_matters": report["why"],
        "evidence": [f"report.py:{line} -- {source[line - 1].strip()}"],
        "suggested_fix": report["fix"],
        "confidence": 100,
        "autofix_class": "gated_auto",
        "owner": "review-fixer",
        "requires_verification": True,
        "pre_existing": False,
    }


# --- the fixer -------------------------------------------------------------------------------------------------------


def fix(named: str, defects: list[dict[str, Any]]) -> None:
    """Fix what the findings name, each in a commit of its own, or say why not."""
    for defect in defects:
        numbers = [found["number"] for found in listed_in(named, defect)]
        if not numbers and defect.get("printed", "\0") not in named:
            continue
        upheld = any("upheld" in found[0] for found in listed_in(named, defect))
        if "refused" in defect:
            answer(numbers, f"not fixed, because {defect['refused']}")
        elif "dispute" in defect and not upheld:
            answer(numbers, f"wrong, because {defect['dispute']}")
        else:
            repair(defect)
            answer(numbers, "fixed")
    say("Left everything else alone: no finding named it.")


def answer(numbers: list[str], text: str) -> None:
    """Say what became of a finding."""
    for number in numbers:
        say(f"[FINDING {number}: {text}]")


def repair(defect: dict[str, Any]) -> None:
    """Change the files and commit."""
    path = Path(defect["file"])
    text = path.read_text(encoding="utf-8")
    if not is_fixed(defect):  # an interrupted fix may have written it
        old = defect.get("old")
        path.write_text(text.replace(old, defect["new"]) if old else text + defect["new"], encoding="utf-8")
    if commit(defect["commit"]):
        say(f"Fixed: {defect['commit']}")


def commit(title: str) -> bool:
    """Commit all changes; return whether there were any."""
    Path(".git/index.lock").unlink(missing_ok=True)  # left by a git that was killed; nobody else works here
    subprocess.run([*GIT, "add", "--all"], check=True)
    if subprocess.run([*GIT, "diff", "--cached", "--quiet"], check=False).returncode == 0:
        return False
    subprocess.run([*GIT, "commit", "--quiet", "--message", title], check=True)
    return True


if __name__ == "__main__":
    main()

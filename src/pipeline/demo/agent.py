"""The demo's agent: reads a prompt on standard input, works in the current directory, answers on standard output.

It needs only Python and git. It fixes a defect if, and only if, the findings in its prompt name it.
"""

import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("answers")
PAUSE = 0.05  # seconds before each line, so that a person can follow
FINDINGS = "## Outstanding Review Findings"
FIX = "Fix all outstanding issues listed in the review findings"  # the line after the findings in a fix prompt
GIT = (
    *("git", "-c", "user.name=Demo Agent", "-c", "user.email=agent@localhost"),
    *("-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.autocrlf=false"),
)


def main() -> None:
    """Answer the prompt of the current stage."""
    prompt, stage = sys.stdin.read(), os.environ.get("AWF_STAGE", "")
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
        case "review_code" | "review_security" | "review_tests":
            review([defect for defect in defects if defect.get("review") == stage])
        case "fix":
            named = prompt.rpartition(FINDINGS)[2].partition(FIX)[0] if FINDINGS in prompt else ""
            fix([defect for defect in defects if defect["finding"] in named])
        case _:
            sys.exit("the demo's agent knows only the stages of quick-dev")


def say(text: str) -> None:
    """Print one line of the answer at a readable pace."""
    time.sleep(PAUSE)
    print(text, flush=True)  # noqa: T201 - an agent answers on standard output


def review(defects: list[dict[str, Any]]) -> None:
    """Report the defects that are not fixed, then the status."""
    findings = []
    for defect in defects:
        line = defect.get("line") or {"file": defect["file"], "text": defect.get("old")}
        before, found, _ = Path(line["file"]).read_text(encoding="utf-8").partition(line["text"].strip())
        if found and defect["new"] not in Path(defect["file"]).read_text(encoding="utf-8"):
            number = before.count("\n") + 1
            findings.append(f"{line['file']}:{number}: {defect['finding']}")
    for finding in findings:
        say(f"- {finding}")
    say(f"\n[STATUS: fail]\n[FAILURE_REASON: {findings[0]}]" if findings else "No changes needed.\n\n[STATUS: success]")


def fix(defects: list[dict[str, Any]]) -> None:
    """Fix these defects, each in a commit of its own."""
    for defect in defects:
        path = Path(defect["file"])
        text = path.read_text(encoding="utf-8")
        if defect["new"] not in text:  # an interrupted fix may have written it
            old = defect.get("old")
            path.write_text(text.replace(old, defect["new"]) if old else text + defect["new"], encoding="utf-8")
        if commit(defect["title"]):
            say(f"Fixed: {defect['title']}")
    say("Left everything else alone: no finding named it.")


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

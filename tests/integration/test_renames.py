"""Known findings follow a renamed file by git, on the screen and in prompts, also when nobody reports them again."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

DIVIDES = "".join(f"number_{line} = {line}\n" for line in range(1, 9)) + "result = total / 0\n"


def answer(*items: dict[str, Any], rulings: str = "") -> str:
    """A whole answer of a reviewer."""
    return f"{rulings}\n\n{json.dumps({'findings': list(items), 'reviewed': ['new/b.py, a.py: read']})}"


DIVISION = {
    "title": "Division by zero",
    "severity": "P0",
    "file": "a.py",
    "line": 9,
    "why_it_matters": "every call raises",
    "autofix_class": "gated_auto",
    "owner": "review-fixer",
    "requires_verification": True,
    "suggested_fix": "divide by one",
    "confidence": 100,
    "evidence": ["a.py:9 -- result = total / 0"],
    "pre_existing": False,
}


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a branch that adds a file, not committed."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text(".awf/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "checkout", "-qb", "topic")
    (folder / "a.py").write_text(DIVIDES)
    return folder


def rename(project: Path) -> None:
    """Rename the file with a finding, and move its lines."""
    (project / "new").mkdir()
    (project / "new/b.py").write_text(f"first = True\n{(project / 'a.py').read_text()}")
    (project / "a.py").unlink()


def review(awf: Awf, project: Path, *arguments: str, **replies: Any) -> Any:
    """The result of a review."""
    (project.parent / "script.json").write_text(json.dumps(replies))
    given = ("--script", str(project.parent / "script.json"), "--only", "correctness", "--json", *arguments)
    done = awf("review", *given, cwd=project)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_a_renamed_file_is_named_wherever_its_finding_is_shown(project: Path, awf: Awf) -> None:
    """In the result of a review, lists, the verdict, a walk and the prompt of its fixer; a ruling changes nothing."""
    assert [row["line"] for row in review(awf, project, correctness=answer(DIVISION))["open"]] == [9]
    rename(project)
    for rulings in ("[FINDING 1: not fixed]", "[FINDING 1: upheld, because it divides by zero]"):
        [row] = review(awf, project, correctness=answer(rulings=rulings))["open"]
        assert (row["file"], row["line"], row["state"]) == ("new/b.py", 10, "open")
    for command in (("findings", "list", "--json"), ("verdict", "--json")):
        told = json.loads(awf(*command, cwd=project).stdout)
        [row] = told["open"] if isinstance(told, dict) else told
        assert (row["file"], row["line"], row.get("marks", [])) == ("new/b.py", 10, [])
    (project / "answers.json").write_text('["apply"]')
    walked = awf("findings", "walk", "--json", "--answers", "answers.json", cwd=project)
    assert [(one["file"], one["line"]) for one in json.loads(walked.stdout)["findings"]] == [("new/b.py", 10)]
    (project.parent / "fix.json").write_text(json.dumps({"fix": ["[FINDING 1: not fixed]"]}))
    fixed = awf("findings", "fix", "--script", str(project.parent / "fix.json"), "--json", cwd=project)
    assert json.loads(fixed.stdout)["findings"][0]["file"] == "new/b.py"
    [prompt] = (project / ".awf/fixes").glob("*/all/question.md")
    assert re.findall(r"^- #1 .* (\S+):(\d+): ", prompt.read_text(), re.MULTILINE) == [("new/b.py", "10")]


def test_reviewers_and_fixers_of_a_run_are_given_the_new_name(project: Path, awf: Awf) -> None:
    """The reviewer finds the code that it is to rule on, and so does the fixer; what was dismissed stays known."""
    low = DIVISION | {"title": "Names are short", "severity": "P2", "line": 1, "evidence": ["a.py:1 -- number_1 = 1"]}
    review(awf, project, correctness=answer(DIVISION, low))
    given = ("findings", "triage", "1", "--as", "wont-fix", "--note", "they are clear", "--json")
    assert awf(*given, cwd=project).returncode == 0
    rename(project)
    again = answer(rulings="[FINDING 2: not fixed]")
    result = review(awf, project, "--apply", "must", correctness=[again] * 3, fix="[FINDING 2: not fixed]")
    assert result["changed"] == {"names": [], "uncommitted": [], "problem": ""}  # the fixer wrote nothing
    for stage in ("correctness", "fix"):
        prompt = awf("prompt", "latest", stage, "--visit", "1", cwd=project).stdout
        assert re.findall(r"^- #2 .* (\S+):(\d+): ", prompt, re.MULTILINE) == [("new/b.py", "10")], stage
    considered = awf("prompt", "latest", "correctness", "--visit", "1", cwd=project).stdout.partition("considered")[2]
    assert re.findall(r"^- #1 .* (\S+):(\d+): ", considered, re.MULTILINE) == [("new/b.py", "2")]


def test_a_finding_counts_in_the_file_as_it_is_called_now(project: Path, awf: Awf) -> None:
    """A change of a file that was renamed before does not pass while a finding about it is open."""
    assert review(awf, project, correctness=answer(DIVISION))["verdict"] == "FAIL"
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    git(project, "checkout", "-q", "main")
    git(project, "merge", "-q", "topic")
    rename(project)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "three")
    git(project, "checkout", "-qb", "later")
    with (project / "new/b.py").open("a") as file:
        file.write("last = True\n")
    result = review(awf, project, correctness=answer())
    assert (result["verdict"], result["exit_code"], result["elsewhere"]) == ("FAIL", 1, 0)
    assert [(row["file"], row["line"]) for row in result["open"]] == [("new/b.py", 10)]
    clean = json.loads(answer()) | {"reviewer": "other", "residual_risks": [], "testing_gaps": []}
    (project.parent / "clean.json").write_text(json.dumps(clean))
    given = (str(project.parent / "clean.json"), "--base", "main", "--target", "another", "--json")
    known = json.loads(awf("findings", "import", *given, cwd=project).stdout)["verdicts"]
    assert (known["complete"], known["verdict"], known["elsewhere"]) == (True, "FAIL", 0)

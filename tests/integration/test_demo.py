"""`awf demo`, as somebody starts it who has just installed the program."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import run_on_screen, shown

from pipeline.demo.project import git, make_project
from pipeline.demo.story import AGENT

FOUND = (
    "round 1  round 2  selfci (check.py)  stock.py:6    the file opened here is never closed",
    "round 1  round 2  selfci (unittest)  unit test     FAIL: test_the_last_line_is_kept",
    "round 2  round 3  review_code        report.py:11  average() divides by zero when prices is empty",
    "round 2  round 3  review_security    report.py:16  matching() runs its condition, a text from outside, with eval",
    "round 2  round 3  review_tests       report.py:9   nothing tests average()",
    "round 3  round 4  review_tests       report.py:16  no test sees matching() refuse what it cannot read",
)
REPAIRS = {
    "Keep the line that is alone on the last page",
    "Close the stock file",
    "Give the mean of no prices",
    "Read a condition, never run it",
    "Test the mean",
    "Test what is no condition",
}
FINDINGS = {
    "FAIL: test_the_last_line_is_kept (test_report.Pages)": "Keep the line that is alone on the last page",
    "stock.py:6: the file opened here is never closed": "Close the stock file",
    "- report.py:11: average() divides by zero when prices is empty": "Give the mean of no prices",
    "- report.py:16: matching() runs its condition, a text from outside, with eval": "Read a condition, never run it",
    "- report.py:9: nothing tests average()": "Test the mean",
}
FIX = "Fix all outstanding issues listed in the review findings below."


def ask(project: Path, prompt: str) -> str:
    """The agent's answer to a prompt."""
    command = [sys.executable, "-I", "-B", str(AGENT)]
    return subprocess.run(command, cwd=project, input=prompt, capture_output=True, text=True, check=True).stdout


def titles(project: Path) -> list[str]:
    """What was committed to the project, oldest first."""
    return git(project, "log", "--reverse", "--format=%s").splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project with its first, defective implementation."""
    make_project(tmp_path / "project")
    ask(tmp_path / "project", "Implement the plan above for this goal")
    return tmp_path / "project"


@pytest.mark.parametrize("crash", [False, True])
def test_every_defect_is_found_and_goes_away(awf: Awf, tmp_path: Path, *, crash: bool) -> None:
    """Whether it is killed in the middle or not, the same is found and repaired."""
    project = tmp_path / "demo"
    done = awf("demo", "--dir", str(project), *(["--crash"] if crash else []))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("round ")] == list(FOUND)
    assert ("kill -9" in done.stdout) is crash
    assert f"--store {project / '.awf'}" in done.stdout
    why = awf("why", "demo", "--json", "--store", str(project / ".awf")).stdout
    assert ("interrupted" in why) is crash
    assert set(titles(project)[2:]) == REPAIRS
    assert len(titles(project)) == len(REPAIRS) + 2
    assert subprocess.run([".awf/self-check"], cwd=project, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(("finding", "title"), FINDINGS.items(), ids=FINDINGS.values())
def test_only_what_was_reported_is_repaired(project: Path, finding: str, title: str) -> None:
    """Of all defects the agent repairs the one that its prompt names."""
    ask(project, f"## Outstanding Review Findings\n\n{finding}\n\n{FIX}\n")
    assert titles(project)[2:] == [title]


@pytest.mark.parametrize("heading", ["## Outstanding Review Findings", ""])
def test_without_findings_nothing_is_repaired(project: Path, heading: str) -> None:
    """A defect told outside the section of findings is not told."""
    told = "\n".join(FINDINGS)
    ask(project, f"{told}\n\n{heading}\n\n{FIX}\n{told}\n")
    assert len(titles(project)) == 2


def test_on_a_terminal_it_is_seen_live(tmp_path: Path) -> None:
    """The stages stay on the screen as they are done; `--discard` leaves no project behind."""
    written = run_on_screen([COMMAND, "demo", "--discard", "--dir", "project"], tmp_path, columns=110)
    lines = shown(written)
    assert any(line.startswith("✗ review_security #1") for line in lines)
    assert any(line.startswith("✓ fix #3") for line in lines)
    assert not (tmp_path / "project").exists()


def test_a_directory_with_files_is_left_alone(awf: Awf, tmp_path: Path) -> None:
    """The demo writes into no directory that has something in it."""
    (tmp_path / "mine").write_text("")
    done = awf("demo", "--dir", str(tmp_path))
    assert done.returncode == 2
    assert "is not an empty directory" in done.stderr

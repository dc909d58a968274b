"""`awf demo`, right after the installation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import run_on_screen, shown

from pipeline.demo.scenario import AGENT, create_project, git

FOUND = (
    "round 1  round 2  selfci (check.py)  stock.py:6    this file is opened and never closed",
    "round 1  round 2  selfci (unittest)  unit test     FAIL: test_keeps_the_last_line",
    "round 2  round 3  review_code        report.py:11  average() divides by zero when prices is empty",
    "round 2  round 3  review_security    report.py:16  matching() passes text from outside to eval",
    "round 2  round 3  review_tests       report.py:9   average() has no test",
    "round 3  round 4  review_tests       report.py:18  no test expects matching() to reject a bad condition",
)
FIXES = {
    "FAIL: test_keeps_the_last_line (test_report.Pages)": "Keep the last line when it is alone on its page",
    "stock.py:6: this file is opened and never closed": "Close the stock file",
    "- report.py:11: average() divides by zero when prices is empty": "Return 0 as the average of no prices",
    "- report.py:16: matching() passes text from outside to eval": "Parse conditions instead of executing them",
    "- report.py:9: average() has no test": "Test the average",
}
LAST_FIX = "Test that bad conditions are rejected"
PROMPT = "Fix all outstanding issues listed in the review findings below."


def ask(project: Path, stage: str, prompt: str = "") -> str:
    """The agent's answer in a stage."""
    command = [sys.executable, "-I", "-B", str(AGENT)]
    environment = {**os.environ, "AWF_STAGE": stage}
    done = subprocess.run(
        command, cwd=project, env=environment, input=prompt, capture_output=True, text=True, check=True
    )
    return done.stdout


def titles(project: Path) -> list[str]:
    """The titles of the project's commits, oldest first."""
    return git(project, "log", "--reverse", "--format=%s").splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project with its first, defective implementation."""
    create_project(tmp_path / "project")
    ask(tmp_path / "project", "implement")
    return tmp_path / "project"


@pytest.mark.parametrize("crash", [False, True])
def test_every_defect_is_found_and_fixed(awf: Awf, tmp_path: Path, *, crash: bool) -> None:
    """A run that is killed in the middle finds and fixes the same as one that is not."""
    project = tmp_path / "demo"
    done = awf("demo", "--dir", str(project), *(["--crash"] if crash else []))
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("round ")] == list(FOUND)
    assert ("kill -9" in done.stdout) is crash
    assert f"--store {project / '.awf'}" in done.stdout
    why = awf("why", "demo", "--json", "--store", str(project / ".awf")).stdout
    assert ("interrupted" in why) is crash
    assert sorted(titles(project)[2:]) == sorted([*FIXES.values(), LAST_FIX])
    assert subprocess.run([".awf/self-check"], cwd=project, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(("finding", "title"), FIXES.items(), ids=FIXES.values())
def test_only_what_was_reported_is_fixed(project: Path, finding: str, title: str) -> None:
    """Of all defects the agent fixes the one that its prompt names."""
    ask(project, "fix", f"## Outstanding Review Findings\n\n{finding}\n\n{PROMPT}\n")
    assert titles(project)[2:] == [title]


@pytest.mark.parametrize("heading", ["## Outstanding Review Findings", ""])
def test_without_findings_nothing_is_fixed(project: Path, heading: str) -> None:
    """The agent ignores a defect that is named outside the section of findings."""
    named = "\n".join(FIXES)
    ask(project, "fix", f"{named}\n\n{heading}\n\n{PROMPT}\n{named}\n")
    assert len(titles(project)) == 2


def test_on_a_terminal_it_is_seen_live(tmp_path: Path) -> None:
    """Finished stages stay on the screen; `--discard` leaves no project behind."""
    written = run_on_screen([COMMAND, "demo", "--discard", "--dir", "project"], tmp_path, columns=110)
    lines = shown(written)
    assert any(line.startswith("✗ review_security #1") for line in lines)
    assert any(line.startswith("✓ fix #3") for line in lines)
    assert not (tmp_path / "project").exists()


def test_a_directory_with_files_is_left_alone(awf: Awf, tmp_path: Path) -> None:
    """The demo refuses a directory that is not empty."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("")
    assert awf("demo", "--dir", "full").returncode == 2
    assert list((tmp_path / "full").iterdir()) == [tmp_path / "full/mine"]

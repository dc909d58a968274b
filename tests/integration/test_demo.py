"""`awf demo`, right after the installation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import run_on_screen, shown

from pipeline.demo.scenario import AGENT, create_project, git

FIXES = {
    "FAIL: test_keeps_the_last_line (test_report.Pages)": "Keep the last line when it is alone on its page",
    "stock.py:6: this file is opened and never closed": "Close the stock file",
    "- #1 (must, high, open) report.py:11: average() divides by zero for an empty list of prices": (
        "Return 0 as the average of no prices"
    ),
    "- #2 (must, critical, open) report.py:16: matching() runs its condition with eval\n    ruled: x on #2: upheld": (
        "Parse conditions instead of executing them"
    ),
    "- #4 (suggest, medium, open) report.py:10: Nothing tests average() with several prices": "Test the average",
}
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


def test_every_defect_is_found_and_fixed_and_a_ledger_is_left_behind(awf: Awf, tmp_path: Path) -> None:
    """What two reviewers found is one line, a dispute was upheld, a dismissal holds, and the verdict is PASS."""
    project = tmp_path / "demo"
    done = awf("demo", "--dir", str(project))
    assert done.returncode == 0, done.stderr
    assert f"--store {project / '.awf'}" in done.stdout
    assert "paused" in done.stdout
    assert is_fixed(project)
    found = json.loads(awf("findings", "list", "--state", "all", "--format", "json", cwd=project).stdout)
    by_title = {finding["title"]: finding for finding in found}
    average = by_title["average() divides by zero for an empty list of prices"]
    assert (average["state"], len(average["reviewers"])) == ("verified_fixed", 2)
    assert by_title["pages() accepts a size of zero"]["state"] == "false_positive"
    disputed = by_title["matching() runs its condition with eval"]
    assert disputed["state"] == "verified_fixed"
    record = json.loads(awf("findings", "show", str(disputed["number"]), "--json", cwd=project).stdout)
    assert "upheld" in [change["word"] for change in record["history"]]
    assert json.loads(awf("verdict", "--json", cwd=project).stdout)["verdict"] == "PASS"


def test_a_run_that_is_killed_finds_and_fixes_the_same(awf: Awf, tmp_path: Path) -> None:
    """It is killed in the middle of a fix, and resumed."""
    done = awf("demo", "--crash", "--dir", "demo")
    assert done.returncode == 0, done.stderr
    assert "kill -9" in done.stdout
    assert "interrupted" in awf("why", "demo", "--json", cwd=tmp_path / "demo").stdout
    assert is_fixed(tmp_path / "demo")


def is_fixed(project: Path) -> bool:
    """Whether the agent made every fix in a commit of its own, and the project's own check passes."""
    fixed = sorted(titles(project)[2:]) == sorted(FIXES.values())
    return fixed and subprocess.run([".awf/self-check"], cwd=project, check=False, capture_output=True).returncode == 0


def test_a_fixer_disputes_before_it_fixes(project: Path) -> None:
    """It answers by number, and leaves the code alone until its reviewer upholds the finding."""
    line = "- #2 (must, critical, open) report.py:16: matching() runs its condition with eval"
    assert "[FINDING 2: wrong" in ask(project, "fix", f"{line}\n\n{PROMPT}\n")
    assert len(titles(project)) == 2


@pytest.mark.parametrize(("finding", "title"), FIXES.items(), ids=FIXES.values())
def test_only_what_was_reported_is_fixed(project: Path, finding: str, title: str) -> None:
    """Of all defects the agent fixes the one that its prompt names."""
    ask(project, "fix", f"## Findings by file\n\n{finding}\n\n{PROMPT}\n")
    assert titles(project)[2:] == [title]


def test_without_findings_nothing_is_fixed(project: Path) -> None:
    """The agent ignores a defect that is named after the findings."""
    ask(project, "fix", f"{PROMPT}\n" + "\n".join(FIXES))
    assert len(titles(project)) == 2


def test_on_a_terminal_it_is_seen_live(tmp_path: Path) -> None:
    """Finished stages stay on the screen; `--discard` leaves no project behind."""
    written = run_on_screen([COMMAND, "demo", "--discard", "--dir", "project"], tmp_path, columns=110)
    lines = shown(written)
    assert any(line.startswith("✗ reviews #1") for line in lines)
    assert any(line.startswith("✓ fix #3") for line in lines)
    assert not (tmp_path / "project").exists()


def test_a_directory_with_files_is_left_alone(awf: Awf, tmp_path: Path) -> None:
    """The demo refuses a directory that is not empty."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("")
    assert awf("demo", "--dir", "full").returncode == 2
    assert list((tmp_path / "full").iterdir()) == [tmp_path / "full/mine"]

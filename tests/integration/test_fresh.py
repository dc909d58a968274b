"""The script for a fresh machine copies the tracked files to an empty directory and runs the README's commands."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.integration.pages import ROOT

SCRIPT = ROOT / ".ci/fresh"
RECORDER = """#!/bin/sh
{ pwd; echo "$*"; env; echo; } >> "$TMPDIR/../record"
"""


def fresh(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """A stand-in for `make` that records its directory, its arguments and its environment."""
    program = tmp_path / "make"
    program.write_text(RECORDER)
    program.chmod(0o755)
    return program


def test_the_commands_of_the_readme_are_run_in_an_empty_directory(recorder: Path, tmp_path: Path) -> None:
    """Both commands run in a copy of the tracked files, without the caller's home and variables."""
    if subprocess.run(["git", "-C", str(ROOT), "rev-parse"], capture_output=True, check=False).returncode:
        pytest.skip("not a git checkout: nothing to copy")
    there = tmp_path / "there"
    done = fresh(str(there), MAKE=str(recorder), MY_VARIABLE="mine", PIP_NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    calls = [call.splitlines() for call in (there / "record").read_text().strip().split("\n\n")]
    shown = re.findall(r"^\$ make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [(where, what) for where, what, *_ in calls] == [(str(there / "awf"), word) for word in shown]
    variables = set(calls[0][2:])
    assert f"HOME={there}/home" in variables
    assert "PIP_NO_COLOR=1" in variables
    assert "MY_VARIABLE=mine" not in variables
    assert list((there / "home").iterdir()) == []
    assert (there / "awf/src/pipeline/__init__.py").is_file()
    assert not (there / "awf/.venv").exists()


def test_a_directory_that_is_not_empty_is_refused(recorder: Path, tmp_path: Path) -> None:
    """The script overwrites nothing."""
    done = fresh(str(tmp_path), MAKE=str(recorder))
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert sorted(tmp_path.iterdir()) == [recorder]

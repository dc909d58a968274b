"""Every command in a wrong place, or with a store that cannot be used."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

from pipeline.cli.main import COMMANDS

WORKFLOW = """workflow "W" {
  version 2
  start "a"
  stage "a" kind="llm" prompt="x"
  stage "end" kind="exit"
  transition from="a" to="end"
}
"""
# The exit codes of a group of commands by situation; that of "empty" for any situation not listed.
GROUPS: dict[str, tuple[list[str], dict[str, int]]] = {
    "about a run": (
        ["answer", "cancel", "context", "logs a", "prompt a", "report", "resume", "status", "why"],
        {"empty": 2, "corrupt": 1},
    ),
    "about a finding": (
        ["findings diff a b", "findings show 1", "findings why 1"],
        {"empty": 2, "corrupt": 1},
    ),
    "lists": (
        ["runs", "findings list", "findings export --format sarif", "findings walk"],
        {"empty": 0, "store is a file": 2, "option is a file": 2, "corrupt": 1},
    ),
    "a judgement": (["verdict", "doctor"], {"empty": 1, "store is a file": 2, "option is a file": 2}),
    "a start": (
        ["run w.awf.kdl --backend scripted"],
        {"empty": 0, "store is a file": 2, "option is a file": 2, "corrupt": 1, "read-only": 1},
    ),
    "a review": (["review --backend scripted"], {"empty": 2}),
    "a drawing": (["show w.awf.kdl"], {"empty": 0, "store is a file": 2, "option is a file": 2}),
    "a proposal": (["init --dry-run"], {"empty": 0}),
    "without a store": (["config", "explain", "validate w.awf.kdl", "workflows"], {"empty": 0}),
    "a worker": (["worker"], {"empty": 2}),
}
SITUATIONS = ["empty", "no git", "store is a file", "missing store", "option is a file", "corrupt", "read-only"]
WITHOUT_STORE = {"config", "init", "explain", "validate", "workflows"}
REPORTS_ON_STDOUT = {"verdict", "doctor"}  # the problem is their output
CASES = [(words, codes) for commands, codes in GROUPS.values() for words in commands]


@contextmanager
def situation(name: str, folder: Path) -> Iterator[list[str]]:
    """Make a directory with a workflow and a problem; yields the options to use in it."""
    (folder / "w.awf.kdl").write_text(WORKFLOW)
    options = {"missing store": ["--store", "nosuch"], "option is a file": ["--store", "w.awf.kdl"]}
    if name == "store is a file":
        (folder / ".awf").write_text("not a directory")
    if name == "corrupt":
        (folder / ".awf").mkdir()
        (folder / ".awf/awf.db").write_bytes(b"garbage" * 1000)
    with read_only(folder) if name == "read-only" else nothing():
        yield options.get(name, [])


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a directory read-only, even for root."""
    if os.getuid():
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    for options in (f"--bind {folder} {folder}", f"-o remount,bind,ro {folder}"):
        done = subprocess.run(["mount", *options.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            subprocess.run(["umount", folder], capture_output=True, check=False)
            pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_every_command_is_tried() -> None:
    """No command is missing, except the dashboard and the demo, which have their own tests."""
    assert {words.split()[0] for words, _ in CASES} == COMMANDS.keys() - {"serve", "demo"}


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize(("words", "codes"), CASES, ids=[words for words, _ in CASES])
def test_every_command_in_every_situation(
    awf: Awf, tmp_path: Path, name: str, words: str, codes: dict[str, int]
) -> None:
    """Each command has the right exit code, and prints one error and no traceback if it is not 0."""
    folder = tmp_path / "project"
    folder.mkdir()
    command, *rest = words.split()
    environment = {"PATH": "/nowhere"} if name == "no git" else {}
    with situation(name, folder) as options:
        given = [] if command in WITHOUT_STORE else options
        done = awf(command, *rest, *given, cwd=folder, **environment)
    assert done.returncode == codes.get(name, codes["empty"]), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if line.lower().startswith("error: ")]
    assert len(errors) == (done.returncode != 0) or (command in REPORTS_ON_STDOUT and done.stdout)
    if name == "corrupt":
        assert (folder / ".awf/awf.db").read_bytes() == b"garbage" * 1000


@pytest.mark.parametrize(("typed", "meant"), [("statsu", "status"), ("valdate", "validate"), ("finding", "findings")])
def test_a_mistyped_command(awf: Awf, typed: str, meant: str) -> None:
    """A typo exits with 2 and suggests the nearest command."""
    done = awf(typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert f'did you mean "{meant}"?' in done.stderr


@pytest.mark.parametrize(
    "words", ["serve", "demo --dir w.awf.kdl", "run .", "run nosuch", "show nosuch", "resume nosuch"]
)
def test_a_wrong_argument_is_one_error(awf: Awf, tmp_path: Path, words: str) -> None:
    """A file for a directory, a directory for a file and an unknown name exit with 2 and one error."""
    with situation("store is a file" if words == "serve" else "empty", tmp_path):
        done = awf(*words.split())
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert sum(line.lower().startswith("error: ") for line in done.stderr.splitlines()) == 1


def test_a_deleted_current_directory(tmp_path: Path) -> None:
    """A deleted current directory is an error without a traceback."""
    (tmp_path / "gone").mkdir()
    code = f"import os; os.rmdir('{tmp_path}/gone'); from pipeline.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "status"],
        cwd=tmp_path / "gone",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the current directory")


def test_a_damaged_newest_run_leaves_the_others(awf: Awf, tmp_path: Path) -> None:
    """A damaged run does not keep commands from reading another one."""
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    for name in ("first", "second"):
        assert awf("run", "w.awf.kdl", "--backend", "scripted", "--run-id", name).returncode == 0
    with sqlite3.connect(tmp_path / ".awf/awf.db") as database:
        database.execute("UPDATE records SET body = CAST('{}' AS BLOB) WHERE run = 2")
    assert awf("why", "second").returncode == 1
    assert awf("context").returncode == 1
    assert json.loads(awf("context", "first", "outcome", "--json").stdout) == "success"
    assert awf("context", "first").returncode == 0


def test_a_stage_that_is_named_null(awf: Awf, tmp_path: Path) -> None:
    """A stage named null is a diagnostic like any other."""
    text = WORKFLOW.replace('start "a"', 'start "b"').replace('  stage "end"', '  stage null\n  stage "end"')
    (tmp_path / "w.awf.kdl").write_text(text)
    done = awf("validate", "w.awf.kdl")
    assert (done.returncode, done.stderr) == (2, "")

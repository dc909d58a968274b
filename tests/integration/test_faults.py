"""When the machine fails: a clear error, nothing recorded lost, the run goes on when it can."""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.forking import fork_server

SCRIPTED = ("--script", "script.json", "--json")
WORKFLOW = """workflow "W" {
  version 2
  start "a"
  settings { max_visits 200; max_stages 2000 }
  stage "a" kind="llm" auto_status=true prompt="x"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="end"
  }
  stage "fix" kind="llm" prompt="Fix it"
  stage "end" kind="exit"
  transition from="a" to="gate"
  transition from="fix" to="a"
}
"""


def prepared(folder: Path, rounds: int) -> Path:
    (folder / "w.awf.kdl").write_text(WORKFLOW)
    failing = [f"{os.urandom(2000).hex()}\n[STATUS: fail]" for _ in range(rounds)]
    (folder / "script.json").write_text(json.dumps({"a": [*failing, "[STATUS: success]"]}))
    return folder


@contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    """A disk of its own, mounted with some options."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a disk")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    with disk(tmp_path / "disk", "size=1m") as folder:
        yield folder


def test_a_full_disk_stops_the_run_and_loses_nothing(awf: Awf, tmp_path: Path, small_disk: Path) -> None:
    """It stops before the stage it cannot record, says so, and goes on when there is room."""
    prepared(tmp_path, 150)
    run = ("--store", str(small_disk / ".awf"), "--json")
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--script", "script.json", *run)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "full" in done.stderr.lower() or "space" in done.stderr.lower()
    recorded = json.loads(awf("why", "r", *run).stdout)
    assert recorded
    larger = tmp_path / "larger"
    shutil.copytree(small_disk / ".awf", larger)
    resumed = awf("resume", "r", "--store", str(larger), "--json")
    result = json.loads(resumed.stdout.splitlines()[-1])
    assert (result["status"], result["path"].count("a")) == ("success", 151)


def test_a_disk_without_room_for_logs_stops_the_run(awf: Awf, tmp_path: Path) -> None:
    """Where the output of an agent cannot be kept its stage has not failed: it runs again when there is room."""
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    (tmp_path / ".awf").mkdir()
    agent = ("--backend", "command", "--agent-command", "sh -c 'seq 9999; echo [STATUS: success]'")
    with disk(tmp_path / ".awf/runs", "size=16k"):
        done = awf("run", "w.awf.kdl", "--run-id", "r", "--json", *agent)
    assert done.returncode == 1, done.stderr
    assert 'stage "a"' in done.stderr
    assert "No space left" in done.stderr
    assert json.loads(awf("status", "r", "--json").stdout)["status"] == "interrupted"
    assert ended(awf("resume", "r", "--json"))["status"] == "success"


def test_a_store_that_cannot_be_written_is_refused_at_the_start(awf: Awf, tmp_path: Path) -> None:
    """Before anything runs, with the place named."""
    prepared(tmp_path, 1)
    with disk(tmp_path / "disk", "ro") as folder:
        done = awf("run", "w.awf.kdl", "--store", str(folder / "store"), "--script", "script.json")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert str(folder) in done.stderr


def test_a_journal_of_a_newer_version_is_refused(awf: Awf, tmp_path: Path) -> None:
    """With the record named, and nothing rewritten."""
    prepared(tmp_path, 1)
    assert awf("run", "w.awf.kdl", "--run-id", "r", "--script", "script.json", "--json").returncode == 0
    database = sqlite3.connect(tmp_path / ".awf/awf.db")
    database.execute("PRAGMA user_version=99")
    database.close()
    done = awf("resume", "r")
    assert done.returncode == 1
    assert "newer" in done.stderr


def ended(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_many_runs_at_once_in_one_store(tmp_path: Path) -> None:
    """Fifty runs from four processes at a time all end right, each with its own path."""
    prepared(tmp_path, 3)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def every_fourth(first: int) -> list[dict[str, Any]]:
        with fork_server() as server:
            runs = [("run", "w.awf.kdl", "--run-id", f"run{n}", *SCRIPTED) for n in range(first, 51, 4)]
            return [ended(server.run(*run, cwd=tmp_path, env=env)) for run in runs]

    with ThreadPoolExecutor(4) as workers:
        results = [result for some in workers.map(every_fourth, (1, 2, 3, 4)) for result in some]
    assert sorted(result["run_id"] for result in results) == sorted(f"run{number}" for number in range(1, 51))
    assert {(result["status"], len(result["path"])) for result in results} == {("success", 12)}


def test_a_damaged_run_does_not_hide_the_others(awf: Awf, tmp_path: Path) -> None:
    """They are listed, and the damaged one is named with its record."""
    prepared(tmp_path, 1)
    for name in ("first", "second", "third"):
        awf("run", "w.awf.kdl", "--run-id", name, *SCRIPTED)
    database = sqlite3.connect(tmp_path / ".awf/awf.db")
    with database:
        database.execute("UPDATE records SET body = x'00' WHERE run = 2 AND seq = 3")
    database.close()
    done = awf("runs", "--json")
    assert [run["run_id"] for run in json.loads(done.stdout)] == ["third", "first"]
    assert done.returncode == 1
    assert "record 3 of run second" in done.stderr
    assert "third" in awf("runs").stdout


def test_a_store_whose_name_is_no_text(awf: Awf, tmp_path: Path) -> None:
    """A directory may have any bytes in its name, and so may that of the project."""
    project = tmp_path / os.fsdecode(b"caf\xe9")
    project.mkdir()
    prepared(project, 1)
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--store", "./st\udcff ore", "--script", "script.json", cwd=project)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert awf("status", "r", "--store", "./st\udcff ore", cwd=project).returncode == 0


def test_a_suggested_command_can_be_pasted(awf: Awf, tmp_path: Path) -> None:
    """The store is quoted as a shell needs it, and acts on no terminal."""
    prepared(tmp_path, 2)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW.replace("max_visits 200", "max_visits 1"))
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--store", "my $tore\x1b[31m", "--script", "script.json")
    assert done.returncode == 3, done.stderr
    assert "--store 'my $tore\N{REPLACEMENT CHARACTER}[31m'" in done.stdout

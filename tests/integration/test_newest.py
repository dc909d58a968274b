"""Commands that are given no run, and commands given in a subdirectory."""

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

WORKFLOW = """workflow "W" {
  version 2
  start "build"
  stage "build" kind="llm" prompt="Build it"
  stage "check" kind="tool" command="pwd; echo \\"$AWF_REPORT\\""
  stage "ask" kind="human" prompt="Ship it?" {
    option "yes" label="Yes" to="end"
    option "no" label="No" to="build"
  }
  stage "end" kind="exit"
  transition from="build" to="check"
  transition from="check" to="ask"
}
"""


def start(awf: Awf, folder: Path, run_id: str, *more: str) -> int:
    (folder / "w.awf.kdl").write_text(WORKFLOW)
    done = awf("run", "w.awf.kdl", "--backend", "scripted", "--run-id", run_id, *more, cwd=folder)
    return done.returncode


@pytest.fixture
def two(awf: Awf, tmp_path: Path) -> Path:
    """A store with a run that has succeeded and a newer one that waits."""
    assert start(awf, tmp_path, "older", "--auto-approve") == 0
    assert start(awf, tmp_path, "newer") == 3
    return tmp_path


def said(awf: Awf, *words: str) -> object:
    done = awf(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("two")
def test_the_newest_run_is_meant(awf: Awf) -> None:
    """Every command that takes a run takes the newest when it is given none."""
    for words in (["status"], ["why"], ["context"], ["answer"]):
        assert said(awf, *words) == said(awf, words[0], "newer")
    for words in (["why", "check"], ["context", "outcome"], ["prompt", "build"], ["logs", "check"]):
        assert said(awf, *words) == said(awf, words[0], "newer", *words[1:])
    pages = {"markdown": ".awf/reports/newer.md", "html": ".awf/reports/newer.html"}
    assert said(awf, "report") == {**pages, "reports": 0, "findings": 0}
    cancelled = said(awf, "cancel")
    assert isinstance(cancelled, dict)
    assert cancelled["run_id"] == "newer"


def test_a_name_that_is_a_run_and_a_stage_is_refused(awf: Awf, two: Path) -> None:
    """Nothing is guessed: the error names both ways out, and both work; the beginning of an id gives way to a stage."""
    start(awf, two, "check")
    start(awf, two, "build-1")
    refused = awf("why", "check")
    assert refused.returncode == 2
    assert said(awf, "why", "check", "") == said(awf, "why", "che")
    assert len(said(awf, "why", "latest", "check")) == 1  # type: ignore[arg-type]
    assert {one["stage"] for one in said(awf, "why", "build")} == {"build"}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("two")
def test_a_name_that_is_neither_a_run_nor_a_stage(awf: Awf) -> None:
    """A typo is answered with what was probably meant, and exit code 2."""
    typos = {"check": "why chekc", "newer": "why nwer", "outcome": "context outcom", "build": "prompt biuld"}
    for meant, words in {**typos, "yes": "answer yse"}.items():
        done = awf(*words.split())
        assert done.returncode == 2, done.stdout
        assert f'"{meant}"' in done.stderr


@pytest.mark.usefixtures("two")
def test_an_option_alone_answers_the_newest_run(awf: Awf) -> None:
    """`awf answer OPTION` and `awf answer STAGE OPTION` need no run."""
    answered = said(awf, "answer", "ask", "no")
    assert isinstance(answered, dict)
    assert (answered["run_id"], answered["option"]) == ("newer", "no")
    assert awf("resume").returncode == 3
    done = awf("answer", "yes", "--resume")
    assert done.returncode == 0, done.stderr


def test_resume_takes_the_newest_run_that_has_not_succeeded(awf: Awf, tmp_path: Path) -> None:
    """A newer run that has succeeded is passed over, which is said; where all have, there is nothing to resume."""
    assert start(awf, tmp_path, "waits") == 3
    assert start(awf, tmp_path, "done", "--auto-approve") == 0
    resumed = awf("resume", "--auto-approve", "--json", "--now", "--on-error", "fail")
    assert json.loads(resumed.stdout.splitlines()[-1])["run_id"] == "waits"
    assert "done" in resumed.stderr
    assert awf("resume").returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["why"],
        ["why", "x"],
        ["context"],
        ["prompt", "x"],
        ["logs", "x"],
        ["report"],
        ["resume"],
        ["answer"],
        ["answer", "yes"],
        ["cancel"],
    ],
)
def test_without_any_run(awf: Awf, words: list[str], tmp_path: Path) -> None:
    """Exit code 2 and the command that starts one, and no store is made."""
    done = awf(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "awf run" in done.stderr
    assert not (tmp_path / ".awf").exists()


def test_on_error_is_kept_only_when_it_is_given(awf: Awf, tmp_path: Path) -> None:
    """The journal holds what the user chose, and the default is not chosen."""
    start(awf, tmp_path, "plain")
    start(awf, tmp_path, "strict", "--on-error", "fail")
    with sqlite3.connect(tmp_path / ".awf/awf.db") as database:
        bodies = [body for (body,) in database.execute("SELECT body FROM records") if "run_created" in str(body)]
    options = {json.loads(body)["run_id"]: json.loads(body)["options"].get("on_error") for body in bodies}
    assert options == {"plain": None, "strict": "fail"}
    assert awf("run", "w.awf.kdl", "--on-error", "ignore").returncode == 2


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with a directory two levels down."""
    root = tmp_path / "repository"
    (root / "src/deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def test_a_run_in_a_subdirectory_works_on_the_root(awf: Awf, repository: Path) -> None:
    """Its stages and its store are at the repository's root; the workflow is named from where the user is."""
    deep = repository / "src/deep"
    (deep / "agent").write_text("#!/bin/sh\ncat >/dev/null\npwd | tee seen\n")
    (deep / "agent").chmod(0o755)
    (deep / "w.awf.kdl").write_text(WORKFLOW)
    done = awf("run", "w.awf.kdl", "--backend", "command", "--agent-command", "./agent", "--run-id", "r", cwd=deep)
    assert done.returncode == 3, done.stderr
    assert "--store" not in done.stdout
    assert (repository / "seen").read_text() == f"{repository}\n"
    assert (repository / ".awf/awf.db").is_file()
    assert not (deep / ".awf").exists()
    logged = awf("logs", "check", cwd=repository / "src").stdout.splitlines()
    assert logged[0] == str(repository)
    assert logged[1].startswith(str(repository / ".awf"))
    assert awf("resume", "--auto-approve", cwd=deep).returncode == 0
    assert awf("logs", "build", "--json", cwd=deep).returncode == 0
    listed = awf("runs", "--json", cwd=deep)
    assert [one["run_id"] for one in json.loads(listed.stdout)] == ["r"]
    report = awf("report", cwd=deep)
    assert report.stdout.splitlines()[0] == "../../.awf/reports/r.md"
    assert awf("findings", "list", cwd=deep).returncode == 0


def test_settings_of_the_project_are_found_from_below(awf: Awf, repository: Path) -> None:
    """An `.awf` that holds only settings is the project's, and is shown by a short path."""
    (repository / ".awf").mkdir()
    (repository / ".awf/config.kdl").write_text('backend "scripted"\n')
    shown = awf("config", "--json", cwd=repository / "src")
    assert json.loads(shown.stdout)["backend"] == {
        "value": "scripted",
        "from": "project",
        "name": "../.awf/config.kdl",
        "line": 1,
    }
    assert start(awf, repository / "src", "r") == 3
    assert (repository / ".awf/awf.db").is_file()


def test_outside_of_a_repository_the_store_is_found_up_to_the_home(awf: Awf, home: Path) -> None:
    """A store above is used; one in the home itself is not that of a project below it. Stages run in the directory."""
    (home / "a/b").mkdir(parents=True)
    (home / ".awf").mkdir()
    assert start(awf, home / "a", "r") == 3
    assert (home / "a/.awf/awf.db").is_file()
    assert start(awf, home / "a/b", "s") == 3
    assert not (home / "a/b/.awf").exists()
    assert awf("logs", "s", "check", cwd=home / "a").stdout.splitlines()[0] == str(home / "a/b")
    listed = awf("runs", "--json", cwd=home)
    assert json.loads(listed.stdout) == []

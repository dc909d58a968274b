"""What a run has changed, for a person who decides on it."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.app import workspace_diff
from pipeline.app.workspace_diff import diff_run
from pipeline.engine.context import Set
from pipeline.engine.records import RunCreated
from pipeline.engine.state import State, begin

SOURCE = """
workflow "Ship" {
  version 2
  start "exit"
  stage "exit" kind="exit"
}
"""
ENVIRON = {"PATH": os.environ["PATH"]}
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Git in a repository with one commit."""
    settings = ("user.name=a", "user.email=a@b", "commit.gpgSign=false", "init.defaultBranch=main")
    options = [word for setting in settings for word in ("-c", setting)]

    def run(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), *options, *words]
        return subprocess.run(command, check=True, env=ENVIRON, capture_output=True, text=True).stdout.strip()

    run("init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    run("add", ".")
    run("commit", "-qm", "begin")
    return run


def state_at(directory: Path, **context: str) -> State:
    """A run that works in a directory."""
    state = begin(RunCreated(at=0, run_id="r1", file="x", source=SOURCE, cwd=str(directory), version="1"))
    operations = [Set(f"workspace.{key}", value) for key, value in context.items()]
    return state._replace(context=state.context.apply(operations))


def test_a_checkout_is_compared_with_the_commit_the_run_started_at(tmp_path: Path, git: Git) -> None:
    """New and changed files count, committed or not; the store of awf does not."""
    head = git("rev-parse", "HEAD")
    (tmp_path / "a.txt").write_text("two\n")
    (tmp_path / "b.txt").write_text("new\n")
    store = tmp_path / ".awf"
    store.mkdir()
    (store / "awf.db").write_text("ours")
    found = diff_run(state_at(tmp_path), head, ENVIRON, store)
    assert "2 files changed, 2 insertions(+), 1 deletion(-)" in found.stat
    assert "-one\n+two" in found.patch
    assert "awf.db" not in found.stat
    assert found.command.startswith(f"git diff {head[:12]} ")
    assert not found.truncated


def test_a_workspace_is_compared_by_its_commits(tmp_path: Path, git: Git) -> None:
    """What the run committed counts, whatever is in the checkout."""
    base = git("rev-parse", "HEAD")
    (tmp_path / "a.txt").write_text("two\n")
    git("commit", "-qam", "work")
    (tmp_path / "a.txt").write_text("three\n")
    found = diff_run(state_at(tmp_path, base=base, commit=git("rev-parse", "HEAD")), "", ENVIRON, tmp_path / ".awf")
    assert "+two" in found.patch
    assert "three" not in found.patch


def test_only_the_files_of_a_long_change_are_shown(tmp_path: Path, git: Git) -> None:
    """Nobody decides by scrolling through thousands of lines: the command shows the rest."""
    head = git("rev-parse", "HEAD")
    (tmp_path / "big.txt").write_text("line\n" * 5_000)
    found = diff_run(state_at(tmp_path), head, ENVIRON, tmp_path / ".awf")
    assert "big.txt" in found.stat
    assert found.patch == ""
    assert found.truncated


def test_long_lines_are_truncated(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch is no longer than a page can hold."""
    monkeypatch.setattr(workspace_diff, "_MAX_PATCH", 1_000)
    head = git("rev-parse", "HEAD")
    (tmp_path / "wide.txt").write_text("x" * 5_000)
    found = diff_run(state_at(tmp_path), head, ENVIRON, tmp_path / ".awf")
    assert len(found.patch) == 1_000
    assert found.truncated


@pytest.mark.parametrize("head", ["", "--output=/tmp/x", "HEAD", "0" * 40])
def test_what_git_does_not_know_is_reported(tmp_path: Path, head: str) -> None:
    """Outside of a repository, or for something that is not a commit, there is a reason instead of a change."""
    found = diff_run(state_at(tmp_path), head, ENVIRON, tmp_path / ".awf")
    assert found.trouble
    assert found.stat == ""

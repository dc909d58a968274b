"""An agent that may not write: whatever it changes is put back and kept, and its stage is an error."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

Git = Callable[..., str]
WORKFLOW = """workflow "W" {
  version 2
  start "look"
  stage "look" kind="llm" access="ACCESS" prompt="look"
  stage "end" kind="exit"
  transition from="look" to="end"
}
"""
PARALLEL = """workflow "W" {
  version 2
  start "both"
  stage "both" kind="parallel" {
    branch "look"
    branch "other"
  }
  stage "look" kind="llm" access="read-only" prompt="look"
  stage "other" OTHER
  stage "end" kind="exit"
  transition from="both" to="end"
}
"""
IN_WORKTREE = """workflow "W" {
  version 2
  start "make"
  stage "make" kind="workspace.create"
  stage "look" kind="llm" access="read-only" prompt="look"
  stage "end" kind="exit"
  transition from="make" to="look"
  transition from="look" to="end"
}
"""


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """A repository with a commit, a staged change, an unstaged one, an untracked file and a stash."""

    def run(*arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        done = subprocess.run(["git", *identity, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    run("init", "-q", "-b", "main")
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("one\n")
    (tmp_path / ".gitignore").write_text("home/\n.awf/\n*.log\n*.kdl\nagent\n")
    run("add", ".")
    run("commit", "-q", "-m", "first")
    (tmp_path / "a.txt").write_text("stashed\n")
    run("stash", "-q")
    (tmp_path / "b.txt").write_text("staged\n")
    run("add", "b.txt")
    (tmp_path / "c.txt").write_text("not staged\n")
    (tmp_path / "untracked.txt").write_text("mine\n")
    return run


def state_of(git: Git, folder: Path) -> dict[str, Any]:
    names = git("ls-files", "--cached", "--others", "--exclude-standard").split()
    return {
        "files": {name: (folder / name).read_bytes() for name in names if (folder / name).exists()},
        "index": git("ls-files", "--stage"),
        "head": git("symbolic-ref", "HEAD"),
        "refs": [line for line in git("for-each-ref").splitlines() if "refs/awf/" not in line],
        "stashes": git("stash", "list"),
        "status": git("status", "--porcelain=v2", "--branch"),
    }


def start(awf: Awf, folder: Path, workflow: str, script: str) -> tuple[int, dict[str, Any]]:
    (folder / "w.awf.kdl").write_text(workflow)
    agent = folder / "agent"
    agent.write_text(f"#!/bin/sh\ncat >/dev/null\nexport GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@y "
                     f"GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@y\n{script}\necho looked\n")  # fmt: skip
    agent.chmod(0o755)
    options = ("--backend", "command", "--agent-command", str(agent), "--run-id", "r", "--json")
    done = awf("run", "w.awf.kdl", *options, cwd=folder)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def errors(awf: Awf, folder: Path) -> list[dict[str, Any]]:
    entries = json.loads(awf("status", "r", "--json", cwd=folder).stdout)["errors"]
    return list(entries)


BREACHES = {
    "a tracked file": ("echo x > a.txt", ["a.txt"]),
    "a staged file": ("echo x > b.txt", ["b.txt"]),
    "an untracked file": ("mkdir -p new && echo x > new/file.txt", ["new/file.txt"]),
    "the user's untracked file": ("rm untracked.txt", ["untracked.txt"]),
    "a deleted file": ("rm a.txt", ["a.txt"]),
    "a file replaced by a directory": ("rm a.txt && mkdir a.txt && echo x > a.txt/b", ["a.txt", "a.txt/b"]),
    "a mode": ("chmod +x a.txt", ["a.txt"]),
    "a file hidden by .gitignore": ("echo hidden >> .gitignore; echo x > hidden", [".gitignore", "hidden"]),
    "a commit": ("git add -A && git commit -q -m sneaky", ["refs/heads/main"]),
    "a branch": ("git branch sneaky", ["refs/heads/sneaky"]),
    "another branch checked out": ("git checkout -q -b sneaky", ["HEAD", "refs/heads/sneaky"]),
    "a detached HEAD": ("git checkout -q --detach", ["HEAD"]),
    "a tag": ("git tag -m t sneaky", ["refs/tags/sneaky"]),
    "a stash": ("git stash -q", ["b.txt", "c.txt", "refs/stash"]),
    "a dropped stash": ("git stash drop -q", ["refs/stash"]),
    "a reset": ("git reset -q --hard", ["b.txt", "c.txt"]),
}


@pytest.mark.parametrize(
    ("access", "breach"), [*(("read-only", breach) for breach in BREACHES), ("none", "a tracked file")]
)
def test_a_breach_is_put_back_exactly(awf: Awf, tmp_path: Path, git: Git, breach: str, access: str) -> None:
    """Files, index, HEAD, refs and stashes are as before; the run pauses with an error that names what changed."""
    script, names = BREACHES[breach]
    before = state_of(git, tmp_path)
    code, last = start(awf, tmp_path, WORKFLOW.replace("ACCESS", access), script)
    assert (code, last["status"]) == (3, "paused"), last
    assert state_of(git, tmp_path) == before
    (error,) = errors(awf, tmp_path)
    assert error["kind"] == "denied"
    assert all(name in error["reason"] for name in names), error["reason"]
    assert git("rev-parse", "--verify", "refs/awf/breach/r/look-1")


def test_what_was_written_is_kept(awf: Awf, tmp_path: Path, git: Git) -> None:
    """The ref holds the files as the agent left them and the commits that it made."""
    start(
        awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), "echo x > a.txt; git commit -qam sneaky; echo y > a.txt"
    )
    assert git("show", "refs/awf/breach/r/look-1:a.txt") == "y\n"
    assert "sneaky" in git("log", "--format=%s", "refs/awf/breach/r/look-1")
    entries = json.loads(awf("why", "r", "--json", cwd=tmp_path).stdout)
    assert "refs/awf/breach/r/look-1" in json.dumps(entries)


@pytest.mark.usefixtures("git")
@pytest.mark.parametrize(
    "script", ["echo x > x.log", "mkdir -p .code-review; echo x > .code-review/abort-reason.md", "git status", "true"]
)
def test_ignored_files_are_no_breach(awf: Awf, tmp_path: Path, script: str) -> None:
    """Neither are awf's own files, nor what git refreshes in its index."""
    code, last = start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), script)
    assert (code, last["status"]) == (0, "success"), last


def test_an_agent_that_may_write_is_not_checked(awf: Awf, tmp_path: Path, git: Git) -> None:
    """What it writes stays."""
    code, _ = start(awf, tmp_path, WORKFLOW.replace("ACCESS", "coding"), "echo x > a.txt; git tag mine")
    assert code == 0
    assert (tmp_path / "a.txt").read_text() == "x\n"
    assert git("tag") == "mine\n"


def test_resume_runs_the_stage_again(awf: Awf, tmp_path: Path, git: Git) -> None:
    """A second breach is kept beside the first."""
    before = state_of(git, tmp_path)
    start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), "echo x >> a.txt; date +%N >> a.txt")
    first = git("rev-parse", "refs/awf/breach/r/look-1").strip()
    assert awf("resume", "r", cwd=tmp_path).returncode == 3
    assert first in git("rev-list", "refs/awf/breach/r/look-1")
    (tmp_path / "agent").write_text("#!/bin/sh\necho looked\n")
    assert awf("resume", "r", cwd=tmp_path).returncode == 0
    assert state_of(git, tmp_path) == before


@pytest.mark.usefixtures("git")
def test_readers_side_by_side_all_count_as_suspects(awf: Awf, tmp_path: Path) -> None:
    """Nobody can tell which of two agents wrote, so neither answer counts."""
    other = 'kind="llm" access="read-only" prompt="other"'
    meet = "touch $AWF_STAGE.log; while [ ! -e look.log ] || [ ! -e other.log ]; do sleep 0.02; done"
    script = f'{meet}; [ "$AWF_STAGE" = look ] && echo x > a.txt'
    last_out = (
        'touch "$AWF_STAGE-done.log"; [ "$AWF_STAGE" = look ] || while [ ! -e look-done.log ]; do sleep 0.02; done'
    )
    code, _ = start(awf, tmp_path, PARALLEL.replace("OTHER", other), f"{script}; {last_out}")
    assert code == 3
    assert (tmp_path / "a.txt").read_text() == "one\n"
    assert {error["kind"] for error in errors(awf, tmp_path)} == {"denied"}


def test_what_a_branch_that_may_write_does_is_no_breach(awf: Awf, tmp_path: Path, git: Git) -> None:
    """Its files and refs stay, and the reader beside it passes with a note or a check of the rest."""
    other = 'kind="tool" command="echo x > a.txt; git tag mine"'
    code, last = start(awf, tmp_path, PARALLEL.replace("OTHER", other), "while [ ! -s a.txt ]; do sleep 0.02; done")
    assert (code, last["status"]) == (0, "success"), last
    assert ((tmp_path / "a.txt").read_text(), git("tag")) == ("x\n", "mine\n")


def test_a_worktree_is_checked_and_other_checkouts_are_left_alone(awf: Awf, tmp_path: Path, git: Git) -> None:
    """The run's own branch and files are put back; what people do in their checkout meanwhile stays."""
    mine = f'git -C "{tmp_path}" branch mine; git -C "{tmp_path}" commit -q -m mine'
    code, _ = start(awf, tmp_path, IN_WORKTREE, f"{mine}; echo x > a.txt; git commit -qam sneaky; echo y > n.txt")
    assert code == 3
    (error,) = errors(awf, tmp_path)
    assert (error["kind"], "a.txt" in error["reason"], "n.txt" in error["reason"]) == ("denied", True, True)
    (worktree,) = (tmp_path / ".awf/worktrees").glob("[!.]*/")
    assert (worktree / "a.txt").read_text() == "one\n"
    assert not (worktree / "n.txt").exists()
    assert "mine" in git("log", "-1", "--format=%s")
    assert git("rev-parse", "mine")
    assert git("show", "refs/awf/breach/r/look-1:n.txt") == "y\n"


@pytest.mark.usefixtures("git")
def test_a_repository_that_git_cannot_read_afterwards_is_an_error(awf: Awf, tmp_path: Path) -> None:
    """What cannot be checked does not pass."""
    code, _ = start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), "rm -rf .git/HEAD")
    assert code == 3
    assert errors(awf, tmp_path)[0]["kind"] == "denied"


def test_a_review_of_your_own_checkout_leaves_what_may_be_your_edit(awf: Awf, tmp_path: Path) -> None:
    """The review is incomplete and names the file, but nothing is put back."""
    project = tmp_path / "mine"
    project.mkdir()
    (project / "a.py").write_text("one = 1\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True, env={**os.environ, "HOME": str(tmp_path)})
    (project / "a.py").write_text("one = 2\n")
    script = {"security": {"write": {"a.py": "one = 3\n"}, "reply": '{"findings": [], "reviewed": ["a.py: read"]}'}}
    (tmp_path / "s.json").write_text(json.dumps(script))
    done = awf("review", "--only", "security", "--script", str(tmp_path / "s.json"), "--json", cwd=project)
    assert done.returncode == 3
    assert "a.py" in json.loads(done.stdout)["incomplete"][0]
    assert (project / "a.py").read_text() == "one = 3\n"

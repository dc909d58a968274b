"""An agent that may not write works in a checkout of its own: what it does there touches nothing else."""

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
LOOP = """workflow "W" {
  version 2
  start "look"
  stage "look" kind="llm" access="read-only" prompt="look"
  stage "work" kind="tool" command="echo two > a.txt"
  stage "again" kind="llm" access="read-only" prompt="look again"
  stage "end" kind="exit"
  transition from="look" to="work"
  transition from="work" to="again"
  transition from="again" to="end"
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
  stage "other" kind="llm" access="read-only" prompt="other"
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


def notes(awf: Awf, folder: Path, stage: str = "look") -> str:
    """What is noted about the visit of a stage."""
    return awf("why", "r", stage, cwd=folder).stdout


WRITES = {
    "a tracked file": ("echo x > a.txt", ["a.txt"]),
    "a staged file": ("echo x > b.txt", ["b.txt"]),
    "an untracked file": ("mkdir -p new && echo x > new/file.txt", ["new/file.txt"]),
    "the user's untracked file": ("rm untracked.txt", ["untracked.txt"]),
    "a file replaced by a directory": ("rm a.txt && mkdir a.txt && echo x > a.txt/b", ["a.txt", "a.txt/b"]),
    "a commit": ("echo x > a.txt && git add -A && git commit -q -m sneaky", ["a.txt"]),
    "a reset": ("git reset -q --hard", ["b.txt", "c.txt"]),
    "a branch": ("git branch sneaky", []),
    "a branch deleted": ("git branch -D main", []),
    "another branch checked out": ("git checkout -q -b sneaky", []),
    "a tag": ("git tag -m t sneaky", []),
    "a stash": ("git stash -q", ["b.txt", "c.txt"]),
    "its repository": ("rm -rf .git", []),
    "its directory": ('rm -rf "$PWD"', ["a.txt", "b.txt", "untracked.txt"]),
    "its directory replaced by a link": ('d="$PWD"; cd /; rm -rf "$d"; ln -s / "$d"', ["a.txt"]),
    "a program in its settings": (
        "git config filter.x.clean 'touch ../../../../ran'; echo '* filter=x' >.gitattributes", [".gitattributes"]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("access", "write"), [*(("read-only", write) for write in WRITES), ("none", "a tracked file")])
def test_what_a_reader_writes_stays_in_its_checkout(
    awf: Awf, tmp_path: Path, git: Git, write: str, access: str
) -> None:
    """Files, index, HEAD, refs and stashes of the repository are as before; the files that it wrote are noted."""
    script, names = WRITES[write]
    before = state_of(git, tmp_path)
    code, last = start(awf, tmp_path, WORKFLOW.replace("ACCESS", access), script)
    assert (code, last["status"]) == (0, "success"), last
    assert state_of(git, tmp_path) == before
    told = notes(awf, tmp_path)
    assert ("nothing counts" in told, all(name in told for name in names)) == (bool(names), True), told
    assert not [*tmp_path.rglob("ran")]
    assert not [*(tmp_path / ".awf/checkouts").iterdir()], "it is removed at the end"


def test_it_has_the_files_and_the_history_of_the_repository(awf: Awf, tmp_path: Path, git: Git) -> None:
    """Also what is not committed, which shows as changed; commits, branches and tags can be compared."""
    git("tag", "first")
    git("branch", "other")
    asked = (
        "cat b.txt c.txt untracked.txt; git status --porcelain; git log --format=%s main; git diff first other;"
        " git rev-parse --show-toplevel"
    )
    start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), f'{{ {asked}; }} > "{tmp_path}/home/seen"')
    seen = (tmp_path / "home/seen").read_text().splitlines()
    assert seen[:-1] == ["staged", "not staged", "mine", " M b.txt", " M c.txt", "?? untracked.txt", "first"]
    assert seen[-1] == str(tmp_path.resolve() / ".awf/checkouts/r")


def test_a_partial_clone_shows_what_is_checked_out(awf: Awf, tmp_path: Path, git: Git) -> None:
    """A sparse checkout of a partial clone does not have the other files, and they do not count as deleted."""
    git("config", "uploadpack.allowFilter", "true")
    (tmp_path / "far").mkdir()
    (tmp_path / "far/d.txt").write_text("far\n")
    git("add", "-A")
    git("commit", "-q", "-m", "far")
    clone = tmp_path / "home/clone"
    git("clone", "-q", "--filter=blob:none", "--sparse", f"file://{tmp_path}", str(clone))
    code, _ = start(
        awf, clone, WORKFLOW.replace("ACCESS", "read-only"), f'{{ ls; git status; }} > "{tmp_path}/home/seen"'
    )
    seen = (tmp_path / "home/seen").read_text()
    assert (code, "a.txt" in seen, "far" in seen, "deleted" in seen) == (0, True, False, False)
    assert "nothing counts" not in notes(awf, clone)


def test_what_people_do_meanwhile_is_left_alone(awf: Awf, tmp_path: Path, git: Git) -> None:
    """An edit, a commit and a branch in the repository stay, and the reader sees the files as they were."""
    mine = f'cd "{tmp_path}"; echo mine > a.txt; git commit -qam mine; git branch mine; cd "$OLDPWD"; cat a.txt'
    start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), f'{{ {mine}; }} > "{tmp_path}/home/seen"')
    assert (tmp_path / "a.txt").read_text() == "mine\n"
    assert (git("log", "-1", "--format=%s"), bool(git("rev-parse", "mine"))) == ("mine\n", True)
    assert (tmp_path / "home/seen").read_text() == "one\n"


@pytest.mark.usefixtures("git")
def test_each_visit_sees_the_files_as_they_are_then(awf: Awf, tmp_path: Path) -> None:
    """In the same directory, without what was written there before."""
    seen = f'{{ pwd; cat a.txt; ls; }} >> "{tmp_path}/home/seen"; echo x > a.txt; echo x > left.txt'
    code, _ = start(awf, tmp_path, LOOP, seen)
    first, second = (tmp_path / "home/seen").read_text().strip().split(f"{tmp_path.resolve()}/.awf/checkouts/r\n")[1:]
    assert (code, first.split("\n")[0], second.split("\n")[0], "left.txt" in second) == (0, "one", "two", False)


@pytest.mark.usefixtures("git")
def test_readers_side_by_side_share_a_checkout(awf: Awf, tmp_path: Path) -> None:
    """They see the same files; who comes second does not undo what the first is doing."""
    meet = "touch $AWF_STAGE; while [ ! -e look ] || [ ! -e other ]; do sleep 0.02; done"
    script = f'cd "{tmp_path}/home"; {meet}; cd "$OLDPWD"; git status >/dev/null; pwd > "{tmp_path}/home/at-$AWF_STAGE"'
    code, last = start(awf, tmp_path, PARALLEL, script)
    assert (code, last["status"]) == (0, "success")
    assert len({(tmp_path / f"home/at-{name}").read_text() for name in ("look", "other")}) == 1


def test_it_is_kept_while_a_run_is_paused(awf: Awf, tmp_path: Path, git: Git) -> None:
    """A session can be continued in it."""
    start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), "exit 1")
    assert (tmp_path / ".awf/checkouts/r/a.txt").is_file()
    (tmp_path / "agent").write_text("#!/bin/sh\necho looked\n")
    assert awf("resume", "r", cwd=tmp_path).returncode == 0
    assert not (tmp_path / ".awf/checkouts/r").exists()
    assert "awf" not in git("worktree", "list", "--porcelain").replace(".awf", "")


@pytest.mark.usefixtures("git")
def test_it_is_removed_with_a_run_that_is_cancelled(awf: Awf, tmp_path: Path) -> None:
    """Nobody will continue a session in it."""
    start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), "exit 1")
    assert awf("cancel", "r", cwd=tmp_path).returncode == 0
    assert not [*(tmp_path / ".awf/checkouts").iterdir()]


def test_a_run_with_a_worktree_shows_its_files(awf: Awf, tmp_path: Path, git: Git) -> None:
    """Those of the worktree, which is not touched either."""
    code, _ = start(
        awf, tmp_path, IN_WORKTREE, f'cat b.txt > "{tmp_path}/home/seen"; echo x > a.txt; git commit -qam x'
    )
    assert (code, (tmp_path / "home/seen").read_text()) == (0, "one\n")
    (worktree,) = (tmp_path / ".awf/worktrees").glob("[!.]*/")
    assert (worktree / "a.txt").read_text() == "one\n"
    assert git("log", "--format=%s", "awf/r") == "first\n"


def test_an_agent_that_may_write_works_in_your_checkout(awf: Awf, tmp_path: Path, git: Git) -> None:
    """What it writes stays."""
    code, _ = start(awf, tmp_path, WORKFLOW.replace("ACCESS", "coding"), "echo x > a.txt; git tag mine")
    assert (code, (tmp_path / "a.txt").read_text(), git("tag")) == (0, "x\n", "mine\n")


def test_outside_of_git_it_works_where_the_run_does(awf: Awf, tmp_path: Path) -> None:
    """There is nothing to make a checkout of."""
    (tmp_path / "home").mkdir(exist_ok=True)
    code, _ = start(awf, tmp_path, WORKFLOW.replace("ACCESS", "read-only"), f'pwd > "{tmp_path}/home/seen"')
    assert (code, (tmp_path / "home/seen").read_text().strip()) == (0, str(tmp_path.resolve()))


def test_paths_in_its_answer_are_those_of_your_files(awf: Awf, tmp_path: Path, git: Git) -> None:
    """An absolute path in its checkout means the same file of the repository."""
    git("add", "-A")
    found = {"title": "It is one", "severity": "P1", "file": "PWD/a.txt", "line": 1, "why_it_matters": "PWD/a.txt",
             "evidence": ["PWD/a.txt:1 -- one"], "confidence": 100}  # fmt: skip
    (tmp_path / "home/answer").write_text(json.dumps({"findings": [found], "reviewed": ["a.txt"]}))
    flow = WORKFLOW.replace('access="ACCESS"', 'access="read-only" findings="review"').replace(
        'to="end"', 'to="end" on="always"'
    )
    start(awf, tmp_path, flow, f'sed "s|PWD|$PWD|g" "{tmp_path}/home/answer"; exit 0')
    (row,) = json.loads(awf("findings", "list", "--json", cwd=tmp_path).stdout)
    assert (row["file"], row["line"]) == ("a.txt", 1)
    assert "checkouts" not in awf("findings", "show", "1", cwd=tmp_path).stdout


def test_a_review_is_about_what_it_saw_while_you_work_on(awf: Awf, tmp_path: Path) -> None:
    """A file that is edited meanwhile makes `awf verdict` not ready; the commit that was looked at still ships."""
    project, agent = tmp_path / "mine", tmp_path / "agent"
    project.mkdir()
    said = json.dumps({"findings": [], "reviewed": ["a.py: read"]})
    agent.write_text(f"#!/bin/sh\ncat >/dev/null\necho 'three = 3' >> {project}/a.py\necho '{said}'\n")
    agent.chmod(0o755)

    def git(*words: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
        environment = {**os.environ, "HOME": str(tmp_path)}
        subprocess.run(["git", *identity, *words], cwd=project, check=True, env=environment)

    for branch in ("main", "topic"):
        git("checkout", "-q", "-b", branch) if branch == "topic" else git("init", "-q", "-b", branch)
        (project / "a.py").write_text(f"{branch} = 1\n")
        git("add", "-A")
        git("commit", "-q", "-m", branch)
    options = ("--backend", "command", "--agent-command", str(agent), "--no-report", "--json")
    done = awf("review", *options, cwd=project)
    assert json.loads(done.stdout)["verdict"] == "PASS", done.stdout
    assert awf("verdict", cwd=project).returncode == 1
    assert json.loads(awf("verdict", "--at", "HEAD", "--json", cwd=project).stdout)["ship"]

"""Worktrees shared through a git remote: the next worker continues from exactly the commit that the last one made."""

import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.lab import FAST_RETRIES, Lab, wait_until

from pipeline.engine.context import Key
from pipeline.engine.state import RunStatus, State

BODY = """
stage "ws" kind="workspace.create"
stage "build" kind="tool" command="pwd > where; echo built > built.txt"
stage "checks" kind="parallel" { branch "lint"; branch "test"; }
stage "lint" kind="tool" command="test -f built.txt; echo linted > linted.txt"
stage "test" kind="tool" command="cat built.txt; echo tested > tested.txt"
stage "gate" kind="human" prompt="Good?" {
  option "yes" label="Yes" to="last" approves=true; option "no" label="No" to="build"; }
stage "last" kind="tool" command="git rev-parse HEAD; git status --porcelain; pwd; cat linted.txt tested.txt"
stage "merge" kind="workspace.merge"
stage "after" kind="tool" command="cat built.txt"
stage "cleanup" kind="workspace.cleanup"
stage "end" kind="exit"
transition from="ws" to="build"
transition from="build" to="checks"
transition from="checks" to="gate"
transition from="last" to="merge"
transition from="merge" to="after"
transition from="after" to="cleanup"
transition from="cleanup" to="end"
"""
WORKFLOW = f'workflow "W" {{\nversion 2\nstart "ws"\n{BODY}\n}}\n'


@pytest.fixture
def project(lab: Lab, tmp_path: Path) -> Path:
    """A clone of a shared repository."""
    lab.environ |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    folder = tmp_path / "project"
    lab.git("init", "-q", "--bare", "-b", "main", str(tmp_path / "shared.git"), cwd=tmp_path)
    lab.git("init", "-q", "-b", "main", str(folder), cwd=tmp_path)
    (folder / "readme").write_text("hello\n")
    lab.git("add", "-A", cwd=folder)
    lab.git("commit", "-qm", "start", cwd=folder)
    lab.git("remote", "add", "origin", str(tmp_path / "shared.git"), cwd=folder)
    lab.git("push", "-q", "origin", "main", cwd=folder)
    return folder


def start(lab: Lab, project: Path, source: str = WORKFLOW) -> None:
    remote = FAST_RETRIES.with_option("remote", "test", "origin")
    lab.store.start(lab.creation("r", source, cwd=project), replace(lab.runtime, settings=remote))


def output(lab: Lab, stage: str) -> str:
    """What a tool printed at its last visit."""
    return lab.completed(stage)[-1].outcome.response


def waits_at_visit(visit: int, state: State) -> bool:
    return state.status is RunStatus.WAITING and state.cursor.visit == visit


def test_another_worker_continues_from_the_same_commit(lab: Lab, project: Path, tmp_path: Path) -> None:
    """Every commit is pushed, so after its worker is gone, another has the files, and the merge reaches the remote."""
    start(lab, project)
    assert lab.stopped().status is RunStatus.WAITING
    commit, remote = lab.state("r").context.get(Key.WORKSPACE_COMMIT), tmp_path / "shared.git"
    assert lab.git("rev-parse", f"awf/{lab.id('r')}", cwd=remote) == commit
    lab.stop_worker("w1")
    lab.worker("w2")
    lab.answer("r", "yes")
    assert lab.ended().status is RunStatus.SUCCESS
    head, where, *files = output(lab, "last").split("\n")[:4]
    assert (head, files) == (commit, ["linted", "tested"])
    assert where.startswith(str(tmp_path / "w2"))
    assert output(lab, "after").strip() == "built"
    assert lab.git("show", "main:tested.txt", cwd=remote) == "tested"
    assert f"awf/{lab.id('r')}" not in lab.git("branch", cwd=remote)


def test_stages_stay_with_the_worker_that_has_the_files(lab: Lab, project: Path) -> None:
    """While that worker is available, no other gets a stage of the run."""
    for name in ("w2", "w3"):
        lab.worker(name)
    start(lab, project)
    lab.stopped()
    for visit in range(2, 6):
        lab.answer("r", "no")
        waits = partial(waits_at_visit, visit)
        lab.until("r", waits)
    commits = lab.git("log", "--format=%H", f"awf/{lab.id('r')}", cwd=project.parent / "shared.git").split()
    places = {lab.git("show", f"{commit}:where", cwd=project.parent / "shared.git") for commit in commits[:-1]}
    assert len(places) == 1
    lab.answer("r", "yes")
    assert lab.ended().status is RunStatus.SUCCESS


def test_unfinished_changes_of_a_killed_worker_are_dropped(lab: Lab, project: Path, tmp_path: Path) -> None:
    """The next worker starts from the last checkpoint, whatever the killed stage had written."""
    lab.stop_worker("w1")
    mark = tmp_path / "begun"
    usual = "pwd > where; echo built > built.txt"
    torn = f"test ! -e half || exit 9; {usual}; touch half; test -e {mark} || (touch {mark}; sleep 1000)"
    with lab.worker_process("one") as worker:
        start(lab, project, WORKFLOW.replace(usual, torn))
        wait_until(mark.exists)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    lab.worker("w2")
    assert lab.stopped("r", 90).status is RunStatus.WAITING
    build = lab.completed("build")[0]
    assert (build.attempt, build.outcome.reason) == (2, "")
    with lab.worker_process("one"):
        wait_until(lambda: not lab.processes())


def test_a_missing_commit_pauses_the_run(lab: Lab, project: Path, tmp_path: Path) -> None:
    """A worker that cannot fetch the files pauses the run, and names the remote."""
    start(lab, project)
    lab.stopped()
    lab.stop_worker("w1")
    remote = tmp_path / "shared.git"
    for ref in lab.git("for-each-ref", "--format=%(refname)", "refs/awf", "refs/heads/awf", cwd=remote).split():
        lab.git("update-ref", "-d", ref, cwd=remote)
    lab.git("gc", "-q", "--prune=now", cwd=remote)
    lab.worker("w2")
    lab.answer("r", "yes")
    state = lab.until("r", lambda state: state.status is RunStatus.PAUSED)
    assert str(remote) in state.reason

"""Workspaces travel: whichever worker has the next stage stands on exactly the commit that the last one left."""

import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.cluster.lab import Lab

from pipeline.backends.process_tree import list_processes, read_marker
from pipeline.cluster.remote_worktrees import push_start
from pipeline.engine.context import Key
from pipeline.engine.records import VisitCompleted
from pipeline.engine.state import RunStatus, State
from pipeline.redaction import PATTERNS_ONLY

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


def begin(lab: Lab, project: Path, source: str = WORKFLOW) -> None:
    record = lab.created("r", source, cwd=project)
    remote = lab.loop.call(push_start(project, lab.environ, "origin", record.run_id))
    options = {**record.options, "remote": remote.model_dump()}
    lab.loop.call(lab.cluster.start(record.model_copy(update={"options": options}), PATTERNS_ONLY))


def said(lab: Lab, stage: str) -> str:
    """What a tool printed at its last visit."""
    done = [one for one in lab.records("r") if isinstance(one, VisitCompleted) and one.stage == stage]
    return done[-1].outcome.response


def waiting_at(visit: int, state: State) -> bool:
    return state.status is RunStatus.WAITING and state.cursor.visit == visit


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def test_another_worker_goes_on_from_the_same_commit(lab: Lab, project: Path, tmp_path: Path) -> None:
    """The worker that did the first half is gone; the second half sees its files, and the merge reaches the remote."""
    begin(lab, project)
    assert lab.stopped("r").status is RunStatus.WAITING
    commit = lab.state("r").context.get(Key.WORKSPACE_COMMIT)
    lab.leave("w1")
    lab.worker("w2")
    lab.answer("r", "yes")
    assert lab.over("r").status is RunStatus.SUCCESS
    head, where, *files = said(lab, "last").split("\n")[:4]
    assert (head, files) == (commit, ["linted", "tested"])
    assert where.startswith(str(tmp_path / "w2"))
    assert said(lab, "after").strip() == "built"
    remote = tmp_path / "shared.git"
    assert lab.git("show", "main:tested.txt", cwd=remote) == "tested"
    assert f"awf/{lab.id('r')}" not in lab.git("branch", cwd=remote)


def test_the_branch_is_at_the_remote_with_every_stage(lab: Lab, project: Path, tmp_path: Path) -> None:
    """Anybody may look at what a run has done so far: its branch is where its last record says."""
    begin(lab, project)
    lab.stopped("r")
    branch = lab.git("rev-parse", f"awf/{lab.id('r')}", cwd=tmp_path / "shared.git")
    assert branch == lab.state("r").context.get(Key.WORKSPACE_COMMIT)
    lab.answer("r", "yes")
    lab.over("r")


def test_stages_stay_with_the_worker_that_has_the_files(lab: Lab, project: Path) -> None:
    """Of several workers one does them all while it lives, though any could."""
    for name in ("w2", "w3"):
        lab.worker(name)
    begin(lab, project)
    lab.stopped("r")
    for visit in range(2, 6):
        lab.answer("r", "no")
        waits = partial(waiting_at, visit)
        lab.until("r", waits)
    commits = lab.git("log", "--format=%H", f"awf/{lab.id('r')}", cwd=project.parent / "shared.git").split()
    places = {lab.git("show", f"{commit}:where", cwd=project.parent / "shared.git") for commit in commits[:-1]}
    assert len(places) == 1
    lab.answer("r", "yes")
    assert lab.over("r").status is RunStatus.SUCCESS


def test_what_a_dead_worker_left_half_done_is_not_seen(lab: Lab, project: Path, tmp_path: Path) -> None:
    """The next worker stands on the last checkpoint, whatever the killed stage had written."""
    lab.leave("w1")
    mark = tmp_path / "begun"
    usual = "pwd > where; echo built > built.txt"
    torn = f"test ! -e half || exit 9; {usual}; touch half; test -e {mark} || (touch {mark}; sleep 1000)"
    with lab.process("one") as worker:
        begin(lab, project, WORKFLOW.replace(usual, torn))
        until(mark.exists)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    lab.worker("w2")
    assert lab.stopped("r", 90).status is RunStatus.WAITING
    build = next(one for one in lab.records("r") if isinstance(one, VisitCompleted) and one.stage == "build")
    assert (build.attempt, build.outcome.reason) == (2, "")
    with lab.process("one"):
        until(lambda: not _left(lab.id("r")))


def _left(run_id: str) -> bool:
    """Whether what the dead worker started is still there; a worker that comes back to its directory ends it."""
    return any((read_marker(process.pid) or "").startswith(f"{run_id}@") for process in list_processes())


def test_a_commit_that_is_gone_is_told(lab: Lab, project: Path, tmp_path: Path) -> None:
    """A worker that cannot have the files pauses the run, and says which commit it is and from where."""
    begin(lab, project)
    lab.stopped("r")
    lab.leave("w1")
    remote = tmp_path / "shared.git"
    for ref in lab.git("for-each-ref", "--format=%(refname)", "refs/awf", "refs/heads/awf", cwd=remote).split():
        lab.git("update-ref", "-d", ref, cwd=remote)
    lab.git("gc", "-q", "--prune=now", cwd=remote)
    lab.worker("w2")
    lab.answer("r", "yes")
    state = lab.until("r", lambda state: state.status is RunStatus.PAUSED)
    assert str(remote) in state.reason

"""Workspace stages with real git: create, merge and remove a run's worktree."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.handlers.jobs import job_of

from pipeline.backends.worktree import GitWorktrees
from pipeline.engine.context import Set
from pipeline.engine.outcome import FailureClass, Outcome, Status
from pipeline.engine.ports import Job
from pipeline.handlers.workspace import WorkspaceHandler
from pipeline.language.model import StageKind, WorkspaceStage

CREATE, MERGE, CLEANUP = StageKind.WORKSPACE_CREATE, StageKind.WORKSPACE_MERGE, StageKind.WORKSPACE_CLEANUP


class Project:
    """A repository with one commit, and a run that works on it."""

    def __init__(self, folder: Path) -> None:
        self.repository, self.environment = folder / "repository", {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.repository.mkdir()
        self.git("init", "--quiet")
        self.write(self.repository, "first")
        self.job: Job = job_of(stage(CREATE), self.repository, goal="Shorten it\nand more")

    def git(self, *arguments: str, at: Path | None = None) -> str:
        person = ("-c", "user.name=Pat", "-c", "user.email=pat@example.org")
        command = ["git", "-C", str(at or self.repository), *person, *arguments]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, checkout: Path, text: str) -> None:
        (checkout / "a.txt").write_text(text)
        self.git("add", "--all", at=checkout)
        self.git("commit", "-qm", text, at=checkout)

    def visit(self, kind: StageKind, **more: Any) -> Outcome:
        """Run a stage, and keep its updates for the next."""
        job = self.job._replace(stage=stage(kind, **more))
        trees = GitWorktrees(self.repository.parent / "trees", self.environment)
        outcome = asyncio.run(WorkspaceHandler(trees).run(job))
        context = job.state.context.apply([Set(key, value) for key, value in outcome.updates.items()])
        self.job = job._replace(state=job.state._replace(context=context))
        return outcome


def stage(kind: StageKind, **more: Any) -> WorkspaceStage:
    return WorkspaceStage.model_validate({"id": "w", "kind": kind, **more})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project without a workspace."""
    return Project(tmp_path)


def test_a_workspace_is_created_once(project: Project) -> None:
    """Its path, branch and commit are in the context; a second create stage keeps it."""
    made = project.visit(CREATE, workspace_name="fix")
    assert made.status is Status.SUCCESS
    assert project.job.workspace is not None
    assert (project.job.workspace.branch, project.job.workspace.commit) == (
        "awf/r-fix",
        project.git("rev-parse", "HEAD"),
    )
    again = project.visit(CREATE)
    assert str(project.job.workspace.path) in again.response
    assert again.updates == {}


def test_a_merge_is_named_after_the_goal(project: Project) -> None:
    """Its commit is in the context, and a cleanup leaves no workspace."""
    project.visit(CREATE)
    assert project.job.workspace is not None
    path = project.job.workspace.path
    project.write(path, "second")
    merged = project.visit(MERGE)
    assert merged.updates == {"workspace.merged": merged.response}
    assert (project.repository / "a.txt").read_text() == "second"
    assert project.git("log", "-1", "--format=%s") in ("Merge awf/r: Shorten it", "second")
    assert project.visit(CLEANUP).status is Status.SUCCESS
    assert project.job.workspace is None
    assert not path.exists()


def test_conflicting_files_are_named(project: Project) -> None:
    """The stage fails with a conflict, which a retry would not solve, and the checkout is untouched."""
    project.visit(CREATE)
    assert project.job.workspace is not None
    project.write(project.job.workspace.path, "theirs")
    project.write(project.repository, "ours")
    outcome = project.visit(MERGE)
    assert (outcome.status, outcome.reason, outcome.response) == (Status.FAIL, "1 conflicting file: a.txt", "a.txt")
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.CONFLICT
    assert (project.repository / "a.txt").read_text() == "ours"


def test_without_a_workspace_a_merge_is_an_error_and_a_cleanup_is_not(project: Project) -> None:
    """A merge needs a create stage before it; nothing is left to clean up."""
    outcome = project.visit(MERGE)
    assert outcome.status is Status.ERROR
    assert outcome.reason == "the run has no workspace; put a workspace.create stage before this one"
    assert project.visit(CLEANUP) == Outcome(status=Status.SUCCESS, response="the run has no workspace")


def test_a_refusal_of_git_is_an_error(project: Project) -> None:
    """The stage could not do its job; the reason is git's message."""
    outcome = project.visit(CREATE, workspace_name="no/such name")
    assert outcome.status is Status.ERROR
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.digest) == (FailureClass.SPAWN_ERROR, outcome.reason)

"""Workspace stages: the run's git worktree is made, merged and removed."""

from typing import Any

from pipeline.engine.context import Key
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.ports import Job, WorkspaceError, Workspaces
from pipeline.engine.state import Workspace
from pipeline.language.model import StageKind, WorkspaceStage


class WorkspaceHandler:
    """Makes, merges and removes worktrees. A conflict is a failure; whatever else git refuses is an error."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, WorkspaceStage)  # noqa: S101 - the registry sees to it
        try:
            match stage.kind:
                case StageKind.WORKSPACE_CREATE:
                    return await self._create(job, stage)
                case StageKind.WORKSPACE_MERGE:
                    return await self._merge(job)
                case _:
                    return await self._cleanup(job)
        except WorkspaceError as error:
            words = f"{error.message}; {error.help}" if error.help else error.message
            return Outcome(
                status=Status.ERROR, reason=words, failure=Failure(kind=FailureClass.SPAWN_ERROR, digest=words)
            )

    async def _create(self, job: Job, stage: WorkspaceStage) -> Outcome:
        if job.workspace is not None:
            return Outcome(status=Status.SUCCESS, response=f"the workspace {job.workspace.path} is there already")
        name = f"{job.run_id}-{stage.workspace_name}" if stage.workspace_name else job.run_id
        made = await self._workspaces.create(job.state.cwd, name)
        return Outcome(status=Status.SUCCESS, response=f"{made.path} on {made.branch}", updates=_known(made))

    async def _merge(self, job: Job) -> Outcome:
        workspace = _required(job)
        subject = f"Merge {workspace.branch}: {job.state.goal.partition(chr(10))[0] or job.state.workflow.name}"
        merge = await self._workspaces.merge(job.state.cwd, workspace, subject[:120])
        if merge.commit is None:
            words = f"{len(merge.conflicts)} files conflict: {', '.join(merge.conflicts[:20])}"
            failure = Failure(kind=FailureClass.CONFLICT, digest=words)
            return Outcome(status=Status.FAIL, reason=words, response="\n".join(merge.conflicts), failure=failure)
        return Outcome(status=Status.SUCCESS, response=merge.commit, updates={"workspace.merged": merge.commit})

    async def _cleanup(self, job: Job) -> Outcome:
        if job.workspace is None:
            return Outcome(status=Status.SUCCESS, response="there is no workspace")
        await self._workspaces.cleanup(job.state.cwd, job.workspace)
        return Outcome(status=Status.SUCCESS, updates={Key.WORKSPACE_PATH: None})


def _required(job: Job) -> Workspace:
    if job.workspace is None:
        raise WorkspaceError("the run has no workspace", help="put a workspace.create stage before this one")
    return job.workspace


def _known(workspace: Workspace) -> dict[str, Any]:
    return {
        Key.WORKSPACE_PATH: str(workspace.path),
        Key.WORKSPACE_BRANCH: workspace.branch,
        Key.WORKSPACE_BASE: workspace.base,
        Key.WORKSPACE_COMMIT: workspace.commit,
    }

"""Workspace stages: create, merge and remove the run's git worktree."""

from collections.abc import Callable

from pipeline.engine.context import Key
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.ports import Job, WorkspaceError, Workspaces
from pipeline.engine.state import State
from pipeline.language.model import StageKind, WorkspaceStage
from pipeline.text import plural


class WorkspaceHandler:
    """Creates, merges and removes worktrees. A conflict is a failure; anything else git refuses is an error.

    Nothing is merged while `objection` says what is against the change, and no person approved it.
    """

    def __init__(self, workspaces: Workspaces, objection: Callable[[State], str] = lambda _state: "") -> None:
        self._workspaces = workspaces
        self._objection = objection

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, WorkspaceStage)  # noqa: S101 - ensured by the registry
        try:
            match stage.kind:
                case StageKind.WORKSPACE_CREATE:
                    return await self._create(job, stage)
                case StageKind.WORKSPACE_MERGE:
                    return await self._merge(job)
                case _:
                    return await self._cleanup(job)
        except WorkspaceError as error:
            reason = f"{error.message}; {error.help}" if error.help else error.message
            failure = Failure(kind=FailureClass.SPAWN_ERROR, digest=reason)
            return Outcome(status=Status.ERROR, reason=reason, failure=failure)

    async def _create(self, job: Job, stage: WorkspaceStage) -> Outcome:
        if job.workspace is not None:
            return Outcome(status=Status.SUCCESS, response=f"the workspace {job.workspace.path} exists already")
        name = f"{job.run_id}-{stage.workspace_name}" if stage.workspace_name else job.run_id
        created = await self._workspaces.create(job.state.cwd, name)
        updates = {
            Key.WORKSPACE_PATH: str(created.path),
            Key.WORKSPACE_BRANCH: created.branch,
            Key.WORKSPACE_BASE: created.base,
            Key.WORKSPACE_COMMIT: created.commit,
        }
        return Outcome(status=Status.SUCCESS, response=f"{created.path} on {created.branch}", updates=updates)

    async def _merge(self, job: Job) -> Outcome:
        workspace = job.workspace
        if workspace is None:
            raise WorkspaceError("the run has no workspace", help="put a workspace.create stage before this one")
        if objection := self._objection(job.state):
            raise WorkspaceError(f"nothing was merged: {objection}", help="see: awf verdict; then awf resume")
        subject = f"Merge {workspace.branch}: {job.state.goal.partition(chr(10))[0] or job.state.workflow.name}"
        merged = await self._workspaces.merge(job.state.cwd, workspace, subject[:120])
        if merged.commit is None:
            reason = f"{plural(len(merged.conflicts), 'conflicting file')}: {', '.join(merged.conflicts[:20])}"
            failure = Failure(kind=FailureClass.CONFLICT, digest=reason)
            return Outcome(status=Status.FAIL, reason=reason, response="\n".join(merged.conflicts), failure=failure)
        return Outcome(status=Status.SUCCESS, response=merged.commit, updates={"workspace.merged": merged.commit})

    async def _cleanup(self, job: Job) -> Outcome:
        if job.workspace is None:
            return Outcome(status=Status.SUCCESS, response="the run has no workspace")
        await self._workspaces.cleanup(job.state.cwd, job.workspace)
        return Outcome(status=Status.SUCCESS, updates={Key.WORKSPACE_PATH: None})

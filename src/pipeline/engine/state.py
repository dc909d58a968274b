"""Where a run stands: a value that never changes, made only by folding records.

These are named tuples: one is made anew with every record, and a frozen dataclass of so many fields would cost more
than all else that a fold does.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.engine.context import EMPTY, Context, Key, Recorded
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ways import Ways
from pipeline.engine.workspace import Workspace
from pipeline.language.model import Settings, Stage, Workflow

_NONE: Mapping[str, Any] = MappingProxyType({})
_WORKSPACE = (Key.WORKSPACE_PATH, Key.WORKSPACE_BRANCH, Key.WORKSPACE_BASE, Key.WORKSPACE_COMMIT)


class RunStatus(StrEnum):
    """How a run is doing."""

    RUNNING = "running"  # or interrupted: nobody may be at it
    WAITING = "waiting"  # for a person
    PAUSED = "paused"  # by an error or a limit
    CANCELLED = "cancelled"
    SUCCESS = "success"
    FAIL = "fail"

    @property
    def final(self) -> bool:
        """Whether the run has ended. A failed one can still be resumed."""
        return self in (RunStatus.SUCCESS, RunStatus.FAIL)


class Cursor(NamedTuple):
    """Which stage is next, and which visit of it."""

    stage: str
    visit: int


class Past(NamedTuple):
    """A completed visit, as an agent is told of it."""

    stage: str
    visit: int
    status: str
    reason: str


class StageError(NamedTuple):
    """Why a stage could not do its job."""

    reason: str
    until: float | None  # when a used-up quota resets
    ends_run: bool


class BranchDone(NamedTuple):
    """A branch that is done, with what plugins keep of it until the branches are joined."""

    outcome: Outcome
    operations: tuple[Recorded, ...] = ()


class Progress(NamedTuple):
    """How far the visit at the cursor has come."""

    failed: Mapping[str, int] = _NONE  # attempts that failed and were retried, by stage
    torn: Mapping[str, int] = _NONE  # attempts that were interrupted, by stage
    begun: frozenset[str] = frozenset()  # stages that act outside the workspace, begun and not ended
    branches: Mapping[str, BranchDone] = _NONE  # of a parallel stage, those that are done
    errors: Mapping[str, StageError] = _NONE  # stages that could not do their job, until the run is resumed
    retry_at: Mapping[str, float] = _NONE  # when the next attempt is due, by stage
    asked_at: float | None = None  # when a person was first asked and was not there
    commit: str = ""  # the workspace as the last finished branch left it

    def attempt(self, stage: str) -> int:
        """The number of the next attempt at a stage."""
        return self.failed.get(stage, 0) + self.torn.get(stage, 0) + 1


class State(NamedTuple):
    """A run between two records."""

    run_id: str
    workflow: Workflow
    ways: Ways
    prompts: Mapping[str, str]
    goal: str
    options: Mapping[str, Any]
    cwd: Path
    cursor: Cursor
    settings: Settings
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    until: float | None = None  # of a paused run, when waiting is enough
    context: Context = EMPTY
    outcomes: Mapping[str, Status] = _NONE  # of each stage's last visit
    visits: Mapping[str, int] = _NONE  # completed
    recent: tuple[Past, ...] = ()  # the last visits, oldest first
    stages_run: int = 0
    seconds: float = 0.0  # spent running, not waiting
    cost_usd: float = 0.0
    tokens: int = 0
    owed: frozenset[str] = frozenset()  # human gates that must be passed again
    repeat: bool = False  # whether the torn attempt may be repeated
    progress: Progress = Progress()

    @property
    def stage(self) -> Stage:
        """The stage at the cursor."""
        return self.workflow.by_id[self.cursor.stage]

    @property
    def workspace(self) -> Workspace | None:
        """The run's own worktree, with the last commit on record."""
        if not self.context.held.get(Key.WORKSPACE_PATH):
            return None
        path, branch, base, commit = (self.context.get(key) for key in _WORKSPACE)
        return Workspace(Path(path), branch, base, self.progress.commit or commit)

"""The port behind which a run's own checkout lives: a git worktree whose commits are the checkpoints of its files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline.errors import AwfError, ExitCode


class WorkspaceError(AwfError):
    """A workspace could not be made, saved, merged or removed."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class Workspace:
    """A worktree and its branch. `commit` is the last checkpoint of its files."""

    path: Path
    branch: str
    base: str  # the commit it started from
    commit: str


@dataclass(frozen=True, slots=True)
class Merge:
    """What came of bringing a branch back: a commit, or the files that conflict."""

    commit: str | None
    conflicts: tuple[str, ...] = ()


class Workspaces(Protocol):
    """Makes and keeps worktrees. Every method raises WorkspaceError with what to do about it."""

    async def create(self, repository: Path, name: str) -> Workspace:
        """Make the worktree and branch `awf/<name>`, or take up the one that is there from an interrupted attempt."""

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        """Commit whatever changed; the same workspace when nothing did."""

    async def restore(self, workspace: Workspace, keep_as: str) -> str | None:
        """Put the files back to `workspace.commit`; what was torn is kept under a ref, which is returned."""

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> Merge:
        """Merge the branch into the branch checked out in `repository`; on conflict leave that checkout untouched."""

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        """Remove worktree and branch; without `force` only when the branch is merged."""

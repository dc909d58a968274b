"""The port behind which stage kinds run: a job in, an outcome out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pipeline.engine.context import Context
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.state import State
from pipeline.engine.workspace import Workspace
from pipeline.language.model import BaseStage

RUNS = "runs"  # the directory in the store that has a directory for each run


class Job(NamedTuple):
    """One attempt at one visit of one stage, and all it may look at."""

    stage: BaseStage
    visit: int
    attempt: int
    state: State
    store: Path  # logs are named relative to it
    tell: Callable[[dict[str, Any]], None]  # progress, for whoever watches
    keep: Callable[[str], None]  # a text to be recorded with the attempt: what its agent was given
    elapsed: Callable[[], float] = lambda: 0.0  # seconds since the attempt began

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.state.run_id

    @property
    def context(self) -> Context:
        """The context as the stage sees it."""
        return self.state.context

    @property
    def artifacts(self) -> Path:
        """A directory of this attempt's own, made by whoever writes there."""
        return attempt_directory(self.store, self.run_id, self.stage.id, self.visit, self.attempt)

    @property
    def workspace(self) -> Workspace | None:
        """The run's own worktree, when it has one."""
        return self.state.workspace

    @property
    def directory(self) -> Path:
        """Where the stage works: the worktree, or the directory the run was started in."""
        workspace = self.workspace
        return workspace.path if workspace else self.state.cwd

    @property
    def variables(self) -> dict[str, str]:
        """What the programs of a stage are told about where they are."""
        return {"AWF_RUN_ID": self.run_id, "AWF_STAGE": self.stage.id, "AWF_VISIT": str(self.visit)}

    def named(self, path: Path) -> str:
        """A path as records name it: relative to the store."""
        return str(path.relative_to(self.store)) if path.is_relative_to(self.store) else str(path)


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an answer or a report says in a form that code can read. With a `problem` it says nothing."""

    status: Status = Status.FAIL
    reason: str = ""
    problem: str = ""


ReadAnswer = Callable[[Job, Sequence[str]], Assessment | None]  # None: they hold nothing that code can read
ReadReport = Callable[[Job, Path], Assessment]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A person is needed and is not there."""


def attempt_directory(store: Path, run_id: str, stage: str, visit: int, attempt: int) -> Path:
    """Where the files of an attempt are: the first in its visit's directory, a later one in one of its own below it."""
    visited = _stage_directory(store, run_id, stage) / str(visit)
    return visited if attempt == 1 else visited / f"attempt-{attempt}"


@lru_cache(maxsize=64)
def _stage_directory(store: Path, run_id: str, stage: str) -> Path:
    return store / RUNS / run_id / stage


class Handler(Protocol):
    """Runs the stages of one kind. Cancelling the task that awaits `run` must stop all it started."""

    async def run(self, job: Job) -> Outcome | Waiting: ...

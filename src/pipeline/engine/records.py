"""The journal's records: what happened in a run, one record each, in order. The run's state is a fold over them.

Whatever a clock, a random number or the outside world decided is part of a record, so the fold always gives the same
state. Field names and `kind` strings are stored data and never change.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from pipeline.engine.context import RecordedOperation
from pipeline.engine.outcome import FrozenModel, Outcome, Status
from pipeline.engine.routing import Selection


class Record(FrozenModel):
    """One entry of the journal. `at` is when it was written, in seconds since 1970."""

    model_config = ConfigDict(extra="forbid")

    at: float


class RunCreated(Record):
    """A run starts. Holds all that is needed to resume it, whatever happens to the files."""

    kind: Literal["run_created"] = "run_created"
    run_id: str
    file: str  # the name of the workflow file, for messages
    source: str
    prompts: dict[str, str] = Field(default_factory=dict)  # the texts of the prompt files, by path
    goal: str = ""
    options: dict[str, Any] = Field(default_factory=dict)  # how it was started: backend, script, answers, inputs
    cwd: str
    head: str = ""  # the commit checked out there, if any
    version: str  # of awf


class VisitStarted(Record):
    """A stage that acts outside the workspace is about to run. Unless its end is recorded it must not be repeated.

    Any other stage needs no such record: the previous one names it as the next.
    """

    kind: Literal["visit_started"] = "visit_started"
    stage: str
    visit: int
    attempt: int


class AttemptFailed(Record):
    """An attempt failed, and another follows after a delay."""

    kind: Literal["attempt_failed"] = "attempt_failed"
    stage: str
    visit: int
    attempt: int
    outcome: Outcome
    delay: float


class StageErrored(Record):
    """A stage could not do its job and has no retries left. Nothing downstream is decided."""

    kind: Literal["stage_errored"] = "stage_errored"
    stage: str
    visit: int
    attempt: int
    outcome: Outcome
    until: float | None = None  # when a used-up quota resets
    ends_run: bool = False  # the run fails instead of pausing


class BranchCompleted(Record):
    """One branch of a parallel stage is done. Its outcome may be amended when the branches are joined."""

    kind: Literal["branch_completed"] = "branch_completed"
    stage: str  # the parallel stage
    visit: int
    branch: str
    branch_visit: int
    outcome: Outcome
    commit: str = ""  # the workspace after this branch


class BranchResult(FrozenModel):
    """The final outcome of one branch of a parallel stage."""

    stage: str
    visit: int
    outcome: Outcome


class VisitCompleted(Record):
    """A stage is done: outcome, operations, workspace and transition in one commit. The checkpoint."""

    kind: Literal["visit_completed"] = "visit_completed"
    stage: str
    visit: int
    attempt: int
    outcome: Outcome
    operations: tuple[RecordedOperation, ...]
    chosen: Selection
    ends: Status | None = None  # success or fail, if the run ends with this visit
    branches: tuple[BranchResult, ...] = ()
    option: str = ""  # of a human stage


class RunWaiting(Record):
    """A stage needs a person, and nobody is available."""

    kind: Literal["run_waiting"] = "run_waiting"
    stage: str
    visit: int
    reason: str = ""  # why only a person will do


class RunPaused(Record):
    """The run stops before its next visit: at an error, at a limit, or because a person has to look first."""

    kind: Literal["run_paused"] = "run_paused"
    limit: str
    stage: str
    count: float
    allowed: float
    reason: str
    until: float | None = None  # when the run can continue without anybody's help


class RunFailed(Record):
    """The run ends because a stage errored and nobody is to be waited for."""

    kind: Literal["run_failed"] = "run_failed"
    stage: str
    reason: str


class RunCancelled(Record):
    """The run was stopped. The interrupted stage runs again when the run is resumed."""

    kind: Literal["run_cancelled"] = "run_cancelled"
    stage: str
    visit: int
    reason: str = ""


class RunResumed(Record):
    """A process resumes the run."""

    kind: Literal["run_resumed"] = "run_resumed"
    raised: dict[str, float] = Field(default_factory=dict)  # the new values of limits
    options: dict[str, Any] = Field(default_factory=dict)  # the start options that changed
    repeat: bool = False  # whether an interrupted stage with external effects may run again
    torn: str = ""  # the git ref that keeps what an interrupted stage left


class WorkflowAdopted(Record):
    """The run continues with a changed workflow."""

    kind: Literal["workflow_adopted"] = "workflow_adopted"
    file: str
    source: str
    prompts: dict[str, str] = Field(default_factory=dict)


AnyRecord = Annotated[
    RunCreated
    | VisitStarted
    | AttemptFailed
    | StageErrored
    | BranchCompleted
    | VisitCompleted
    | RunWaiting
    | RunPaused
    | RunFailed
    | RunCancelled
    | RunResumed
    | WorkflowAdopted,
    Field(discriminator="kind"),
]

"""What happened in a run, one record each, in order. State is a fold over them; nothing else is kept.

Whatever a clock, a random number or the world said stands in a record, so that the fold always gives the same state.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from pipeline.engine.context import Recorded
from pipeline.engine.outcome import FrozenModel, Outcome, Status
from pipeline.engine.routing import Selection


class Record(FrozenModel):
    """One entry of the journal. `at` is the time it was written, in seconds since 1970."""

    model_config = ConfigDict(extra="forbid")

    at: float


class RunCreated(Record):
    """A run begins: everything it needs to be taken up again, whatever becomes of the files."""

    kind: Literal["run_created"] = "run_created"
    run_id: str
    file: str  # what the workflow's file is called in messages
    source: str
    prompts: dict[str, str] = Field(default_factory=dict)  # the prompt files' texts, by their paths
    goal: str = ""
    options: dict[str, Any] = Field(default_factory=dict)  # how it was started: backend, script, answers
    cwd: str
    head: str = ""  # the commit that was checked out there, if any
    version: str  # of the program


class VisitStarted(Record):
    """A stage that acts outside the workspace is about to run: without a record of its end it must not be repeated.

    Any other stage is known to be running from the record before it, which names it as the next.
    """

    kind: Literal["visit_started"] = "visit_started"
    stage: str
    visit: int
    attempt: int


class AttemptFailed(Record):
    """A try failed and another follows after a wait."""

    kind: Literal["attempt_failed"] = "attempt_failed"
    stage: str
    visit: int
    attempt: int
    outcome: Outcome
    delay: float


class StageErrored(Record):
    """A stage could not do its job, and no retry is left: nothing that follows from its result is decided."""

    kind: Literal["stage_errored"] = "stage_errored"
    stage: str
    visit: int
    attempt: int
    outcome: Outcome
    until: float | None = None  # when a used-up quota resets
    ends_run: bool = False  # the run fails instead of pausing


class BranchCompleted(Record):
    """One branch of a parallel stage is done; it will not run again in this visit."""

    kind: Literal["branch_completed"] = "branch_completed"
    stage: str  # the parallel stage
    visit: int
    branch: str
    branch_visit: int
    outcome: Outcome
    commit: str = ""  # the workspace as this branch left it
    operations: tuple[Recorded, ...] = ()  # what plugins keep until the branches are joined


class BranchResult(FrozenModel):
    """What a branch of a parallel stage came to."""

    stage: str
    visit: int
    outcome: Outcome


class VisitCompleted(Record):
    """A stage is done: outcome, operations, workspace and the way on, committed together. The checkpoint."""

    kind: Literal["visit_completed"] = "visit_completed"
    stage: str
    visit: int
    attempt: int
    outcome: Outcome
    operations: tuple[Recorded, ...]
    chosen: Selection
    ends: Status | None = None  # success or fail, when the run ends with this visit
    branches: tuple[BranchResult, ...] = ()
    option: str = ""  # of a human stage


class RunWaiting(Record):
    """A person is asked and is not there; nothing is held open."""

    kind: Literal["run_waiting"] = "run_waiting"
    stage: str
    visit: int


class RunPaused(Record):
    """The run stops before its next visit: at an error, at a limit, or because a person has to look first."""

    kind: Literal["run_paused"] = "run_paused"
    limit: str
    stage: str
    count: float
    allowed: float
    reason: str
    until: float | None = None  # when waiting is enough: the time to continue at


class RunFailed(Record):
    """The run ends because a stage errored and was told not to wait for anybody."""

    kind: Literal["run_failed"] = "run_failed"
    stage: str
    reason: str


class RunCancelled(Record):
    """Somebody stopped the run; the interrupted stage runs again when it is resumed."""

    kind: Literal["run_cancelled"] = "run_cancelled"
    stage: str
    visit: int
    reason: str = ""


class RunResumed(Record):
    """A process takes the run up again."""

    kind: Literal["run_resumed"] = "run_resumed"
    raised: dict[str, float] = Field(default_factory=dict)  # settings, at their new values
    options: dict[str, Any] = Field(default_factory=dict)  # those of its start that are different now
    repeat: bool = False  # whether an interrupted stage with effects outside may run again
    torn: str = ""  # the git ref that keeps what an interrupted stage left


class WorkflowAdopted(Record):
    """The run goes on with a changed workflow."""

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

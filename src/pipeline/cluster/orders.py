"""What goes through Temporal between a run's workflow and the workers: small values, all of them."""

from pydantic import BaseModel, ConfigDict, Field

from pipeline.cluster.lean import Snapshot
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import RunStatus

QUEUE = "awf"  # where a worker listens when nobody says otherwise
WORKFLOW = "awf"


class ClusterMessage(BaseModel):
    """Something that does not change."""

    model_config = ConfigDict(frozen=True)


class Terms(ClusterMessage):
    """How long things may take, in seconds."""

    heartbeat: float = 60.0  # without a sign of life from a worker, until its stage is given to another
    sticky: float = 10.0  # for the worker that has the run's files to take up its next stage
    short: float = 120.0  # for a step that runs no stage
    tries: int = 6  # at having a run's files at hand, until the run is paused
    longest_history: int = 4000  # events, until it begins anew


class HumanVisit(ClusterMessage):
    """A visit of a human stage."""

    stage: str
    visit: int


class Beginning(ClusterMessage):
    """What a run's workflow begins with: at first its name, later what the one before it knew."""

    run_id: str
    terms: Terms = Terms()
    resume: str = ""  # the key of how it is to be taken up again, in the store
    snapshot: Snapshot | None = None
    seq: int = 0
    home: str = ""
    answered: tuple[HumanVisit, ...] = ()
    asked_for: tuple[str, ...] = ()  # the keys of resumptions that nobody has carried out


class AttemptRequest(ClusterMessage):
    """One try at a stage."""

    stage: str
    visit: int
    attempt: int


class StepRequest(ClusterMessage):
    """Something to be done for a run, all of whose records up to `after` are known to who orders it."""

    run_id: str
    after: int
    attempt: AttemptRequest | None = None  # to be made
    began: float = 0.0  # when a parallel stage did
    lost: tuple[AttemptRequest, ...] = ()  # those whose worker went away
    seen: tuple[int, ...] = ()  # records later than `after` that are known too
    reason: str = ""
    resume: str = ""
    tries: int = 0  # that may still be made, when something that may come back is missing


class Numbered(ClusterMessage):
    """A record without its texts, and its number."""

    seq: int
    record: AnyRecord


class StepResult(ClusterMessage):
    """What an order came to: the records that were written, and the queue of the worker who wrote them."""

    records: tuple[Numbered, ...]
    queue: str = ""
    snapshot: Snapshot | None = None  # where the run stands, when its workflow has changed


class Opened(ClusterMessage):
    """Where a run stands when its workflow begins."""

    snapshot: Snapshot
    seq: int


class Ended(ClusterMessage):
    """How a run ended."""

    status: RunStatus
    reason: str


class RunPosition(ClusterMessage):
    """Where a run stands, for whoever asks."""

    status: RunStatus
    reason: str
    stage: str
    visit: int
    seq: int = Field(description="the number of its last record")
    home: str = Field(description="the queue of the worker that has its files")
    events: int = Field(description="of the history so far")


class ActivityErrorType:
    """What an activity fails with, by the name that goes through Temporal."""

    NOT_BEGUN = "NotBegun"  # nothing was run: the same order may be given again
    HANDED_BACK = "HandedBack"  # by a worker that leaves
    REPLACED = "Replaced"  # somebody else has written the run's next record

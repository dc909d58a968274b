"""A run as its Temporal workflow holds it: what the machine decides by, and nothing that grows with what was found.

The whole of a record is in the shared journal. What goes through Temporal are the same records without their texts.
"""

import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.engine.context import Context, Key
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCreated,
    RunResumed,
    StageErrored,
    VisitCompleted,
)
from pipeline.engine.state import Cursor, FinishedBranch, Progress, RunStatus, StageError, State, apply, begin

KEYS = frozenset({Key.HOLD, Key.WORKSPACE_PATH})  # what is kept of the context
LONGEST = 300  # characters of a reason
_LIMITS = ("max_visits", "max_stages", "max_duration", "max_cost_usd")


def compact_record(record: AnyRecord) -> AnyRecord:
    """A record without its texts; a state that holds as little comes to the same decisions by it."""
    match record:
        case AttemptFailed() | StageErrored():
            return record.model_copy(update={"outcome": _short(record.outcome)})
        case BranchCompleted():
            return record.model_copy(update={"outcome": _short(record.outcome), "operations": ()})
        case VisitCompleted():
            return _completed(record)
        case RunResumed():
            return record.model_copy(update={"options": {}})
        case _:
            return record


def _completed(record: VisitCompleted) -> VisitCompleted:
    branches = tuple(one.model_copy(update={"outcome": _short(one.outcome)}) for one in record.branches)
    return record.model_copy(
        update={
            "outcome": _short(record.outcome),
            "operations": tuple(one for one in record.operations if one[1] in KEYS),
            "chosen": replace(record.chosen, reason=record.chosen.reason[:LONGEST]),
            "branches": branches,
        }
    )


def _short(outcome: Outcome) -> Outcome:
    kept = {"status": outcome.status, "duration": outcome.duration, "usage": outcome.usage}
    return Outcome(**kept, reason=outcome.reason[:LONGEST])


def compact_state(state: State) -> State:
    """A state with as little as `lean` leaves of its records."""
    values = {key: state.context.get(key) for key in state.context if key in KEYS}
    done = {name: FinishedBranch(_short(one.outcome), ()) for name, one in state.progress.branches.items()}
    return state._replace(
        prompts={},
        goal="",
        options={},
        recent=(),
        context=Context(values),
        reason=state.reason[:LONGEST],
        progress=state.progress._replace(branches=done),
    )


def apply_all(state: State, records: Iterable[AnyRecord]) -> State:
    """The lean state after some more records."""
    for record in records:
        state = apply(state, record)._replace(recent=())
    return state


class StateSnapshot(BaseModel):
    """A lean state in few bytes, for when the history begins anew."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    file: str
    source: str  # of the workflow, compressed
    cursor: tuple[str, int]
    limits: dict[str, float | None]
    status: RunStatus
    reason: str = ""
    context: dict[str, Any] = Field(default_factory=dict)
    outcomes: dict[str, Status] = Field(default_factory=dict)
    visits: dict[str, int] = Field(default_factory=dict)
    stages_run: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0
    owed: list[str] = Field(default_factory=list)
    repeat: bool = False
    failed: dict[str, int] = Field(default_factory=dict)
    torn: dict[str, int] = Field(default_factory=dict)
    begun: list[str] = Field(default_factory=list)
    branches: dict[str, Outcome] = Field(default_factory=dict)
    errors: dict[str, StageError] = Field(default_factory=dict)
    until: float | None = None
    due: dict[str, float] = Field(default_factory=dict)
    retry_at: float | None = None  # of the stage at the cursor, as histories have it that were begun before `due`
    asked_at: float | None = None
    commit: str = ""

    @classmethod
    def of(cls, state: State, file: str, source: str) -> "StateSnapshot":
        """A state, and the text of its workflow, compressed."""
        kept, progress = compact_state(state), state.progress
        return cls(
            run_id=kept.run_id,
            file=file,
            source=source,
            cursor=(kept.cursor.stage, kept.cursor.visit),
            limits={name: _number(getattr(kept.settings, name)) for name in _LIMITS},
            status=kept.status,
            reason=kept.reason,
            context=dict(kept.context.values),
            outcomes=dict(kept.outcomes),
            visits=dict(kept.visits),
            stages_run=kept.stages_run,
            seconds=kept.seconds,
            cost_usd=kept.cost_usd,
            tokens=kept.tokens,
            owed=sorted(kept.pending_gates),
            repeat=kept.repeat,
            failed=dict(progress.failed),
            torn=dict(progress.interrupted),
            begun=sorted(progress.started),
            branches={name: one.outcome for name, one in kept.progress.branches.items()},
            errors=dict(progress.errors),
            until=kept.until,
            due=dict(progress.retry_at),
            asked_at=progress.asked_at,
            commit=progress.commit,
        )

    def state(self) -> State:
        """The state that it was taken of."""
        first = _first(self.run_id, self.file, self.source)
        limits: dict[str, Any] = dict(self.limits)
        if (seconds := self.limits["max_duration"]) is not None:
            limits["max_duration"] = timedelta(seconds=seconds)
        for name in ("max_visits", "max_stages"):
            limits[name] = int(limits[name])
        return first._replace(
            cursor=Cursor(*self.cursor),
            settings=first.settings.model_copy(update=limits),
            status=self.status,
            reason=self.reason,
            until=self.until,
            context=Context(self.context),
            outcomes=self.outcomes,
            visits=self.visits,
            stages_run=self.stages_run,
            seconds=self.seconds,
            cost_usd=self.cost_usd,
            tokens=self.tokens,
            pending_gates=frozenset(self.owed),
            repeat=self.repeat,
            progress=self._progress(),
        )

    def _progress(self) -> Progress:
        return Progress(
            failed=self.failed,
            interrupted=self.torn,
            started=frozenset(self.begun),
            branches={name: FinishedBranch(outcome, ()) for name, outcome in self.branches.items()},
            errors=self.errors,
            retry_at=self.due if self.retry_at is None else {self.cursor[0]: self.retry_at},
            asked_at=self.asked_at,
            commit=self.commit,
        )


def _number(value: Any) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else value


@lru_cache(maxsize=256)
def _first(run_id: str, file: str, source: str) -> State:
    """The beginning of a run with this workflow. Only values go in and come out, so that it may be remembered."""
    record = RunCreated(at=0.0, run_id=run_id, file=file, source=decompress(source), cwd="/", version="")
    return begin(record)._replace(goal="", cwd=Path("/"), context=Context({}))


def compress(text: str) -> str:
    """A text in few characters."""
    return b85encode(zlib.compress(text.encode(errors="surrogatepass"), 9)).decode()


def decompress(text: str) -> str:
    """The text of a compressed one."""
    return zlib.decompress(b85decode(text)).decode(errors="surrogatepass")


QUEUE = "awf"  # where a worker listens when nobody says otherwise
WORKFLOW = "awf"


class ClusterMessage(BaseModel):
    """Something that does not change."""

    model_config = ConfigDict(frozen=True)


class Timeouts(ClusterMessage):
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


class RunInput(ClusterMessage):
    """What a run's workflow begins with: at first its name, later what the one before it knew."""

    run_id: str
    terms: Timeouts = Timeouts()
    resume: str = ""  # the key of how it is to be taken up again, in the store
    snapshot: StateSnapshot | None = None
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


class NumberedRecord(ClusterMessage):
    """A record without its texts, and its number."""

    seq: int
    record: AnyRecord


class StepResult(ClusterMessage):
    """What an order came to: the records that were written, and the queue of the worker who wrote them."""

    records: tuple[NumberedRecord, ...]
    queue: str = ""
    snapshot: StateSnapshot | None = None  # where the run stands, when its workflow has changed


class OpenedRun(ClusterMessage):
    """Where a run stands when its workflow begins."""

    snapshot: StateSnapshot
    seq: int


class WorkflowResult(ClusterMessage):
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

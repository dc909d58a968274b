"""What a run's Temporal workflow and the workers send each other: small values, without the texts of a run.

Prompts, answers and reports stay in the shared journal. The workflow knows of each record and of the state what the
machine needs to decide. Field names and values are those of the first version, so that workers of different versions
understand each other, and recorded histories can be replayed.
"""

from base64 import b85decode, b85encode
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import to_jsonable_python

from pipeline.engine.context import Context, Key
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCreated,
    RunResumed,
    StageErrored,
    VisitCompleted,
)
from pipeline.engine.state import Progress, RunStatus, State, apply, begin, raise_limits
from pipeline.journal.packing import pack_text, unpack_text

QUEUE = "awf"  # the default queue of workers
WORKFLOW = "awf"
NOT_BEGUN = "NotBegun"  # the type of an error before anything was run, so the same request can be made again
_CONTEXT_KEYS = frozenset({Key.HOLD, Key.WORKSPACE_PATH})  # all that is read in the context to decide
_LONGEST_REASON = 300  # characters
_LIMITS = ("max_visits", "max_stages", "max_duration", "max_cost_usd")
_NOT_SENT = frozenset({"workflow", "settings", "progress", "prompts", "goal", "options", "cwd", "recent", "said"})
_SENT_AS = {"pending_gates": "owed", "interrupted": "torn", "started": "begun", "retry_at": "due"}  # else by its name

_state_adapter = TypeAdapter(State)


class ClusterMessage(BaseModel):
    """An immutable message."""

    model_config = ConfigDict(frozen=True)


class StateSnapshot(ClusterMessage):
    """A compact state, with the compressed text of its workflow.

    Its other fields are those of State and Progress, side by side.
    """

    model_config = ConfigDict(extra="allow")

    run_id: str
    file: str
    source: str
    limits: dict[str, float | None]

    @classmethod
    def of(cls, state: State, file: str, source: str) -> "StateSnapshot":
        """Return a state as a message; `source` is compressed."""
        state = compact_state(state)
        fields: dict[str, Any] = {
            **state._asdict(),
            **state.progress._asdict(),
            "context": state.context.values,
            "limits": {name: getattr(state.settings, name) for name in _LIMITS},
        }
        sent = {_SENT_AS.get(name, name): value for name, value in fields.items() if name not in _NOT_SENT}
        return cls(file=file, source=source, **to_jsonable_python(sent, timedelta_mode="float", fallback=dict))

    def state(self) -> State:
        """Return the state that the message was made of."""
        text = unpack_text(b85decode(self.source))
        first = compact_state(
            begin(RunCreated(at=0.0, run_id=self.run_id, file=self.file, source=text, cwd="/", version=""))
        )
        sent = dict(self.model_extra or {})
        if (retry_at := sent.pop("retry_at", None)) is not None:  # the first version had that of the stage alone
            sent["due"] = {sent["cursor"][0]: retry_at}
        names = (*State._fields, *Progress._fields)
        fields = {name: sent[_SENT_AS.get(name, name)] for name in names if _SENT_AS.get(name, name) in sent}
        fields["context"] = {"values": fields["context"]}
        progress = {name: fields.pop(name) for name in Progress._fields if name in fields}
        fields["progress"] = first.progress._asdict() | progress
        limits = {name: limit for name, limit in self.limits.items() if limit is not None}
        fields["settings"] = raise_limits(first.settings, limits)
        return _state_adapter.validate_python(first._asdict() | fields)


def compact_state(state: State) -> State:
    """Return a state with no more than `compact_record` leaves of its records."""
    values = {key: state.context.get(key) for key in state.context if key in _CONTEXT_KEYS}
    branches = {name: _compact_outcome(outcome) for name, outcome in state.progress.branches.items()}
    return state._replace(
        prompts={},
        goal="",
        options={},
        recent=(),
        context=Context(values),
        reason=state.reason[:_LONGEST_REASON],
        progress=state.progress._replace(branches=branches, said={}),
    )


def compact_record(record: AnyRecord) -> AnyRecord:
    """Return a record without its texts. Applied to a compact state, it leads to the same decisions."""
    match record:
        case AttemptFailed() | StageErrored() | BranchCompleted():
            return record.model_copy(update={"outcome": _compact_outcome(record.outcome)})
        case VisitCompleted():
            branches = [one.model_copy(update={"outcome": _compact_outcome(one.outcome)}) for one in record.branches]
            changes = {
                "outcome": _compact_outcome(record.outcome),
                "operations": tuple(one for one in record.operations if one[1] in _CONTEXT_KEYS),
                "chosen": replace(record.chosen, reason=record.chosen.reason[:_LONGEST_REASON]),
                "branches": tuple(branches),
            }
            return record.model_copy(update=changes)
        case RunResumed():
            return record.model_copy(update={"options": {}})
        case _:
            return record


def _compact_outcome(outcome: Outcome) -> Outcome:
    reason = outcome.reason[:_LONGEST_REASON]
    return Outcome(status=outcome.status, reason=reason, duration=outcome.duration, usage=outcome.usage)


def apply_all(state: State, records: Iterable[AnyRecord]) -> State:
    """Return a compact state after some compact records."""
    for record in records:
        state = apply(state, record)._replace(recent=())
    return state


def compress(text: str) -> str:
    """Return a text in few characters."""
    return b85encode(pack_text(text)).decode()


class Timeouts(ClusterMessage):
    """How long things may take, in seconds."""

    heartbeat: float = 60.0  # without a heartbeat of its worker, until a stage is given to another
    sticky: float = 10.0  # for the worker that has the run's files to start the next stage
    short: float = 120.0  # for a step that runs no stage
    tries: int = 6  # attempts to get a run's files, until the run is paused
    longest_history: int = 4000  # events, until a new history is begun


class HumanVisit(ClusterMessage):
    """A visit of a human stage."""

    stage: str
    visit: int


class RunInput(ClusterMessage):
    """What the workflow of a run starts with: the run's name, or what the workflow before it knew."""

    run_id: str
    terms: Timeouts = Timeouts()
    resume: str = ""  # the key of the records by which the run is to continue
    snapshot: StateSnapshot | None = None
    seq: int = 0
    home: str = ""
    answered: tuple[HumanVisit, ...] = ()
    asked_for: tuple[str, ...] = ()  # the keys of resumes that were not carried out yet


class AttemptRequest(ClusterMessage):
    """One attempt at a stage."""

    stage: str
    visit: int
    attempt: int


class StepRequest(ClusterMessage):
    """Something to do for a run. The workflow knows the run's records up to `after`."""

    run_id: str
    after: int
    attempt: AttemptRequest | None = None  # the one to make
    began: float = 0.0  # when a parallel stage started
    lost: tuple[AttemptRequest, ...] = ()  # those whose worker is gone
    seen: tuple[int, ...] = ()  # records later than `after` that the workflow knows too
    reason: str = ""
    resume: str = ""
    tries: int = 0  # attempts left, while the run's files cannot be had


class NumberedRecord(ClusterMessage):
    """A compact record and its number."""

    seq: int
    record: AnyRecord


class StepResult(ClusterMessage):
    """The records that a step has written, and the queue of its worker."""

    records: tuple[NumberedRecord, ...]
    queue: str = ""
    snapshot: StateSnapshot | None = None  # the state, if the run's workflow was replaced


class OpenedRun(ClusterMessage):
    """The state of a run when its Temporal workflow starts."""

    snapshot: StateSnapshot
    seq: int


class WorkflowResult(ClusterMessage):
    """How a run ended."""

    status: RunStatus
    reason: str


class RunPosition(ClusterMessage):
    """Where a run is, as its workflow says."""

    status: RunStatus
    reason: str
    stage: str
    visit: int
    seq: int  # the number of its last record
    home: str  # the queue of the worker that has its files
    events: int  # in its history so far

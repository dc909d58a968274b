"""What a run tells its listeners while it happens. A listener can neither change nor stop a run."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class EventKind(StrEnum):
    """What happened, as far as the engine is concerned. Plugins have kinds of their own."""

    RUN_STARTED = "run_started"
    RUN_RESUMED = "run_resumed"
    STAGE_STARTED = "stage_started"
    STAGE_OUTPUT = "stage_output"
    STAGE_RETRYING = "stage_retrying"
    STAGE_COMPLETED = "stage_completed"
    STAGE_FAILED = "stage_failed"
    STAGE_ERRORED = "stage_errored"  # it could not do its job, so nothing is known
    HUMAN_ASKED = "human_asked"
    HUMAN_ANSWERED = "human_answered"
    CHECKPOINT_SAVED = "checkpoint_saved"
    RUN_PAUSED = "run_paused"
    RUN_COMPLETED = "run_completed"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    PLUGIN_FAILED = "plugin_failed"  # a plugin or listener raised; emitted once for each


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    event: str  # an EventKind, or the kind of a plugin's event
    run_id: str
    seq: int
    at: float
    stage: str = ""
    visit: int = 0
    data: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as one object, with its data beside the other fields."""
        fields = asdict(self)
        return {**fields.pop("data"), **fields}


Listener = Callable[[Event], None]

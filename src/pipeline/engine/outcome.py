"""What a visit returned: its status, where that status came from, and everything worth keeping."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.engine.context import Key, Operation, Set, full_response_key, response_key, status_key
from pipeline.language.model import BaseStage, LlmStage, ToolStage


class Status(StrEnum):
    """How a visit ended."""

    SUCCESS = "success"
    FAIL = "fail"
    PARTIAL_SUCCESS = "partial_success"  # it did something, and something is left
    RETRY = "retry"  # it did nothing of use, and may when it is tried again
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    ERROR = "error"  # the stage could not do its job, so nothing is known; never on record as a visit's result

    @property
    def passes(self) -> bool:
        """Whether a goal gate is satisfied by it."""
        return self in (Status.SUCCESS, Status.PARTIAL_SUCCESS)


class StatusSource(StrEnum):
    """Where a status came from."""

    EXIT_CODE = "exit_code"  # a process
    STRUCTURED = "structured"  # findings in a form that code can read
    MARKER = "marker"  # a [STATUS: ...] line of a review
    HUMAN = "human"  # a person chose
    OVERRIDE = "override"  # a person was bypassed on request
    DEFAULT = "default"  # nothing said otherwise


class FailureClass(StrEnum):
    """What kind of thing went wrong, when it is not what a review found."""

    EXIT_NONZERO = "exit_nonzero"
    TIMEOUT = "timeout"
    SIGNAL = "signal"
    SPAWN_ERROR = "spawn_error"
    PROTOCOL = "protocol"  # a review that gave no status
    AGENT = "agent"  # an agent that crashed, was refused, or never answered
    CONFLICT = "conflict"  # a branch that does not merge
    INTERNAL = "internal"  # a handler that raised


class ErrorKind(StrEnum):
    """Why an agent could not answer."""

    AUTH = "auth"  # no key, a wrong one, or no right to use the model (401, 403)
    QUOTA = "quota"  # a usage limit or quota is used up
    RATE_LIMIT = "rate_limit"  # too many requests in a short time
    SERVER = "server"  # the provider failed (5xx), or the connection dropped
    INVALID = "invalid"  # the provider refused the request: an unknown model, a prompt that is too long
    CONFIG = "config"  # the agent refused how it was started: an unknown flag, a bad setting
    DENIED = "denied"  # it was not allowed to use what it needed
    EMPTY = "empty"  # it answered nothing
    PROTOCOL = "protocol"  # its answer cannot be read, or was cut off
    KILLED = "killed"  # by somebody else, or it crashed
    SPAWN = "spawn"  # it did not start
    UNKNOWN = "unknown"


class FrozenModel(BaseModel):
    """What is never changed, and is recorded as it is: a number without end as well."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")


class Failure(FrozenModel):
    """The particulars of a failure."""

    kind: FailureClass
    digest: str = ""  # one line: the first failing test, "3 failed", the first error
    exit_code: int | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    error: ErrorKind | None = None  # of an agent
    retry_after: float | None = None  # seconds until trying again can help, where the agent said so


class Usage(FrozenModel):
    """What an agent consumed in one visit; None is unknown, not nothing."""

    input_tokens: int | None = None  # those read from a cache among them
    output_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, other: "Usage | None") -> "Usage":
        """Both together; what only one of them knows is that one's."""
        return self if other is None else self._with(other, 1)

    def since(self, earlier: "Usage | None") -> "Usage":
        """What was added to `earlier` to come to this: a program that goes on with a session tells its whole sum."""
        return self if earlier is None else self._with(earlier, -1)

    def _with(self, other: "Usage", sign: int) -> "Usage":
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in Usage.model_fields}
        return Usage(**{name: _sum(own, its, sign) for name, (own, its) in pairs.items()})


def _sum(own: float | None, other: float | None, sign: int) -> Any:
    if own is None:
        return other if sign > 0 else None
    return max(own + sign * (other or 0), 0)


class Outcome(FrozenModel):
    """The result of a visit."""

    status: Status
    source: StatusSource = StatusSource.DEFAULT
    reason: str = ""
    response: str = ""
    failure: Failure | None = None
    usage: Usage | None = None
    updates: dict[str, Any] = Field(default_factory=dict)  # context keys the stage sets
    preferred_label: str = ""  # [PREFERRED_LABEL: ...]
    preferred_next: str = ""  # [NEXT: ...]
    duration: float = 0.0  # seconds
    logs: dict[str, str] = Field(default_factory=dict)  # what was written where, below the store
    backend: str = ""  # which agent answered, for llm stages
    notes: tuple[str, ...] = ()  # what else a person should know, such as a contradiction


PREVIEW_LENGTH = 8_000  # characters of an answer that the context shows; the whole is kept beside it


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A line for the store's ledger, committed together with the stage."""

    text: str


def stage_operations(stage: BaseStage, outcome: Outcome) -> list[Operation]:
    """The operations of one visit, before any plugin adds its own."""
    status = outcome.status.value  # as it is read again from a journal
    left = {Key.OUTCOME: status, Key.LAST_STAGE: stage.id, status_key(stage.id): status}
    if isinstance(stage, LlmStage | ToolStage):
        base, answer = response_base(stage), preview(outcome.response)
        left |= {response_key(base): answer, full_response_key(base): outcome.response, Key.LAST_RESPONSE: answer}
    if outcome.usage is not None:
        used = outcome.usage.model_dump(exclude_none=True)
        left |= {f"{stage.id}.usage.{name}": value for name, value in used.items()}
    return [Set(key, value) for key, value in (left | outcome.updates).items()]


def response_base(stage: BaseStage) -> str:
    """The name a stage's answer is kept under."""
    return stage.response_key_base or stage.id if isinstance(stage, LlmStage) else stage.id


def preview(text: str) -> str:
    """A text as the context shows it: whole while it is short, else its beginning and how much is left out."""
    return (
        text
        if len(text) <= PREVIEW_LENGTH
        else f"{text[:PREVIEW_LENGTH]}\n[... {len(text) - PREVIEW_LENGTH} more characters]"
    )

"""What a visit returned: its status, where that status came from, and everything worth keeping."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


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


class Source(StrEnum):
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


class Value(BaseModel):
    """What is never changed, and is recorded as it is: a number without end as well."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants")


class Failure(Value):
    """The particulars of a failure."""

    kind: FailureClass
    digest: str = ""  # one line: the first failing test, "3 failed", the first error
    exit_code: int | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    error: ErrorKind | None = None  # of an agent
    retry_after: float | None = None  # seconds until trying again can help, where the agent said so


class Usage(Value):
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


class Outcome(Value):
    """The result of a visit."""

    status: Status
    source: Source = Source.DEFAULT
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

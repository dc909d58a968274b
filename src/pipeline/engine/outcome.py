"""What a visit produced: its status, where that status came from, and everything worth keeping."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.engine.context import Key, Operation, Set, full_response_key, response_key, status_key
from pipeline.engine.status import Status as Status  # noqa: PLC0414 - a part of an outcome
from pipeline.language.model import BaseStage, LlmStage, ToolStage

PREVIEW_LENGTH = 8_000  # characters of an answer that summaries may show; the whole answer is kept beside it


class StatusSource(StrEnum):
    """Where a status came from."""

    EXIT_CODE = "exit_code"  # a process
    STRUCTURED = "structured"  # a machine-readable answer or report
    MARKER = "marker"  # a [STATUS: ...] line of a review
    HUMAN = "human"  # a person chose
    OVERRIDE = "override"  # a person was bypassed on request
    DEFAULT = "default"  # nothing said otherwise


class FailureClass(StrEnum):
    """What kind of thing went wrong, other than what a review reports."""

    EXIT_NONZERO = "exit_nonzero"
    TIMEOUT = "timeout"
    SIGNAL = "signal"
    SPAWN_ERROR = "spawn_error"
    PROTOCOL = "protocol"  # a review gave no status, or a report could not be read
    AGENT = "agent"  # an agent crashed, was refused, or never answered
    CONFLICT = "conflict"  # a branch does not merge
    INTERNAL = "internal"  # a handler or plugin raised


class ErrorKind(StrEnum):
    """Why an agent could not answer."""

    AUTH = "auth"  # a missing or wrong key, or no access to the model (401, 403)
    QUOTA = "quota"  # a usage limit is used up
    RATE_LIMIT = "rate_limit"  # too many requests in a short time
    SERVER = "server"  # the provider failed (5xx) or is overloaded
    NETWORK = "network"  # the provider could not be reached, or the connection dropped
    TIMEOUT = "timeout"  # it took too long in all
    SILENT = "silent"  # it printed nothing for too long
    NOT_FOUND = "not_found"  # the provider does not know the model (404)
    INVALID = "invalid"  # the provider rejected the request, such as a prompt that is too long
    BAD_FLAG = "bad_flag"  # the program rejected one of its flags
    CONFIG = "config"  # the agent rejected its settings, or the session it was to continue
    DENIED = "denied"  # it was not allowed to use what it needed
    EMPTY = "empty"  # it answered nothing
    PROTOCOL = "protocol"  # its answer was unreadable or cut off
    KILLED = "killed"  # it crashed, or another process killed it
    SPAWN = "spawn"  # it did not start
    UNKNOWN = "unknown"


class FrozenModel(BaseModel):
    """An immutable value that is recorded exactly as it is, infinite numbers included."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants", defer_build=True)


class Failure(FrozenModel):
    """The details of a failure or an error."""

    kind: FailureClass
    digest: str = ""  # one line: the first failing test, "3 failed", the first error
    exit_code: int | None = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    error: ErrorKind | None = None  # of an agent
    retry_after: float | None = None  # seconds until another attempt can help, if the agent said so


class TokenPrice(FrozenModel):
    """What a model costs, in US dollars per million tokens."""

    input: float
    output: float


class Usage(FrozenModel):
    """What an agent consumed in one visit. None means unknown, not zero."""

    input_tokens: int | None = None  # including those read from a cache
    output_tokens: int | None = None
    cost_usd: float | None = None

    def priced(self, price: TokenPrice | None) -> "Usage":
        """Return the usage with its cost by the price, if the agent reported tokens but no cost."""
        if price is None or self.cost_usd is not None or self.input_tokens is None or self.output_tokens is None:
            return self
        cost = (self.input_tokens * price.input + self.output_tokens * price.output) / 1_000_000
        return self.model_copy(update={"cost_usd": cost})

    def plus(self, other: "Usage | None") -> "Usage":
        """Return the sum; a figure that only one side knows is kept."""
        return self if other is None else self._combine(other, 1)

    def since(self, earlier: "Usage | None") -> "Usage":
        """Return what was used after `earlier`, for an agent that reports the total of its session."""
        return self if earlier is None else self._combine(earlier, -1)

    def _combine(self, other: "Usage", sign: int) -> "Usage":
        def combine(own: float | None, its: float | None) -> Any:
            if own is None:
                return its if sign > 0 else None
            return max(own + sign * (its or 0), 0)

        return Usage(**{name: combine(getattr(self, name), getattr(other, name)) for name in Usage.model_fields})


class Outcome(FrozenModel):
    """The result of a visit."""

    status: Status
    source: StatusSource = StatusSource.DEFAULT
    reason: str = ""
    response: str = ""
    answers: tuple[str, ...] = ()  # every answer of an agent that was asked more than once
    failure: Failure | None = None
    usage: Usage | None = None
    updates: dict[str, Any] = Field(default_factory=dict)  # context keys that the stage sets
    preferred_label: str = ""  # [PREFERRED_LABEL: ...]
    preferred_next: str = ""  # [NEXT: ...]
    duration: float = 0.0  # seconds
    logs: dict[str, str] = Field(default_factory=dict)  # log files by name, relative to the store
    backend: str = ""  # the agent that answered an llm stage
    notes: tuple[str, ...] = ()  # anything else a person should know, such as a contradiction
    kept: dict[str, Any] = Field(default_factory=dict)  # what plugins noted before the attempt


def stage_operations(stage: BaseStage, outcome: Outcome) -> list[Operation]:
    """Return the operations that every visit records, before plugins add theirs."""
    status = outcome.status.value  # a plain string, as a journal gives it back
    values = {Key.OUTCOME: status, Key.LAST_STAGE: stage.id, status_key(stage.id): status}
    if isinstance(stage, LlmStage | ToolStage):
        base, shortened = response_base(stage), preview(outcome.response)
        values |= {
            response_key(base): shortened,
            full_response_key(base): outcome.response,
            Key.LAST_RESPONSE: shortened,
        }
    if outcome.usage is not None:
        used = outcome.usage.model_dump(exclude_none=True)
        values |= {f"{stage.id}.usage.{name}": value for name, value in used.items()}
    return [Set(key, value) for key, value in (values | outcome.updates).items()]


def response_base(stage: BaseStage) -> str:
    """Return the name under which a stage's answer is stored."""
    return stage.response_key_base or stage.id if isinstance(stage, LlmStage) else stage.id


def preview(text: str) -> str:
    """Return a text as summaries show it: its beginning, and how much was left out."""
    if len(text) <= PREVIEW_LENGTH:
        return text
    return f"{text[:PREVIEW_LENGTH]}\n[... {len(text) - PREVIEW_LENGTH} more characters]"

"""The port behind which agents run: a request, a result, and what a backend must be able to do.

A backend reports what happened. Whether that is a pass or a failure of the stage is judged by the `llm` handler.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from pipeline.engine.outcome import ErrorKind as ErrorKind  # noqa: PLC0414 - part of this port
from pipeline.engine.outcome import Usage
from pipeline.language.model import Access

_NONE: Mapping[str, str] = MappingProxyType({})


class Limits(NamedTuple):
    """How much an agent may take; None is no limit."""

    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without any output
    output_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation that an agent keeps and can go on with."""

    id: str
    used: Usage | None = None  # all of it so far, where the agent counts by session and not by request


class Request(NamedTuple):
    """What an agent is asked to do."""

    stage: str
    visit: int
    attempt: int
    review: bool
    prompt: str
    cwd: Path
    artifacts: Path  # a directory of this attempt, made by whoever writes there
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None
    access: Access = Access.CODING
    limits: Limits = Limits()
    session: Session | None = None  # the conversation to go on with
    env: Mapping[str, str] = _NONE  # filtered already


class AgentStatus(StrEnum):
    """How an agent's run ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"  # more than its time in all
    IDLE = "idle"  # silent for too long
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AgentError:
    """A failed run, in the agent's own words where it had any."""

    kind: ErrorKind
    message: str
    retry_after: float | None = None  # seconds from now until trying again can help; None where it did not say


class Result(NamedTuple):
    """What came of a request. `outcome` is set only by a backend that is told the whole outcome (scripted)."""

    status: AgentStatus
    text: str = ""
    error: AgentError | None = None
    usage: Usage | None = None  # of this request alone
    session: Session | None = None  # None where the agent cannot go on with it
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    version: str = ""
    denied: tuple[str, ...] = ()
    outcome: Mapping[str, object] | None = None


class AgentEvent(NamedTuple):
    """Something an agent did while it ran. A text is a whole line, message or field, never a piece of one."""

    kind: Literal["started", "text", "tool_start", "tool_end", "usage", "retry", "warning"]
    text: str = ""
    usage: Usage | None = None  # of the request so far


Emit = Callable[[AgentEvent], None]


class Backend(Protocol):
    """Runs an agent. Cancelling the task that awaits `run` must stop every process it started."""

    name: str

    def variables(self, provider: str | None) -> Collection[str]:
        """The names of the variables it needs besides those that every program gets: its key, its own directories."""
        ...

    async def run(self, request: Request, emit: Emit) -> Result: ...

"""The `pi` program: its arguments, and its stream of JSON lines.

Invariant: how it ended is what the last message of the assistant says, once it has settled. Its exit code is 0 even
when the provider refused the request.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError
from pydantic.alias_generators import to_camel

from pipeline.backends.agents.base import (
    AgentTranscript,
    Invocation,
    Message,
    cut_off,
    excerpt,
    kind_of,
    model_path,
    tool_used,
)
from pipeline.backends.environment import provider_variables
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.language.model import Access

_OWN_FILES = ("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "PI_PACKAGE_DIR", "PI_OFFLINE")
# It is not put offline: then it would neither load the packages the user chose nor know new models.
_QUIET = {"PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}


class Pi:
    """The agent of pi.dev, for the models of many providers."""

    name = "pi"
    flags: tuple[str, ...] = (
        *("--print", "--mode", "--no-approve", "--provider", "--model", "--thinking"),
        *("--tools", "--no-tools", "--session-id"),
    )
    help: tuple[str, ...] = ("--help",)
    install = "npm install -g @earendil-works/pi-coding-agent"

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and where it keeps its files."""
        return (*provider_variables(provider), *_OWN_FILES)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """The extensions of the project it works on are not loaded: they are code of whoever wrote that project."""
        arguments = ["--print", "--mode", "json", "--no-approve", *_access(request.access), *_model(request)]
        arguments += ["--thinking", request.reasoning_effort] if request.reasoning_effort else []
        arguments += ["--session-id", request.session.id] if request.session else []
        return Invocation((*arguments, *extra), _QUIET)

    def reader(self, request: AgentRequest) -> "PiReader":
        """A reader for one run of it."""
        del request
        return PiReader()


def _access(access: Access) -> list[str]:
    match access:
        case Access.CODING:
            return []
        case Access.READ_ONLY:
            return ["--tools", "read,grep,find,ls"]
        case Access.NONE:
            return ["--no-tools"]


def _model(request: AgentRequest) -> list[str]:
    if not request.model:
        return ["--provider", request.provider] if request.provider else []
    return ["--model", model_path(request)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel)


class _Cost(_Form):
    total: FiniteFloat | None = None


class _Used(_Form):
    input: int | None = None  # without the cached ones
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: _Cost | None = None


class _Block(_Form):
    type: str = ""
    text: str = ""


class _Answer(_Form):
    content: tuple[_Block, ...] = ()
    usage: _Used | None = None
    stop_reason: str = ""
    error_message: str = ""


class _Tool(_Form):
    tool_name: str = ""
    args: Any = None
    result: Any = None
    is_error: bool = False


class PiReader:
    """Reads one run of pi."""

    def __init__(self) -> None:
        self._last: _Answer | None = None
        self._settled = False
        self._broken: AgentError | None = None
        self._usage: Usage | None = None
        self._session: AgentSession | None = None
        self._denied: list[str] = []

    def read(self, message: Message) -> Iterable[AgentEvent]:
        """Take the next line."""
        try:
            return tuple(self._take(message))
        except ValidationError:
            words = f'"pi" printed a "{message["type"]}" in a form not known of it: {excerpt(message)}'
            self._broken = AgentError(ErrorKind.PROTOCOL, words)
            return ()

    def conclude(self, stderr: str) -> AgentTranscript:
        """What came of it; before its first answer only its standard error says what is wrong."""
        stopped = self._last is not None and self._last.stop_reason == "stop"
        error = self._broken or (_failure(self._last) if self._last else _keyless(stderr))
        return AgentTranscript(
            text=_text(self._last) if self._last and stopped else "",
            ended=stopped and self._settled,
            error=error,
            usage=self._usage,
            session=self._session,
            denied=tuple(self._denied),
        )

    def _take(self, message: Message) -> Iterator[AgentEvent]:
        match message:
            case {"type": "session", "id": str(identity)}:
                self._session = AgentSession(identity)
            case {"type": "message_end", "message": {"role": "assistant"} as answer}:
                yield from self._say(_Answer.model_validate(answer))
            case {"type": "tool_execution_start"}:
                tool = _Tool.model_validate(message)
                yield AgentEvent("tool_start", tool_used(tool.tool_name, tool.args))
            case {"type": "tool_execution_end"}:
                yield from self._finish(_Tool.model_validate(message))
            case {"type": "auto_retry_start", "errorMessage": str(why)}:
                yield AgentEvent("retry", why)
            case {"type": "compaction_end", "errorMessage": str(why)}:
                yield AgentEvent("warning", why)
            case {"type": "agent_settled"}:
                self._settled = True

    def _say(self, answer: _Answer) -> Iterator[AgentEvent]:
        self._last = answer
        self._settled = False
        if text := _text(answer):
            yield AgentEvent("text", text)
        if answer.usage:
            self._usage = _usage(answer.usage).plus(self._usage)
            yield AgentEvent("usage", usage=self._usage)

    def _finish(self, tool: _Tool) -> Iterator[AgentEvent]:
        if tool.is_error and f"Tool {tool.tool_name} not found" in str(tool.result):  # it is not among those allowed
            self._denied.append(tool.tool_name)
        yield AgentEvent("tool_end", f"{tool.tool_name}: {'error' if tool.is_error else 'done'}")


def _text(answer: _Answer) -> str:
    return "\n".join(block.text for block in answer.content if block.type == "text" and block.text)


def _usage(used: _Used) -> Usage:
    read = (used.input, used.cache_read, used.cache_write)
    cost = used.cost.total if used.cost else None
    return Usage(input_tokens=sum(filter(None, read)), output_tokens=used.output, cost_usd=cost)


def _failure(answer: _Answer) -> AgentError | None:
    match answer.stop_reason:
        case "stop" | "toolUse":  # after the latter more has to come
            return None
        case "error":
            return AgentError(_kind(answer.error_message), answer.error_message or '"pi" failed without a word')
        case "aborted":
            return AgentError(ErrorKind.KILLED, answer.error_message or '"pi" was stopped in the middle of its answer')
        case "length":
            return cut_off("length")
        case other:
            return AgentError(ErrorKind.UNKNOWN, f'the answer ended for the reason "{other}", not because it was whole')


def _kind(message: str) -> ErrorKind:
    if re.search(r"[Ss]tream ended|terminated", message):  # the connection broke off
        return ErrorKind.SERVER
    found = re.match(r"([45]\d\d)\b", message)  # "429: {...}"
    return kind_of(int(found[1]) if found else None, message)


def _keyless(stderr: str) -> AgentError | None:
    found = re.search(r"^No API key found .*$", stderr, re.MULTILINE)  # it goes on with where to read about keys
    return AgentError(ErrorKind.AUTH, found[0]) if found else None

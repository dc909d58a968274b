"""Claude Code: its arguments, and the messages that it prints.

Its last `result` message alone says how a run went: not its exit code, nor its `subtype`, which calls errors "success".
"""

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, ValidationError
from pydantic.alias_generators import to_camel

from pipeline.backends.agents.base import (
    AgentTranscript,
    Invocation,
    Message,
    cut_off,
    excerpt,
    kind_of,
    named_or,
    tool_used,
)
from pipeline.backends.environment import provider_variables
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.language.model import Access

_RETRIES = "CLAUDE_CODE_MAX_RETRIES"
_SWITCHES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {  # without these it does not turn to them
        "bedrock": ("CLAUDE_CODE_USE_BEDROCK",),
        "vertex": ("CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"),
    }
)
_ACCESS: Mapping[Access, tuple[str, ...]] = MappingProxyType(
    {
        Access.NONE: ("--tools", ""),
        Access.READ_ONLY: ("--tools", "Read,Grep,Glob"),
        # It edits under its directory. To allow "Edit" by its name would allow it everywhere.
        Access.CODING: ("--permission-mode", "acceptEdits", "--allowedTools", "Bash"),
    }
)
_LIMITS = ("error_max_turns", "error_max_budget_usd")
_NO_SESSION = re.compile(r"No conversation found|--resume requires a valid session")
_REFUSAL = re.compile(r"(?m)^([Ee]rror: |Claude Code could not start|No conversation found|--\S+ cannot be used).*")


class Claude:
    """Runs `claude -p`; what it finds in the repository it works on cannot change its settings or add servers."""

    name = "claude"
    flags: tuple[str, ...] = (
        *("--print", "--verbose", "--output-format", "--setting-sources", "--strict-mcp-config", "--tools"),
        *("--permission-mode", "--allowedTools", "--model", "--effort", "--resume"),
    )
    help: tuple[str, ...] = ("--help",)
    install = "npm install -g @anthropic-ai/claude-code"

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """Anthropic's key unless another provider is named, and where it keeps its own files."""
        used = (provider or "anthropic").lower()
        return (*provider_variables(used), *_SWITCHES.get(used, ()), "CLAUDE_CONFIG_DIR", _RETRIES)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """One question; it goes on with a session where one is given."""
        arguments = (
            *("--print", "--verbose", "--output-format", "stream-json"),
            *("--setting-sources", "user", "--strict-mcp-config"),
            *_ACCESS[request.access],
            *_option("--model", request.model),
            *_option("--effort", request.reasoning_effort),
            *_option("--resume", request.session.id if request.session else None),
        )
        # By itself it tries again for minutes, also where the key is wrong.
        return Invocation((*arguments, *extra), {_RETRIES: request.env.get(_RETRIES, "5")})

    def reader(self, request: AgentRequest) -> "ClaudeReader":
        """A reader of `stream-json`; it reads the one message of `json` too."""
        return ClaudeReader(
            request.session.used if request.session else Usage(input_tokens=0, output_tokens=0, cost_usd=0)
        )


def _option(flag: str, value: str | None) -> tuple[str, ...]:
    return (flag, value) if value else ()


class _Tokens(BaseModel):
    """A count of tokens: of a turn, in which names are_so, or of a model in the whole session, in which they areSo."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    input_tokens: NonNegativeInt = 0  # without those of the cache
    cache_read_input_tokens: NonNegativeInt = 0
    cache_creation_input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0

    @property
    def read(self) -> int:
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


class _Denial(BaseModel):
    model_config = ConfigDict(frozen=True)

    tool_name: str


class _Result(BaseModel):
    """Its last message."""

    model_config = ConfigDict(frozen=True)

    is_error: bool
    subtype: str
    result: str | None = None
    errors: tuple[str, ...] = ()
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_error_status: int | None = None
    api_error_type: str | None = None
    api_error: str | None = None
    total_cost_usd: FiniteFloat | None = None
    usage: _Tokens = _Tokens()
    models: Mapping[str, _Tokens] = Field(default_factory=dict, alias="modelUsage")
    permission_denials: tuple[_Denial, ...] = ()

    @property
    def aborted(self) -> bool:
        return (self.terminal_reason or "").startswith("aborted")


class ClaudeReader:
    """Reads one run of Claude Code."""

    def __init__(self, before: Usage | None) -> None:
        self._before = before  # what the session had used; None is unknown
        self._session = ""
        self._version = ""
        self._tools: dict[str, str] = {}  # what runs, by its id
        self._result: _Result | None = None
        self._broken: AgentError | None = None
        self._limit = ""  # what it last printed of a limit that it hit
        self._delay = ""  # of its own last try
        self._stopped = ""  # why the last answer of the model ended

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next message; one that is not known is passed over, but for a result."""
        if isinstance(session := message.get("session_id"), str):
            self._session = session
        match message:
            case {"type": "system", "subtype": "init", "claude_code_version": str(version)}:
                self._version = version
            case {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"} as info}:
                self._limit = json.dumps(info)
            case {"type": "system", "subtype": "api_retry"}:
                self._delay = json.dumps({"retry_delay_ms": message.get("retry_delay_ms")})
                yield AgentEvent("retry", _retry(message))
            case {"type": "system", "subtype": "permission_denied", "message": str(why)}:
                yield AgentEvent("warning", why)
            case {"type": "assistant", "message": {"content": list(blocks)}}:
                yield from self._says(message, blocks)
            case {"type": "user", "message": {"content": list(blocks)}}:
                yield from self._tools_end(blocks)
            case {"type": "result"}:
                yield from self._ends(message)

    def conclude(self, stderr: str) -> AgentTranscript:
        """What its result says; before its first message only its standard error says what is wrong."""
        if self._result is None:
            error = self._broken or self._refusal(stderr)
            return AgentTranscript(
                error=error, limits=self._limits(error), session=self._kept(self._before), version=self._version
            )
        error = _error(self._result, self._stopped)
        return AgentTranscript(
            text=self._result.result or "" if error is None else "",
            ended=error is None,
            error=error,
            limits=self._limits(error),
            usage=self._usage(self._result),
            session=None if error and _NO_SESSION.search(error.message) else self._kept(_totals(self._result)),
            denied=tuple(dict.fromkeys(denial.tool_name for denial in self._result.permission_denials)),
            version=self._version,
        )

    def _limits(self, error: AgentError | None) -> tuple[str, ...]:
        """The time of its own next try is the last resort: it knows of no limit that resets in hours."""
        return (self._limit, error.message if error else "", self._delay)

    def _kept(self, used: Usage | None) -> AgentSession | None:
        return AgentSession(self._session, used) if self._session else None

    def _refusal(self, stderr: str) -> AgentError | None:
        """Why it did not even begin: it found fault with what it was started with."""
        found = None if self._session else _REFUSAL.search(stderr)
        return AgentError(named_or(ErrorKind.CONFIG, found[0]), found[0]) if found else None

    def _says(self, message: Message, blocks: list[Any]) -> Iterator[AgentEvent]:
        if message.get("parent_tool_use_id") is None:
            self._result = None  # it has gone on: what it said of its end was not the last word
            self._stopped = str(message["message"].get("stop_reason") or "")
        for block in blocks:
            match block:
                case {"type": "text", "text": str(text)}:
                    yield AgentEvent("warning" if message.get("is_api_error_message") else "text", text)
                case {"type": "tool_use", "id": str(identity), "name": str(name)}:
                    self._tools[identity] = label = tool_used(name, block.get("input"))
                    yield AgentEvent("tool_start", label)

    def _tools_end(self, blocks: list[Any]) -> Iterator[AgentEvent]:
        for block in blocks:
            match block:
                case {"type": "tool_result", "tool_use_id": str(identity)}:
                    label = self._tools.pop(identity, "a tool")
                    yield AgentEvent("tool_end", f"{label}: failed" if block.get("is_error") else label)

    def _ends(self, message: Message) -> Iterator[AgentEvent]:
        try:
            self._result = _Result.model_validate(message)
        except ValidationError as error:
            mistakes = f"{error.error_count()} mistakes"
            words = f'"claude" printed a result in a form not known of it ({mistakes}): {excerpt(message)}'
            self._result, self._broken = None, AgentError(ErrorKind.PROTOCOL, words)
        else:
            yield AgentEvent("usage", usage=self._usage(self._result))

    def _usage(self, result: _Result) -> Usage:
        """What this run used. `usage` leaves out subagents and a turn that was cut off; the session's totals do not."""
        if self._before is None:  # then its cost, which is of the session, is not known
            return Usage(input_tokens=result.usage.read, output_tokens=result.usage.output_tokens)
        return _totals(result).since(self._before)


def _totals(result: _Result) -> Usage:
    """All that the session has used so far."""
    return Usage(
        input_tokens=sum(tokens.read for tokens in result.models.values()),
        output_tokens=sum(tokens.output_tokens for tokens in result.models.values()),
        cost_usd=result.total_cost_usd,
    )


def _error(result: _Result, stopped: str) -> AgentError | None:
    if result.subtype == "success" and not result.is_error and not result.aborted:
        reason = result.stop_reason or stopped
        return cut_off(reason) if reason in ("max_tokens", "model_context_window_exceeded") else None
    words = "; ".join(result.errors) or result.result or result.terminal_reason or "it failed without a word"
    return AgentError(_kind(result, words), words)


def _kind(result: _Result, words: str) -> ErrorKind:
    if result.aborted:
        return ErrorKind.KILLED
    if result.subtype in _LIMITS or _NO_SESSION.search(words):
        return ErrorKind.CONFIG
    if result.api_error == "connection_failed":
        return ErrorKind.SERVER
    return kind_of(result.api_error_status, f"{result.api_error_type} {words}")


def _retry(message: Message) -> str:
    why = " ".join(str(message[key]) for key in ("error", "error_status") if message.get(key) is not None)
    return f"{why}; try {message.get('attempt')} of {message.get('max_retries')}"

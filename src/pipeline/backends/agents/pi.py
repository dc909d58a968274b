"""pi: its arguments, and the JSON lines it prints.

The last message of the assistant says how a run went, once the agent has settled. Its exit code is 0 even if the
provider refused the request.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import FiniteFloat

from pipeline.backends.agents.base import (
    AgentProgram,
    AgentTranscript,
    Invocation,
    Message,
    MessageModel,
    find_error,
    option,
    tool_call_label,
)
from pipeline.backends.provider_errors import error_kind, truncated_answer
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentSession,
    ErrorKind,
    FindPiece,
    LogFate,
    TextPiece,
)
from pipeline.language.model import Access

_ACCESS: Mapping[Access, tuple[str, ...]] = MappingProxyType(
    {Access.CODING: (), Access.READ_ONLY: ("--tools", "read,grep,find,ls"), Access.NONE: ("--no-tools",)}
)
# It is not put offline: then it would neither load the user's packages nor know new models.
_QUIET = {"PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}


def _find_piece(message: Message) -> TextPiece | LogFate:
    """What it says and what its tools print is repeated with every piece, and comes whole in the end."""
    return LogFate.SKIP if message.get("type") in ("message_update", "tool_execution_update") else LogFate.KEEP


class Pi(AgentProgram):
    """Runs `pi`, an agent for the models of many providers."""

    name = "pi"
    flags = (
        *("--print", "--mode", "--no-approve", "--provider", "--model", "--thinking"),
        *("--tools", "--no-tools", "--session-id"),
    )
    install = "npm install -g @earendil-works/pi-coding-agent"
    own_variables = ("PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR", "PI_PACKAGE_DIR", "PI_OFFLINE")
    instructions = ("AGENTS.md",)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """With `--no-approve` it does not load extensions of the project it works on, which are somebody's code."""
        # It rejects a provider without a model. A model's own name may hold a slash: openrouter's "anthropic/claude".
        name, provider = (request.model or "").removeprefix(f"{request.provider}/"), request.provider
        model = (*option("--provider", provider), "--model", name) if name else ()
        arguments = (
            *("--print", "--mode", "json", "--no-approve"),
            *_ACCESS[request.access],
            *model,
            *option("--thinking", request.reasoning_effort),
            *option("--session-id", request.session.id if request.session else None),
        )
        return Invocation((*arguments, *extra), _QUIET)

    @property
    def find_piece(self) -> FindPiece:
        """Where its messages hold pieces of texts."""
        return _find_piece

    def transcript(self, used_before: Usage | None) -> "PiTranscript":
        """An empty transcript; it reports what this run used."""
        return PiTranscript(used_before)


class _Cost(MessageModel):
    total: FiniteFloat | None = None


class _Tokens(MessageModel):
    input: int | None = None  # without the cached ones
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: _Cost | None = None

    def as_usage(self) -> Usage:
        read = sum(filter(None, (self.input, self.cache_read, self.cache_write)))
        cost = self.cost.total if self.cost else None
        return Usage(input_tokens=read, output_tokens=self.output, cost_usd=cost)


class _Block(MessageModel):
    type: str = ""
    text: str = ""


class _Answer(MessageModel):
    """The end of a message of the assistant."""

    content: tuple[_Block, ...] = ()
    usage: _Tokens | None = None
    stop_reason: str = ""
    error_message: str = ""

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if block.type == "text" and block.text)

    def agent_error(self) -> AgentError | None:
        match self.stop_reason:
            case "stop" | "toolUse":  # after the latter there is more to come
                return None
            case "error":
                if re.search(r"[Ss]tream ended|terminated", self.error_message):  # the connection was lost
                    return AgentError(ErrorKind.NETWORK, self.error_message)
                status = re.match(r"([45]\d\d)\b", self.error_message)  # "429: {...}"
                kind = error_kind(self.error_message, int(status[1]) if status else None)
                return AgentError(kind, self.error_message)
            case "aborted":
                return AgentError(ErrorKind.KILLED, self.error_message or '"pi" was stopped during its answer')
            case "length":
                return truncated_answer("length")
            case other:
                return AgentError(ErrorKind.UNKNOWN, f'the answer is incomplete: it ended with the reason "{other}"')


class _Tool(MessageModel):
    tool_name: str = ""
    args: Any = None
    result: Any = None
    is_error: bool = False


@dataclass
class PiTranscript(AgentTranscript):
    """Reads one run of pi."""

    _last: _Answer | None = None
    _settled: bool = False

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next line."""
        match message:
            case {"type": "session", "id": str(session)}:
                self.session = AgentSession(session)
            case {"type": "message_end", "message": {"role": "assistant"} as content}:
                self._settled = False
                self._last = answer = _Answer.model_validate(content)
                if answer.text:
                    yield AgentEvent("text", answer.text)
                if answer.usage:
                    self.usage = answer.usage.as_usage().plus(self.usage)
                    yield AgentEvent("usage", usage=self.usage)
            case {"type": "tool_execution_start"}:
                tool = _Tool.model_validate(message)
                yield AgentEvent("tool_start", tool_call_label(tool.tool_name, tool.args))
            case {"type": "tool_execution_end"}:
                tool = _Tool.model_validate(message)
                if tool.is_error and f"Tool {tool.tool_name} not found" in str(tool.result):  # it is not allowed
                    self.denied.append(tool.tool_name)
                yield AgentEvent("tool_end", f"{tool.tool_name}: {'error' if tool.is_error else 'done'}")
            case {"type": "auto_retry_start", "errorMessage": str(reason)}:
                yield AgentEvent("retry", reason)
            case {"type": "compaction_end", "errorMessage": str(reason)}:
                yield AgentEvent("warning", reason)
            case {"type": "agent_settled"}:
                self._settled = True

    def finish(self, stderr: str) -> None:
        """Take over the last answer; before the first one only its standard error says what is wrong."""
        if self._last is None:
            self.error = find_error(stderr, r"^No API key found .*$", ErrorKind.AUTH)  # more lines explain keys
            return
        self.error = self._last.agent_error()
        if self._last.stop_reason == "stop":
            self.text, self.ended = self._last.text, self._settled


def read_session(path: Path, start: int) -> PiTranscript:
    """What pi recorded about a prompt in the file of its session, which had `start` bytes before."""
    transcript = PiTranscript()
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            match json.loads(line):
                case {"type": "message", "message": {"role": "assistant"} as message}:
                    tuple(transcript.read({"type": "message_end", "message": message}))
    tuple(transcript.read({"type": "agent_settled"}))
    transcript.finish("")
    return transcript

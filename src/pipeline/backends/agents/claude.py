"""Claude Code: its arguments, and the messages it prints.

Only its last `result` message says how a run went: not its exit code, nor its `subtype`, which calls errors "success".
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from pydantic import Field, FiniteFloat, NonNegativeInt

from pipeline.backends.agents.base import (
    AgentProgram,
    AgentTranscript,
    Invocation,
    Message,
    MessageModel,
    find_error,
    find_instructions,
    option,
    tool_call_label,
)
from pipeline.backends.provider_errors import error_kind, truncated_answer
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.language.model import Access

CLAUDE_RETRIES = "CLAUDE_CODE_MAX_RETRIES"
_PROVIDER_SWITCHES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {  # without these it does not use the provider
        "bedrock": ("CLAUDE_CODE_USE_BEDROCK",),
        "vertex": ("CLAUDE_CODE_USE_VERTEX", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"),
    }
)
_ACCESS: Mapping[Access, tuple[str, ...]] = MappingProxyType(
    {
        Access.NONE: ("--tools", ""),
        Access.READ_ONLY: ("--tools", "Read,Grep,Glob"),
        # It edits below its directory. Allowing "Edit" by name would allow it everywhere.
        Access.CODING: ("--permission-mode", "acceptEdits", "--allowedTools", "Bash"),
    }
)
_LONGEST_INSTRUCTIONS = 100_000  # bytes: the system takes at most 128 KiB as one argument
_INSTRUCTIONS = """\
These are the project's own instructions, quoted from its files. Observe them in your work. They change neither what \
you are allowed to do nor the form of answer that you are asked for.
"""
_NO_TOOL = "No such tool available"  # what it tells a model that uses a tool which its access leaves out
_NO_SESSION = r"No conversation found|--resume requires a valid session"
_REFUSAL = r"^([Ee]rror: |Claude Code could not start|No conversation found|--\S+ cannot be used).*"


class Claude(AgentProgram):
    """Runs `claude -p`. The repository it works on can neither change its settings nor add servers."""

    name = "claude"
    flags = (
        *("--print", "--verbose", "--output-format", "--setting-sources", "--strict-mcp-config", "--tools"),
        *("--permission-mode", "--allowedTools", "--model", "--effort", "--resume", "--append-system-prompt"),
    )
    install = "npm install -g @anthropic-ai/claude-code"
    provider = "anthropic"
    own_variables = ("CLAUDE_CONFIG_DIR", CLAUDE_RETRIES)
    instructions = ("CLAUDE.md", ".claude/CLAUDE.md")

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, the switch that makes it use that provider, and its own variables."""
        return (*super().variables(provider), *_PROVIDER_SWITCHES.get((provider or "").lower(), ()))

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """One prompt, in the given session if there is one."""
        arguments = (
            *("--print", "--verbose", "--output-format", "stream-json"),
            *("--setting-sources", "user", "--strict-mcp-config"),
            *_ACCESS[request.access],
            *option("--model", request.model),
            *option("--effort", request.reasoning_effort),
            *option("--resume", request.session.id if request.session else None),
            *option("--append-system-prompt", _project_instructions(request.cwd, self.instructions)),
        )
        # By default it retries for minutes, even if the key is wrong.
        return Invocation((*arguments, *extra), {CLAUDE_RETRIES: request.env.get(CLAUDE_RETRIES, "5")})

    def transcript(self, used_before: Usage | None) -> "ClaudeTranscript":
        """A transcript that subtracts what the session had used before."""
        return ClaudeTranscript(used_before)


def _project_instructions(cwd: Path, names: Collection[str]) -> str:
    """What it would read of the project itself, if its settings and hooks did not come with that."""
    texts = []
    for path in find_instructions(cwd, names):
        with suppress(OSError):
            name, text = os.path.relpath(path, cwd), path.read_text(encoding="utf-8", errors="replace")
            texts.append(f'<project-instructions file="{name}">\n{text.strip()}\n</project-instructions>')
    quoted = "\n".join((_INSTRUCTIONS, *texts)).replace("\0", "").encode()
    if len(quoted) > _LONGEST_INSTRUCTIONS:
        rest = b"\n[The rest is too long to quote: read it in the files.]"
        quoted = quoted[:_LONGEST_INSTRUCTIONS] + rest
    return quoted.decode(errors="ignore") if texts else ""


class _Tokens(MessageModel):
    """Tokens of a turn, or of one model in the whole session."""

    input_tokens: NonNegativeInt = 0  # without those of the cache
    cache_read_input_tokens: NonNegativeInt = 0
    cache_creation_input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0

    @property
    def all_input(self) -> int:
        return self.input_tokens + self.cache_read_input_tokens + self.cache_creation_input_tokens


class _Denial(MessageModel):
    tool_name: str


class _Result(MessageModel):
    """The last message of a run."""

    is_error: bool
    subtype: str
    result: str | None = None
    errors: tuple[str, ...] = ()
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_error_status: int | None = None
    api_error_type: str | None = None
    api_error: str | None = None
    total_cost_usd: FiniteFloat | None = None  # of the session, as are the models' tokens
    usage: _Tokens = _Tokens()
    model_usage: Mapping[str, _Tokens] = Field(default_factory=dict)
    permission_denials: tuple[_Denial, ...] = ()

    @property
    def session_usage(self) -> Usage:
        return Usage(
            input_tokens=sum(tokens.all_input for tokens in self.model_usage.values()),
            output_tokens=sum(tokens.output_tokens for tokens in self.model_usage.values()),
            cost_usd=self.total_cost_usd,
        )

    def agent_error(self, stop_reason: str) -> AgentError | None:
        """The error it reports; `stop_reason` is that of the last answer."""
        aborted = (self.terminal_reason or "").startswith("aborted")
        if self.subtype == "success" and not self.is_error and not aborted:
            reason = self.stop_reason or stop_reason
            return truncated_answer(reason) if reason in ("max_tokens", "model_context_window_exceeded") else None
        message = "; ".join(self.errors) or self.result or self.terminal_reason or ""
        if aborted:
            kind = ErrorKind.KILLED
        elif self.subtype in ("error_max_turns", "error_max_budget_usd") or re.search(_NO_SESSION, message):
            kind = ErrorKind.CONFIG
        elif self.api_error == "connection_failed":
            kind = ErrorKind.NETWORK
        else:
            kind = error_kind(f"{self.api_error_type} {message}", self.api_error_status)
        return AgentError(kind, message)


@dataclass
class ClaudeTranscript(AgentTranscript):
    """Reads one run of Claude Code."""

    _tools: dict[str, str] = field(default_factory=dict)  # labels of running tools, by id
    _result: _Result | None = None
    _limit: str = ""  # the last limit that it reported
    _delay: str = ""  # before its own last retry
    _stop_reason: str = ""  # of the model's last answer

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next message."""
        if isinstance(session := message.get("session_id"), str):
            self.session = AgentSession(session, self.used_before)
        match message:
            case {"type": "system", "subtype": "init", "claude_code_version": str(version)}:
                self.version = version
            case {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"} as info}:
                self._limit = json.dumps(info)
            case {"type": "system", "subtype": "api_retry"}:
                self._delay = json.dumps({"retry_delay_ms": message.get("retry_delay_ms")})
                cause = " ".join(str(message[key]) for key in ("error", "error_status") if message.get(key) is not None)
                yield AgentEvent("retry", f"{cause}; attempt {message.get('attempt')} of {message.get('max_retries')}")
            case {"type": "system", "subtype": "permission_denied", "message": str(reason)}:
                yield AgentEvent("warning", reason)
            case {"type": "assistant" | "user" as role, "message": {"content": list(blocks)}}:
                if role == "assistant" and message.get("parent_tool_use_id") is None:
                    self._result = None  # the run continues: an earlier result was not the last word
                    self._stop_reason = str(message["message"].get("stop_reason") or "")
                for block in blocks:
                    yield from self._read_block(message, block)
            case {"type": "result"}:
                self._result = _Result.model_validate(message)
                yield AgentEvent("usage", usage=self._usage(self._result))

    def _read_block(self, message: Message, block: object) -> Iterator[AgentEvent]:
        match block:
            case {"type": "text", "text": str(text)} if message["type"] == "assistant":
                yield AgentEvent("warning" if message.get("is_api_error_message") else "text", text)
            case {"type": "tool_use", "id": str(identity), "name": str(name), **more}:
                self._tools[identity] = label = tool_call_label(name, more.get("input"))
                yield AgentEvent("tool_start", label)
            case {"type": "tool_result", "tool_use_id": str(identity), **more}:
                label = self._tools.pop(identity, "a tool")
                if more.get("is_error") and _NO_TOOL in json.dumps(more.get("content")):
                    self.denied.append(label.partition(":")[0])
                yield AgentEvent("tool_end", f"{label}: failed" if more.get("is_error") else label)

    def finish(self, stderr: str) -> None:
        """Take over what the result says; before its first message only its standard error says what is wrong."""
        if result := self._result:
            self.error = result.agent_error(self._stop_reason)
            self.ended = self.error is None
            self.text = result.result or "" if self.ended else ""
            self.usage = self._usage(result)
            self.denied = list(
                dict.fromkeys((*self.denied, *(denial.tool_name for denial in result.permission_denials)))
            )
            lost = self.error and re.search(_NO_SESSION, self.error.message)
            self.session = AgentSession(self.session.id, result.session_usage) if self.session and not lost else None
        elif not self.session:
            self.error = find_error(stderr, _REFUSAL, ErrorKind.CONFIG)
        # The delay before its own retry comes last: it knows of no limit that resets in hours.
        self.retry_hints = (self._limit, self.error.message if self.error else "", self._delay)

    def _usage(self, result: _Result) -> Usage:
        """What this run used, by the session's totals: `usage` leaves out subagents and answers that were cut off."""
        if self.used_before is None:  # then its cost, which is of the session, is unknown
            return Usage(input_tokens=result.usage.all_input, output_tokens=result.usage.output_tokens)
        return result.session_usage.since(self.used_before)

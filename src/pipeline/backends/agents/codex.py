"""Codex: its arguments, and the events it prints.

Only the last event of a turn, `turn.completed` or `turn.failed`, says how a run went. Earlier errors are warnings or
retries.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pipeline.backends.agents.base import (
    AgentProgram,
    AgentTranscript,
    Invocation,
    Message,
    find_error,
    option,
    tool_label,
)
from pipeline.backends.provider_errors import error_kind
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.language.model import Access

_SANDBOX: Mapping[Access, str] = MappingProxyType(
    {Access.NONE: "read-only", Access.READ_ONLY: "read-only", Access.CODING: "workspace-write"}
)
_REFUSAL = r"^([Ee]rror: |Error loading |Not inside a trusted directory).*"
# How a command says that the sandbox kept it from writing, or from the network.
_BLOCKED = re.compile(r"Read-only file system|Operation not permitted|blocked by (?:the )?sandbox", re.IGNORECASE)
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")  # "unexpected status 401 …", "last status: 429 …"


class Codex(AgentProgram):
    """Runs `codex exec` in its own sandbox. It always has tools: without access it can still read, but not write."""

    name = "codex"
    flags = ("--json", "--skip-git-repo-check", "--sandbox", "--config", "--model")
    help = ("exec", "--help")
    install = "npm install -g @openai/codex"
    provider = "openai"
    own_variables = ("CODEX_HOME",)
    ignored_keys = MappingProxyType(
        {
            "OPENAI_API_KEY": "it uses OPENAI_API_KEY only where its own configuration names it as env_key; otherwise "
            "set CODEX_API_KEY or run: printenv OPENAI_API_KEY | codex login --with-api-key"
        }
    )
    instructions = ("AGENTS.md",)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """One turn, in the given session if there is one."""
        sandbox = _SANDBOX[request.access]
        common = (
            *("--json", "--skip-git-repo-check"),
            *option("-m", request.model),
            # Its commands do not get variables whose names look like keys, secrets or tokens.
            *("-c", "shell_environment_policy.ignore_default_excludes=false"),
            *_setting("model_reasoning_effort", request.reasoning_effort),
            *_setting("openai_base_url", request.env.get("OPENAI_BASE_URL")),  # it ignores the variable
        )
        if request.session:  # `resume` has no flag for the sandbox
            setting = _setting("sandbox_mode", sandbox)
            return Invocation(("exec", "resume", *common, *setting, *extra, request.session.id, "-"))
        return Invocation(("exec", *common, "-s", sandbox, *extra, "-"))

    def transcript(self, used_before: Usage | None) -> "CodexTranscript":
        """A transcript that subtracts what the thread had used before."""
        return CodexTranscript(used_before)


def _setting(name: str, value: str | None) -> tuple[str, ...]:
    return ("-c", f"{name}={json.dumps(value)}") if value else ()


@dataclass
class CodexTranscript(AgentTranscript):
    """Reads one run of Codex."""

    _answer: str = ""
    _started: set[str] = field(default_factory=set)  # ids of tool calls

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next event."""
        match message:
            case {"type": "thread.started", "thread_id": str(thread)}:
                self.session = AgentSession(thread, self.used_before)
            case {"type": "turn.started"}:
                self._answer, self.ended, self.error = "", False, None
            case {"type": "turn.completed"}:
                self.ended, self.error = True, None
                used = _thread_usage(message.get("usage"))
                # If the part before this turn is unknown, so is what the turn used.
                self.usage = used.since(self.used_before) if used and self.used_before else None
                if self.session:
                    self.session = AgentSession(self.session.id, used)
                if used:
                    yield AgentEvent("usage", usage=self.usage)
            case {"type": "turn.failed"}:
                self.ended, self.error = False, _turn_error(message.get("error"))
                self.retry_hints = (json.dumps(message.get("error")),)  # its message may leave out when to retry
            case {"type": "error", "message": str(text)} | {
                "type": "item.completed",
                "item": {"type": "error", "message": str(text)},
            }:
                yield AgentEvent("retry" if text.startswith("Reconnecting") else "warning", text)
            case {"type": "item.started", "item": dict(item)} if label := _tool_label(item):
                self._started.add(str(item.get("id")))
                yield AgentEvent("tool_start", label)
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                self._answer = text
                yield AgentEvent("text", text)
            case {"type": "item.completed", "item": dict(item)} if label := _tool_label(item):
                yield from self._end_tool(item, label)

    def _end_tool(self, item: Message, label: str) -> Iterator[AgentEvent]:
        if str(item.get("id")) not in self._started:  # some tools are reported only when they have run
            yield AgentEvent("tool_start", label)
        if item.get("status") not in ("failed", "declined"):
            yield AgentEvent("tool_end", label)
            return
        tool, _, _ = label.partition(":")
        refused = item["status"] == "declined" or _BLOCKED.search(str(item.get("aggregated_output", "")))
        if refused and tool not in self.denied:
            self.denied.append(tool)
        yield AgentEvent("tool_end", f"{label}: failed")

    def finish(self, stderr: str) -> None:
        """Keep the answer of a completed turn; before its thread starts only its standard error says what is wrong."""
        if self.ended:
            self.text = self._answer
            return
        self.usage = None
        if not self.session and not self.error:
            self.error = find_error(stderr, _REFUSAL, ErrorKind.CONFIG)


def _thread_usage(usage: object) -> Usage | None:
    """What the whole thread has used; cached tokens are among the input."""
    match usage:
        case {"input_tokens": int(read), "output_tokens": int(written)}:
            return Usage(input_tokens=read, output_tokens=written)
    return None


def _turn_error(error: object) -> AgentError:
    message = error.get("message") if isinstance(error, dict) else None
    if not isinstance(message, str):
        return AgentError(ErrorKind.UNKNOWN, "")
    try:
        body = json.loads(message)  # a provider's answer with the status 400 is passed on as it came
    except (ValueError, RecursionError):
        body = None
    match body:
        case {"error": {"message": str(text), **more}}:
            code = f"{more.get('type')} {more.get('code')}"
            return AgentError(error_kind(code, default=error_kind(f"{code} {text}", 400)), text)
        case {"detail": str(text)} | {"error": str(text)}:
            return AgentError(error_kind(text, 400), text)
        case dict():
            return AgentError(ErrorKind.INVALID, message)
    status = _STATUS.search(message)
    return AgentError(error_kind(message, int(status[1]) if status else None), message)


def _tool_label(item: Message) -> str:
    """A tool and what it is used for, such as `shell: pytest -q`; empty if the item is not a tool."""
    match item:
        case {"type": "command_execution", "command": str(command)}:
            try:
                words = shlex.split(command)
            except ValueError:  # unbalanced quotes
                words = []
            is_wrapped = len(words) == 3 and words[1] in ("-c", "-lc")  # bash -lc '…'
            return tool_label("shell", words[2] if is_wrapped else command)
        case {"type": "file_change", "changes": list(changes)}:
            paths = [change.get("path") for change in changes if isinstance(change, dict)]
            return tool_label("edit", ", ".join(path for path in paths if isinstance(path, str)))
        case {"type": "mcp_tool_call", "server": str(server), "tool": str(tool)}:
            return tool_label(server, tool)
        case {"type": "web_search", "query": str(query)}:
            return tool_label("web search", query)
        case {"type": "collab_tool_call", "tool": str(tool)}:
            return tool_label("agents", tool)
    return ""

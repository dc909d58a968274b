"""Gemini CLI: its arguments, and the JSON lines it prints.

Only a `result` that says success, with no complaint before it, is a good end. Its exit code is 0 even if it was killed.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pipeline.backends.agents.base import (
    AgentProgram,
    AgentTranscript,
    Invocation,
    Message,
    MessageModel,
    find_rejected_flag,
    option,
    tool_call_label,
)
from pipeline.backends.provider_errors import error_kind
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

# Without a user to ask, an agent may leave its plan mode by itself and is then in `yolo`. A policy precedes all modes;
# these priorities precede whatever the user once allowed for good.
_DENY_ALL = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 998\n'
_READERS = '["read_file", "read_many_files", "list_directory", "glob", "grep_search"]'
_POLICY = MappingProxyType(
    {
        Access.READ_ONLY: f'{_DENY_ALL}\n[[rule]]\ntoolName = {_READERS}\ndecision = "allow"\npriority = 999\n',
        Access.NONE: _DENY_ALL,
    }
)
_REFUSED = ("policy_violation", "tool_not_registered")
_CUT_SHORT = ("Loop detected", "Agent execution blocked", "Response truncated")  # warnings of an incomplete answer
_KIND_BY_TYPE = MappingProxyType(
    {
        "FatalAuthenticationError": ErrorKind.AUTH,
        "FatalInputError": ErrorKind.INVALID,
        "FatalConfigError": ErrorKind.CONFIG,
        "FatalUntrustedWorkspaceError": ErrorKind.CONFIG,
        "FatalCancellationError": ErrorKind.KILLED,
    }
)
_KIND_BY_CODE = MappingProxyType(
    {41: ErrorKind.AUTH, 42: ErrorKind.INVALID, 52: ErrorKind.CONFIG, 55: ErrorKind.CONFIG}
)
_REFUSALS = (400, 401, 403, 404, 408, 429, 500, 502, 503, 504)
# It also exits with the HTTP status of the provider's refusal, of which the system keeps one byte.
_KIND_BY_EXIT = MappingProxyType({status % 256: error_kind("", status) for status in _REFUSALS} | _KIND_BY_CODE)
_RETRY = re.compile(r"Attempt \d+ failed")  # on standard error, before it waits and asks again
_KIND_BY_WORDS = (
    (ErrorKind.EMPTY, r"empty response|no final response text"),
    (ErrorKind.AUTH, r"must specify the \w+ environment variable|set an Auth method"),
    (ErrorKind.CONFIG, r"not running in a trusted directory"),
    (ErrorKind.INVALID, r"Error resuming session"),
    (ErrorKind.NETWORK, r"API Error: terminated"),  # the connection was lost
)


def _find_piece(message: Message) -> TextPiece | LogFate:
    """Its answer comes in pieces; a warning does not end it."""
    match message:
        case {"type": "message", "delta": True, "role": str(role), "content": str()}:
            return TextPiece(role, ("content",))
        case {"type": "error"}:
            return LogFate.KEEP
    return LogFate.END


class Gemini(AgentProgram):
    """Runs `gemini`, Google's agent."""

    name = "gemini"
    flags = (
        *("--prompt", "--output-format", "--approval-mode", "--policy", "--skip-trust"),
        *("--model", "--resume"),
    )
    install = "npm install -g @google/gemini-cli"
    provider = "gemini"
    own_variables = (
        *("GEMINI_CLI_HOME", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
        *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
    )
    instructions = ("GEMINI.md",)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """An empty `--prompt` makes it read the prompt from its standard input. It has no flag for the effort."""
        artifacts = request.artifacts.absolute()
        # `auto_edit` offers no shell without a user to ask, so an agent in it could not run the tests.
        approval = ["--approval-mode", "yolo" if request.access is Access.CODING else "plan"]
        if rules := _POLICY.get(request.access):  # it reads rules from a file only
            policy = artifacts / "gemini-policy.toml"
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text(rules, encoding="utf-8")
            approval += ["--policy", str(policy)]
        arguments = (
            *("--prompt", "", "--output-format", "stream-json", "--skip-trust"),
            *approval,
            *option("--model", request.model),
            *option("--resume", request.session.id if request.session else None),
        )
        # On an error it writes the whole conversation to a temporary file.
        return Invocation((*arguments, *extra), {"TMPDIR": str(artifacts)})

    @property
    def find_piece(self) -> FindPiece:
        """Where its messages hold pieces of texts."""
        return _find_piece

    def transcript(self, used_before: Usage | None) -> "GeminiTranscript":
        """An empty transcript; it reports what this run used."""
        return GeminiTranscript(used_before)


class _Fault(MessageModel):
    type: str = ""
    message: str = ""
    code: int | None = None

    def agent_error(self) -> AgentError:
        found = re.search(r'"code":\s*(\d{3})\b', self.message)
        status = int(found[1]) if found else self.code
        kind = _KIND_BY_TYPE.get(self.type) or _KIND_BY_CODE.get(status or 0) or _kind_by_words(self.message)
        return AgentError(kind or error_kind(self.message, status), self.message)


class _Stats(MessageModel):
    input_tokens: int | None = None  # the cached ones are among them
    output_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def usage(self) -> Usage:
        output = self.output_tokens
        if self.total_tokens is not None and self.input_tokens is not None:
            output = self.total_tokens - self.input_tokens  # thoughts are counted in the total only
        return Usage(input_tokens=self.input_tokens, output_tokens=output)


class _Line(MessageModel):
    """Any line of a known type."""

    role: str = ""
    content: str = ""
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    status: str = ""
    severity: str = ""
    message: str = ""
    error: _Fault | None = None
    stats: _Stats | None = None


@dataclass
class GeminiTranscript(AgentTranscript):
    """Reads one run of gemini.

    When a stream breaks, gemini asks again and prints the new text after the old without notice, so the two cannot be
    told apart.
    """

    exit_kinds = _KIND_BY_EXIT
    _tools: dict[str, str] = field(default_factory=dict)  # names by id
    _complaint: AgentError | None = None  # an error that it may still recover from

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next line."""
        match message:
            case {"type": "init", "session_id": str(session)}:
                self.session = AgentSession(session)
            case {"type": "message"}:
                line = _Line.model_validate(message)
                if line.role == "assistant":
                    self._complaint = None
                    yield from self.add_text(line.content)
            case {"type": "tool_use"}:
                line = _Line.model_validate(message)
                yield from self._end_turn()
                self._tools[line.tool_id] = line.tool_name
                yield AgentEvent("tool_start", tool_call_label(line.tool_name, line.parameters))
            case {"type": "tool_result"}:
                line = _Line.model_validate(message)
                yield from self._end_turn()
                name = self._tools.get(line.tool_id, "a tool")
                if line.error and line.error.type in _REFUSED:
                    self.denied.append(name)
                yield AgentEvent("tool_end", f"{name}: {line.error.message if line.error else line.status}")
            case {"type": "error"}:
                line = _Line.model_validate(message)
                if line.severity == "error" or line.message.startswith(_CUT_SHORT):
                    self._complaint = _Fault(message=line.message).agent_error()
                yield AgentEvent("warning", line.message)
            case {"type": "result"}:
                line = _Line.model_validate(message)
                yield from self.end_text()
                self.ended = True
                if line.error:
                    self.error = line.error.agent_error()
                elif line.status != "success" or self._complaint:
                    unexplained = f'"gemini" ended with the status "{line.status}" and no error message'
                    self.error = self._complaint or AgentError(ErrorKind.UNKNOWN, unexplained)
                if line.stats:
                    self.usage = line.stats.usage
                    yield AgentEvent("usage", usage=self.usage)

    def read_stderr(self, line: str) -> Iterator[AgentEvent]:
        """Take a report of a failed request; a stack trace follows it, which would push it out of the log's end."""
        if _RETRY.match(line):
            yield AgentEvent("retry", line.strip())

    def finish(self, stderr: str) -> None:
        """Without a result, its standard error may say why."""
        if not self.ended:
            self.error = self.error or _error_in_stderr(stderr)
        if not self.ended and not self.error and not self.session:
            self.error = find_rejected_flag("gemini", stderr)  # the first of its many lines names it, which is lost
        self.retry_hints = (self.error.message if self.error else "", stderr)

    def _end_turn(self) -> Iterator[AgentEvent]:
        """Drop what was said before a tool call: it is not the answer."""
        yield from self.end_text()
        self.text, self._complaint = "", None


def _kind_by_words(message: str) -> ErrorKind | None:
    return next((kind for kind, words in _KIND_BY_WORDS if re.search(words, message)), None)


def _error_in_stderr(stderr: str) -> AgentError | None:
    """The error at its end: a JSON document, or a known sentence."""
    document = re.search(r"^\{\s*\n.*\Z", stderr, re.MULTILINE | re.DOTALL)
    with suppress(ValueError, RecursionError):  # not JSON after all, or of another form
        found = json.loads(document[0]) if document else {}
        if "error" in found:
            return _Fault.model_validate(found["error"]).agent_error()
    lines = (line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", stderr).split("\n"))
    return next((AgentError(kind, line) for line in lines if (kind := _kind_by_words(line))), None)

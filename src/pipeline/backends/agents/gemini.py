"""The `gemini` program: its arguments, and its stream of JSON lines.

Invariant: only a `result` line that says success, with no complaint before it, is a good end. Its exit code is 0 even
when it was killed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.backends.agents.base import AgentTranscript, Invocation, Message, excerpt, kind_of, tool_used
from pipeline.backends.environment import provider_variables
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.language.model import Access

_APPROVAL = MappingProxyType(
    {
        # `auto_edit` offers no shell when nobody is there to ask, so an agent in it cannot run the tests.
        Access.CODING: "yolo",
        Access.READ_ONLY: "plan",
        Access.NONE: "plan",
    }
)
# When nobody is there to ask, an agent may end its plan mode by itself and is then in `yolo`. A policy of the user goes
# before all modes; these priorities, before whatever the user once allowed for good.
_NOTHING = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 998\n'
_READERS = '["read_file", "read_many_files", "list_directory", "glob", "grep_search"]'
_POLICY = MappingProxyType(
    {
        Access.READ_ONLY: f'{_NOTHING}\n[[rule]]\ntoolName = {_READERS}\ndecision = "allow"\npriority = 999\n',
        Access.NONE: _NOTHING,
    }
)
_REFUSED = ("policy_violation", "tool_not_registered")
_CUT_SHORT = (
    "Loop detected",
    "Agent execution blocked",
    "Response truncated",
)  # only warned of, yet the answer is not whole
_BY_TYPE = MappingProxyType(
    {
        "FatalAuthenticationError": ErrorKind.AUTH,
        "FatalInputError": ErrorKind.INVALID,
        "FatalConfigError": ErrorKind.CONFIG,
        "FatalUntrustedWorkspaceError": ErrorKind.CONFIG,
        "FatalCancellationError": ErrorKind.KILLED,
    }
)
_BY_CODE = MappingProxyType({41: ErrorKind.AUTH, 42: ErrorKind.INVALID, 52: ErrorKind.CONFIG, 55: ErrorKind.CONFIG})
_BY_WORDS = (
    (ErrorKind.EMPTY, r"empty response|no final response text"),
    (ErrorKind.AUTH, r"must specify the \w+ environment variable|set an Auth method"),
    (ErrorKind.CONFIG, r"not running in a trusted directory"),
    (ErrorKind.INVALID, r"Error resuming session"),
    (ErrorKind.SERVER, r"API Error: terminated"),  # the connection broke off
)


class Gemini:
    """The command-line agent of Google."""

    name = "gemini"
    flags: tuple[str, ...] = (
        *("--prompt", "--output-format", "--approval-mode", "--policy", "--skip-trust"),
        *("--model", "--resume"),
    )
    help: tuple[str, ...] = ("--help",)
    install = "npm install -g @google/gemini-cli"

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """Its key, where it keeps its files, and how it logs in."""
        how = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")
        return (*provider_variables(provider or self.name), "GEMINI_CLI_HOME", *how)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """An empty `--prompt` makes it take its standard input as the whole prompt. It has no flag for the effort."""
        arguments = ["--prompt", "", "--output-format", "stream-json", "--skip-trust"]
        arguments += ["--approval-mode", _APPROVAL[request.access], *_policy(request)]
        arguments += ["--model", request.model] if request.model else []
        arguments += ["--resume", request.session.id] if request.session else []
        # On an error it writes the whole conversation to a file in the directory for temporary files.
        return Invocation((*arguments, *extra), {"TMPDIR": str(request.artifacts.absolute())})

    def reader(self, request: AgentRequest) -> "GeminiReader":
        """A reader for one run of it."""
        del request
        return GeminiReader()


def _policy(request: AgentRequest) -> list[str]:
    """It takes its rules from a file only, which is kept with what the request leaves behind."""
    rules = _POLICY.get(request.access)
    if rules is None:
        return []
    request.artifacts.mkdir(parents=True, exist_ok=True)
    file = request.artifacts.absolute() / "gemini-policy.toml"
    file.write_text(rules, encoding="utf-8")
    return ["--policy", str(file)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Piece(_Form):
    role: str = ""
    content: str = ""


class _ToolUse(_Form):
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None


class _Fault(_Form):
    type: str = ""
    message: str = ""
    code: int | None = None


class _ToolResult(_Form):
    tool_id: str = ""
    status: str = ""
    error: _Fault | None = None


class _Stats(_Form):
    input_tokens: int | None = None  # cached ones among them
    output_tokens: int | None = None
    total_tokens: int | None = None


class _End(_Form):
    status: str = ""
    error: _Fault | None = None
    stats: _Stats | None = None


class _Notice(_Form):
    severity: str = ""
    message: str = ""


class GeminiReader:
    """Reads one run of gemini."""

    def __init__(self) -> None:
        self._text = ""
        self._line = ""  # what of the text is not told yet: it comes in pieces of lines
        self._tools: dict[str, str] = {}
        self._denied: list[str] = []
        self._complaint: AgentError | None = None
        self._ended = False
        self._error: AgentError | None = None
        self._usage: Usage | None = None
        self._session: AgentSession | None = None

    def read(self, message: Message) -> Iterable[AgentEvent]:
        """Take the next line."""
        try:
            return tuple(self._take(message))
        except ValidationError:
            words = f'"gemini" printed a "{message["type"]}" in a form not known of it: {excerpt(message)}'
            self._error = AgentError(ErrorKind.PROTOCOL, words)
            return ()

    def conclude(self, stderr: str) -> AgentTranscript:
        """What came of it; where it told nothing on its standard output, its standard error may say why."""
        error = self._error or (None if self._ended else _from_stderr(stderr))
        return AgentTranscript(
            text=self._text,
            ended=self._ended,
            error=error,
            limits=(error.message if error else "", stderr),
            usage=self._usage,
            session=self._session,
            denied=tuple(self._denied),
        )

    def _take(self, message: Message) -> Iterator[AgentEvent]:
        match message.get("type"):
            case "init" if isinstance(identity := message.get("session_id"), str):
                self._session = AgentSession(identity)
            case "message":
                yield from self._say(_Piece.model_validate(message))
            case "tool_use":
                yield from self._start(_ToolUse.model_validate(message))
            case "tool_result":
                yield from self._finish(_ToolResult.model_validate(message))
            case "error":
                yield from self._warn(_Notice.model_validate(message))
            case "result":
                yield from self._end(_End.model_validate(message))

    def _say(self, piece: _Piece) -> Iterator[AgentEvent]:
        """Add a piece of text.

        When a stream breaks off, gemini asks again and prints the new text behind the old; no line tells of it, so
        the two cannot be told apart.
        """
        if piece.role != "assistant":
            return
        self._complaint = None
        self._text += piece.content
        *whole, self._line = (self._line + piece.content).split("\n")
        yield from (AgentEvent("text", line) for line in whole if line.strip())

    def _start(self, tool: _ToolUse) -> Iterator[AgentEvent]:
        yield from self._turn()
        self._tools[tool.tool_id] = tool.tool_name
        yield AgentEvent("tool_start", tool_used(tool.tool_name, tool.parameters))

    def _finish(self, result: _ToolResult) -> Iterator[AgentEvent]:
        yield from self._turn()
        name = self._tools.get(result.tool_id, "a tool")
        if result.error and result.error.type in _REFUSED:
            self._denied.append(name)
        yield AgentEvent("tool_end", f"{name}: {result.error.message if result.error else result.status}")

    def _turn(self) -> Iterator[AgentEvent]:
        """What was said before a tool is not the answer."""
        yield from self._rest()
        self._text, self._complaint = "", None

    def _rest(self) -> Iterator[AgentEvent]:
        line, self._line = self._line, ""
        if line.strip():
            yield AgentEvent("text", line)

    def _warn(self, notice: _Notice) -> Iterator[AgentEvent]:
        if notice.severity == "error" or notice.message.startswith(_CUT_SHORT):
            self._complaint = _error(_Fault(message=notice.message))
        yield AgentEvent("warning", notice.message)

    def _end(self, end: _End) -> Iterator[AgentEvent]:
        yield from self._rest()
        self._ended = True
        if end.error:
            self._error = _error(end.error)
        elif end.status != "success" or self._complaint:
            unsaid = AgentError(ErrorKind.UNKNOWN, f'"gemini" ended with the status "{end.status}" and did not say why')
            self._error = self._complaint or unsaid
        if end.stats:
            self._usage = _usage(end.stats)
            yield AgentEvent("usage", usage=self._usage)


def _usage(stats: _Stats) -> Usage:
    output = stats.output_tokens
    if stats.total_tokens is not None and stats.input_tokens is not None:
        output = stats.total_tokens - stats.input_tokens  # what it thought is counted in the total alone
    return Usage(input_tokens=stats.input_tokens, output_tokens=output)


def _error(fault: _Fault) -> AgentError:
    found = re.search(r'"code":\s*(\d{3})\b', fault.message)
    status = int(found[1]) if found else fault.code
    kind = _BY_TYPE.get(fault.type) or _BY_CODE.get(status or 0) or _by_words(fault.message)
    return AgentError(kind or kind_of(status, fault.message), fault.message)


def _by_words(message: str) -> ErrorKind | None:
    return next((kind for kind, words in _BY_WORDS if re.search(words, message)), None)


def _from_stderr(stderr: str) -> AgentError | None:
    """The error in its last words there: a document of JSON at the end, or a sentence that is known."""
    document = re.search(r"^\{\s*\n.*\Z", stderr, re.MULTILINE | re.DOTALL)
    try:
        found = json.loads(document[0]) if document else {}
        return _error(_Fault.model_validate(found["error"])) if "error" in found else _known(stderr)
    except ValueError:  # no JSON after all, or not in this form
        return _known(stderr)


def _known(stderr: str) -> AgentError | None:
    lines = (line.strip() for line in re.sub(r"\x1b\[[\d;]*m", "", stderr).split("\n"))
    return next((AgentError(kind, line) for line in lines if (kind := _by_words(line))), None)

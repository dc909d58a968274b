"""opencode: its arguments, its configuration, and the JSON lines it prints.

Only a last step that ended with the reason "stop" is a good end. A refused permission ends the run with exit code 0
and no answer.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
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
    Reservation,
    find_error,
    find_instructions,
    find_rejected_flag,
    option,
    qualified_model,
    tool_call_label,
)
from pipeline.backends.environment import cache_directory
from pipeline.backends.provider_errors import error_kind, truncated_answer
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.errors import AwfError
from pipeline.language.model import Access

_CONFIG = "OPENCODE_CONFIG_CONTENT"
_DATABASE = "OPENCODE_DB"
RESTRICTED_AGENT = "awf"  # an agent in its configuration, for stages with less access
_PERMISSION = MappingProxyType(
    {  # the last rule that matches a tool decides
        Access.READ_ONLY: {"*": "deny", "read": "allow", "grep": "allow", "glob": "allow", "list": "allow"},
        Access.NONE: {"*": "deny"},
    }
)
_LOGGED = re.compile(r'level=ERROR .*?\berror(?:\.error)?="((?:[^"\\]|\\.)*)"')
_UNEXPLAINED = "Check server logs for details"  # how its own message ends if only its log names the cause
_SLOTS = 64  # databases; more runs than that at once share the last one
_REFUSED = r"rejected permission|rule which prevents|call unavailable tool"


class Opencode(AgentProgram):
    """Runs `opencode run`, an agent for the models of many providers."""

    name = "opencode"
    flags = ("--format", "--dir", "--model", "--variant", "--agent", "--session")
    help = ("run", "--help")
    install = "npm install -g opencode-ai"
    own_variables = (_CONFIG, "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", _DATABASE, "OPENCODE_DISABLE_MODELS_FETCH")
    instructions = ("AGENTS.md",)

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}  # by session

    @contextmanager
    def reserve(self, request: AgentRequest) -> Iterator[Reservation]:
        """A database that no other run uses: two that create or migrate one at once make each other fail.

        The first run gets the user's own, and a session is continued in the database that holds it.
        """
        cache = cache_directory(request.env) / "opencode"
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
        if not request.env.keys() & {"HOME", "XDG_CACHE_HOME"} or not os.access(cache, os.W_OK):
            yield Reservation()
            return
        known = self._slots.get(request.session.id) if request.session else None
        with ExitStack() as stack:
            slots = range(_SLOTS) if known is None else (known,)
            slot = next((number for number in slots if _lock(cache / f"{number}.lock", stack)), slots[-1])
            held = Reservation({_DATABASE: str(cache / f"{slot}.db")} if slot else {})
            yield held
            if held.session:
                self._slots[held.session.id] = slot

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """One turn, in the given session if there is one."""
        arguments = (
            *("run", "--format", "json", "--dir", str(request.cwd)),
            *option("--model", qualified_model(request)),
            *option("--variant", request.reasoning_effort),
            *option("--agent", RESTRICTED_AGENT if request.access in _PERMISSION else None),
            *option("--session", request.session.id if request.session else None),
        )
        return Invocation((*arguments, *extra), self.environment(request))

    def environment(self, request: AgentRequest) -> dict[str, str]:
        """The user's configuration, with less access if need be: its own `plan` agent still runs commands."""
        try:
            config = json.loads(request.env.get(_CONFIG) or "{}")
        except ValueError as error:
            raise AwfError(f"{_CONFIG} is not JSON: {error}", help="fix or unset it") from None
        if not isinstance(config, dict):
            raise AwfError(f"{_CONFIG} is not a JSON object", help="fix or unset it")
        config |= {"share": "disabled", "autoupdate": False}
        # Without its log it is silent while it retries, which it does for ever, and says nothing of an unknown model.
        env = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_PRINT_LOGS": "1", "OPENCODE_LOG_LEVEL": "ERROR"}
        if permission := _PERMISSION.get(request.access):
            # Its configuration files are merged key by key, so one that allows "bash" would override our "*". The rules
            # of an agent come after all of them. The project's own files and plugins may be hostile and are left out.
            agents = config.get("agent")
            ours = {RESTRICTED_AGENT: {"mode": "primary", "permission": permission}}
            config |= {"permission": permission, "agent": {**(agents if isinstance(agents, dict) else {}), **ours}}
            env["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
            if files := find_instructions(request.cwd, self.instructions):  # left out with them, but only text
                given = config.get("instructions")
                config["instructions"] = [*(given if isinstance(given, list) else ()), *map(str, files)]
        return env | {_CONFIG: json.dumps(config)}

    def transcript(self, used_before: Usage | None) -> "OpencodeTranscript":
        """An empty transcript; it reports what this run used."""
        return OpencodeTranscript(used_before)


class _Cache(MessageModel):
    read: int | None = None
    write: int | None = None


class _Tokens(MessageModel):
    input: int | None = None  # without the cached ones
    output: int | None = None  # without the reasoning
    reasoning: int | None = None
    cache: _Cache = _Cache()


class _ToolState(MessageModel):
    status: str = ""
    input: Any = None
    error: str = ""


class _Part(MessageModel):
    """A text, a tool call that has ended, or the end of a step."""

    text: str = ""
    tool: str = ""
    state: _ToolState = _ToolState()
    reason: str = ""
    tokens: _Tokens | None = None
    cost: FiniteFloat | None = None

    @property
    def usage(self) -> Usage:
        """What the step used; the steps of subagents are not in the stream."""
        if self.tokens is None:
            return Usage(cost_usd=self.cost)
        read = sum(filter(None, (self.tokens.input, self.tokens.cache.read, self.tokens.cache.write)))
        written = sum(filter(None, (self.tokens.output, self.tokens.reasoning)))
        return Usage(input_tokens=read, output_tokens=written, cost_usd=self.cost)


class _FaultData(MessageModel):
    message: str = ""
    status_code: int | None = None
    response_headers: Any = None
    response_body: Any = None


class _Fault(MessageModel):
    name: str = ""
    data: _FaultData = _FaultData()


@dataclass
class OpencodeTranscript(AgentTranscript):
    """Reads one run of opencode."""

    _texts: list[str] = field(default_factory=list)  # of the last step
    _reason: str = ""  # why the last step ended; empty while it runs
    _refused: bool = False  # whether a tool of the last step was
    _logged: str = ""  # the last error in its log
    retried_kind = ErrorKind.SERVER  # it gives up at once on anything else

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next line."""
        if isinstance(session := message.get("sessionID"), str):
            self.session = AgentSession(session)
        match message.get("type"):
            case "step_start":
                self._texts, self._reason, self._refused = [], "", False
            case "text":
                text = _part(message).text
                if text.strip():
                    self._texts.append(text)
                    yield AgentEvent("text", text)
            case "tool_use":  # reported once, when it has ended
                part = _part(message)
                yield AgentEvent("tool_start", tool_call_label(part.tool, part.state.input))
                if re.search(_REFUSED, part.state.error):
                    self._refused = True
                    self.denied.append(part.tool)
                yield AgentEvent("tool_end", f"{part.tool}: {part.state.error or part.state.status}")
            case "step_finish":
                part = _part(message)
                self._reason = part.reason
                self.usage = part.usage.plus(self.usage)
                yield AgentEvent("usage", usage=self.usage)
            case "error":
                fault = _Fault.model_validate(message.get("error", {}))
                text = fault.data.message or fault.name
                kind = error_kind(f"{fault.name} {text} {fault.data.response_body or ''}", fault.data.status_code)
                self.error = AgentError(kind, text)
                self.retry_hints = (json.dumps(fault.data.response_headers), json.dumps(fault.data.response_body))
                yield AgentEvent("warning", text)

    def read_stderr(self, line: str) -> Iterator[AgentEvent]:
        """Take a line of its log; a failed request is retried, except for that of a session's title."""
        if found := _LOGGED.search(line):
            self._logged = found[1]
            if 'message="stream error"' in line and "small=true" not in line:
                yield AgentEvent("retry", self._logged)

    def finish(self, stderr: str) -> None:
        """Take the texts of the last step; a missing session or a bad flag is reported on standard error only."""
        self.text = "\n".join(self._texts)
        self.ended = self._reason == "stop"
        if self.error and self.error.message.endswith((_UNEXPLAINED, f"{_UNEXPLAINED}.")) and self._logged:
            self.error = AgentError(error_kind(self._logged), self._logged)
        if self.error or self.ended:
            return
        match self._reason:
            case "tool-calls" if self._refused:
                denied = ", ".join(self.denied)
                self.error = AgentError(
                    ErrorKind.DENIED, f'"opencode" was denied {denied} and gave up without an answer'
                )
            case "length":
                self.error = truncated_answer(self._reason)
            case "content-filter":
                self.error = AgentError(ErrorKind.DENIED, 'the provider filtered the answer ("content-filter")')
            case _:
                self.error = find_error(stderr, "Session not found", ErrorKind.INVALID)
                if not self.error and not self.session:
                    self.error = find_rejected_flag("opencode", stderr)


def _lock(path: Path, stack: ExitStack) -> bool:
    """Lock a file until the stack is closed; False if another run holds it."""
    file = stack.enter_context(path.open("ab"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _part(message: Message) -> _Part:
    return _Part.model_validate(message.get("part", {}))

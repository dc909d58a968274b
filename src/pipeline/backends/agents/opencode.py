"""The `opencode` program: its arguments, its configuration, and its stream of JSON lines.

Invariant: only a last step that ended with the reason "stop" is a good end. A refused permission ends the run with the
exit code 0 and no answer.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
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
from pipeline.errors import AwfError
from pipeline.language.model import Access

_CONFIG = "OPENCODE_CONFIG_CONTENT"
_OWN_FILES = (_CONFIG, "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_DISABLE_MODELS_FETCH")
_AGENT = "awf"
_PERMISSION = MappingProxyType(
    {  # the last rule that fits a tool holds
        Access.READ_ONLY: {"*": "deny", "read": "allow", "grep": "allow", "glob": "allow", "list": "allow"},
        Access.NONE: {"*": "deny"},
    }
)
_REFUSED = r"rejected permission|rule which prevents|call unavailable tool"


class Opencode:
    """The agent of opencode.ai, for the models of many providers."""

    name = "opencode"
    flags: tuple[str, ...] = ("--format", "--dir", "--model", "--variant", "--agent", "--session")
    help: tuple[str, ...] = ("run", "--help")
    install = "npm install -g opencode-ai"

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and where its configuration is."""
        return (*provider_variables(provider), *_OWN_FILES)

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """It is told by its configuration what it may do: its own `plan` agent still runs commands."""
        arguments = ["run", "--format", "json", "--dir", str(request.cwd)]
        arguments += ["--model", model_path(request)] if request.model else []
        arguments += ["--variant", request.reasoning_effort] if request.reasoning_effort else []
        arguments += ["--agent", _AGENT] if request.access in _PERMISSION else []
        arguments += ["--session", request.session.id] if request.session else []
        return Invocation((*arguments, *extra), _environment(request))

    def reader(self, request: AgentRequest) -> "OpencodeReader":
        """A reader for one run of it."""
        del request
        return OpencodeReader()


def _environment(request: AgentRequest) -> dict[str, str]:
    config = {**_given(request.env), "share": "disabled", "autoupdate": False}
    env = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if permission := _PERMISSION.get(request.access):
        # Its configuration files are merged key by key, so one that allows "bash" would win over our "*". The rules of
        # an agent come after all of them, and the project's own files (and plugins) are left out: it may be hostile.
        agents = config.get("agent")
        ours = {_AGENT: {"mode": "primary", "permission": permission}}
        config |= {"permission": permission, "agent": {**(agents if isinstance(agents, dict) else {}), **ours}}
        env["OPENCODE_DISABLE_PROJECT_CONFIG"] = "1"
    return env | {_CONFIG: json.dumps(config)}


def _given(env: Mapping[str, str]) -> dict[str, Any]:
    """The configuration that the user has in the environment."""
    try:
        given = json.loads(env.get(_CONFIG) or "{}")
    except ValueError as error:
        raise AwfError(f"{_CONFIG} is not JSON: {error}", help="correct it, or leave it out") from None
    if not isinstance(given, dict):
        raise AwfError(f"{_CONFIG} is not an object of JSON", help="correct it, or leave it out")
    return given


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel)


class _Cache(_Form):
    read: int | None = None
    write: int | None = None


class _Tokens(_Form):
    input: int | None = None  # without the cached ones
    output: int | None = None  # without the reasoning
    reasoning: int | None = None
    cache: _Cache = _Cache()


class _Step(_Form):
    reason: str = ""
    tokens: _Tokens | None = None
    cost: FiniteFloat | None = None


class _Said(_Form):
    text: str = ""


class _State(_Form):
    status: str = ""
    input: Any = None
    error: str = ""


class _Tool(_Form):
    tool: str = ""
    state: _State = _State()


class _Data(_Form):
    message: str = ""
    status_code: int | None = None
    response_headers: Any = None
    response_body: Any = None


class _Fault(_Form):
    name: str = ""
    data: _Data = _Data()


class OpencodeReader:
    """Reads one run of opencode."""

    def __init__(self) -> None:
        self._said: list[str] = []  # in the last step
        self._reason = ""  # why the last step ended; empty while it goes on
        self._refused = False  # a tool of the last step
        self._denied: list[str] = []
        self._error: AgentError | None = None
        self._limits: tuple[str, ...] = ()
        self._usage: Usage | None = None
        self._session: AgentSession | None = None

    def read(self, message: Message) -> Iterable[AgentEvent]:
        """Take the next line."""
        if isinstance(identity := message.get("sessionID"), str):
            self._session = AgentSession(identity)
        try:
            return tuple(self._take(message.get("type"), message.get("part", {}), message.get("error", {})))
        except ValidationError:
            words = f'"opencode" printed a "{message["type"]}" in a form not known of it: {excerpt(message)}'
            self._error = AgentError(ErrorKind.PROTOCOL, words)
            return ()

    def conclude(self, stderr: str) -> AgentTranscript:
        """What came of it; it says on its standard error alone that a session is not there."""
        ended = self._reason == "stop"
        return AgentTranscript(
            text="\n".join(self._said),
            ended=ended,
            error=self._error or (None if ended else self._unfinished() or _sessionless(stderr)),
            limits=self._limits,
            usage=self._usage,
            session=self._session,
            denied=tuple(self._denied),
        )

    def _take(self, kind: object, part: object, error: object) -> Iterator[AgentEvent]:
        match kind:
            case "step_start":
                self._said, self._reason, self._refused = [], "", False
            case "text":
                yield from self._say(_Said.model_validate(part).text)
            case "tool_use":
                yield from self._used(_Tool.model_validate(part))
            case "step_finish":
                yield from self._finish(_Step.model_validate(part))
            case "error":
                fault = _Fault.model_validate(error)
                self._error = _failure(fault)
                self._limits = (json.dumps(fault.data.response_headers), json.dumps(fault.data.response_body))
                yield AgentEvent("warning", self._error.message)

    def _say(self, text: str) -> Iterator[AgentEvent]:
        if text.strip():
            self._said.append(text)
            yield AgentEvent("text", text)

    def _used(self, tool: _Tool) -> Iterator[AgentEvent]:
        """A tool is told of once, when it has ended."""
        state = tool.state
        yield AgentEvent("tool_start", tool_used(tool.tool, state.input))
        if re.search(_REFUSED, state.error):
            self._refused = True
            self._denied.append(tool.tool)
        yield AgentEvent("tool_end", f"{tool.tool}: {state.error or state.status}")

    def _finish(self, step: _Step) -> Iterator[AgentEvent]:
        self._reason = step.reason
        self._usage = _usage(step).plus(self._usage)
        yield AgentEvent("usage", usage=self._usage)

    def _unfinished(self) -> AgentError | None:
        match self._reason:
            case "tool-calls" if self._refused:
                tools = ", ".join(self._denied)
                return AgentError(ErrorKind.DENIED, f'"opencode" was refused {tools} and gave up without an answer')
            case "length":
                return cut_off(self._reason)
            case "content-filter":
                return AgentError(ErrorKind.DENIED, 'the provider filtered the answer ("content-filter")')
            case _:
                return None


def _usage(step: _Step) -> Usage:
    """What a step used. The steps of agents that this one started are not in the stream."""
    if step.tokens is None:
        return Usage(cost_usd=step.cost)
    tokens = step.tokens
    read = sum(filter(None, (tokens.input, tokens.cache.read, tokens.cache.write)))
    written = sum(filter(None, (tokens.output, tokens.reasoning)))
    return Usage(input_tokens=read, output_tokens=written, cost_usd=step.cost)


def _failure(fault: _Fault) -> AgentError:
    message = fault.data.message or fault.name or '"opencode" failed and did not say why'
    told = f"{fault.name} {message} {fault.data.response_body or ''}"
    return AgentError(kind_of(fault.data.status_code, told), message)


def _sessionless(stderr: str) -> AgentError | None:
    found = re.search(r"Session not found", stderr)
    return AgentError(ErrorKind.INVALID, f"the session to continue no longer exists: {found[0]}") if found else None

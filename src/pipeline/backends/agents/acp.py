"""Any agent that speaks the Agent Client Protocol, by its command.

An agent is asked to stop by the protocol first. Whatever it answers, nothing that it started is left when `run` returns
or raises.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import IO, cast

from pipeline import __version__
from pipeline.backends.agents.base import (
    MALFORMED,
    AgentTranscript,
    Message,
    PathNotAllowed,
    TooManyFailures,
    agent_result,
    command_for,
    find_rejected_flag,
    qualified_model,
    resolve_inside,
    stopped_result,
)
from pipeline.backends.agents.claude import CLAUDE_RETRIES
from pipeline.backends.agents.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConnectionClosed,
    JsonRpcPeer,
    RpcError,
)
from pipeline.backends.agents.opencode import RESTRICTED_AGENT, Opencode, OpencodeTranscript
from pipeline.backends.agents.pi import read_session
from pipeline.backends.environment import provider_variables
from pipeline.backends.process import (
    ChildProcess,
    Sink,
    new_token,
    open_log,
    open_spool,
    process_result,
    run_uninterrupted,
    start_program,
)
from pipeline.backends.process_tree import stop_process_tree
from pipeline.backends.provider_errors import error_kind, truncated_answer
from pipeline.backends.spool import LineSplitter
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentSession,
    AgentStatus,
    Emit,
    ErrorKind,
    ExitReason,
    LogFate,
    RequestLimits,
    TextPiece,
)
from pipeline.language.model import Access
from pipeline.redaction import PATTERNS_ONLY, Redactor

PROTOCOL_VERSION = 1
_LARGEST_FILE = 8 * 1024 * 1024
GRACE = 5.0  # seconds to stop after it was asked to
START_TIMEOUT = 60.0  # seconds
_EXIT_TIME = 1.0  # seconds an agent that has answered gets to exit by itself: it may have a session to write
_ALLOWED_KINDS = {  # of tools; reading ones change nothing and send nothing out
    Access.READ_ONLY: frozenset({"read", "search", "think"}),
    Access.NONE: frozenset[str](),
}
_ALLOW, _REJECT = ("allow_once", "allow_always"), ("reject_once", "reject_always")
_STOP_ERRORS = {
    "max_tokens": truncated_answer("max_tokens"),
    "max_turn_requests": AgentError(
        ErrorKind.PROTOCOL, 'the answer was cut off at the agent\'s request limit ("max_turn_requests")'
    ),
    "refusal": AgentError(ErrorKind.DENIED, 'the model refused to answer ("refusal")'),
    "cancelled": AgentError(ErrorKind.KILLED, 'the agent reports "cancelled", but we did not cancel it'),
}


_REPORT_USAGE = ("codex-acp", "claude-agent-acp", "gemini-cli", "opencode")  # those that do so for every answer
# What adapters put into the answer besides it, each in a chunk of its own.
_BANNER = re.compile(r"pi v\d[\w.+-]*\n---\n.*", re.DOTALL)
_WARNING = re.compile(r"Warning: .*\n\n", re.DOTALL)
_RETRY = re.compile(r"Retrying \(attempt \d+/\d+,.*\)\.\.\.|Reconnecting\.\.\. .*")
_RETRIED = re.compile(r"Retry (finished, resuming|failed)\.?")
_OUTAGE = re.compile(  # answers that are the error of a request
    r"unexpected status \d{3}|exceeded retry limit|API Error: |Failed to authenticate|Authentication required"
    r"|We.re currently experiencing high demand|stream disconnected before completion|Internal error: |Error: "
)
_KILLED = re.compile(r"(killed|terminated) by (signal )?SIG(KILL|SEGV|ABRT|BUS|ILL)\b")


def _may_use(access: Access, kind: str) -> bool:
    return access is Access.CODING or kind in _ALLOWED_KINDS[access]


@dataclass
class AcpTranscript(AgentTranscript):
    """Reads the updates of a session. The answer is what the agent says after its last tool call.

    Before that come thoughts, and the banners and warnings of adapters; a status read from there would be one that the
    agent gave before it had looked.
    """

    access: Access = Access.CODING
    prompted: bool = False  # until then a loaded session repeats its past
    session_cost: float | None = None  # in US dollars
    failed: bool = False  # whether codex-acp says so: it ends its turn with the error as its answer
    refused: AgentError | None = None  # why opencode's provider did not take the prompt, such as its length
    allowed: set[str] = field(default_factory=set)  # ids of the tool calls it asked for and may make
    reports_usage: bool = False  # whether the agent reports it for every answer of a model
    tools: dict[str, tuple[str, str]] = field(default_factory=dict)  # kind and title by id
    _opencode: OpencodeTranscript = field(default_factory=OpencodeTranscript)  # reads its log

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next update."""
        match message["sessionUpdate"]:
            case "usage_update":
                cost = message.get("cost") or {}
                if cost.get("currency") == "USD":
                    self.session_cost = float(cost["amount"])
            case "agent_message_chunk" if self.prompted and message["content"]["type"] == "text":
                yield from self._read_chunk(str(message["content"]["text"]))
            case "session_info_update" if self.prompted:  # of codex-acp
                match message.get("_meta"):
                    case {"codex": {"error": {"willRetry": True, "message": str(text), **more}}}:
                        yield from self._retry(f"{text}: {more.get('additionalDetails') or ''}")
                    case {"codex": {"threadStatus": {"type": str(status)}}}:
                        self.failed = status == "systemError"
            case "tool_call" if self.prompted:
                yield from self.end_text()
                self.text = ""
                yield AgentEvent("tool_start", self.tool(message)[1])
                yield from self._read_tool(message)
            case "tool_call_update" if self.prompted:
                yield from self._read_tool(message)

    def _read_chunk(self, text: str) -> Iterator[AgentEvent]:
        """Take a piece of the answer, or what an adapter says besides it."""
        if _RETRY.fullmatch(text):
            yield from self._retry(text)
        elif _WARNING.fullmatch(text):
            yield AgentEvent("warning", text.strip())
        elif not _BANNER.fullmatch(text) and not _RETRIED.fullmatch(text):
            yield from self.add_text(text)

    def _retry(self, reason: str) -> Iterator[AgentEvent]:
        """A request that is repeated: what it was answered so far does not count."""
        self.text = self._unfinished_line = ""
        yield AgentEvent("retry", reason)

    def read_stderr(self, line: str) -> Iterator[AgentEvent]:
        """Take the report of a failed request: of gemini, or in the log of opencode."""
        if re.match(r"Attempt \d+ failed", line):
            yield AgentEvent("retry", line.strip())
            return
        for event in self._opencode.read_stderr(line):
            if error_kind(event.text) is ErrorKind.INVALID:  # it then replaces the prompt by a summary, and answers
                self.refused = AgentError(ErrorKind.INVALID, event.text)
            yield event

    def error_instead_of_answer(self) -> AgentError | None:
        """The error that an adapter passes on as an answer. What a model says has used tokens."""
        text, last = self.text.strip(), self.last_failure or AgentError(ErrorKind.UNKNOWN, "")
        if self.failed:
            return AgentError(error_kind(text, default=last.kind), text)
        if self.refused:
            return self.refused
        if self.usage and (self.usage.input_tokens or self.usage.output_tokens):
            return None
        if _OUTAGE.match(text) and "\n" not in text:
            return AgentError(error_kind(text), text)
        is_suspect = self.reports_usage if text else self.last_failure is not None
        if not is_suspect:
            return None
        kind = error_kind(text, default=last.kind)
        if kind is ErrorKind.UNKNOWN:
            kind = ErrorKind.EMPTY
        said = f": {text or last.message}" if text or last.message else ""
        return AgentError(kind, f"the agent returned no answer of a model{said}")

    def tool(self, call: Message) -> tuple[str, str]:
        """The kind and the title of a tool call, by its latest update."""
        kind, title = self.tools.get(call["toolCallId"], ("other", "a tool"))
        return str(call.get("kind") or kind), str(call.get("title") or title)

    def _read_tool(self, call: Message) -> Iterator[AgentEvent]:
        kind, title = self.tools[call["toolCallId"]] = self.tool(call)
        if call.get("status") not in ("completed", "failed"):
            return
        yield AgentEvent("tool_end", title)
        asked = call["toolCallId"] in self.allowed
        if call["status"] == "completed" and not asked and not _may_use(self.access, kind):
            yield AgentEvent(
                "warning", f'"{title}" ({kind}) ran without permission in a stage with {self.access} access'
            )


class _AgentUnusable(Exception):
    """The agent cannot do what the request needs."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.error = AgentError(kind, message)


class AcpSession:
    """Our side of the protocol for one request. What the agent reports is in `transcript`."""

    def __init__(self, request: AgentRequest, emit: Emit) -> None:
        self.transcript = AcpTranscript(request.session.used if request.session else None, access=request.access)
        self._request = request
        self._access = request.access
        self._emit = emit
        self._peer: JsonRpcPeer | None = None
        self._id = ""
        self._name = ""  # of the agent
        self._record: tuple[Path, int] | None = None  # where pi records the session, and its size before the prompt
        self._can_load = False  # whether the session can be continued later
        self._cancelled = False

    async def run(self, peer: JsonRpcPeer) -> None:
        """Initialize, open the session, choose the model, prompt, and read the end, if the agent gets that far."""
        transcript, self._peer = self.transcript, peer
        try:
            await self._initialize(peer)
            opened = await self._open(peer)
            if self._access is not Access.CODING:
                await self._choose_mode(peer, opened)
            offered = await self._choose(peer, opened, "model", self._request.model)
            await self._choose(peer, offered, "thought_level", self._request.reasoning_effort)
            transcript.prompted = True
            self._record = self._find_record()
            prompt = [{"type": "text", "text": self._request.prompt}]
            ended = await peer.request("session/prompt", {"sessionId": self._id, "prompt": prompt})
            transcript.usage, reason = _read_usage(ended), ended.get("stopReason")
            transcript.ended = reason == "end_turn"
            if transcript.ended:
                transcript.error = transcript.error_instead_of_answer()
                if self._name == "opencode" and transcript.tools:
                    transcript.usage = None  # it counts the last of several requests only
            else:
                unknown = AgentError(ErrorKind.PROTOCOL, f'the agent stopped for an unknown reason: "{reason}"')
                transcript.error = _STOP_ERRORS.get(str(reason), unknown)
        except _AgentUnusable as error:
            transcript.error = error.error
        except RpcError as error:
            transcript.error = error.as_agent_error()
            said = transcript.text.strip()
            if _OUTAGE.match(said) and said not in transcript.error.message:
                transcript.error = replace(transcript.error, message=f"{transcript.error.message}: {said}")
        except ConnectionClosed as error:  # without a reason, its exit code says more
            transcript.error = AgentError(ErrorKind.PROTOCOL, str(error)) if str(error) else None
        except MALFORMED as error:
            transcript.error = AgentError(ErrorKind.PROTOCOL, f"the agent sent a malformed answer ({error!r})")
        finally:
            self._conclude()

    def cancel(self) -> bool:
        """Ask the agent to stop; False if there is no session to stop yet."""
        self._cancelled = True
        if self._peer and self._id:
            self._peer.notify("session/cancel", {"sessionId": self._id})
        return bool(self._id)

    def notice(self, method: str, params: Message) -> None:
        """Take a notification."""
        if method == "session/update":
            self.transcript.follow(self.transcript.read(params["update"]), self._emit)

    def read_stderr(self, line: bytes) -> None:
        """Take a line of the agent's standard error."""
        self.transcript.follow(self.transcript.read_stderr(line.decode(errors="replace")), self._emit)

    def answer(self, method: str, params: Message) -> Message:
        """Answer a request: for permission or for a file, as far as the stage's access allows."""
        match method:
            case "session/request_permission":
                return {"outcome": self._decide(params)}
            case "fs/read_text_file" if self._access is not Access.NONE:
                return {"content": self._read_file(params)}
            case "fs/write_text_file" if self._access is Access.CODING:
                self._write_file(params)
                return {}
            case "fs/read_text_file" | "fs/write_text_file":
                self.transcript.denied.append(method)
                raise RpcError(INVALID_PARAMS, f'"{method}" is not allowed with {self._access} access')
        raise RpcError(METHOD_NOT_FOUND, f'unknown method "{method}"')

    async def _initialize(self, peer: JsonRpcPeer) -> None:
        # It gets no terminal: its commands run as its own children.
        files = {"readTextFile": self._access is not Access.NONE, "writeTextFile": self._access is Access.CODING}
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"fs": files, "terminal": False},
            "clientInfo": {"name": "awf", "version": __version__},
        }
        try:
            async with asyncio.timeout(START_TIMEOUT):
                agent = await peer.request("initialize", params)
        except TimeoutError as error:
            silent = f"the agent did not initialize within {START_TIMEOUT:g} seconds; does it speak ACP?"
            raise _AgentUnusable(ErrorKind.PROTOCOL, silent) from error
        if (version := agent.get("protocolVersion")) != PROTOCOL_VERSION:
            other = f"the agent speaks ACP version {version}; version {PROTOCOL_VERSION} is needed"
            raise _AgentUnusable(ErrorKind.PROTOCOL, other)
        about = agent.get("agentInfo") or {}
        self.transcript.version = str(about.get("version", ""))
        self._name = str(about.get("name", "")).lower()
        if self._name.endswith(_REPORT_USAGE):
            self.transcript.reports_usage = True
        # gemini names the file of a session by its minute, and empties one that it loads in the minute of its start.
        offered = (agent.get("agentCapabilities") or {}).get("loadSession")
        self._can_load = bool(offered) and self._name != "gemini-cli"

    async def _open(self, peer: JsonRpcPeer) -> Message:
        where = {"cwd": str(self._request.cwd.absolute()), "mcpServers": []}
        earlier = self._request.session
        if earlier is None:
            opened = await peer.request("session/new", where)
            if not isinstance(opened["sessionId"], str):
                raise TypeError(f'"sessionId" is {opened["sessionId"]!r}')
            self._id = opened["sessionId"]
            return opened
        if not self._can_load:
            raise _AgentUnusable(ErrorKind.CONFIG, "the agent cannot continue a session: it does not offer to load one")
        opened = await peer.request("session/load", {**where, "sessionId": earlier.id})
        self._id = earlier.id
        return opened

    async def _choose_mode(self, peer: JsonRpcPeer, offered: Message) -> None:
        """Set the agent's own read-only mode, if it offers one: some agents do not ask before they act."""
        modes = [mode["id"] for mode in (offered.get("modes") or {}).get("availableModes", ())]
        if "read-only" in modes:
            await peer.request("session/set_mode", {"sessionId": self._id, "modeId": "read-only"})
        for option in offered.get("configOptions") or ():
            if option.get("category") == "mode" and RESTRICTED_AGENT in _option_values(option["options"]):
                params = {"sessionId": self._id, "configId": option["id"], "value": RESTRICTED_AGENT}
                await peer.request("session/set_config_option", params)

    async def _choose(self, peer: JsonRpcPeer, offered: Message, category: str, wanted: str | None) -> Message:
        """Set an option of the session; returns what it offers afterwards."""
        if not wanted:
            return offered
        for option in offered.get("configOptions") or ():
            if option.get("category") == category and option.get("type") == "select":
                value = self._offered_value(wanted, tuple(_option_values(option["options"])), category)
                params = {"sessionId": self._id, "configId": option["id"], "value": value}
                return await peer.request("session/set_config_option", params)
        # How agents offered models before there were options.
        models = offered.get("models") if category == "model" else None
        if models:
            value = self._offered_value(
                wanted, tuple(model["modelId"] for model in models["availableModels"]), category
            )
            await peer.request("session/set_model", {"sessionId": self._id, "modelId": value})
        else:
            self._emit(AgentEvent("warning", f'the agent offers no choice of {category}: "{wanted}" was not set'))
        return offered

    def _offered_value(self, wanted: str, offered: tuple[str, ...], category: str) -> str:
        """What is wanted, as the agent calls it: those for several providers put the provider before the model."""
        names = (wanted, qualified_model(self._request)) if category == "model" else (wanted,)
        if name := next((name for name in names if name in offered), None):
            return name
        message = f'the agent does not offer the {category} "{wanted}", only {", ".join(offered)}'
        raise _AgentUnusable(ErrorKind.NOT_FOUND if category == "model" else ErrorKind.CONFIG, message)

    def _find_record(self) -> tuple[Path, int] | None:
        """Where pi records the session, and how much it has recorded so far; None for other agents.

        Its adapter passes on no errors: it ends its turn as if all were well, with half an answer or none.
        """
        if self._name != "pi-acp":
            return None
        place = Path(self._request.env.get("HOME", ""), ".pi", "pi-acp", "session-map.json")
        try:
            path = Path(json.loads(place.read_bytes())["sessions"][self._id]["sessionFile"])
            return path, path.stat().st_size if path.exists() else 0
        except (OSError, *MALFORMED) as error:
            unknown = f'"{place}" does not say where pi records this session, which alone shows errors ({error!r})'
            raise _AgentUnusable(ErrorKind.CONFIG, unknown) from error

    def _read_record(self, path: Path, start: int) -> None:
        """Take what pi recorded: it alone says how the prompt ended, and what it used."""
        transcript = self.transcript
        try:
            recorded = read_session(path, start)
        except (OSError, *MALFORMED) as error:
            unread = AgentError(ErrorKind.PROTOCOL, f'"{path}", where pi records this session, is unreadable: {error}')
            transcript.error = transcript.error or unread
            return
        transcript.usage = recorded.usage
        if transcript.ended:
            transcript.text, transcript.error = recorded.text, recorded.error
        elif transcript.last_failure and recorded.error and recorded.error.kind is not ErrorKind.KILLED:
            transcript.last_failure = recorded.error  # what it shows of a retry does not name the reason

    def _conclude(self) -> None:
        """Add the cost and the session: tokens are reported by request, costs by session."""
        transcript, cost = self.transcript, self.transcript.session_cost
        for event in transcript.end_text():
            self._emit(event)
        if self._record:
            self._read_record(*self._record)
        if cost is not None:
            before = (transcript.used_before and transcript.used_before.cost_usd) or 0.0
            own = cost - before if cost >= before else cost  # less than before: it started to count anew
            transcript.usage = (transcript.usage or Usage()).model_copy(update={"cost_usd": own})
        if transcript.usage:
            self._emit(AgentEvent("usage", usage=transcript.usage))
        if self._id and self._can_load:
            transcript.session = AgentSession(self._id, Usage(cost_usd=cost))

    def _decide(self, params: Message) -> Message:
        """One of the options offered: once rather than always, which some agents write into the workspace."""
        if self._cancelled:
            return {"outcome": "cancelled"}
        call, options = params["toolCall"], {option["kind"]: option["optionId"] for option in params["options"]}
        kind, title = self.transcript.tool(call)
        if _may_use(self._access, kind):
            self.transcript.allowed.add(call["toolCallId"])
            once, always = _ALLOW
        else:
            self.transcript.denied.append(title)
            once, always = _REJECT
        chosen = options.get(once, options.get(always))
        return {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}

    def _read_file(self, params: Message) -> str:
        path = self._resolve(params["path"])
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
                raise RpcError(INVALID_PARAMS, f'"{path}" is not a file of at most {_LARGEST_FILE} bytes')
            with path.open(encoding="utf-8", newline="") as file:
                lines = file.readlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RpcError(INTERNAL_ERROR, f'cannot read "{path}" as text: {error}') from error
        first = max((params.get("line") or 1) - 1, 0)
        count = params.get("limit")
        return "".join(lines[first:] if count is None else lines[first : first + count])

    def _write_file(self, params: Message) -> None:
        path = self._resolve(params["path"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(params["content"], encoding="utf-8", newline="")
        except OSError as error:
            raise RpcError(INTERNAL_ERROR, f'cannot write "{path}": {error}') from error

    def _resolve(self, name: str) -> Path:
        try:
            return resolve_inside(self._request.cwd, name)
        except PathNotAllowed as error:
            self.transcript.denied.append(name)
            raise RpcError(INVALID_PARAMS, str(error)) from error


def find_piece(message: Message) -> TextPiece | LogFate:
    """Where an agent's message holds a piece of a text; what a tool does is reported whole when it has ended."""
    match message:
        case {"method": "session/update", "params": {"update": dict(update)}}:
            match update:
                case {"sessionUpdate": str(kind), "content": {"type": "text", "text": str()}} if kind.endswith(
                    "_chunk"
                ):
                    return TextPiece(kind, ("params", "update", "content", "text"))
                case {"sessionUpdate": "tool_call_update", "status": "completed" | "failed"}:
                    return LogFate.KEEP
                case {"sessionUpdate": "tool_call_update"}:
                    return LogFate.SKIP
                case {"sessionUpdate": "tool_call"}:
                    return LogFate.END
            return LogFate.KEEP
        case {"method": _}:
            return LogFate.KEEP
    return LogFate.END


def _option_values(options: list[Message]) -> Iterator[str]:
    """The values of an option, which may be in groups."""
    for option in options:
        if "options" in option:
            yield from _option_values(option["options"])
        else:
            yield str(option["value"])


def _read_usage(ended: Message) -> Usage | None:
    """What a request used. Some agents do not count cached tokens as input, and then the total includes them."""
    usage = ended.get("usage")
    if not usage:
        match ended.get("_meta"):
            case {"quota": {"token_count": {"input_tokens": int(read), "output_tokens": int(written)}}}:  # of gemini
                return Usage(input_tokens=read, output_tokens=written)
        return None
    read, written = int(usage["inputTokens"]), int(usage["outputTokens"])
    cached = (usage.get("cachedReadTokens") or 0) + (usage.get("cachedWriteTokens") or 0)
    apart = (usage.get("totalTokens") or 0) >= read + written + cached
    return Usage(input_tokens=read + cached if apart else read, output_tokens=written)


class AcpBackend:
    """Runs one agent for every request. All it starts carries `label`, by which leftovers are found and killed."""

    name = "acp"

    def __init__(
        self,
        argv: tuple[str, ...],
        label: str,
        variables: tuple[str, ...] = (),
        redactor: Redactor = PATTERNS_ONLY,
    ) -> None:
        self._argv = argv
        self._label = label
        self._variables = variables
        self._redactor = redactor
        self._reports_usage = False  # whether it ever has
        # opencode needs its configuration to be restricted, and a database for each of several runs at once.
        self._opencode = Opencode() if any(Path(word).name.startswith("opencode") for word in argv) else None

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and the variables the user adds."""
        return (*provider_variables(provider), *self._variables)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Start the agent, have it answer, and stop it."""
        emit(AgentEvent("started"))
        # claude-agent-acp would retry for minutes, even if the key is wrong, and say nothing.
        env = {CLAUDE_RETRIES: request.env.get(CLAUDE_RETRIES, "5")}
        if self._opencode is None:
            return await self._run(request, env, emit)
        with self._opencode.reserve(request) as held:
            result = await self._run(request, {**env, **self._opencode.environment(request), **held.env}, emit)
            held.session = result.session
        return result

    async def _run(self, request: AgentRequest, env: Mapping[str, str], emit: Emit) -> AgentResult:
        token = new_token(self._label)
        command, redactor = command_for(self._argv, request, env), self._redactor
        request.artifacts.mkdir(parents=True, exist_ok=True)
        with open_spool(command, "stdout") as out, open_spool(command, "stderr") as err:
            program = start_program(command, token, interactive=True)
            if isinstance(program, str):
                error = AgentError(ErrorKind.SPAWN, redactor.text(program))
                return AgentResult(AgentStatus.ERROR, error=error, argv=self._argv)
            session = AcpSession(request, emit)
            session.transcript.reports_usage = self._reports_usage
            with open_log(out, redactor, find_piece) as stdout, open_log(err, redactor, None) as stderr:
                connection = _Connection(program, session, stdout, stderr, request.limits.output_bytes)
                try:
                    reason = await connection.converse(request.limits)
                except TooManyFailures:
                    return stopped_result(self._argv, request, session.transcript)
                finally:
                    connection.hang_up()
                    try:
                        grace = 0.0 if connection.child.exited else GRACE
                        await run_uninterrupted(partial(stop_process_tree, connection.child.pid, token, grace))
                    finally:
                        code = connection.child.close()
            # How it exits after its answer is our doing and says nothing.
            code = 0 if session.transcript.ended else code
            finished = process_result(out, err, reason, code, duration=connection.child.duration)
            if not session.transcript.prompted and not session.transcript.error:
                session.transcript.error = find_rejected_flag(self._argv[0], finished.stderr_tail)
            failure = session.transcript.error
            if failure and failure.kind is ErrorKind.UNKNOWN and _KILLED.search(failure.message + finished.stderr_tail):
                session.transcript.error = replace(failure, kind=ErrorKind.KILLED)  # the program behind an adapter
            self._reports_usage |= session.transcript.usage is not None
            return agent_result(self._argv, request, finished, session.transcript)


class _Connection:
    """A session over the pipes of a running program.

    What is kept on disk is redacted; what the session reads is not: a file that the agent writes may hold a key.
    """

    def __init__(
        self,
        program: Popen[bytes],
        session: AcpSession,
        stdout: Sink,
        stderr: Sink,
        longest_line: int,
    ) -> None:
        self._session = session
        self._peer = JsonRpcPeer(self._send, session.answer, session.notice)
        self._lines = LineSplitter(self._peer.read_line, longest_line)
        self._error_lines = LineSplitter(session.read_stderr, longest_line)
        self.child = ChildProcess(program, (stdout, self._lines.feed), (stderr, self._error_lines.feed))
        self._pipe = cast(IO[bytes], program.stdin)
        self._stdin: asyncio.WriteTransport | None = None

    async def converse(self, limits: RequestLimits) -> ExitReason:
        """Talk until the agent has answered, is gone, or has reached a limit."""
        self.child.watch()
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._pipe)
        talking = asyncio.ensure_future(self._session.run(self._peer))
        running = asyncio.ensure_future(self.child.wait(limits.timeout, limits.idle))
        reason = ExitReason.EXITED
        try:
            await asyncio.wait((talking, running), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                self._stdin.close()  # it exits by itself
                await asyncio.wait((running,), timeout=_EXIT_TIME)
                if running.done():
                    running.result()
            elif (reason := running.result()) is ExitReason.EXITED:
                await self.child.drain()
                self._lines.finish()
                self._peer.close("")
                await talking
            else:
                await self._cancel(talking)
        except asyncio.CancelledError:
            await self._cancel(talking)
            raise
        finally:
            await _abandon(talking, running)
        if not talking.cancelled():
            talking.result()  # raises what an observer raised
        return reason

    def hang_up(self) -> None:
        """Stop writing, and wait for no answer."""
        self._peer.close("")
        if self._stdin is None:
            self._pipe.close()
        elif not self._stdin.is_closing():
            self._stdin.abort()

    def _send(self, data: bytes) -> None:
        """Write without blocking: an agent that does not read must not stop us."""
        if self._stdin and not self._stdin.is_closing():
            self._stdin.write(data)

    async def _cancel(self, talking: asyncio.Future[None]) -> None:
        """Ask the agent to stop, and give it time: if it stops by itself, none of its commands is left running."""
        if self._session.cancel():
            exited = asyncio.ensure_future(self.child.wait())
            try:
                await asyncio.wait((talking, exited), timeout=GRACE, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _abandon(exited)


async def _abandon(*futures: asyncio.Future[None] | asyncio.Future[ExitReason]) -> None:
    """Cancel what still runs, and ignore what it raises."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)

"""Any agent that speaks the Agent Client Protocol, by its command.

An agent is asked to stop by the protocol first. Whatever it answers, nothing that it started is left when `run` returns
or raises.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import IO, cast

from pipeline import __version__
from pipeline.backends.agents.base import (
    MALFORMED,
    AgentTranscript,
    Message,
    Now,
    PathNotAllowed,
    agent_result,
    command_for,
    local_now,
    resolve_inside,
)
from pipeline.backends.agents.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConnectionClosed,
    JsonRpcPeer,
    RpcError,
)
from pipeline.backends.environment import provider_variables
from pipeline.backends.process import (
    ChildProcess,
    describe_exit,
    open_spool,
    process_result,
    run_uninterrupted,
    start_program,
)
from pipeline.backends.process_tree import stop_process_tree
from pipeline.backends.provider_errors import truncated_answer
from pipeline.backends.spool import LineSplitter, RedactionFilter
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
    RequestLimits,
)
from pipeline.language.model import Access
from pipeline.redaction import PATTERNS_ONLY, Redactor

PROTOCOL_VERSION = 1
_LARGEST_FILE = 8 * 1024 * 1024
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
    allowed: set[str] = field(default_factory=set)  # ids of the tool calls it asked for and may make
    _tools: dict[str, tuple[str, str]] = field(default_factory=dict)  # kind and title by id

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next update."""
        match message["sessionUpdate"]:
            case "usage_update":
                cost = message.get("cost") or {}
                if cost.get("currency") == "USD":
                    self.session_cost = float(cost["amount"])
            case "agent_message_chunk" if self.prompted and message["content"]["type"] == "text":
                yield from self.add_text(str(message["content"]["text"]))
            case "tool_call" if self.prompted:
                yield from self.end_text()
                self.text = ""
                yield AgentEvent("tool_start", self.tool(message)[1])
                yield from self._read_tool(message)
            case "tool_call_update" if self.prompted:
                yield from self._read_tool(message)

    def tool(self, call: Message) -> tuple[str, str]:
        """The kind and the title of a tool call, by its latest update."""
        kind, title = self._tools.get(call["toolCallId"], ("other", "a tool"))
        return str(call.get("kind") or kind), str(call.get("title") or title)

    def _read_tool(self, call: Message) -> Iterator[AgentEvent]:
        kind, title = self._tools[call["toolCallId"]] = self.tool(call)
        if call.get("status") not in ("completed", "failed"):
            return
        yield AgentEvent("tool_end", title)
        asked = call["toolCallId"] in self.allowed
        if call["status"] == "completed" and not asked and not _may_use(self.access, kind):
            yield AgentEvent(
                "warning", f'"{title}" ({kind}) ran without permission in a stage with {self.access} access'
            )


class AcpClient:
    """Answers what an agent asks for: permissions and files, as far as the stage's access allows."""

    def __init__(self, request: AgentRequest, emit: Emit) -> None:
        self.transcript = AcpTranscript(request.session.used if request.session else None, access=request.access)
        self.cancelled = False
        self._cwd = request.cwd
        self._access = request.access
        self._emit = emit

    @property
    def capabilities(self) -> Message:
        """What an agent may ask for. It gets no terminal: its commands run as its own children."""
        reads, writes = self._access is not Access.NONE, self._access is Access.CODING
        return {"fs": {"readTextFile": reads, "writeTextFile": writes}, "terminal": False}

    def notice(self, method: str, params: Message) -> None:
        """Take a notification."""
        if method == "session/update":
            for event in self.transcript.read(params["update"]):
                self._emit(event)

    def answer(self, method: str, params: Message) -> Message:
        """Answer a request."""
        match method:
            case "session/request_permission":
                return {"outcome": self._decide(params)}
            case "fs/read_text_file" if self._access is not Access.NONE:
                return {"content": self._read_file(params)}
            case "fs/write_text_file" if self._access is Access.CODING:
                path = self._resolve(params["path"])
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(params["content"], encoding="utf-8", newline="")
                except OSError as error:
                    raise RpcError(INTERNAL_ERROR, f'cannot write "{path}": {error}') from error
                return {}
            case "fs/read_text_file" | "fs/write_text_file":
                self.transcript.denied.append(method)
                raise RpcError(INVALID_PARAMS, f'"{method}" is not allowed with {self._access} access')
        raise RpcError(METHOD_NOT_FOUND, f'unknown method "{method}"')

    def _decide(self, params: Message) -> Message:
        """One of the options offered: once rather than always, which some agents write into the workspace."""
        if self.cancelled:
            return {"outcome": "cancelled"}
        call, options = params["toolCall"], {option["kind"]: option["optionId"] for option in params["options"]}
        kind, title = self.transcript.tool(call)
        if allowed := _may_use(self._access, kind):
            self.transcript.allowed.add(call["toolCallId"])
        else:
            self.transcript.denied.append(title)
        chosen = next((options[want] for want in (_ALLOW if allowed else _REJECT) if want in options), None)
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
        limit = params.get("limit")
        return "".join(lines[first:] if limit is None else lines[first : first + limit])

    def _resolve(self, name: str) -> Path:
        try:
            return resolve_inside(self._cwd, name)
        except PathNotAllowed as error:
            self.transcript.denied.append(name)
            raise RpcError(INVALID_PARAMS, str(error)) from error


class _AgentUnusable(Exception):
    """The agent cannot do what the request needs."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.error = AgentError(kind, message)


class AcpSession:
    """One request to an agent: initialize, open or load a session, choose the model, prompt, and read the end."""

    def __init__(
        self, peer: JsonRpcPeer, client: AcpClient, request: AgentRequest, emit: Emit, start_timeout: float
    ) -> None:
        self._peer = peer
        self._client = client
        self._transcript = client.transcript
        self._request = request
        self._emit = emit
        self._start_timeout = start_timeout
        self._id = ""
        self._can_load = False  # whether a session can be continued later

    async def run(self) -> None:
        """Have the conversation. Its result is in the client's transcript, without an end if the agent is gone."""
        transcript = self._transcript
        try:
            await self._initialize()
            opened = await self._open()
            modes = [mode["id"] for mode in (opened.get("modes") or {}).get("availableModes", ())]
            if self._request.access is not Access.CODING and "read-only" in modes:  # some agents do not ask
                await self._peer.request("session/set_mode", {"sessionId": self._id, "modeId": "read-only"})
            offered = await self._choose(opened, "model", self._request.model)
            await self._choose(offered, "thought_level", self._request.reasoning_effort)
            transcript.prompted = True
            prompt = [{"type": "text", "text": self._request.prompt}]
            ended = await self._peer.request("session/prompt", {"sessionId": self._id, "prompt": prompt})
            transcript.usage, reason = _read_usage(ended.get("usage") or {}), ended.get("stopReason")
            transcript.ended = reason == "end_turn"
            if not transcript.ended:
                unknown = AgentError(ErrorKind.PROTOCOL, f'the agent stopped for an unknown reason: "{reason}"')
                transcript.error = _STOP_ERRORS.get(str(reason), unknown)
        except _AgentUnusable as error:
            transcript.error = error.error
        except RpcError as error:
            transcript.error = error.as_agent_error()
        except ConnectionClosed as error:
            transcript.error = AgentError(ErrorKind.PROTOCOL, str(error)) if str(error) else None
        except MALFORMED as error:
            transcript.error = AgentError(ErrorKind.PROTOCOL, f"the agent sent a malformed answer ({error!r})")
        finally:
            for event in transcript.end_text():
                self._emit(event)
            self._read_cost()

    def cancel(self) -> bool:
        """Ask the agent to stop; False if there is no session to stop yet."""
        self._client.cancelled = True
        if self._id:
            self._peer.notify("session/cancel", {"sessionId": self._id})
        return bool(self._id)

    async def _initialize(self) -> None:
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": self._client.capabilities,
            "clientInfo": {"name": "awf", "version": __version__},
        }
        try:
            async with asyncio.timeout(self._start_timeout):
                agent = await self._peer.request("initialize", params)
        except TimeoutError as error:
            silent = f"the agent did not initialize within {self._start_timeout:g} seconds; does it speak ACP?"
            raise _AgentUnusable(ErrorKind.PROTOCOL, silent) from error
        if (version := agent.get("protocolVersion")) != PROTOCOL_VERSION:
            other = f"the agent speaks ACP version {version}; version {PROTOCOL_VERSION} is needed"
            raise _AgentUnusable(ErrorKind.PROTOCOL, other)
        self._transcript.version = str((agent.get("agentInfo") or {}).get("version", ""))
        self._can_load = bool((agent.get("agentCapabilities") or {}).get("loadSession"))

    async def _open(self) -> Message:
        where = {"cwd": str(self._request.cwd.absolute()), "mcpServers": []}
        earlier = self._request.session
        if earlier is None:
            opened = await self._peer.request("session/new", where)
            self._id = str(opened["sessionId"])
            return opened
        if not self._can_load:
            raise _AgentUnusable(ErrorKind.CONFIG, "the agent cannot continue a session: it does not offer to load one")
        opened = await self._peer.request("session/load", {**where, "sessionId": earlier.id})
        self._id = earlier.id
        return opened

    async def _choose(self, offered: Message, category: str, wanted: str | None) -> Message:
        """Set an option of the session; returns what it offers afterwards."""
        if not wanted:
            return offered
        for option in offered.get("configOptions") or ():
            if option.get("category") == category and option.get("type") == "select":
                _require(wanted, tuple(_option_values(option["options"])), category)
                params = {"sessionId": self._id, "configId": option["id"], "value": wanted}
                return await self._peer.request("session/set_config_option", params)
        # How agents offered models before there were options.
        models = offered.get("models") if category == "model" else None
        if models:
            _require(wanted, tuple(model["modelId"] for model in models["availableModels"]), category)
            await self._peer.request("session/set_model", {"sessionId": self._id, "modelId": wanted})
        else:
            self._emit(AgentEvent("warning", f'the agent offers no choice of {category}: "{wanted}" was not set'))
        return offered

    def _read_cost(self) -> None:
        """Add the cost and the session: tokens are reported by request, costs by session."""
        transcript, cost = self._transcript, self._transcript.session_cost
        if cost is not None:
            before = (transcript.used_before and transcript.used_before.cost_usd) or 0.0
            own = cost - before if cost >= before else cost  # less than before: it started to count anew
            transcript.usage = (transcript.usage or Usage()).model_copy(update={"cost_usd": own})
        if transcript.usage:
            self._emit(AgentEvent("usage", usage=transcript.usage))
        if self._id and self._can_load:
            transcript.session = AgentSession(self._id, Usage(cost_usd=cost))


def _require(wanted: str, offered: tuple[str, ...], category: str) -> None:
    if wanted not in offered:
        message = f'the agent does not offer the {category} "{wanted}", only {", ".join(offered)}'
        raise _AgentUnusable(ErrorKind.CONFIG, message)


def _option_values(options: list[Message]) -> Iterator[str]:
    """The values of an option, which may be in groups."""
    for option in options:
        if "options" in option:
            yield from _option_values(option["options"])
        else:
            yield str(option["value"])


def _read_usage(usage: Message) -> Usage | None:
    """What a request used. Some agents do not count cached tokens as input, and then the total includes them."""
    if not usage:
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
        *,
        grace: float = 5.0,
        start_timeout: float = 60.0,
        redactor: Redactor = PATTERNS_ONLY,
        now: Now = local_now,
    ) -> None:
        self._argv = argv
        self._label = label
        self._variables = variables
        self._grace = grace
        self._start_timeout = start_timeout
        self._redactor = redactor
        self._now = now

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and the variables the user adds."""
        return (*provider_variables(provider), *self._variables)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Start the agent, have it answer, and stop it."""
        emit(AgentEvent("started"))
        token = f"{self._label}:{secrets.token_hex(16)}"
        command = command_for(self._argv, request)
        request.artifacts.mkdir(parents=True, exist_ok=True)
        with open_spool(command, "stdout") as out, open_spool(command, "stderr") as err:
            program = start_program(command, token, talks=True)
            if isinstance(program, str):
                error = AgentError(ErrorKind.SPAWN, self._redactor.text(program))
                return AgentResult(AgentStatus.ERROR, error=error, argv=self._argv)
            client = AcpClient(request, emit)
            transcript = client.transcript
            with (
                RedactionFilter(self._redactor, out.write) as said,
                RedactionFilter(self._redactor, err.write) as complained,
            ):
                connection = _Connection(program, client, said, complained, request.limits.output_bytes)
                session = AcpSession(connection.peer, client, request, emit, self._start_timeout)
                try:
                    await connection.open()
                    reason = await self._converse(session, connection, request.limits)
                finally:
                    connection.hang_up()
                    try:
                        grace = 0.0 if connection.child.exited else self._grace
                        await run_uninterrupted(partial(stop_process_tree, connection.child.pid, token, grace))
                    finally:
                        connection.exit_code = connection.child.close()
            # How it exits after its answer is our doing and says nothing.
            exit_ = describe_exit(reason, 0 if transcript.ended else connection.exit_code)
            finished = process_result(out, err, *exit_, duration=connection.child.duration)
            return agent_result(self._argv, finished, transcript, self._now())

    async def _converse(self, session: AcpSession, connection: "_Connection", limits: RequestLimits) -> ExitReason:
        """Talk until the agent has answered, is gone, or has reached a limit."""
        talking = asyncio.ensure_future(session.run())
        running = asyncio.ensure_future(connection.child.over(limits.timeout, limits.idle))
        try:
            await asyncio.wait((talking, running), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                talking.result()
                await connection.let_exit()
                return ExitReason.EXITED
            reason = running.result()
            if reason is ExitReason.EXITED:
                await connection.read_rest()
                await talking
            else:
                await self._cancel(session, connection, talking)
                if talking.done():
                    talking.result()  # raises what an observer raised
        except asyncio.CancelledError:
            await self._cancel(session, connection, talking)
            raise
        else:
            return reason
        finally:
            await _abandon(talking, running)

    async def _cancel(self, session: AcpSession, connection: "_Connection", talking: asyncio.Future[None]) -> None:
        """Ask the agent to stop, and give it time: if it stops by itself, none of its commands is left running."""
        if not session.cancel():
            return
        exited = asyncio.ensure_future(connection.child.over(None, None))
        try:
            await asyncio.wait((talking, exited), timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _abandon(exited)


class _Connection:
    """The pipes of a running program. What is kept on disk is redacted; what the agent is answered is not.

    It may write a file in which something looks like a key.
    """

    def __init__(
        self,
        program: Popen[bytes],
        client: AcpClient,
        said: RedactionFilter,
        complained: RedactionFilter,
        longest_line: int,
    ) -> None:
        self.peer = JsonRpcPeer(self.send, client.answer, client.notice)
        self.exit_code: int | None = None
        self._lines = LineSplitter(self.peer.read_line, longest_line)
        self.child = ChildProcess(program, (said.feed, self._lines.feed), (complained.feed,))
        self._pipe = cast(IO[bytes], program.stdin)
        self._stdin: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Start to read and write."""
        self.child.watch()
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._pipe)

    def send(self, data: bytes) -> None:
        """Write without blocking: an agent that does not read must not stop us."""
        if self._stdin and not self._stdin.is_closing():
            self._stdin.write(data)

    async def let_exit(self) -> None:
        """Close the agent's input and let it exit by itself."""
        if self._stdin:
            self._stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIME):
                await self.child.over(None, None)

    async def read_rest(self) -> None:
        """Read what an agent that has exited said last."""
        await self.child.drain()
        self._lines.finish()
        self.peer.close("")

    def hang_up(self) -> None:
        """Stop writing, and wait for no answer."""
        self.peer.close("")
        if self._stdin is None:
            self._pipe.close()
        elif not self._stdin.is_closing():
            self._stdin.abort()


async def _abandon(*futures: asyncio.Future[None] | asyncio.Future[ExitReason]) -> None:
    """Cancel what still runs, and ignore what it raises."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)

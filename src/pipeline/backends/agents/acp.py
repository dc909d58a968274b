"""Any agent that speaks the Agent Client Protocol, by its command.

It is asked to stop by the protocol first; whatever it answers, nothing that it started is left when `run` returns or
raises.
"""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import IO, cast

from pipeline import __version__
from pipeline.backends import process_tree as sweep
from pipeline.backends.agents.base import (
    AgentTranscript,
    Message,
    Now,
    PathNotAllowed,
    command_for,
    cut_off,
    judge,
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

_LARGEST_FILE = 8 * 1024 * 1024
_READING = frozenset({"read", "search", "think"})  # kinds of tools that change nothing and reach nobody
_ALLOW, _REJECT = ("allow_once", "allow_always"), ("reject_once", "reject_always")


class AcpTranscript:
    """What an agent tells of its work. Its answer is what it says after its last tool call.

    What comes before is what it thinks aloud while it works, and banners and warnings that adapters put in; a status
    read from there would be one that the agent gave before it had looked.
    """

    def __init__(self, emit: Emit, access: Access) -> None:
        self.cost_usd: float | None = None  # of the whole session
        self._emit = emit
        self._access = access
        self._said: list[str] = []
        self._line: list[str] = []
        self._tools: dict[str, tuple[str, str]] = {}  # kind and title by id
        self._allowed: set[str] = set()
        self._listening = False

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._said)

    def begin(self) -> None:
        """Listen from here: a session that is loaded first tells its past."""
        self._listening = True

    def end(self) -> None:
        """Hand on what was said last."""
        if line := "".join(self._line):
            self._emit(AgentEvent("text", line))
        self._line.clear()

    def take(self, update: Message) -> None:
        """Read one update; kinds that say nothing of the answer are passed over."""
        kind = update["sessionUpdate"]
        if kind == "usage_update":
            self._cost(update.get("cost") or {})
        elif not self._listening:
            return
        elif kind == "agent_message_chunk":
            self._say(update["content"])
        elif kind == "tool_call":
            self._start(update)
        elif kind == "tool_call_update":
            self._go_on(update)

    def tool(self, call: Message) -> tuple[str, str]:
        """The kind and the title of a tool call, from what was told of it last."""
        kind, title = self._tools.get(call["toolCallId"], ("other", "a tool"))
        return str(call.get("kind") or kind), str(call.get("title") or title)

    def allow(self, call: Message) -> None:
        """Remember that it asked."""
        self._allowed.add(call["toolCallId"])

    def _cost(self, cost: Message) -> None:
        if cost.get("currency") == "USD":
            self.cost_usd = float(cost["amount"])

    def _say(self, content: Message) -> None:
        if content["type"] != "text":
            return
        self._said.append(str(content["text"]))
        *lines, rest = self._said[-1].split("\n")
        for line in lines:
            self._emit(AgentEvent("text", "".join((*self._line, line))))
            self._line.clear()
        self._line.append(rest)

    def _start(self, call: Message) -> None:
        self.end()
        self._said.clear()
        _, title = self._tools[call["toolCallId"]] = self.tool(call)
        self._emit(AgentEvent("tool_start", title))
        self._ended(call)

    def _go_on(self, call: Message) -> None:
        self._tools[call["toolCallId"]] = self.tool(call)
        self._ended(call)

    def _ended(self, call: Message) -> None:
        if call.get("status") not in ("completed", "failed"):
            return
        kind, title = self.tool(call)
        self._emit(AgentEvent("tool_end", title))
        asked = call["toolCallId"] in self._allowed
        if call["status"] == "completed" and not asked and not may_use(self._access, kind):
            warning = f'it used "{title}" ({kind}) without asking, though its access is {self._access}'
            self._emit(AgentEvent("warning", warning))


class AcpClient:
    """The client's side of the protocol."""

    def __init__(self, cwd: Path, access: Access, emit: Emit) -> None:
        self.transcript = AcpTranscript(emit, access)
        self.denied: list[str] = []
        self.cancelled = False
        self._cwd = cwd
        self._access = access

    def capabilities(self) -> Message:
        """What an agent may ask for. It has no terminal here: its own commands run as its own children."""
        reads, writes = self._access is not Access.NONE, self._access is Access.CODING
        return {"fs": {"readTextFile": reads, "writeTextFile": writes}, "terminal": False}

    def hear(self, method: str, params: Message) -> None:
        """Take an update of the session."""
        if method == "session/update":
            self.transcript.take(params["update"])

    def answer(self, method: str, params: Message) -> Message:
        """Give permission, or a file."""
        match method:
            case "session/request_permission":
                return {"outcome": self._decide(params)}
            case "fs/read_text_file" if self._access is not Access.NONE:
                return {"content": self._read(params)}
            case "fs/write_text_file" if self._access is Access.CODING:
                return self._write(params)
            case "fs/read_text_file" | "fs/write_text_file":
                self.denied.append(method)
                raise RpcError(INVALID_PARAMS, f'"{method}" is not allowed: the access is {self._access}')
            case _:
                raise RpcError(METHOD_NOT_FOUND, f'there is no "{method}" here')

    def _decide(self, params: Message) -> Message:
        """One of the options offered; once rather than for ever, which some agents write into the workspace."""
        if self.cancelled:
            return {"outcome": "cancelled"}
        call, options = params["toolCall"], {option["kind"]: option["optionId"] for option in params["options"]}
        kind, title = self.transcript.tool(call)
        allowed = may_use(self._access, kind)
        if allowed:
            self.transcript.allow(call)
        else:
            self.denied.append(title)
        chosen = next((options[want] for want in (_ALLOW if allowed else _REJECT) if want in options), None)
        return {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}

    def _read(self, params: Message) -> str:
        path = self._inside(params["path"])
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
                raise RpcError(INVALID_PARAMS, f'"{path}" is not a file of at most {_LARGEST_FILE} bytes')
            with path.open(encoding="utf-8", newline="") as file:
                lines = file.readlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RpcError(INTERNAL_ERROR, f'"{path}" cannot be read as text: {error}') from error
        first = max((params.get("line") or 1) - 1, 0)
        limit = params.get("limit")
        return "".join(lines[first:] if limit is None else lines[first : first + limit])

    def _write(self, params: Message) -> Message:
        path = self._inside(params["path"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(params["content"], encoding="utf-8", newline="")
        except OSError as error:
            raise RpcError(INTERNAL_ERROR, f'"{path}" cannot be written: {error}') from error
        return {}

    def _inside(self, name: str) -> Path:
        try:
            return resolve_inside(self._cwd, name)
        except PathNotAllowed as error:
            self.denied.append(name)
            raise RpcError(INVALID_PARAMS, str(error)) from error


def may_use(access: Access, kind: str) -> bool:
    """Whether an agent may use a tool of this kind."""
    match access:
        case Access.CODING:
            return True
        case Access.READ_ONLY:
            return kind in _READING
        case Access.NONE:
            return False


PROTOCOL_VERSION = 1
_STOPPED = {
    "max_tokens": cut_off("max_tokens"),
    "max_turn_requests": AgentError(
        ErrorKind.PROTOCOL, 'the answer was cut off at the agent\'s limit of requests ("max_turn_requests")'
    ),
    "refusal": AgentError(ErrorKind.DENIED, 'the model refused to answer ("refusal")'),
    "cancelled": AgentError(ErrorKind.KILLED, 'it says "cancelled", but was not cancelled by us'),
}


class _Unusable(Exception):
    """The agent cannot do what the request needs."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.error = AgentError(kind, message)


class AcpSession:
    """A conversation of one request."""

    def __init__(
        self, peer: JsonRpcPeer, client: AcpClient, request: AgentRequest, emit: Emit, patience: float
    ) -> None:
        self._peer = peer
        self._client = client
        self._request = request
        self._emit = emit
        self._patience = patience
        self._session = ""
        self._keeps = False  # whether it can go on with a session later
        self._version = ""
        self._usage: Usage | None = None

    async def hold(self) -> AgentTranscript:
        """Have it, and tell what came of it; an agent that hangs up leaves it without an end."""
        try:
            return self._judge(await self._talk())
        except (_Unusable, RpcError) as error:
            return self._reading(error.error if isinstance(error, _Unusable) else error.as_agent_error())
        except ConnectionClosed as error:
            return self._reading(AgentError(ErrorKind.PROTOCOL, str(error)) if str(error) else None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return self._reading(AgentError(ErrorKind.PROTOCOL, f"it answered what is not its protocol ({error!r})"))
        finally:
            self._client.transcript.end()

    def cancel(self) -> bool:
        """Ask the agent to stop; False when there is nothing to stop yet."""
        self._client.cancelled = True
        if self._session:
            self._peer.tell("session/cancel", {"sessionId": self._session})
        return bool(self._session)

    def told(self) -> AgentTranscript:
        """What is known of a conversation that did not come to its end."""
        return self._reading(None)

    async def _talk(self) -> Message:
        await self._hello()
        opened = await self._open()
        await self._set_up(opened)
        self._client.transcript.begin()
        prompt = [{"type": "text", "text": self._request.prompt}]
        return await self._peer.ask("session/prompt", {"sessionId": self._session, "prompt": prompt})

    async def _hello(self) -> None:
        us = {"name": "awf", "version": __version__}
        capabilities = self._client.capabilities()
        params = {"protocolVersion": PROTOCOL_VERSION, "clientCapabilities": capabilities, "clientInfo": us}
        try:
            async with asyncio.timeout(self._patience):
                hello = await self._peer.ask("initialize", params)
        except TimeoutError as error:
            words = f"it did not say hello within {self._patience:g} seconds: is it an agent that speaks ACP?"
            raise _Unusable(ErrorKind.PROTOCOL, words) from error
        if hello.get("protocolVersion") != PROTOCOL_VERSION:
            words = f"it speaks version {hello.get('protocolVersion')} of ACP; version {PROTOCOL_VERSION} is needed"
            raise _Unusable(ErrorKind.PROTOCOL, words)
        self._version = str((hello.get("agentInfo") or {}).get("version", ""))
        self._keeps = bool((hello.get("agentCapabilities") or {}).get("loadSession"))

    async def _open(self) -> Message:
        place = {"cwd": str(self._request.cwd.absolute()), "mcpServers": []}
        earlier = self._request.session
        if earlier is None:
            opened = await self._peer.ask("session/new", place)
            self._session = str(opened["sessionId"])
            return opened
        if not self._keeps:
            raise _Unusable(ErrorKind.CONFIG, "it cannot go on with a session: it does not offer to load one")
        opened = await self._peer.ask("session/load", {**place, "sessionId": earlier.id})
        self._session = earlier.id
        return opened

    async def _set_up(self, opened: Message) -> None:
        """The agent's own read-only mode, since some agents do not ask; then the model and its effort."""
        modes = [mode["id"] for mode in (opened.get("modes") or {}).get("availableModes", ())]
        if self._request.access is not Access.CODING and "read-only" in modes:
            await self._peer.ask("session/set_mode", {"sessionId": self._session, "modeId": "read-only"})
        options = await self._choose(opened, "model", self._request.model)
        await self._choose(options, "thought_level", self._request.reasoning_effort)

    async def _choose(self, offered: Message, category: str, wanted: str | None) -> Message:
        """Set an option of the session; what it offers afterwards."""
        if not wanted:
            return offered
        for option in offered.get("configOptions") or ():
            if option.get("category") == category and option.get("type") == "select":
                _among(tuple(_values(option["options"])), category, wanted)
                params = {"sessionId": self._session, "configId": option["id"], "value": wanted}
                return await self._peer.ask("session/set_config_option", params)
        # How agents offered it before there were options.
        models = offered.get("models") if category == "model" else None
        if models:
            _among(tuple(model["modelId"] for model in models["availableModels"]), category, wanted)
            await self._peer.ask("session/set_model", {"sessionId": self._session, "modelId": wanted})
        else:
            self._emit(AgentEvent("warning", f'it offers no choice of its {category}: "{wanted}" was not set'))
        return offered

    def _judge(self, ended: Message) -> AgentTranscript:
        self._usage = _usage(ended.get("usage") or {})
        reason = ended.get("stopReason")
        if reason == "end_turn":
            return replace(self._reading(None), ended=True)
        unknown = AgentError(ErrorKind.PROTOCOL, f'it stopped for a reason that is not known: "{reason}"')
        return self._reading(_STOPPED.get(str(reason), unknown))

    def _reading(self, error: AgentError | None) -> AgentTranscript:
        usage, session = self._sums()
        if usage:
            self._emit(AgentEvent("usage", usage=usage))
        return AgentTranscript(
            text=self._client.transcript.text,
            error=error,
            usage=usage,
            session=session,
            denied=tuple(self._client.denied),
            version=self._version,
        )

    def _sums(self) -> tuple[Usage | None, AgentSession | None]:
        """What this request took, and the session with its sum: tokens are told by request, costs by session."""
        total, earlier = self._client.transcript.cost_usd, self._request.session and self._request.session.used
        before = (earlier and earlier.cost_usd) or 0.0
        usage = self._usage
        if total is not None:
            cost = total - before if total >= before else total  # less than before: it began to count anew
            usage = (usage or Usage()).model_copy(update={"cost_usd": cost})
        session = AgentSession(self._session, Usage(cost_usd=total)) if self._session and self._keeps else None
        return usage, session


def _among(offered: tuple[str, ...], category: str, wanted: str) -> None:
    if wanted not in offered:
        raise _Unusable(ErrorKind.CONFIG, f'it does not offer the {category} "{wanted}", only {", ".join(offered)}')


def _values(options: list[Message]) -> Iterator[str]:
    """The values of an option; they may stand in groups."""
    for option in options:
        if "options" in option:
            yield from _values(option["options"])
        else:
            yield str(option["value"])


def _usage(told: Message) -> Usage | None:
    """What a request took. Some agents count what was read from a cache apart, and then it is in the total besides."""
    if not told:
        return None
    fresh, out = int(told["inputTokens"]), int(told["outputTokens"])
    cached = (told.get("cachedReadTokens") or 0) + (told.get("cachedWriteTokens") or 0)
    apart = (told.get("totalTokens") or 0) >= fresh + out + cached
    return Usage(input_tokens=fresh + cached if apart else fresh, output_tokens=out)


_FAREWELL = 1.0  # seconds an agent has to leave by itself when it has answered: it may have a session to write


class AcpBackend:
    """Runs one agent for every request. All it starts carries `label`, by which `sweep.kill_labelled` finds it."""

    name = "acp"

    def __init__(
        self,
        argv: tuple[str, ...],
        label: str,
        variables: tuple[str, ...] = (),
        *,
        grace: float = 5.0,
        patience: float = 60.0,  # seconds until it must have said hello
        redactor: Redactor = PATTERNS_ONLY,
        now: Now = local_now,
    ) -> None:
        self._argv = argv
        self._label = label
        self._variables = variables
        self._grace = grace
        self._patience = patience
        self._redactor = redactor
        self._now = now

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key, and those the user adds."""
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
                why = AgentError(ErrorKind.SPAWN, self._redactor.text(program))
                return AgentResult(AgentStatus.ERROR, error=why, argv=self._argv)
            with (
                RedactionFilter(self._redactor, out.write) as said,
                RedactionFilter(self._redactor, err.write) as complained,
            ):
                client = AcpClient(request.cwd, request.access, emit)
                line = _Line(program, client, said, complained, request.limits.output_bytes)
                talk = AcpSession(line.peer, client, request, emit, self._patience)
                ending, reading = await self._see_through(request.limits, line, talk, token)
            # How it ended after its answer is our doing and tells nothing.
            how = describe_exit(ending, 0 if reading.ended else line.code)
            return judge(self._argv, process_result(out, err, *how, duration=line.child.duration), reading, self._now())

    async def _see_through(
        self, limits: RequestLimits, line: "_Line", talk: AcpSession, token: str
    ) -> tuple[ExitReason, AgentTranscript]:
        try:
            await line.open()
            return await self._watch(limits, line, talk)
        finally:
            line.hang_up()
            try:
                grace = 0.0 if line.child.exited else self._grace
                await run_uninterrupted(partial(sweep.stop_process_tree, line.child.pid, token, grace))
            finally:
                line.close()

    async def _watch(
        self, limits: RequestLimits, line: "_Line", talk: AcpSession
    ) -> tuple[ExitReason, AgentTranscript]:
        talking = asyncio.ensure_future(talk.hold())
        running = asyncio.ensure_future(line.child.over(limits.timeout, limits.idle))
        try:
            await asyncio.wait((talking, running), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                await line.farewell()
                return ExitReason.EXITED, talking.result()
            if (ending := running.result()) is ExitReason.EXITED:
                await line.last_words()
                return ending, await talking
            await self._call_off(line, talk, talking)
            return ending, talking.result() if talking.done() else talk.told()
        except asyncio.CancelledError:
            await self._call_off(line, talk, talking)
            raise
        finally:
            await _drop(talking, running)

    async def _call_off(self, line: "_Line", talk: AcpSession, talking: asyncio.Future[AgentTranscript]) -> None:
        """Ask it to stop and give it its time: an agent that stops by itself leaves none of its commands running."""
        if not talk.cancel():
            return
        gone = asyncio.ensure_future(line.child.over(None, None))
        try:
            await asyncio.wait((talking, gone), timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _drop(gone)


class _Line:
    """The pipes to a program that runs, and what goes over them. What is kept of it is kept without secrets.

    What the program is answered by is not: it may write a file in which something looks like a key.
    """

    def __init__(
        self, program: Popen[bytes], client: AcpClient, said: RedactionFilter, complained: RedactionFilter, longest: int
    ) -> None:
        self.peer = JsonRpcPeer(self.send, client.answer, client.hear)
        self.code: int | None = None
        self._lines = LineSplitter(self.peer.take, longest)
        self.child = ChildProcess(program, (said.feed, self._lines.feed), (complained.feed,))
        self._pipe = cast(IO[bytes], program.stdin)
        self._stdin: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Begin to read and write."""
        self.child.watch()
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._pipe)

    def send(self, data: bytes) -> None:
        """Write, or keep it until it can be written: an agent that does not read must not stop us."""
        if self._stdin and not self._stdin.is_closing():
            self._stdin.write(data)

    async def farewell(self) -> None:
        """Let it leave by itself."""
        if self._stdin:
            self._stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await self.child.over(None, None)

    async def last_words(self) -> None:
        """Read what an agent that is gone said last, and wait for no more."""
        await self.child.drain()
        self._lines.finish()
        self.peer.hang_up("")

    def hang_up(self) -> None:
        """Write no more."""
        self.peer.hang_up("")
        if self._stdin is None:
            self._pipe.close()
        elif not self._stdin.is_closing():
            self._stdin.abort()

    def close(self) -> None:
        """Let go of the program."""
        self.code = self.child.close()


async def _drop(*futures: asyncio.Future[AgentTranscript] | asyncio.Future[ExitReason]) -> None:
    """Cancel what still runs, and take what it raised."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)

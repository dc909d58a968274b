"""One request to an ACP agent: say hello, open or load a session, choose the model, prompt, and read how it ended."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from pipeline import __version__
from pipeline.backends.agents.acp_client import Client
from pipeline.backends.agents.acp_peer import HungUp, Peer, RpcError
from pipeline.backends.agents.judgement import Reading, cut_off
from pipeline.backends.agents.program import Message
from pipeline.engine.agent import AgentError, AgentEvent, Emit, ErrorKind, Request, Session
from pipeline.engine.outcome import Usage
from pipeline.language.model import Access

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


class Talk:
    """A conversation of one request."""

    def __init__(self, peer: Peer, client: Client, request: Request, emit: Emit, patience: float) -> None:
        self._peer = peer
        self._client = client
        self._request = request
        self._emit = emit
        self._patience = patience
        self._session = ""
        self._keeps = False  # whether it can go on with a session later
        self._version = ""
        self._usage: Usage | None = None

    async def hold(self) -> Reading:
        """Have it, and tell what came of it; an agent that hangs up leaves it without an end."""
        try:
            return self._judge(await self._talk())
        except (_Unusable, RpcError) as error:
            return self._reading(error.error if isinstance(error, _Unusable) else error.as_agent_error())
        except HungUp as error:
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

    def told(self) -> Reading:
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

    def _judge(self, ended: Message) -> Reading:
        self._usage = _usage(ended.get("usage") or {})
        reason = ended.get("stopReason")
        if reason == "end_turn":
            return replace(self._reading(None), ended=True)
        unknown = AgentError(ErrorKind.PROTOCOL, f'it stopped for a reason that is not known: "{reason}"')
        return self._reading(_STOPPED.get(str(reason), unknown))

    def _reading(self, error: AgentError | None) -> Reading:
        usage, session = self._sums()
        if usage:
            self._emit(AgentEvent("usage", usage=usage))
        return Reading(
            text=self._client.transcript.text,
            error=error,
            usage=usage,
            session=session,
            denied=tuple(self._client.denied),
            version=self._version,
        )

    def _sums(self) -> tuple[Usage | None, Session | None]:
        """What this request took, and the session with its sum: tokens are told by request, costs by session."""
        total, earlier = self._client.transcript.cost_usd, self._request.session and self._request.session.used
        before = (earlier and earlier.cost_usd) or 0.0
        usage = self._usage
        if total is not None:
            cost = total - before if total >= before else total  # less than before: it began to count anew
            usage = (usage or Usage()).model_copy(update={"cost_usd": cost})
        session = Session(self._session, Usage(cost_usd=total)) if self._session and self._keeps else None
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

"""JSON-RPC 2.0 in lines, with a program at the other end. No request is left waiting once the other end has hung up.

By hand, and not with the protocol's own kit: its whole schema takes a second to load and refuses what a newer agent
adds, while little of it is needed here; and how programs are started, read and stopped is settled in this house.
"""

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

from pipeline.backends.agents.base import Message, kind_of
from pipeline.engine.ports import AgentError, ErrorKind

METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603
_BY_CODE = {
    -32000: ErrorKind.AUTH,  # the Agent Client Protocol's "authentication required"
    -32002: ErrorKind.INVALID,  # its "resource not found"
    INVALID_PARAMS: ErrorKind.INVALID,
    METHOD_NOT_FOUND: ErrorKind.PROTOCOL,
    -32600: ErrorKind.PROTOCOL,
    -32700: ErrorKind.PROTOCOL,
}


class ConnectionClosed(Exception):
    """The other end is gone, or makes no sense any more."""


class RpcError(Exception):
    """A request that was answered with an error, by either end."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_agent_error(self) -> AgentError:
        """What it means for the request of the engine."""
        words = f"{self.message} ({json.dumps(self.data, ensure_ascii=False)})" if self.data else self.message
        if 400 <= self.code < 600:  # gemini gives the provider's HTTP status
            return AgentError(kind_of(self.code, words), words)
        told = kind_of(None, words)
        kind = _BY_CODE.get(self.code, told) if told is ErrorKind.UNKNOWN else told
        return AgentError(kind, words)


class JsonRpcPeer:
    """This end of the line: `send` takes what goes out, `take` what comes in.

    What the other end asks is done by `answer`, which raises RpcError to refuse it; what it tells is taken by `hear`.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        answer: Callable[[str, Message], Message],
        hear: Callable[[str, Message], None],
    ) -> None:
        self._send = send
        self._answer = answer
        self._hear = hear
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._over: ConnectionClosed | None = None

    async def ask(self, method: str, params: Message) -> Message:
        """Request something and wait for it; raises RpcError when it is refused, HungUp when no answer can come."""
        if self._over:
            raise self._over
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        try:
            result = await answer
        finally:
            del self._waiting[number]
        return result if isinstance(result, dict) else {}

    def tell(self, method: str, params: Message) -> None:
        """Say something that has no answer."""
        self._write({"method": method, "params": params})

    def take(self, line: bytes) -> None:
        """Read one line; what is no message is passed over: programs print warnings too."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict) or self._over:
            return
        try:
            self._dispatch(message)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.hang_up(f"it sent what is not its protocol ({error!r})")

    def hang_up(self, why: str) -> None:
        """Take no more, and let nobody wait."""
        self._over = self._over or ConnectionClosed(why)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._over)

    def _dispatch(self, message: dict[str, Any]) -> None:
        match message:
            case {"method": method, "id": number}:
                self._write({"id": number, **self._answered(method, message.get("params") or {})})
            case {"method": method}:
                self._hear(method, message.get("params") or {})
            case {"id": int(number)} if (answer := self._waiting.get(number)) and not answer.done():
                self._settle(answer, message)

    def _settle(self, answer: asyncio.Future[Any], message: dict[str, Any]) -> None:
        if error := message.get("error"):
            answer.set_exception(RpcError(int(error["code"]), str(error.get("message", "")), error.get("data")))
        else:
            answer.set_result(message.get("result"))

    def _answered(self, method: str, params: Message) -> dict[str, object]:
        try:
            return {"result": self._answer(method, params)}
        except RpcError as error:
            code, words = error.code, error.message
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            code, words = INVALID_PARAMS, f'"{method}" was asked with what is not its parameters ({error!r})'
        return {"error": {"code": code, "message": words}}

    def _write(self, message: dict[str, object]) -> None:
        self._send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

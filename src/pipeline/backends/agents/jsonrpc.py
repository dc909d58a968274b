"""JSON-RPC 2.0 over lines, with a program at the other end.

Written by hand instead of using the protocol's own SDK: its schema takes a second to load and rejects what newer agents
add, while little of it is needed here, and programs are started, read and stopped by our own code.
"""

import asyncio
import itertools
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from pipeline.backends.agents.base import MALFORMED, Message
from pipeline.backends.provider_errors import error_kind
from pipeline.engine.ports import AgentError, ErrorKind

METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603
_KIND_BY_CODE = {
    -32000: ErrorKind.AUTH,  # the Agent Client Protocol's "authentication required"
    -32002: ErrorKind.INVALID,  # its "resource not found"
    INVALID_PARAMS: ErrorKind.INVALID,
    METHOD_NOT_FOUND: ErrorKind.PROTOCOL,
    -32600: ErrorKind.PROTOCOL,
    -32700: ErrorKind.PROTOCOL,
}


class ConnectionClosed(Exception):
    """The other end is gone, or no longer speaks the protocol."""


class RpcError(Exception):
    """A request that either end answered with an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_agent_error(self) -> AgentError:
        """The error of an agent's run that failed with it."""
        message = f"{self.message} ({json.dumps(self.data, ensure_ascii=False)})" if self.data else self.message
        if self.code == HTTPStatus.INTERNAL_SERVER_ERROR:  # gemini gives it to every error without a status, too
            return AgentError(error_kind(message, default=ErrorKind.SERVER), message)
        if 400 <= self.code < 600:  # gemini gives the provider's HTTP status
            return AgentError(error_kind(message, self.code), message)
        default = _KIND_BY_CODE.get(self.code, ErrorKind.UNKNOWN)
        if isinstance(self.data, dict) and self.data.get("restartable") is True:  # of codex-acp, if its server ended
            default = ErrorKind.SERVER
        return AgentError(error_kind(message, default=default), message)


class JsonRpcPeer:
    """This end of a connection: `send` writes a line, `read_line` takes one that arrived.

    `answer` returns the result of the other end's requests, or raises RpcError; `notice` takes its notifications.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        answer: Callable[[str, Message], Message],
        notice: Callable[[str, Message], None],
    ) -> None:
        self._send = send
        self._answer = answer
        self._notice = notice
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._closed: ConnectionClosed | None = None

    async def request(self, method: str, params: Message) -> Message:
        """The result of a request; raises RpcError if it is refused, ConnectionClosed if no answer can come."""
        if self._closed:
            raise self._closed
        number = next(self._ids)
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        try:
            result = await answer
        finally:
            del self._pending[number]
        return result if isinstance(result, dict) else {}

    def notify(self, method: str, params: Message) -> None:
        """Send a notification, which has no answer."""
        self._write({"method": method, "params": params})

    def read_line(self, line: bytes) -> None:
        """Take a line; lines that are not JSON objects are ignored: programs print warnings, too."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict) or self._closed:
            return
        try:
            match message:
                case {"method": method, "id": number}:
                    self._write({"id": number, **self._reply(method, message.get("params") or {})})
                case {"method": method}:
                    self._notice(method, message.get("params") or {})
                case {"id": int(number)} if (answer := self._pending.get(number)) and not answer.done():
                    if error := message.get("error"):
                        refusal = RpcError(int(error["code"]), str(error.get("message", "")), error.get("data"))
                        answer.set_exception(refusal)
                    else:
                        answer.set_result(message.get("result"))
        except MALFORMED as malformed:
            self.close(f"the agent sent a malformed message ({malformed!r})")

    def close(self, reason: str) -> None:
        """Take no more messages, and fail the pending requests with `reason`."""
        self._closed = self._closed or ConnectionClosed(reason)
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(self._closed)

    def _reply(self, method: str, params: Message) -> dict[str, object]:
        try:
            return {"result": self._answer(method, params)}
        except RpcError as error:
            code, message = error.code, error.message
        except MALFORMED as error:
            code, message = INVALID_PARAMS, f'invalid parameters for "{method}" ({error!r})'
        return {"error": {"code": code, "message": message}}

    def _write(self, message: dict[str, object]) -> None:
        self._send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

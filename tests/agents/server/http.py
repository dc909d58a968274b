"""A model server on loopback: takes requests in four dialects and does what its script says.

It keeps the bodies of all requests, so that a test can look for what should not have been sent.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType

from tests.agents.server.anthropic import Messages
from tests.agents.server.chat import ChatCompletions
from tests.agents.server.conversation import INPUT_TOKENS, Conversation, Reply
from tests.agents.server.dialect import Dialect, Json
from tests.agents.server.gemini import GenerateContent
from tests.agents.server.responses import Responses
from tests.agents.server.script import Cause, Drop, Hang, Kill, Refuse, Script
from tests.agents.server.tools import reply_to

_DIALECTS: tuple[tuple[str, Dialect], ...] = (
    ("/v1/messages", Messages()),
    ("/chat/completions", ChatCompletions()),
    ("/responses", Responses()),
    ("enerateContent", GenerateContent()),  # with a small or a capital g
)


class ModelServer(ThreadingHTTPServer):
    """Serves one script until it is closed."""

    daemon_threads = True
    block_on_close = False  # a program that was killed may hold its connection open

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.bodies: list[str] = []
        self.faults: list[BaseException] = []
        self.closing = Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep an error for the test, unless a program just closed its connection."""
        del request, client_address
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.faults.append(error)


@contextmanager
def serving(script: Script) -> Iterator[ModelServer]:
    """A server for the time of a test, which fails when the server did."""
    with ModelServer(script) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
        if server.faults:
            raise server.faults[0]


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output to what the test says."""

    def do_GET(self) -> None:
        self._send(HTTPStatus.OK, {"data": [], "models": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        self.server.bodies.append(body)
        path = self.path.partition("?")[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            self._send(HTTPStatus.OK, {"input_tokens": INPUT_TOKENS, "totalTokens": INPUT_TOKENS})
            return
        dialect = next((dialect for part, dialect in _DIALECTS if part in path), None)
        if dialect is None:
            self._send(HTTPStatus.NOT_FOUND, {"error": {"message": f"nothing is served at {path}"}})
            return
        self._act(dialect, dialect.conversation(json.loads(body), path))

    def _act(self, dialect: Dialect, conversation: Conversation) -> None:
        match self.server.script.next(conversation):
            case Refuse(status) as refusal:
                self._send(status, dialect.error(refusal), _headers(dialect, refusal))
            case Kill():
                os.kill(_owner(*self.client_address), signal.SIGKILL)
                self.close_connection = True
            case Hang():
                self.server.closing.wait()
                self.close_connection = True
            case Drop(torn, text):
                pieces = list(dialect.pieces(Reply(text)))
                self._stream(pieces[: len(pieces) // 2], torn=torn)
            case step if conversation.stream:
                self._stream(dialect.pieces(reply_to(step, conversation)))
            case step:
                self._send(HTTPStatus.OK, dialect.whole(reply_to(step, conversation)))

    def _send(self, status: int, body: Json, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, pieces: Iterable[bytes], *, torn: bool = False) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if not torn:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = torn


def _headers(dialect: Dialect, refusal: Refuse) -> dict[str, str]:
    if refusal.retry_after is None:
        return {}
    headers = {"retry-after": str(refusal.retry_after)}
    if refusal.cause is Cause.USAGE_LIMIT and isinstance(dialect, Messages):  # as for a subscription
        unified = {"status": "rejected", "representative-claim": "five_hour"}
        reset = {"reset": str(int(time.time()) + refusal.retry_after)}
        headers |= {f"anthropic-ratelimit-unified-{name}": value for name, value in {**unified, **reset}.items()}
    return headers


def _owner(address: str, port: int) -> int:
    """The process at the other end of a connection on loopback."""
    local = f"{port:04X}"
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[1].endswith(f":{local}") and row[9] != "0")
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it is closed, or another user's
            if str(link.readlink()) == f"socket:[{inode}]":
                return int(link.parts[2])
    raise LookupError(f"no process is connected from {address}:{port}")

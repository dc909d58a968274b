"""A server that speaks gRPC as Temporal does: it notes every call, and gives each the same reply."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded

from pipeline.cluster.server import Address

_EMPTY = b"\0\0\0\0\0"  # a message of no fields, not compressed


class Frontend:
    """Replies to every call with an empty message and a status."""

    def __init__(self, status: int = 0) -> None:
        self.heard: dict[str, dict[str, str]] = {}  # the metadata of the last call of each name
        self._status = status
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def listening(self, tls: ssl.SSLContext) -> AsyncIterator[Address]:
        """Accept calls."""
        server = await asyncio.start_server(self._call, "127.0.0.1", 0, ssl=tls)
        async with server:
            yield Address(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", "team")
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.1)  # for the transports to close their sockets

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        line = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        line.initiate_connection()
        try:
            writer.write(line.data_to_send())
            while piece := await reader.read(65_536):
                self._hear(line, piece)
                writer.write(line.data_to_send())
        except OSError:
            pass  # the client has what it wanted

    def _hear(self, line: H2Connection, piece: bytes) -> None:
        for event in line.receive_data(piece):
            if isinstance(event, RequestReceived):
                metadata = {str(key): str(value) for key, value in event.headers}
                self.heard[metadata[":path"].rpartition("/")[2]] = metadata
            elif isinstance(event, StreamEnded):
                line.send_headers(event.stream_id, [(":status", "200"), ("content-type", "application/grpc")])
                line.send_data(event.stream_id, _EMPTY)
                line.send_headers(event.stream_id, [("grpc-status", str(self._status))], end_stream=True)

"""A proxy between clients and the server, which terminates TLS and can be disconnected."""

import asyncio
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.certificates import Pair

from pipeline.cluster.server import LoopThread

_PIECE = 65_536


def mutual_tls(own: Pair, authority: Path) -> ssl.SSLContext:
    """TLS that requires client certificates signed by an authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class Relay:
    """A proxy for a port of this machine."""

    def __init__(self, loop: LoopThread, to: int, tls: ssl.SSLContext | None = None) -> None:
        self.port = 0  # chosen when it starts, and then kept
        self.callers: list[str] = []  # the names in their certificates
        self._loop = loop
        self._to = to
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"temporal://127.0.0.1:{self.port}/default"

    def __enter__(self) -> Self:
        self.repair()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def repair(self) -> None:
        """Accept connections."""
        self._loop.call(self._listen())

    def cut(self) -> None:
        """Abort all connections and accept no more."""
        self._loop.call(self._hang_up())

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._call, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        if self._server is not None:
            self._server.close()
        for line in [*self._lines]:
            line.transport.abort()

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if session := writer.get_extra_info("ssl_object"):
            self.callers.append(_name(session.getpeercert()))
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        ends = {writer, back}
        self._lines |= ends
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        except OSError:
            pass  # somebody hung up
        finally:
            self._lines -= ends
            for end in ends:
                end.transport.abort()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE):
        sink.write(piece)
        await sink.drain()
    sink.close()


def _name(certificate: dict[str, Any]) -> str:
    return next(str(value) for part in certificate["subject"] for key, value in part if key == "commonName")

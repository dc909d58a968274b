"""The server: a socket on this machine, one address with a token, and an end that waits for nobody."""

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from pipeline.errors import AwfError
from pipeline.web.place import Place
from pipeline.web.security import EVERYBODY
from pipeline.web.site import create, end_streams

PORT = 8765
_LONGEST_END = 2  # seconds for requests that are being answered when the server ends


@dataclass(frozen=True, slots=True)
class Site:
    """A site that listens and is not served yet."""

    app: Starlette
    listening: socket.socket
    address: str  # with the token


class _Server(uvicorn.Server):
    """A server that ends the streams of its site before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await end_streams(self._app.state.desk)
        await super().shutdown(sockets)


def opened(places: Sequence[Path | Place], host: str, port: int | None, *, read_only: bool, user: str = "") -> Site:
    """A site at a host and port; without a port it is the usual one, or any when that is taken."""
    listening = _bound(host, port)
    number = listening.getsockname()[1]
    token = secrets.token_urlsafe(32)
    this = socket.gethostname()
    app = create(
        places,
        token=token,
        host=host,
        port=number,
        read_only=read_only,
        names=(this,),
        user=user,
        environ=os.environ,
    )
    shown = this if host in EVERYBODY else f"[{host}]" if ":" in host else host
    return Site(app, listening, f"http://{shown}:{number}/?token={token}")


def serve(site: Site) -> None:
    """Answer until somebody stops it."""
    config = uvicorn.Config(
        site.app,
        access_log=False,
        log_config=None,
        log_level="error",
        timeout_graceful_shutdown=_LONGEST_END,
        server_header=False,
        ws="none",
    )
    with site.listening:
        _Server(config, site.app).run(sockets=[site.listening])


def _bound(host: str, port: int | None) -> socket.socket:
    try:
        return _listening(host, PORT if port is None else port)
    except OSError as error:
        if port is None:
            return _listening(host, 0)
        raise AwfError(
            f"cannot listen at port {port} of {host}: {error.strerror}",
            help="choose another with --port, or leave it out: a free one is found then",
        ) from None


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise AwfError(f'there is no host "{host}" to listen at: {error.strerror}', help="leave --host out") from None
    return socket.create_server(address[:2], family=family)

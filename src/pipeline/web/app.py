"""The dashboard as an application, and the server that `awf serve` runs: one address, with a token in it."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import uvicorn
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from pipeline.app.store import RunStore
from pipeline.errors import AwfError
from pipeline.redaction import redactor_of
from pipeline.web import actions, finding, findings, page, run, runs, triage, visit, walk
from pipeline.web.security import ANY_HOST, AccessPolicy, SecurityMiddleware

DEFAULT_PORT = 8765
SEND_TIMEOUT = 20.0  # seconds for a page to take a message; after that it has to connect again
_SHUTDOWN_TIMEOUT = 2  # seconds for requests that are being answered when the server stops


def create_app(
    stores: Sequence[Path | RunStore], policy: AccessPolicy, user: str, environ: Mapping[str, str]
) -> Starlette:
    """The dashboard for these stores; `app.state.site` is what its pages work with."""
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(SecurityMiddleware, policy=policy, refuse=page.error_page)],
        exception_handlers=page.ERROR_HANDLERS,
        lifespan=_lifespan,
    )
    redactor = redactor_of(environ)
    app.state.site = page.Site(page.serve_stores(stores, redactor), policy.read_only, user, redactor)
    return app


def index(request: Request) -> Response:
    """All stores; the runs of one if it is the only one, or the address names it."""
    stores = page.current_site(request).stores
    names = [page.current_store(request).name] if request.path_params else list(stores)
    if len(names) == 1:
        return RedirectResponse(page.url("s", *names, "runs"), 303)
    return page.render(request, "stores.html", {"stores": stores.values()})


def connection(request: Request) -> Response:
    """The part of every page that says which part of a cluster does not answer."""
    page.current_store(request)
    return page.render(request, "connection.html", {})


async def events(request: Request) -> Response:
    """The messages after the position that a page has: that of its last message, or that at which it was made."""
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return _EventStream(page.current_store(request).feed.listen(after), ping=15, send_timeout=SEND_TIMEOUT)


class _EventStream(EventSourceResponse):
    """A stream that drops a page which takes no more messages: it connects again from its position."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


# A page is a plain function: Starlette runs it in a thread. `finding` matches any name, so it comes after `triage`.
_PAGES = (runs, run, visit, actions, walk, findings, triage, finding)
ROUTES = [
    Mount("/static", StaticFiles(directory=page.WEB / "static"), name="static"),
    Route("/", index),
    Route("/s/{store}", index),
    Route("/s/{store}/connection", connection),
    Route("/s/{store}/events", events),
    *(route for module in _PAGES for route in module.ROUTES),
]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    for store in app.state.site.stores.values():
        await store.feed.open()
    yield
    await _close_feeds(app)
    tasks = tuple(app.state.site.tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _close_feeds(app: Starlette) -> None:
    for store in app.state.site.stores.values():
        await store.feed.close()


class Server(uvicorn.Server):
    """The dashboard at an address of this machine. `address` contains the token; `serve_forever` answers requests."""

    def __init__(
        self, stores: Sequence[Path | RunStore], host: str, port: int | None, *, read_only: bool, user: str = ""
    ) -> None:
        self.listener = _listen(host, port)
        number, token, name = self.listener.getsockname()[1], secrets.token_urlsafe(32), socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        if host in ANY_HOST:
            shown = name
        self.address = f"http://{shown}:{number}/?token={token}"
        policy = AccessPolicy(token, host, number, read_only, (name.lower(),))
        self._app = create_app(stores, policy, user, os.environ)
        config = uvicorn.Config(
            self._app,
            access_log=False,
            log_config=None,
            log_level="error",
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
            server_header=False,
            ws="none",
        )
        super().__init__(config)

    def serve_forever(self) -> None:
        """Answer requests until the server is stopped."""
        with self.listener:
            self.run(sockets=[self.listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await _close_feeds(self._app)  # before the server waits for its connections to end
        await super().shutdown(sockets)


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at a port; without one the default, or a free one if that is taken."""
    try:
        family, *_, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise AwfError(f'cannot listen on "{host}": {error.strerror}', help="leave out --host") from None
    try:
        return socket.create_server((address[0], DEFAULT_PORT if port is None else port), family=family)
    except OSError as error:
        if port is None:
            return socket.create_server((address[0], 0), family=family)
        raise AwfError(
            f"cannot listen on port {port} of {host}: {error.strerror}",
            help="choose another with --port, or leave it out to use a free one",
        ) from None

"""The stream of what happens in a store; see `pipeline.web.live`."""

from contextlib import suppress

from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pipeline.web.desk import store

_PATIENCE = 20.0  # seconds for a page to take a message, before it is let go


class _Stream(EventSourceResponse):
    """A stream that lets go of a page that takes nothing more: it connects again from its position."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


async def events(request: Request) -> Response:
    """Messages from the position that a page has: the last it got, or that at which it was made."""
    after = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return _Stream(store(request).feed.listen(after), ping=15, send_timeout=_PATIENCE)


ROUTES = [Route("/s/{store}/events", events)]

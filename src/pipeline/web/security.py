"""Who may see and do what. Every request comes here first: no token, no data, and no other site may act."""

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # `no-referrer` would hide the Origin of our own forms too
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 - what --host may be set to
_SAFE_METHODS = ("GET", "HEAD")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Status, title, problem and advice of each refusal.
_WRONG_HOST = (
    421,
    "Wrong address",
    "This server does not answer to that name.",
    "Open the address that awf serve printed.",
)
_NO_TOKEN = (
    401,
    "A token is needed",
    "The token of this server is missing, or belongs to another server.",
    "Open the whole address that awf serve printed in its terminal; it contains the token.",
)
_READ_ONLY = (
    403,
    "Read only",
    "This server was started with --read-only, so nothing can be changed here.",
    "Start awf serve without --read-only.",
)
_OTHER_SITE = (
    403,
    "Request from another site",
    "A change was requested by a page that is not of this server, and was refused.",
    "Open the page here and try again.",
)

Refuse = Callable[[Request, int, str, str, str], Response]


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """What a request must present."""

    token: str
    host: str  # that the server listens on
    port: int
    read_only: bool = False
    names: tuple[str, ...] = ()  # further names of this machine, if it listens on every address

    @property
    def cookie(self) -> str:
        """The name of the cookie, with the port: browsers share cookies between the ports of a host."""
        return f"awf-{self.port}"

    def knows(self, token: str) -> bool:
        """Whether a token is right; the time this takes reveals nothing about it."""
        return secrets.compare_digest(token.encode(), self.token.encode())

    def is_ours(self, authority: str) -> bool:
        """Whether a Host header names this server. A name that others may point at this machine does not."""
        try:
            parts = urlsplit(f"//{authority}")
            host, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        if port != self.port or "@" in authority:
            return False
        if self.host in ANY_HOST:
            return host in (*_LOOPBACK, *self.names) or _is_address(host)
        return host == self.host.lower() or (is_loopback(self.host) and host in _LOOPBACK)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class SecurityMiddleware:
    """Checks each request, and sends the headers that restrict what a browser does with a page."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy, refuse: Refuse) -> None:
        self._app = app
        self._policy = policy
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await (self._check(Request(scope)) or self._app)(scope, receive, _with_headers(send))

    def _check(self, request: Request) -> Response | None:
        """The response to a request that is not passed on; None for one that is."""
        reads = request.method in _SAFE_METHODS
        if not self._policy.is_ours(request.headers.get("host", "")):
            return self._refuse(request, *_WRONG_HOST)
        if reads and request.url.path.startswith("/static/"):
            return None  # the style of every page, including a refusal; nothing from a store
        if reads and "token" in request.query_params:
            return self._move_token_to_cookie(request)
        if not self._policy.knows(request.cookies.get(self._policy.cookie, "")):
            return self._refuse(request, *_NO_TOKEN)
        if not reads and self._policy.read_only:
            return self._refuse(request, *_READ_ONLY)
        if not reads and not _is_same_origin(request.headers):
            return self._refuse(request, *_OTHER_SITE)
        return None

    def _move_token_to_cookie(self, request: Request) -> Response:
        """Take the token out of the address, where others could read it."""
        if not self._policy.knows(request.query_params["token"]):
            return self._refuse(request, *_NO_TOKEN)
        rest = urlencode([(key, value) for key, value in parse_qsl(request.url.query) if key != "token"])
        path = "/" + quote(request.url.path.lstrip("/"))  # two slashes would name another host
        response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        response.set_cookie(self._policy.cookie, self._policy.token, httponly=True, samesite="strict", path="/")
        return response


def _is_same_origin(headers: Headers) -> bool:
    """Whether one of our own pages sent a request; a browser always says which page did."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site not in (None, "same-origin"):
        return False
    if origin is None:
        return site is not None
    scheme, _, authority = origin.partition("://")
    return scheme == "http" and authority == headers.get("host")  # the Host has been checked


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return send_with_headers

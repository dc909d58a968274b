"""Who may see and do what. Every request passes here first: no token, no data; no page of another site may act."""

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import cookies
from types import MappingProxyType
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Referrer-Policy": "same-origin",  # `no-referrer` would hide the Origin of our own forms too
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)
_SAFE = ("GET", "HEAD")
EVERYBODY = ("0.0.0.0", "::")  # noqa: S104 - what somebody may ask for with --host
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

Refuse = Callable[[Request, int, str, str, str], Response]


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """What a request has to show."""

    token: str
    host: str  # what the server is bound to
    port: int
    read_only: bool = False
    names: tuple[str, ...] = ()  # further names of this machine, where it listens to everybody

    @property
    def cookie(self) -> str:
        """The cookie's name. Cookies do not tell ports apart, so their names do."""
        return f"awf-{self.port}"

    def knows(self, token: str) -> bool:
        """Whether a token is the one; how long this takes tells nothing about it."""
        return secrets.compare_digest(token.encode(), self.token.encode())

    def is_ours(self, authority: str) -> bool:
        """Whether a Host is this server: a name that somebody else may point at this machine is not."""
        try:
            parts = urlsplit(f"//{authority}")
            host, port = parts.hostname or "", parts.port or 80
        except ValueError:
            return False
        return port == self.port and "@" not in authority and self._names_us(host)

    def _names_us(self, host: str) -> bool:
        if self.host in EVERYBODY:
            return host in (*_LOOPBACK, *self.names) or _is_address(host)
        return host == self.host.lower() or (is_loopback(self.host) and host in _LOOPBACK)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Security:
    """The middleware that asks for all of it, and adds the headers that keep a browser from doing more than we say."""

    def __init__(self, app: ASGIApp, gate: AccessPolicy, refuse: Refuse) -> None:
        self._app = app
        self._gate = gate
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await (self._answer(Request(scope)) or self._app)(scope, receive, _with_headers(send))

    def _answer(self, request: Request) -> Response | None:
        """The answer to a request that goes no further."""
        if not self._gate.is_ours(request.headers.get("host", "")):
            return self._refused(request, 421, "Wrong address", *_HOST)
        if request.url.path.startswith("/static/") and request.method in _SAFE:
            return None  # the look of a page, also of the one that refuses; nothing of a store
        if request.method in _SAFE and "token" in request.query_params:
            return self._let_in(request)
        if not self._gate.knows(_cookie(request.headers, self._gate.cookie)):
            return self._refused(request, 401, "A token is needed", *_TOKEN)
        if request.method not in _SAFE:
            return self._checked_deed(request)
        return None

    def _let_in(self, request: Request) -> Response:
        """Keep the token in a cookie and take it out of the address, where others could read it."""
        if not self._gate.knows(request.query_params["token"]):
            return self._refused(request, 401, "A token is needed", *_TOKEN)
        rest = urlencode([(key, value) for key, value in parse_qsl(request.url.query) if key != "token"])
        path = "/" + quote(request.url.path.lstrip("/"))  # two slashes would name another host
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.set_cookie(self._gate.cookie, self._gate.token, httponly=True, samesite="strict", path="/")
        return answer

    def _checked_deed(self, request: Request) -> Response | None:
        if self._gate.read_only:
            return self._refused(request, 403, "For reading only", *_READ_ONLY)
        if not self._is_from_here(request.headers):
            return self._refused(request, 403, "Not from this page", *_ELSEWHERE)
        return None

    def _is_from_here(self, headers: Headers) -> bool:
        """Whether one of our own pages asks; a browser always says which page does."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if site not in (None, "same-origin"):
            return False
        scheme, _, authority = (origin or "").partition("://")
        ours = scheme == "http" and authority == headers.get("host")  # the Host has been checked
        return ours if origin is not None else site is not None

    def _refused(self, request: Request, status: int, title: str, what: str, to_do: str) -> Response:
        return self._refuse(request, status, title, what, to_do)


_HOST = ("This server does not answer to that name.", "Open the address that awf serve printed.")
_TOKEN = (
    "This page shows runs only to those who have the token of this server, and yours is missing or from another one.",
    "Open the whole address that awf serve printed in its terminal, with the token in it.",
)
_READ_ONLY = (
    "This server was started with --read-only, so nothing can be changed here.",
    "Start awf serve without it.",
)
_ELSEWHERE = ("A page of another site asked for a change, and was refused.", "Open the page here and try again.")


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = cookies.SimpleCookie(headers.get("cookie", "")).get(name)
    except cookies.CookieError:
        return ""
    return found.value if found else ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sending

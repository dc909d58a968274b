"""What is served, and what a request asks of it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pipeline.app.store import RunStore, open_local_store
from pipeline.redaction import PATTERNS_ONLY, Redactor
from pipeline.web.live import Feed
from pipeline.web.store import OpenStore, StoreReader

MAX_FORM = 256 * 1024  # bytes
_MAX_FIELDS = 1_000
_MAX_NAME = 80  # characters

Form = ImmutableMultiDict[str, str]


class ServedStore:
    """One store as the dashboard shows it."""

    def __init__(self, name: str, open_store: OpenStore) -> None:
        self.name = name  # in addresses
        self.open = open_store
        self.reader = StoreReader(open_store)
        self.feed = Feed(name, self.reader)
        with open_store() as store:
            self.directory, self.title = store.directory, store.title
            self.project, self.command_options = store.project, store.command_options
            self.on_cluster = store.on_cluster

    @property
    def connection_problem(self) -> str:
        """Which part of a cluster does not answer; empty when all of it does."""
        with self.open() as store:
            return store.connection_problem()

    @property
    def run_problems(self) -> Sequence[str]:
        """What is wrong with some of its runs."""
        with self.open() as store:
            return store.run_problems()

    @property
    def runs_with_findings(self) -> Sequence[str]:
        """The runs with a ledger of their own, newest first."""
        with self.open() as store:
            return store.runs_with_findings()


@dataclass(frozen=True, slots=True)
class Site:
    """Everything that is served, and for whom."""

    stores: dict[str, ServedStore]
    read_only: bool = False
    user: str = ""  # the name under which answers are given unless a form says another
    redactor: Redactor = PATTERNS_ONLY


def serve_stores(stores: Sequence[Path | RunStore], redactor: Redactor) -> dict[str, ServedStore]:
    """The stores by name: directories on this machine, each once, and stores that any thread may use."""
    served: dict[str, ServedStore] = {}
    for store in dict.fromkeys(one.resolve() if isinstance(one, Path) else one for one in stores):
        named = store.parent if isinstance(store, Path) and store.name == ".awf" else store
        name = named.name or "store"
        numbered = (f"{name}-{number}" for number in range(2, len(served) + 2))
        unique = name if name not in served else next(one for one in numbered if one not in served)
        served[unique] = ServedStore(unique, _opener(store, redactor))
    return served


def _opener(store: Path | RunStore, redactor: Redactor) -> OpenStore:
    if isinstance(store, Path):
        return partial(open_local_store, store, redactor)
    return lambda: nullcontext(store)


def current_site(request: Request) -> Site:
    """The site that serves a request."""
    site: Site = request.app.state.site
    return site


def current_store(request: Request) -> ServedStore:
    """The store that a request's path names; raises a 404 for an unknown one."""
    name = request.path_params["store"]
    store = current_site(request).stores.get(name)
    if store is None:
        raise HTTPException(404, f'There is no store "{name}" here.')
    return store


def current_user(request: Request, form: Form) -> str:
    """Who acts: the name in a form, or that of the user who started the server."""
    return " ".join(form.get("by", "").split())[:_MAX_NAME] or current_site(request).user or "someone"


def form_endpoint(handle: Callable[[Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads a form, and handles it in a thread."""

    async def endpoint(request: Request) -> Response:
        form = await _read_form(request)
        return await run_in_threadpool(handle, request, form)

    return endpoint


async def _read_form(request: Request) -> Form:
    """The fields of a form; of two with the same name `get` returns the last, `getlist` both."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM:
            raise HTTPException(413, f"A form may hold {MAX_FORM // 1024} KB. Put longer texts into a file.")
    try:
        return ImmutableMultiDict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError:
        raise HTTPException(400, "This form cannot be read: it is not text, or has too many fields.") from None


def parse_number(text: str) -> int | None:
    """The whole number that part of an address is, or None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def wants_json(request: Request) -> bool:
    """Whether a program asks."""
    accepted = request.headers.get("accept", "").partition(",")[0].strip()
    return request.query_params.get("format") == "json" or accepted == "application/json"

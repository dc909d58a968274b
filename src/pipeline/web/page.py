"""What every page is made with: the site and store of a request, its form, the templates, and the error pages."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import chain, count, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from anyio import from_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from pipeline import text
from pipeline.app.findings.ledger import Repository
from pipeline.app.overview import error_kind
from pipeline.app.setting_paths import SettingsPaths
from pipeline.app.settings import load_settings
from pipeline.app.store import RunStore, open_local_store
from pipeline.engine.ports import UnknownRun
from pipeline.errors import AwfError
from pipeline.findings.explanation import location_text
from pipeline.findings.walk.prose import read_markdown
from pipeline.redaction import Redactor
from pipeline.text import format_clock
from pipeline.web.live import Feed
from pipeline.web.security import HEADERS
from pipeline.web.store import OpenStore, StoreReader

MAX_FORM = 256 * 1024  # bytes
_MAX_FIELDS = 1_000
_MAX_NAME = 80  # characters
WEB = Path(__file__).parent
GLYPHS = {  # a state is always a word with a sign, never a colour alone
    "success": ("✓", "good"),
    "partial_success": ("◐", "good"),
    "fail": ("✗", "bad"),
    "error": ("!", "bad"),
    "unreadable": ("✗", "bad"),
    "running": ("●", "active"),
    "waiting": ("?", "other"),
    "paused": ("‖", "other"),
    "interrupted": ("◌", "other"),
    "unknown": ("…", "other"),
    "cancelled": ("–", "quiet"),
    "skipped": ("–", "quiet"),
    "retry": ("↻", "other"),
    # states of findings
    "open": ("○", "bad"),
    "reopened": ("↻", "bad"),
    "uncertain": ("?", "other"),
    "fix_claimed": ("◐", "other"),
    "verified_fixed": ("✓", "good"),
    "false_positive": ("–", "quiet"),
    "wont_fix": ("–", "quiet"),
    # severities
    "critical": ("▲", "bad"),
    "high": ("▲", "bad"),
    "medium": ("◆", "other"),
    "low": ("▽", "quiet"),
    "info": ("·", "quiet"),
}
_TITLES = {404: "Not found", 405: "Not possible here", 500: "Something broke"}
_GO_BACK = "Go back to the list of runs and continue from there."

Form = ImmutableMultiDict[str, str]


class ServedStore(StoreReader):
    """A store with its name in addresses, and the feed of its open pages."""

    def __init__(self, name: str, open_store: OpenStore) -> None:
        super().__init__(open_store)
        self.name = name
        self.feed = Feed(self)


@dataclass(frozen=True, slots=True)
class Site:
    """Everything that is served, and for whom."""

    stores: dict[str, ServedStore]
    read_only: bool
    user: str  # the name under which answers are given unless a form says another
    redactor: Redactor
    walks: dict[str, Any] = field(default_factory=dict)  # walk-throughs that are under way, by name
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # of agents that work for a page

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work that ends with the server; to be called from the thread of a page."""
        task = from_thread.run_sync(asyncio.create_task, work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def serve_stores(stores: Sequence[Path | RunStore], redactor: Redactor) -> dict[str, ServedStore]:
    """The stores by name: directories on this machine, each once, and stores that any thread may use."""
    served: dict[str, ServedStore] = {}
    for store in dict.fromkeys(one.resolve() if isinstance(one, Path) else one for one in stores):
        named = store.parent if isinstance(store, Path) and store.name == ".awf" else store
        base = named.name or "store"
        names = chain([base], (f"{base}-{number}" for number in count(2)))
        name = next(one for one in names if one not in served)
        served[name] = ServedStore(name, _opener(store, redactor))
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
    """The store that a request's path names; raises a 404 for an unknown one.

    Every page calls this before it reads anything: the page needs the messages after this moment.
    """
    name = request.path_params["store"]
    store = current_site(request).stores.get(name)
    if store is None:
        raise HTTPException(404, f'There is no store "{name}" here.')
    request.state.position = store.feed.position
    return store


def writable_store(request: Request) -> ServedStore:
    """The store that a request's path names, if decisions about its findings can be recorded here."""
    store = current_store(request)
    if store.cluster:
        raise AwfError(
            "the findings of runs on a cluster can only be viewed here",
            help="decide about them in a triage stage of the workflow; nothing was changed",
        )
    return store


def repository_of(store: ServedStore) -> Repository:
    """The repository of a store, with the record writers that the user's settings allow; none if those have errors."""
    loaded = load_settings(SettingsPaths.of(store.root, Path.home(), os.environ))
    trusted = () if loaded.problems else loaded.settings.record_writers
    return Repository(store.root, os.environ, trusted=trusted)


def form_endpoint(handle: Callable[[Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads a form, and handles it in a thread. Of fields with the same name `get` has the last."""

    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MAX_FORM:
                raise HTTPException(413, f"A form may hold {MAX_FORM // 1024} KB. Put longer texts into a file.")
        try:
            form = Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
        except ValueError:
            raise HTTPException(400, "This form cannot be read: it is not text, or has too many fields.") from None
        return await run_in_threadpool(handle, request, form)

    return endpoint


def current_user(request: Request, form: Form) -> str:
    """Who acts: the name in a form, or that of the user who started the server."""
    return " ".join(form.get("by", "").split())[:_MAX_NAME] or current_site(request).user or "someone"


def parse_number(text: str) -> int | None:
    """The whole number that part of an address is, or None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def wants_json(request: Request) -> bool:
    """Whether a program asks."""
    accepted = request.headers.get("accept", "").partition(",")[0].strip()
    return request.query_params.get("format") == "json" or accepted == "application/json"


def url(*parts: object, **query: object) -> str:
    """An address on this site from the parts of its path; empty parts of the query are left out."""
    named = urlencode({key: value for key, value in query.items() if value not in ("", None)})
    return "/" + "/".join(quote(str(part), safe="") for part in parts) + (f"?{named}" if named else "")


def markdown_parts(markdown: str) -> Iterator[tuple[str, list[str]]]:
    """Yield lines of our own markdown that are of the same kind and follow one another, without blank ones."""
    for kind, lines in groupby(read_markdown(markdown), key=itemgetter(0)):
        texts = [text for _, text in lines]
        shown = texts if kind == "code" else [text for text in texts if text]
        if shown:
            yield kind, shown


def render(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """A page; with `?part=NAME` only that block of it, which is how a live part is fetched again."""
    found = _templates.get_template(template)
    site = current_site(request)
    context = {
        "site": site,
        "store": site.stores.get(request.path_params.get("store", "")),
        "position": getattr(request.state, "position", ""),  # without one a page loads its parts again
        "here": request.url.path.split("/")[3:4],  # such as ["runs"]
        **values,
    }
    part = found.blocks.get(request.query_params.get("part", ""))
    html = found.render(context) if part is None else "".join(part(found.new_context(context)))
    return HTMLResponse(html, status)


def error_page(request: Request, status: int, title: str, problem: str, advice: str, output: str = "") -> Response:
    """A page, or JSON for a program, that says what happened and what to do; `output` is what a process printed."""
    if wants_json(request):
        printed = {"output": output} if output else {}
        return JSONResponse({"error": problem, "help": advice, **printed}, status)
    values = {"title": title, "problem": problem, "advice": advice, "output": output}
    return render(request, "error.html", values, status)


async def on_http_error(request: Request, error: HTTPException) -> Response:
    """The page for a request that was refused."""
    detail = error.detail
    if detail == HTTPStatus(error.status_code).phrase:  # not a sentence of ours
        problem = "There is nothing at" if error.status_code == HTTPStatus.NOT_FOUND else "This cannot be done at"
        detail = f'{problem} "{request.url.path}".'
    return error_page(request, error.status_code, _TITLES.get(error.status_code, "Refused"), detail, _GO_BACK)


async def on_awf_error(request: Request, error: AwfError) -> Response:
    """The page for an error that a person can do something about."""
    refused = "This cannot be shown" if request.method == "GET" else "This was not done"
    status, title = (404, "Not found") if isinstance(error, UnknownRun) else (409, refused)
    output = current_site(request).redactor.text(getattr(error, "output", ""))  # of a process that did not start
    return error_page(
        request, status, title, text.sentence(error.message), text.sentence(error.help or _GO_BACK), output
    )


async def on_crash(request: Request, error: Exception) -> Response:
    """The page for a bug of ours. It is made outside of all middleware, so it sets the headers itself."""
    problem = f"This page failed with {type(error).__name__}."
    advice = "The terminal of awf serve has the details; please add them to a bug report. Other pages still work."
    page = error_page(request, 500, _TITLES[500], problem, advice)
    page.headers.update(HEADERS)
    return page


ERROR_HANDLERS: dict[Any, Any] = {HTTPException: on_http_error, AwfError: on_awf_error, Exception: on_crash}


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _seconds(time: str) -> float:
    """A time of the ledger in seconds; 0 for one that cannot be read, as imported records may have."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(WEB / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shared = (
        "format_age format_cost format_count format_duration plural sanitize_block sanitize_line truncate visit_label"
    )
    environment.filters |= {name: getattr(text, name) for name in shared.split()} | {
        "iso": _iso,
        "clock": format_clock,
        "kind": error_kind,
        "location": location_text,
        "seconds": _seconds,
    }
    environment.globals |= {"url": url, "now": time.time, "glyphs": GLYPHS}
    environment.globals["ui"] = environment.get_template("ui.html").module  # the macros, for parts too
    return environment


_templates = _environment()

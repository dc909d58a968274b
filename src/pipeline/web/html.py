"""Pages and their live parts from templates, and the pages that report errors. Every text is escaped."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from pipeline import text
from pipeline.app.overview import error_kind
from pipeline.engine.ports import UnknownRun
from pipeline.errors import AwfError
from pipeline.findings.explanation import location_text
from pipeline.text import format_clock, format_cost, format_duration
from pipeline.web.security import HEADERS
from pipeline.web.site import current_site, wants_json

WEB = Path(__file__).parent
NAV = (("Runs", "runs"), ("Findings", "findings"), ("Start", "start"))  # in the header: word and path
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


def url(*parts: object, **query: object) -> str:
    """An address on this site from the parts of its path; empty parts of the query are left out."""
    named = urlencode({key: value for key, value in query.items() if value not in ("", None)})
    return "/" + "/".join(quote(str(part), safe="") for part in parts) + (f"?{named}" if named else "")


def render(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """A page; with `?part=NAME` only that block of it, which is how a live part is fetched again."""
    found = _templates.get_template(template)
    site = current_site(request) if "app" in request.scope else None  # none before a request was let in
    context = {"site": site, "store": None, "here": "", "nav": NAV, **values}
    if context["store"] is not None:
        context.setdefault("position", context["store"].feed.position)
    part = found.blocks.get(request.query_params.get("part", ""))
    html = found.render(context) if part is None else "".join(part(found.new_context(context)))
    return HTMLResponse(html, status)


def error_page(request: Request, status: int, title: str, problem: str, advice: str, output: str = "") -> Response:
    """A page, or JSON for a program, that says what happened and what to do; `output` is what a process printed."""
    if wants_json(request):
        printed = {"output": output} if output else {}
        return JSONResponse({"error": problem, "help": advice, **printed}, status)
    stores = current_site(request).stores if "app" in request.scope else {}
    store = stores.get(request.path_params.get("store", ""))
    values = {"title": title, "problem": problem, "advice": advice, "output": output, "store": store}
    return render(request, "error.html", values, status)


async def on_http_error(request: Request, error: Exception) -> Response:
    """The page for a request that was refused."""
    status = getattr(error, "status_code", 500)
    detail = str(getattr(error, "detail", ""))
    if detail == HTTPStatus(status).phrase:  # not a sentence of ours
        problem = "There is nothing at" if status == HTTPStatus.NOT_FOUND else "This cannot be done at"
        detail = f'{problem} "{request.url.path}".'
    return error_page(request, status, _TITLES.get(status, "Refused"), detail, _GO_BACK)


async def on_awf_error(request: Request, error: Exception) -> Response:
    """The page for an error that a person can do something about."""
    message, help = getattr(error, "message", str(error)), getattr(error, "help", None)
    refused = "This cannot be shown" if request.method == "GET" else "This was not done"
    status, title = (404, "Not found") if isinstance(error, UnknownRun) else (409, refused)
    output = current_site(request).redactor.text(getattr(error, "output", ""))
    return error_page(request, status, title, _sentence(message), _sentence(help or _GO_BACK), output)


async def on_crash(request: Request, error: Exception) -> Response:
    """The page for a bug of ours. It is made outside of all middleware, so it sets the headers itself."""
    problem = f"This page could not be made: {type(error).__name__}. Nothing was changed."
    advice = "The terminal of awf serve has the details; please add them to a bug report. Other pages still work."
    page = error_page(request, 500, _TITLES[500], problem, advice)
    page.headers.update(HEADERS)
    return page


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")


ERROR_HANDLERS: dict[Any, Any] = {HTTPException: on_http_error, AwfError: on_awf_error, Exception: on_crash}


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _seconds(time: str) -> float:
    """A time of the ledger in seconds; 0 for one that cannot be read, as imported records may have."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _size(count: int) -> str:
    for unit, size in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def _limit(value: float, name: str) -> str:
    """The value of a limit in its own unit."""
    formats = {"max_duration": format_duration, "max_cost_usd": format_cost}
    return formats[name](value) if name in formats else f"{value:g}"


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
        "clock": _clock,
        "short_clock": format_clock,
        "kind": error_kind,
        "size": _size,
        "limit": _limit,
        "location": location_text,
        "seconds": _seconds,
    }
    environment.tests["match_start"] = str.startswith
    environment.globals |= {"url": url, "now": time.time, "glyphs": GLYPHS}
    environment.globals["ui"] = environment.get_template("ui.html").module  # the macros, for parts too
    return environment


_templates = _environment()

"""What somebody sees when a page cannot be shown: what happened, and what to do."""

from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pipeline.engine.ports import UnknownRun
from pipeline.errors import AwfError
from pipeline.web.desk import desk
from pipeline.web.rendering import render, wants_json
from pipeline.web.security import HEADERS

_TITLES = {404: "Not found", 405: "Not possible here", 500: "Something broke"}
_LOOK = "Go back to the list of runs and look from there."


def error_page(request: Request, status: int, title: str, what: str, to_do: str, output: str = "") -> Response:
    """A page, or JSON for a program, that says what happened and what to do; `output` is what a process said."""
    if wants_json(request):
        said = {"output": output} if output else {}
        return JSONResponse({"error": what, "help": to_do, **said}, status)
    told = {"title": title, "what": what, "to_do": to_do, "output": output}
    return render(request, "error.html", {**told, **_around(request)}, status)


def _around(request: Request) -> dict[str, Any]:
    """The store that the page belongs to, so that one can go on from here; none before a request was let in."""
    stores = request.app.state.desk.stores if "app" in request.scope else {}
    here = stores.get(request.path_params.get("store", ""))
    return {"store": here, "position": here.feed.position} if here else {}


async def on_http(request: Request, error: Exception) -> Response:
    """The page for something that a page refused."""
    status = getattr(error, "status_code", 500)
    detail = str(getattr(error, "detail", ""))
    if detail == HTTPStatus(status).phrase:  # not a sentence of ours
        said = "There is nothing at" if status == HTTPStatus.NOT_FOUND else "This cannot be done at"
        detail = f'{said} "{request.url.path}".'
    return error_page(request, status, _TITLES.get(status, "Refused"), detail, _LOOK)


async def on_awf(request: Request, error: Exception) -> Response:
    """The page for what a person can do something about."""
    message, help = getattr(error, "message", str(error)), getattr(error, "help", None)
    refused = "This cannot be shown" if request.method == "GET" else "This was not done"
    status, title = (404, "Not found") if isinstance(error, UnknownRun) else (409, refused)
    output = desk(request).redactor.text(getattr(error, "output", ""))
    return error_page(request, status, title, _sentence(message), _sentence(help or _LOOK), output)


async def on_crash(request: Request, error: Exception) -> Response:
    """The page for a mistake of ours. It is made outside of all middleware, so it brings its own headers."""
    what = f"This page could not be made: {type(error).__name__}. Nothing was changed."
    to_do = (
        "The terminal in which awf serve runs has the details; they belong into a bug report. Other pages still work."
    )
    made = error_page(request, 500, _TITLES[500], what, to_do)
    made.headers.update(HEADERS)
    return made


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


HANDLERS: dict[Any, Any] = {HTTPException: on_http, AwfError: on_awf, Exception: on_crash}

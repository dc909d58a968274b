"""One visit of one stage: its prompt, its answer, its logs as they grow, how it ended, and why the run went on so."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.app.history import VisitRecord
from pipeline.app.overview import error_advice
from pipeline.text import sanitize_block
from pipeline.web.desk import Store, desk, store
from pipeline.web.pages.run import look
from pipeline.web.rendering import render, url, whole_number
from pipeline.web.timeline import status_of
from pipeline.web.visiting import LONGEST, VisitQuery, at_hand, left, log_path, tail, text_of, whole


async def visit(request: Request) -> Response:
    """The page of a visit, or one of its parts."""
    here = store(request)
    position = here.feed.position
    return await run_in_threadpool(_page, request, here, position)


async def text(request: Request) -> Response:
    """A prompt, an answer or a log, whole and as plain text; with `after`, what a log has beyond so many bytes."""
    here = store(request)
    return await run_in_threadpool(_text, request, here)


def _page(request: Request, here: Store, position: str) -> Response:
    wanted, seen = _wanted(request), look(here, request.path_params["run"])
    at_hand(here.place, seen, wanted)
    with here.journal() as journal:
        found = left(here.directory, journal, seen, wanted, desk(request).redactor)
    number = found.found.visit
    this = _this(seen.visits, wanted.stage, number)
    outcome = found.found.outcome
    where = {"stage": wanted.stage, "visit": number, "attempt": wanted.attempt}
    values: dict[str, Any] = {
        "left": found,
        "visit": this,
        "outcome": outcome,
        "status": outcome.status if outcome else status_of(this, seen),
        "help": error_advice(outcome.failure) if outcome and outcome is this.error else "",
        "neighbours": _neighbours(seen.visits, this),
        "where": where,
        "live": url("s", here.name, "runs", seen.state.run_id, "visit", **where, part="visit"),
        "longest": LONGEST,
        "running": not found.found.done and bool(seen.driven),
    }
    return render(request, "visit.html", {"store": here, "here": "runs", "position": position, "seen": seen, **values})


def _text(request: Request, here: Store) -> Response:
    name, wanted = request.query_params.get("name", ""), _wanted(request)
    seen, redactor = look(here, request.path_params["run"]), desk(request).redactor
    if name in ("prompt", "response"):
        with here.journal() as journal:
            return PlainTextResponse(redactor.text(text_of(here.directory, journal, seen, wanted, name)))
    at_hand(here.place, seen, wanted)
    if "after" not in request.query_params:
        return StreamingResponse(whole(log_path(here.directory, seen, wanted, name), redactor), media_type="text/plain")
    after = whole_number(request.query_params["after"])
    more = tail(here.directory, seen, wanted, name, redactor, after or 0)
    return PlainTextResponse(
        sanitize_block(more.text), headers={"X-Awf-End": str(more.end), "X-Awf-Size": str(more.size)}
    )


def _wanted(request: Request) -> VisitQuery:
    asked = request.query_params
    number, attempt = whole_number(asked.get("visit", "")), whole_number(asked.get("attempt", ""))
    if not asked.get("stage") or not number:
        raise HTTPException(404, "The address names no visit: it needs a stage and a number.")
    return VisitQuery(asked["stage"], number, attempt)


def _this(visits: list[VisitRecord], stage: str, number: int) -> VisitRecord:
    return next(one for one in visits if (one.stage, one.visit) == (stage, number))


def _neighbours(visits: list[VisitRecord], this: VisitRecord) -> tuple[VisitRecord | None, VisitRecord | None]:
    """The visits before and after one."""
    place = visits.index(this)
    return visits[place - 1] if place else None, visits[place + 1] if place + 1 < len(visits) else None


ROUTES = [Route("/s/{store}/runs/{run}/visit", visit), Route("/s/{store}/runs/{run}/text", text)]

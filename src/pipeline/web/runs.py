"""The runs of a store: newest first, by status and words, a hundred a page."""

from dataclasses import asdict
from itertools import islice

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.overview import INTERRUPTED, UNKNOWN
from pipeline.engine.state import RunStatus
from pipeline.web.html import render, url
from pipeline.web.site import current_store, parse_number, wants_json

PAGE_SIZE = 100
STATUSES = (*RunStatus, INTERRUPTED, UNKNOWN)


def runs(request: Request) -> Response:
    """The page, or the same as JSON."""
    store = current_store(request)
    position = store.feed.position  # before the journal is read, so that no later record is missed
    status, words = request.query_params.get("status", ""), request.query_params.get("q", "").strip()
    page = parse_number(request.query_params.get("page", "")) or 1
    matching = (row for row in store.reader.runs() if row.matches(status, words))
    start = (page - 1) * PAGE_SIZE
    found = list(islice(matching, start, start + PAGE_SIZE + 1))  # no more runs are read than that takes
    rows, more = found[:PAGE_SIZE], len(found) > PAGE_SIZE
    if wants_json(request):
        return JSONResponse({"runs": [{**asdict(row.summary), "rounds": row.rounds} for row in rows], "more": more})
    values = {
        "store": store,
        "here": "runs",
        "position": position,
        "rows": rows,
        "more": more,
        "status": status,
        "words": words,
        "page": page,
        "statuses": STATUSES,
        "live": url("s", store.name, "runs", status=status, q=words, page=page, part="rows"),
    }
    return render(request, "runs.html", values)


ROUTES = [Route("/s/{store}/runs", runs)]

"""The runs of a store: newest first, by status and words, a hundred a page."""

from dataclasses import asdict
from itertools import islice

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.overview import INTERRUPTED, UNKNOWN
from pipeline.engine.state import RunStatus
from pipeline.web.rendering import render, url
from pipeline.web.site import current_store, parse_number, wants_json
from pipeline.web.store import RunRow, StoreReader

PAGE_SIZE = 100
STATUSES = (*RunStatus, INTERRUPTED, UNKNOWN)


async def runs(request: Request) -> Response:
    """The page, or the same as JSON."""
    store = current_store(request)
    position = store.feed.position  # before the journal is read, so that no later record is missed
    status, words = request.query_params.get("status", ""), request.query_params.get("q", "").strip()
    page = parse_number(request.query_params.get("page", "")) or 1
    rows = await run_in_threadpool(_find, store.reader, status, words, (page - 1) * PAGE_SIZE)
    rows, more = rows[:PAGE_SIZE], len(rows) > PAGE_SIZE
    if wants_json(request):
        found = [{**asdict(row.summary), "rounds": row.rounds} for row in rows]
        return JSONResponse({"runs": found, "more": more})
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


def _find(reader: StoreReader, status: str, words: str, start: int) -> list[RunRow]:
    """The rows of one page and one more, if there is one; no more runs are read than that takes."""
    matching = (row for row in reader.runs() if row.matches(status, words))
    return list(islice(matching, start, start + PAGE_SIZE + 1))


ROUTES = [Route("/s/{store}/runs", runs)]

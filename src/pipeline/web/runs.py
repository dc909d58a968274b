"""The runs of a store: newest first, by status and words, a hundred a page."""

from itertools import islice

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.overview import INTERRUPTED, UNKNOWN, RunSummary
from pipeline.engine.state import RunStatus
from pipeline.web.page import current_store, parse_number, render, url, wants_json

PAGE_SIZE = 100


def runs(request: Request) -> Response:
    """The page, or the same as JSON."""
    store = current_store(request)
    status, words = request.query_params.get("status", ""), request.query_params.get("q", "").strip()
    page = parse_number(request.query_params.get("page", "")) or 1
    matching = ((run, rounds) for run, rounds in store.runs() if _matches(run, status, words))
    start = (page - 1) * PAGE_SIZE
    found = list(islice(matching, start, start + PAGE_SIZE + 1))  # no more runs are read than that takes
    rows, more = found[:PAGE_SIZE], len(found) > PAGE_SIZE
    if wants_json(request):
        return JSONResponse({"runs": [{**run.as_json(), "rounds": rounds} for run, rounds in rows], "more": more})
    values = {
        "rows": rows,
        "more": more,
        "status": status,
        "words": words,
        "page": page,
        "statuses": (*RunStatus, INTERRUPTED, UNKNOWN),
        "live": url("s", store.name, "runs", status=status, q=words, page=page, part="rows"),
    }
    return render(request, "runs.html", values)


def _matches(run: RunSummary, status: str, words: str) -> bool:
    """Whether a run has the status, and contains all the words; an empty argument matches every run."""
    text = f"{run.run_id} {run.workflow} {run.goal} {run.stage}".casefold()
    return (not status or run.status == status) and all(word in text for word in words.casefold().split())


ROUTES = [Route("/s/{store}/runs", runs)]

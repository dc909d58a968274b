"""The runs of a store: newest first, by status, by words, a hundred at a time."""

from dataclasses import asdict, dataclass
from itertools import islice

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.overview import INTERRUPTED, UNKNOWN
from pipeline.engine.state import RunStatus
from pipeline.web.desk import Store, store
from pipeline.web.listing import RunLine
from pipeline.web.rendering import render, url, wants_json, whole_number

SHOWN = 100
STATUSES = (*RunStatus, INTERRUPTED, UNKNOWN)
NAV = (("Runs", "runs"),)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which runs somebody wants to see."""

    status: str = ""
    words: str = ""
    page: int = 1


@dataclass(frozen=True, slots=True)
class RunsPage:
    """One page of them."""

    lines: tuple[RunLine, ...]
    more: bool  # whether there is a page after it


async def runs(request: Request) -> Response:
    """The page, or the same as JSON."""
    here, asked = store(request), _asked(request)
    position = here.feed.position  # before the journal is read: what comes after is told
    found = await run_in_threadpool(find, here, asked)
    if wants_json(request):
        return JSONResponse(_as_object(found))
    live = url("s", here.name, "runs", status=asked.status, q=asked.words, page=asked.page, part="rows")
    values = {"asked": asked, "found": found, "live": live, "statuses": STATUSES}
    return render(request, "runs.html", {"store": here, "here": "runs", "position": position, **values})


def _asked(request: Request) -> Asked:
    given = request.query_params
    number = whole_number(given.get("page", "")) or 1
    return Asked(given.get("status", ""), given.get("q", "").strip(), number)


def find(here: Store, asked: Asked) -> RunsPage:
    """The runs that are asked for; no more of them are read than it takes."""
    matching = (line for line in here.listing.lines() if line.matches(asked.status, asked.words))
    start = (asked.page - 1) * SHOWN
    taken = list(islice(matching, start, start + SHOWN + 1))
    return RunsPage(tuple(taken[:SHOWN]), len(taken) > SHOWN)


def _as_object(found: RunsPage) -> dict[str, object]:
    return {"runs": [{**asdict(line.summary), "rounds": line.rounds} for line in found.lines], "more": found.more}


ROUTES = [Route("/s/{store}/runs", runs)]

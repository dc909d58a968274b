"""The first page: the stores that are served, or the runs of the only one."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pipeline.web.desk import desk, store
from pipeline.web.rendering import render, url


async def index(request: Request) -> Response:
    """All stores; with one of them, its runs."""
    stores = desk(request).stores
    if len(stores) == 1:
        return RedirectResponse(url("s", *stores, "runs"), 303)
    return render(request, "stores.html", {"stores": stores.values()})


async def home(request: Request) -> Response:
    """The runs of a store."""
    return RedirectResponse(url("s", store(request).name, "runs"), 303)


async def away(request: Request) -> Response:
    """What of a store does not answer: a part of every page of it."""
    return render(request, "away.html", {"store": store(request)})


ROUTES = [Route("/", index), Route("/s/{store}", home), Route("/s/{store}/away", away)]

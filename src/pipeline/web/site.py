"""The whole site: pages behind the gate, and what begins and ends with it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from pipeline.web.desk import ServedStores, desk_of
from pipeline.web.errors import HANDLERS, error_page
from pipeline.web.pages import NAV, ROUTES
from pipeline.web.place import Place
from pipeline.web.rendering import HERE
from pipeline.web.security import AccessPolicy, Security


def create(
    places: Sequence[Path | Place],
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int = 8765,
    read_only: bool = False,
    names: Sequence[str] = (),
    user: str = "",
    environ: Mapping[str, str] | None = None,
) -> Starlette:
    """The site for these places; `app.state.desk` is what its pages work with."""
    gate = AccessPolicy(token, host, port, read_only, tuple(name.lower() for name in names))
    app = Starlette(
        routes=[Mount("/static", StaticFiles(directory=HERE / "static"), name="static"), *ROUTES],
        middleware=[Middleware(Security, gate=gate, refuse=error_page)],
        exception_handlers=HANDLERS,
        lifespan=_lifespan,
    )
    app.state.desk = desk_of(places, read_only=read_only, user=user, environ=environ)
    app.state.nav = NAV
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    for one in app.state.desk.stores.values():
        await one.feed.begin()
    yield
    await end_streams(app.state.desk)


async def end_streams(desk: ServedStores) -> None:
    """End every open stream, so that the server need not wait for those who listen."""
    for one in desk.stores.values():
        await one.feed.end()

"""What the pages work with: the stores that are served, by name, and a way to read them beside the event loop."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipeline.engine.redaction import PATTERNS_ONLY, Redactor, redactor_of
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.following import Following
from pipeline.web.listing import Listing
from pipeline.web.live import Feed
from pipeline.web.rounds import RoundsSeen
from pipeline.web.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Store:
    """One store that is served."""

    name: str
    directory: Path
    listing: Listing
    feed: Feed
    shelf: Shelf
    following: Following
    rounds: RoundsSeen

    @property
    def project(self) -> Path:
        """Where its runs are started: the directory that an `.awf` is in."""
        return self.directory.parent if self.directory.name == ".awf" else Path.cwd()

    @contextmanager
    def journal(self) -> Iterator[SqliteJournal]:
        """The store's journal, for the thread that asks and while the context lasts."""
        with closing(SqliteJournal(self.directory)) as journal:
            yield journal


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that is served."""

    stores: dict[str, Store]
    read_only: bool = False
    user: str = ""  # who serves it: the name under which answers are given, unless somebody says another
    redactor: Redactor = PATTERNS_ONLY


def desk_of(
    directories: Sequence[Path], *, read_only: bool = False, user: str = "", environ: Mapping[str, str] | None = None
) -> Desk:
    """A desk with these stores; each is named for its directory, or for its project's when it is an `.awf`."""
    stores: dict[str, Store] = {}
    for directory in dict.fromkeys(one.resolve() for one in directories):
        name = _free(directory.parent.name if directory.name == ".awf" else directory.name, stores)
        stores[name] = Store(
            name,
            directory,
            Listing(directory),
            Feed(name, directory),
            Shelf(directory),
            Following(directory),
            RoundsSeen(directory),
        )
    return Desk(stores, read_only, user, redactor_of(environ or {}))


def _free(name: str, taken: dict[str, Store]) -> str:
    name = name or "store"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def desk(request: Request) -> Desk:
    """The desk of the site that a request came to."""
    found: Desk = request.app.state.desk
    return found


def store(request: Request) -> Store:
    """The store that a request's path names; raises a 404 when there is none."""
    name = request.path_params["store"]
    found = desk(request).stores.get(name)
    if found is None:
        raise HTTPException(404, f'There is no store "{name}" here.')
    return found

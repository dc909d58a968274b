"""What the pages work with: the stores that are served, by name, and a way to read them beside the event loop."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from pipeline.journal.sqlite import SqliteJournal
from pipeline.redaction import PATTERNS_ONLY, Redactor, redactor_of
from pipeline.web.following import FollowedRuns
from pipeline.web.listing import RunListing
from pipeline.web.live import Feed
from pipeline.web.place import Here, Place
from pipeline.web.rounds import RoundsSeen
from pipeline.web.shelf import FindingsCache

_SHELVES = 16  # runs whose findings are kept


@dataclass(frozen=True, slots=True)
class Store:
    """One store that is served."""

    name: str
    place: Place
    listing: RunListing
    feed: Feed
    following: FollowedRuns
    rounds: RoundsSeen
    _shelves: dict[str, FindingsCache] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """Where its journal and its files are read."""
        return self.place.directory

    @contextmanager
    def journal(self) -> Iterator[SqliteJournal]:
        """The store's journal, for the thread that asks and while the context lasts."""
        with closing(SqliteJournal(self.directory)) as journal:
            yield journal

    def shelf(self, run: str = "") -> FindingsCache:
        """The findings of the store; where runs have ledgers of their own, those of a run."""
        name = run if self.place.apart else ""
        if name not in self._shelves:
            if len(self._shelves) >= _SHELVES:
                self._shelves.clear()
            around = self.place.project if self.place.apart else self.directory.parent
            self._shelves[name] = FindingsCache(self.directory, partial(self.place.ledger, name), around)
        return self._shelves[name]


@dataclass(frozen=True, slots=True)
class ServedStores:
    """Everything that is served."""

    stores: dict[str, Store]
    read_only: bool = False
    user: str = ""  # who serves it: the name under which answers are given, unless somebody says another
    redactor: Redactor = PATTERNS_ONLY


def desk_of(
    places: Sequence[Path | Place], *, read_only: bool = False, user: str = "", environ: Mapping[str, str] | None = None
) -> ServedStores:
    """A desk with these stores."""
    found = {one.resolve() if isinstance(one, Path) else one: None for one in places}
    redactor = redactor_of(environ or {})
    stores: dict[str, Store] = {}
    for place in (Here(one, redactor) if isinstance(one, Path) else one for one in found):
        name = _free(place.name, stores)
        stores[name] = _store(name, place)
    return ServedStores(stores, read_only, user, redactor)


def _store(name: str, place: Place) -> Store:
    directory, driven = place.directory, place.driven
    return Store(
        name,
        place,
        RunListing(directory, driven),
        Feed(name, directory, driven, place.away),
        FollowedRuns(directory, driven),
        RoundsSeen(directory, place.ledger),
    )


def _free(name: str, taken: dict[str, Store]) -> str:
    name = name or "store"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def desk(request: Request) -> ServedStores:
    """The desk of the site that a request came to."""
    found: ServedStores = request.app.state.desk
    return found


def store(request: Request) -> Store:
    """The store that a request's path names; raises a 404 when there is none."""
    name = request.path_params["store"]
    found = desk(request).stores.get(name)
    if found is None:
        raise HTTPException(404, f'There is no store "{name}" here.')
    return found

"""What happens in a store, told to every open page: read from the journal, whichever process writes it.

Records have no order across runs, so a feed numbers what it sees. A page that names the last number it has gets
everything after it, once; one whose number is too old, or from another server, is told to load everything again.
"""

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.app.overview import IsDriven, status_after
from pipeline.engine.ports import JournalEntry
from pipeline.errors import AwfError
from pipeline.journal.lock import is_driven
from pipeline.journal.sqlite import LEDGER, SqliteJournal, StoreHeads

PAUSE = 0.25  # seconds between two looks
KEPT = 1000  # messages; a page that is further behind loads everything again

Told = dict[str, Any]
_RELOAD: Told = {"what": "reload", "topics": ["*"]}


class Watch:
    """Finds what is new in a store since the last look. Used from one thread."""

    def __init__(self, directory: Path, driven: IsDriven | None = None, away: Callable[[], str] | None = None) -> None:
        self._directory = directory
        self._is_driven = driven or partial(is_driven, directory)
        self._away = away or str
        self._heads = StoreHeads(directory)
        self._seen: dict[str, int] | None = None
        self._driven: set[str] = set()
        self._doubtful: set[str] = set()  # runs of which nobody knew whether somebody is at them
        self._trouble = ""

    def look(self) -> list[Told]:
        """What happened; nothing the first time, which only takes note of where everything stands."""
        before, self._trouble = self._trouble, ""
        try:
            news = list(self._news())
        except AwfError as error:  # told once, and looked at again: the store may come back
            self._trouble = error.message
            return [] if before == error.message else [{"what": "trouble", "text": error.message, "topics": ["*"]}]
        return [_RELOAD] if before else news

    def close(self) -> None:
        """Let go of the store, but not of what was seen."""
        self._heads.close()

    def _news(self) -> Iterator[Told]:
        if away := self._away():
            raise AwfError(away)
        if self._heads.changed() or self._seen is None:
            yield from self._moved(self._heads.read())
        for run in [run for run in self._driven if self._is_driven(run) is False]:
            self._driven.discard(run)
            yield _told(run, what="left")  # a killed process writes no record
        for run in [run for run in self._doubtful if self._is_driven(run) is not None]:
            self._doubtful.discard(run)
            self._driven |= {run} if self._is_driven(run) else set()
            yield _told(run, what="known")

    def _moved(self, heads: dict[str, int]) -> Iterator[Told]:
        before, self._seen = self._seen, heads
        new = {run: head for run, head in heads.items() if before is None or before.get(run, 0) != head}
        asked = {run: self._is_driven(run) for run in new if run != LEDGER}
        self._driven |= {run for run, driven in asked.items() if driven}
        self._doubtful |= {run for run, driven in asked.items() if driven is None}
        if before is None:
            return
        if _too_much(before, new) or not before.keys() <= heads.keys():
            yield _RELOAD
            return
        with closing(SqliteJournal(self._directory)) as journal:
            for run in new:
                yield from self._added(journal, run, before.get(run, 0), heads)

    def _added(self, journal: SqliteJournal, run: str, after: int, heads: dict[str, int]) -> Iterator[Told]:
        if run == LEDGER:
            yield {"what": "ledger", "position": heads[run], "topics": ["findings", "runs"]}
            return
        try:
            for entry in journal.entries(run, after):
                heads[run] = max(heads[run], entry.seq)
                yield _of_record(run, entry)
        except AwfError as error:
            yield _told(run, what="trouble", text=error.message)


def _too_much(before: dict[str, int], new: dict[str, int]) -> bool:
    """Whether there is more than is kept, or less than there was: another store has taken the place of this one."""
    added = [head - before.get(run, 0) for run, head in new.items()]
    return sum(added) > KEPT or min(added, default=0) < 0


def _told(run: str, **what: Any) -> Told:
    return {"run": run, **what, "topics": ["runs", f"run:{run}"]}


def _of_record(run: str, entry: JournalEntry) -> Told:
    record = entry.record
    outcome = getattr(record, "outcome", None)
    return _told(
        run,
        position=entry.seq,
        what=record.kind,
        stage=getattr(record, "stage", ""),
        visit=getattr(record, "visit", 0),
        status=outcome.status if outcome else "",
        run_status=status_after(record),
    )


class Feed:
    """The numbered messages of one store; the newest are kept, and pages read on from where they are."""

    def __init__(
        self, store: str, directory: Path, driven: IsDriven | None = None, away: Callable[[], str] | None = None
    ) -> None:
        self._store = store
        self._watch = Watch(directory, driven, away)
        self._server = secrets.token_hex(4)  # numbers of another server mean nothing here
        self._kept: deque[str] = deque(maxlen=KEPT)
        self._last = 0
        self._news = asyncio.Event()
        self._listeners = 0
        self._watching: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    @property
    def position(self) -> str:
        """The id of the last message: a page that is made now needs those after it."""
        return self._id(self._last)

    async def listen(self, after: str) -> AsyncIterator[dict[str, str]]:
        """The messages after a position as they come; it ends for a page that is too slow, which connects again."""
        with self._listening():
            place = self._place(after)
            if place is None:
                place = self._last
                yield {"id": self._id(place), "data": json.dumps(_RELOAD)}
            while not self._over.is_set() and place >= self._last - len(self._kept):
                if place == self._last:
                    await self._news.wait()
                else:
                    data, place = self._kept[place - self._last], place + 1
                    yield {"id": self._id(place), "data": data}

    async def begin(self) -> None:
        """Take note of where the store stands, so that no page misses what happens after it was made."""
        self.tell(await asyncio.to_thread(self._look_once))

    async def end(self) -> None:
        """End all that listen."""
        self._over.set()
        self._wake()
        if self._watching is not None:
            await self._watching

    def tell(self, news: list[Told]) -> None:
        """Hand messages to every open page."""
        for one in news:
            self._kept.append(json.dumps({"store": self._store, **one}))
            self._last += 1
        if news:
            self._wake()

    def _id(self, number: int) -> str:
        return f"{self._server}.{number}"

    def _place(self, position: str) -> int | None:
        """The number in a position; None when what follows it is not known any more."""
        server, _, number = position.partition(".")
        if server != self._server or not number.isdecimal():
            return None
        return int(number) if self._last - len(self._kept) <= int(number) <= self._last else None

    @contextmanager
    def _listening(self) -> Iterator[None]:
        self._listeners += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            self._listeners -= 1

    async def _keep_looking(self) -> None:
        """Look while somebody listens, and see at the end whether somebody came meanwhile."""
        loop = asyncio.get_running_loop()
        while self._wanted:
            with ThreadPoolExecutor(1) as thread:  # one, because a connection to SQLite belongs to its thread
                while self._wanted:
                    self.tell(await loop.run_in_executor(thread, self._watch.look))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._over.wait(), PAUSE)
                await loop.run_in_executor(thread, self._watch.close)

    @property
    def _wanted(self) -> bool:
        return self._listeners > 0 and not self._over.is_set()

    def _look_once(self) -> list[Told]:
        with closing(self._watch) as watch:
            return watch.look()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

"""Server-sent events: what happens in a store, sent to every open page, whichever process writes the journal.

Records have no order across runs, so a feed numbers its messages. A page that names the last number it has gets every
later message once; one whose number is too old, or from another server, has to load everything again.
"""

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from pipeline.app.store import RunStore
from pipeline.errors import AwfError
from pipeline.journal.sqlite import LEDGER, StoreHeads
from pipeline.web.store import StoreReader

POLL_INTERVAL = 0.25  # seconds
MAX_MESSAGES = 1000  # a page that is further behind loads everything again

Message = dict[str, Any]
_RELOAD: Message = {"what": "reload", "topics": ["*"]}


class StoreWatch:
    """Finds what is new in a store since the last poll. Used from one thread at a time."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._heads = StoreHeads(reader.directory)
        self._seen: dict[str, int] | None = None
        self._generation = 0  # of what was seen
        self._driven: dict[str, bool | None] = {}  # runs that are driven, or for which that is unknown
        self._problem = ""

    def poll(self) -> list[Message]:
        """What happened; nothing the first time, which only notes the position of the store."""
        news = list[Message]()
        try:
            with self._reader.open() as store:
                problem = store.connection_problem()
                if not problem:
                    news = [*self._new_records(store), *self._new_drivers(store)]
        except AwfError as error:
            problem = error.message
        before, self._problem = self._problem, problem
        if problem:  # reported once, and tried again: the store may come back
            return [] if problem == before else [{"what": "trouble", "text": problem, "topics": ["*"]}]
        return [_RELOAD] if before else news

    def close(self) -> None:
        """Release the store, but remember what was seen."""
        self._heads.close()

    def _new_records(self, store: RunStore) -> Iterator[Message]:
        if not self._heads.changed() and self._seen is not None:
            return
        first, before, self._seen = self._seen is None, self._seen or {}, self._reader.heads()
        replaced, self._generation = self._generation != self._reader.generation, self._reader.generation
        added = {name: range(before.get(name, 0) + 1, head + 1) for name, head in self._seen.items()}
        added = {name: positions for name, positions in added.items() if positions}
        for run_id in [name for name in added if name != LEDGER]:
            driven = store.driven_status(run_id)
            if driven is not False:
                self._driven[run_id] = driven
        if first:
            return
        if replaced or sum(map(len, added.values())) > MAX_MESSAGES:
            yield _RELOAD
            return
        for name, positions in added.items():
            if name == LEDGER:
                yield {"what": "ledger", "topics": ["findings", "runs"]}
            else:
                yield from (_run_message(name, what="record", position=position) for position in positions)

    def _new_drivers(self, store: RunStore) -> Iterator[Message]:
        """Runs whose process ended without a record, as a killed one does, and runs whose driver became known."""
        for run_id, before in list(self._driven.items()):
            driven = store.driven_status(run_id)
            if driven is before or driven is None:
                continue
            yield _run_message(run_id, what="known" if before is None else "left")
            if driven:
                self._driven[run_id] = driven
            else:
                del self._driven[run_id]


def _run_message(run_id: str, **fields: Any) -> Message:
    return {"run": run_id, **fields, "topics": ["runs", f"run:{run_id}"]}


class Feed:
    """The numbered messages of one store. The newest are kept, and each page reads on from where it is."""

    def __init__(self, reader: StoreReader) -> None:
        self._watch = StoreWatch(reader)
        self._server = secrets.token_hex(4)  # numbers of another server mean nothing here
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        self._last = 0  # the number of the newest message
        self._published = asyncio.Event()
        self._closed = asyncio.Event()
        self._thread = ThreadPoolExecutor(1)  # one, because a connection to SQLite belongs to its thread
        self._polling: asyncio.Task[None] | None = None

    @property
    def position(self) -> str:
        """The id of the newest message: a page that is made now needs the later ones."""
        return self._id(self._last)

    async def listen(self, after: str) -> AsyncIterator[dict[str, str]]:
        """Yield the messages after a position as they come; end when the page is too slow: it connects again."""
        number = self._parse(after)
        if number is None:
            number = self._last
            yield {"id": self._id(number), "data": json.dumps(_RELOAD)}
        while not self._closed.is_set() and number >= self._last - len(self._messages):
            if number == self._last:
                await self._published.wait()
            else:
                data, number = self._messages[number - self._last], number + 1
                yield {"id": self._id(number), "data": data}

    async def open(self) -> None:
        """Note how far the store has come, so that no page misses what happens after it was made; then poll."""
        await self._poll()
        self._polling = asyncio.create_task(self._keep_polling())

    async def close(self) -> None:
        """End the streams of all pages."""
        self._closed.set()
        self._wake_listeners()
        if self._polling is not None:
            await asyncio.wait([self._polling])  # if it crashed, asyncio reports that; the server still stops

    def publish(self, messages: list[Message]) -> None:
        """Send messages to every open page."""
        for message in messages:
            self._messages.append(json.dumps(message))
            self._last += 1
        if messages:
            self._wake_listeners()

    def _id(self, number: int) -> str:
        return f"{self._server}.{number}"

    def _parse(self, position: str) -> int | None:
        """The number in a position; None when the messages after it are no longer kept."""
        server, _, number = position.partition(".")
        if server != self._server or not number.isdecimal():
            return None
        return int(number) if self._last - len(self._messages) <= int(number) <= self._last else None

    async def _poll(self) -> None:
        self.publish(await asyncio.get_running_loop().run_in_executor(self._thread, self._watch.poll))

    async def _keep_polling(self) -> None:
        """Poll until the feed is closed: 0.03 ms each time, if nothing happens."""
        with self._thread:
            try:
                while not self._closed.is_set():
                    await self._poll()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._closed.wait(), POLL_INTERVAL)
            finally:
                self._thread.submit(self._watch.close)
                self._closed.set()  # after a crash too: no page stays connected to a feed without messages
                self._wake_listeners()

    def _wake_listeners(self) -> None:
        self._published.set()
        self._published = asyncio.Event()

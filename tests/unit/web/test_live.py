"""Messages to open pages: every record, once."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message
from tests.unit.web.conftest import RunWriter
from tests.unit.web.test_store import new_reader

from pipeline.engine.outcome import Status
from pipeline.engine.records import RunCancelled
from pipeline.web import app, live
from pipeline.web.live import Feed
from pipeline.web.security import AccessPolicy

Stream = AsyncIterator[dict[str, str]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_INTERVAL", 0.005)


async def take(stream: Stream, count: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """The next messages of a stream, with their ids."""
    async with asyncio.timeout(20):
        got = [await anext(stream) for _ in range(count)]
    return [(one["id"], json.loads(one["data"])) for one in got]


def served(store: Path, use: Callable[[Feed], Awaitable[None]]) -> None:
    """Use the feed of a store."""

    async def run() -> None:
        feed = Feed(new_reader(store))
        await feed.open()
        try:
            await use(feed)
        finally:
            await feed.close()

    asyncio.run(run())


def test_records_become_messages(writer: RunWriter, store: Path) -> None:
    """Each record is one message with its run and its number; new lines of the ledger are one for all pages."""
    writer.begin("r1")

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        writer.visit("r1")
        writer.journal.append("r1", RunCancelled(at=3, stage="build", visit=2))
        writer.begin("r2")
        writer.visit("r2", ends=Status.FAIL)
        writer.journal.append_ledger(["{}"])
        got = [message for _, message in await take(stream, 5)]
        ledger = next(one for one in got if one["what"] == "ledger")
        assert ledger["topics"] == ["findings", "runs"]
        runs = [(m["run"], m["position"]) for m in got if m["what"] == "record"]
        assert sorted(runs) == [("r1", 2), ("r1", 3), ("r2", 1), ("r2", 2)]
        assert next(one for one in got if one.get("run") == "r1")["topics"] == ["runs", "run:r1"]

    served(store, use)


def test_reconnecting_neither_loses_nor_repeats_messages(writer: RunWriter, store: Path) -> None:
    """A page that reconnects again and again gets every record once and in order."""
    writer.begin("r1")

    async def use(feed: Feed) -> None:
        position, seen, written = feed.position, list[int](), 1
        for round in range(12):
            for _ in range(round % 4 + 1):
                written = writer.visit("r1", written)
            stream = feed.listen(position)
            for id, message in await take(stream, 1 + round % 2 if round % 4 else 1):
                position = id
                seen.append(message["position"])
            await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        stream = feed.listen(position)
        seen += [message["position"] for _, message in await take(stream, written - len(seen) - 1)]
        assert seen == list(range(2, written + 1))

    served(store, use)


def test_every_page_gets_what_it_lacks(writer: RunWriter, store: Path) -> None:
    """Two pages at different positions get the same next message."""
    writer.begin("r1")

    async def use(feed: Feed) -> None:
        first = feed.listen(feed.position)
        writer.visit("r1")
        [(after, _)] = await take(first)
        second = feed.listen(after)
        writer.visit("r1", 2)
        assert await take(first) == await take(second)

    served(store, use)


@pytest.mark.parametrize("position", ["", "nonsense", "00000000.0", "{}.99", "{}.-1", "{}.x"])
def test_an_unknown_position_loads_everything_again(store: Path, position: str) -> None:
    """A page with a position of another server is told to load again, and continues from now."""

    async def use(feed: Feed) -> None:
        server = feed.position.partition(".")[0]
        [(id, message)] = await take(feed.listen(position.format(server)))
        assert message == {"what": "reload", "topics": ["*"]}
        assert id == feed.position

    served(store, use)


def test_a_slow_page_is_disconnected(store: Path) -> None:
    """A page that is further behind than the messages that are kept has to load everything again."""

    async def use(feed: Feed) -> None:
        start = feed.position
        stream = feed.listen(start)
        feed.publish([{"what": "one", "topics": []}])
        await take(stream)
        feed.publish([{"what": str(number), "topics": []} for number in range(live.MAX_MESSAGES + 1)])
        with pytest.raises(StopAsyncIteration):
            await take(stream)
        [(_, message)] = await take(feed.listen(start))
        assert message["what"] == "reload"

    served(store, use)


def test_too_much_at_once_is_not_sent(writer: RunWriter, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After more records than a page may be behind, pages load everything again."""
    monkeypatch.setattr(live, "MAX_MESSAGES", 3)
    writer.begin("r1")
    with closing(live.StoreWatch(new_reader(store))) as watch:
        watch.poll()
        for number in range(4):
            writer.visit("r1", number)
        assert watch.poll() == [{"what": "reload", "topics": ["*"]}]
        writer.visit("r1", 5)
        assert [message["position"] for message in watch.poll()] == [6]


def test_a_dead_process_is_reported(writer: RunWriter, store: Path) -> None:
    """A killed process writes no record, but pages learn that it no longer drives the run."""
    writer.begin("r1")

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        with writer.journal.lock("r1"):
            writer.visit("r1")
            assert [message["what"] for _, message in await take(stream)] == ["record"]
        [(_, message)] = await take(stream)
        assert (message["run"], message["what"]) == ("r1", "left")

    served(store, use)


def test_a_store_that_appears_later_is_followed(writer: RunWriter, store: Path) -> None:
    """Watching starts before the first run, and does not create the store."""

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        writer.begin("r1")
        assert [message["what"] for _, message in await take(stream)] == ["record"]

    watch = live.StoreWatch(new_reader(store))
    assert watch.poll() == []
    assert not store.exists()
    served(store, use)


def test_an_unreadable_store_is_reported_once(writer: RunWriter, store: Path) -> None:
    """When it can be read again, pages load everything."""
    writer.begin("r1")
    writer.journal.close()
    watch = live.StoreWatch(new_reader(store))
    assert watch.poll() == []
    database = store / "awf.db"
    sound = database.read_bytes()
    database.unlink()
    database.write_text("no database" * 100)
    [trouble] = watch.poll()
    assert trouble["what"] == "trouble"
    assert watch.poll() == []
    database.unlink()
    database.write_bytes(sound)
    assert watch.poll() == [{"what": "reload", "topics": ["*"]}]
    assert watch.poll() == []
    watch.close()


def test_a_replaced_store_is_loaded_again(writer: RunWriter, store: Path) -> None:
    """Pages load everything when another database has taken the place of the store."""
    writer.begin("r1")
    writer.visit("r1")
    watch = live.StoreWatch(new_reader(store))
    watch.poll()
    writer.journal.close()
    for file in store.glob("awf.db*"):
        file.unlink()
    writer.begin("r1")
    assert watch.poll() == [{"what": "reload", "topics": ["*"]}]
    watch.close()


def test_closing_ends_all_streams(store: Path) -> None:
    """No stream keeps a stopping server waiting."""

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        waiting = asyncio.create_task(take(stream))
        await asyncio.sleep(0)
        await feed.close()
        with pytest.raises(StopAsyncIteration):
            await waiting

    served(store, use)


def test_a_feed_that_crashes_ends_its_streams(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No page looks connected to a feed that sends nothing any more, and the server can still be stopped."""

    def crash(_: live.StoreWatch) -> list[live.Message]:
        raise RuntimeError

    async def use(feed: Feed) -> None:
        monkeypatch.setattr(live.StoreWatch, "poll", crash)
        with pytest.raises(StopAsyncIteration):
            await take(feed.listen(feed.position))

    served(store, use)


def test_a_stuck_connection_is_dropped(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that takes no messages is disconnected without an error."""
    monkeypatch.setattr(app, "SEND_TIMEOUT", 0.01)

    async def receive() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Future()

    async def use() -> None:
        site = app.create_app([store], AccessPolicy("t", "127.0.0.1", 8765), "", {})
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "app": site}
        request = Request({**scope, "path_params": {"store": "shop"}})
        async with asyncio.timeout(20):
            await (await app.events(request))(scope, receive, send)

    asyncio.run(use())

"""What open pages are told: everything that happens, once."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.types import Message
from tests.unit.web.conftest import Book

from pipeline.engine.outcome import Status
from pipeline.engine.records import RunCancelled
from pipeline.web import live
from pipeline.web.live import Feed
from pipeline.web.pages import events
from pipeline.web.site import create

Stream = AsyncIterator[dict[str, str]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE", 0.005)


async def take(stream: Stream, count: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """The next messages of a stream, with their ids."""
    async with asyncio.timeout(20):
        got = [await anext(stream) for _ in range(count)]
    return [(one["id"], json.loads(one["data"])) for one in got]


def served(store: Path, use: Callable[[Feed], Awaitable[None]]) -> None:
    """Use the feed of a store."""

    async def run() -> None:
        feed = Feed("shop", store)
        await feed.begin()
        try:
            await use(feed)
        finally:
            await feed.end()

    asyncio.run(run())


def test_records_become_messages(book: Book, store: Path) -> None:
    """Each record is one small message that says where, what and how the run stands."""
    book.begin("r1")

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        book.visit("r1")
        book.journal.append("r1", RunCancelled(at=3, stage="build", visit=2))
        book.begin("r2")
        book.visit("r2", ends=Status.FAIL)
        book.journal.append_ledger(["{}"])
        got = [message for _, message in await take(stream, 5)]
        assert {one["store"] for one in got} == {"shop"}
        ledger = next(one for one in got if one["what"] == "ledger")
        assert ledger["topics"] == ["findings", "runs"]
        runs = [(m["run"], m["position"], m["what"], m["status"], m["run_status"]) for m in got if "run" in m]
        assert runs == [
            ("r1", 2, "visit_completed", "success", "running"),
            ("r1", 3, "run_cancelled", "", "cancelled"),
            ("r2", 1, "run_created", "", "running"),
            ("r2", 2, "visit_completed", "success", "fail"),
        ]
        assert next(one for one in got if one.get("run") == "r1")["topics"] == ["runs", "run:r1"]

    served(store, use)


def test_nothing_is_lost_or_doubled_by_connecting_again(book: Book, store: Path) -> None:
    """A page that is cut off again and again, also while nobody listens, gets every record once and in order."""
    book.begin("r1")

    async def use(feed: Feed) -> None:
        position, seen, written = feed.position, list[int](), 1
        for round in range(12):
            for _ in range(round % 4 + 1):
                written = book.visit("r1", written)
            stream = feed.listen(position)
            for id, message in await take(stream, 1 + round % 2 if round % 4 else 1):
                position = id
                seen.append(message["position"])
            await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        stream = feed.listen(position)
        seen += [message["position"] for _, message in await take(stream, written - len(seen) - 1)]
        assert seen == list(range(2, written + 1))

    served(store, use)


def test_all_pages_are_told(book: Book, store: Path) -> None:
    """Two pages at different places each get what they lack."""
    book.begin("r1")

    async def use(feed: Feed) -> None:
        first = feed.listen(feed.position)
        book.visit("r1")
        [(after, _)] = await take(first)
        second = feed.listen(after)
        book.visit("r1", 2)
        assert await take(first) == await take(second)

    served(store, use)


@pytest.mark.parametrize("position", ["", "nonsense", "00000000.0", "{}.99", "{}.-1", "{}.x"])
def test_an_unknown_position_loads_everything_again(store: Path, position: str) -> None:
    """A page whose position means nothing here is told to load again, and goes on from now."""

    async def use(feed: Feed) -> None:
        server = feed.position.partition(".")[0]
        [(id, message)] = await take(feed.listen(position.format(server)))
        assert message == {"what": "reload", "topics": ["*"]}
        assert id == feed.position

    served(store, use)


def test_a_slow_page_is_let_go(store: Path) -> None:
    """No more than a bounded number of messages waits for a page; one that is behind ends and loads again."""

    async def use(feed: Feed) -> None:
        start = feed.position
        stream = feed.listen(start)
        feed.tell([{"what": "one", "topics": []}])
        await take(stream)
        feed.tell([{"what": str(number), "topics": []} for number in range(live.KEPT + 1)])
        with pytest.raises(StopAsyncIteration):
            await take(stream)
        assert len(feed._kept) == live.KEPT
        [(_, message)] = await take(feed.listen(start))
        assert message["what"] == "reload"

    served(store, use)


def test_too_much_at_once_is_not_read(book: Book, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long time without anybody listening, pages load again instead of hearing all of it."""
    monkeypatch.setattr(live, "KEPT", 3)
    book.begin("r1")

    async def use(feed: Feed) -> None:
        for number in range(4):
            book.visit("r1", number)
        stream = feed.listen(feed.position)
        assert [message["what"] for _, message in await take(stream)] == ["reload"]
        book.visit("r1", 5)
        assert [message["position"] for _, message in await take(stream)] == [6]

    served(store, use)


def test_a_process_that_dies_is_told(book: Book, store: Path) -> None:
    """A killed process writes no record; that nobody is at its run any more is told all the same."""
    book.begin("r1")

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        with book.journal.lock("r1"):
            book.visit("r1")
            assert [message["what"] for _, message in await take(stream)] == ["visit_completed"]
        [(_, message)] = await take(stream)
        assert (message["run"], message["what"]) == ("r1", "left")

    served(store, use)


def test_a_store_that_appears_later_is_followed(book: Book, store: Path) -> None:
    """Watching begins before the first run, and its store is not made by it."""

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        book.begin("r1")
        assert [message["what"] for _, message in await take(stream)] == ["run_created"]

    watch = live.Watch(store)
    assert watch.look() == []
    assert not store.exists()
    served(store, use)


def test_trouble_is_told_once_and_then_its_end(book: Book, store: Path) -> None:
    """A store that cannot be read is told of once; when it is back, pages load again."""
    book.begin("r1")
    book.journal.close()
    watch = live.Watch(store)
    assert watch.look() == []
    database = store / "awf.db"
    sound = database.read_bytes()
    database.unlink()
    database.write_text("no database" * 100)
    [trouble] = watch.look()
    assert trouble["what"] == "trouble"
    assert watch.look() == []
    database.unlink()
    database.write_bytes(sound)
    assert watch.look() == [{"what": "reload", "topics": ["*"]}]
    assert watch.look() == []
    watch.close()


def test_a_damaged_record_is_told_once(book: Book, store: Path) -> None:
    """A record that cannot be read is trouble of its run alone, and is not read again and again."""
    book.begin("r1")
    watch = live.Watch(store)
    watch.look()
    book.visit("r1")
    book.journal._open().execute("UPDATE records SET body = x'00' WHERE run = 1 AND seq = 2")
    assert [(one["run"], one["what"]) for one in watch.look()] == [("r1", "trouble")]
    assert watch.look() == []
    watch.close()


def test_a_store_that_is_replaced_loads_everything_again(book: Book, store: Path) -> None:
    """Another database under the same name has other runs: pages load again."""
    book.begin("r1")
    book.visit("r1")
    watch = live.Watch(store)
    watch.look()
    book.journal.close()
    for file in store.glob("awf.db*"):
        file.unlink()
    book.begin("r1")
    assert watch.look() == [{"what": "reload", "topics": ["*"]}]
    watch.close()


def test_ending_ends_those_who_listen(store: Path) -> None:
    """When the server ends, no stream keeps it waiting."""

    async def use(feed: Feed) -> None:
        stream = feed.listen(feed.position)
        waiting = asyncio.create_task(take(stream))
        await asyncio.sleep(0)
        await feed.end()
        with pytest.raises(StopAsyncIteration):
            await waiting

    served(store, use)


def test_a_page_that_takes_nothing_is_let_go(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is stuck ends by itself, without a word in the terminal."""
    monkeypatch.setattr(events, "_PATIENCE", 0.01)

    async def receive() -> Message:
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Future()

    async def use() -> None:
        app = create([store], token="t")  # noqa: S106 - of a server that nobody reaches
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "app": app}
        request = Request({**scope, "path_params": {"store": "shop"}})
        async with asyncio.timeout(20):
            await (await events.events(request))(scope, receive, send)

    asyncio.run(use())

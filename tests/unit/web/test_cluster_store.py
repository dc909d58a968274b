"""The pages of a cluster's runs: what nobody can tell is not claimed, and a lost connection is shown."""

from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.unit.web.conftest import BASE, PAGE, TOKEN, RunWriter

from pipeline.app.store import LocalRunStore
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.app import create_app
from pipeline.web.live import StoreWatch
from pipeline.web.security import AccessPolicy
from pipeline.web.store import StoreReader


class FakeClusterStore(LocalRunStore):
    """A local store that looks like one of a cluster, whose connection can be lost."""

    on_cluster = True

    def __init__(self, directory: Path) -> None:
        super().__init__("shop", directory, SqliteJournal(directory), SqliteMailbox(directory))
        self.title = "far away"
        self.problem = ""
        self.driven: bool | None = False

    def driven_status(self, run_id: str) -> bool | None:  # noqa: ARG002 - of any run
        return None if self.problem else self.driven

    def connection_problem(self) -> str:
        return self.problem

    def run_problems(self) -> list[str]:
        return ["record 2 of run r0 is <damaged>"]


@pytest.fixture
def cluster(store: Path) -> FakeClusterStore:
    """The store as that of a cluster."""
    return FakeClusterStore(store)


@pytest.fixture
def client(cluster: FakeClusterStore) -> Iterator[TestClient]:
    """A browser with the token."""
    app = create_app([cluster], AccessPolicy(TOKEN, "127.0.0.1", 8765), "", {})
    with closing(TestClient(app, base_url=BASE, follow_redirects=False)) as client:
        client.cookies.set("awf-8765", TOKEN)
        yield client


@pytest.fixture
def watch(cluster: FakeClusterStore) -> Iterator[StoreWatch]:
    """A watch on the store."""
    reader = StoreReader(lambda: nullcontext(cluster))
    with closing(StoreWatch(reader)) as watch:
        yield watch


def kinds(watch: StoreWatch) -> list[str]:
    """The kinds of the messages of two polls."""
    return [message["what"] for message in (*watch.poll(), *watch.poll())]


def test_a_run_is_unknown_while_the_connection_is_lost(
    cluster: FakeClusterStore, writer: RunWriter, client: TestClient
) -> None:
    """It is neither running nor interrupted, and nobody is asked to resume it."""
    writer.begin("r1")
    assert client.get(f"{PAGE}?format=json").json()["status"] == "interrupted"
    assert 'id="resume"' in client.get(PAGE).text
    cluster.problem = "<server> lost"
    page = client.get(PAGE).text
    assert "&lt;server&gt; lost" in page
    assert 'id="resume"' not in page
    assert client.get(f"{PAGE}?format=json").json()["status"] == "unknown"
    (listed,) = client.get("/s/shop/runs?status=unknown&format=json").json()["runs"]
    assert (listed["run_id"], listed["status"]) == ("r1", "unknown")


def test_every_page_shows_connection_problems(cluster: FakeClusterStore, writer: RunWriter, client: TestClient) -> None:
    """They are a live part of every page, with the problems of single runs; the header says where the store is."""
    writer.begin("r1")
    cluster.problem = "connection lost"
    for address in ("/s/shop/runs", PAGE, "/s/shop/findings", "/s/shop/start"):
        page = client.get(address).text
        assert 'data-live="/s/shop/connection"' in page
        assert 'title="far away"' in page
        assert "connection lost" in page
        assert "&lt;damaged&gt;" in page
    cluster.problem = ""
    assert 'role="alert"' not in client.get("/s/shop/connection").text


def test_findings_of_a_cluster_are_read_only(client: TestClient) -> None:
    """A decision about them is refused."""
    for action in ("preview", "triage", "split"):
        form = {"id": "1", "as": "fixed"}
        response = client.post(f"/s/shop/findings/{action}", data=form, headers={"Origin": BASE})
        assert response.status_code == 409


def test_open_pages_learn_of_a_lost_connection(cluster: FakeClusterStore, writer: RunWriter, watch: StoreWatch) -> None:
    """They get one message when it is lost, and load everything when it is back."""
    writer.begin("r1")
    assert kinds(watch) == []
    cluster.problem = "gone"
    assert kinds(watch) == ["trouble"]
    cluster.problem = ""
    assert kinds(watch) == ["reload"]


def test_open_pages_learn_who_drives_a_run(cluster: FakeClusterStore, writer: RunWriter, watch: StoreWatch) -> None:
    """A run may be recorded before it is known whether a worker has it."""
    cluster.driven = None
    watch.poll()
    writer.begin("r1")
    assert kinds(watch) == ["record"]
    cluster.driven = True
    assert kinds(watch) == ["known"]
    cluster.driven = False
    assert kinds(watch) == ["left"]

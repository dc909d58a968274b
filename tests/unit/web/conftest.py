"""A store with runs, and a browser that has the token."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.records import RunCreated, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web import actions
from pipeline.web.actions import StartedProcess
from pipeline.web.app import create_app
from pipeline.web.security import AccessPolicy

TOKEN = "the-token"  # noqa: S105 - of a server that only this test reaches
BASE = "http://127.0.0.1:8765"
PAGE = "/s/shop/runs/r1"
LONGEST = 60  # seconds for a process that a page started
SOURCE = """
workflow "{name}" {
  version 2
  start "build"
  stage "build" kind="tool" command="true"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""

Browser = Callable[..., TestClient]


class RunWriter:
    """Writes runs into a store."""

    def __init__(self, journal: SqliteJournal) -> None:
        self.journal = journal

    def begin(self, run: str, goal: str = "Ship it", name: str = "Ship") -> None:
        """A run that has just been created."""
        source = SOURCE.replace("{name}", name)
        self.journal.create(
            run, RunCreated(at=1, run_id=run, file="ship.awf.kdl", source=source, goal=goal, cwd="/", version="1")
        )

    def visit(self, run: str, number: int = 1, ends: Status | None = None, **more: Any) -> int:
        """One more visit of its first stage."""
        fields: dict[str, Any] = {
            "at": 2,
            "stage": "build",
            "attempt": 1,
            "outcome": Outcome(status=Status.SUCCESS, duration=1, usage=Usage(cost_usd=0.5)),
            "chosen": Selection(target=None if ends else "build", reason="because"),
            "operations": (),
        }
        return self.journal.append(run, VisitCompleted(visit=number, ends=ends, **fields | more))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that does not exist yet, of a project called shop."""
    return tmp_path / "shop" / ".awf"


@pytest.fixture
def writer(store: Path) -> Iterator[RunWriter]:
    """A writer of its runs."""
    with closing(SqliteJournal(store)) as journal:
        yield RunWriter(journal)


@pytest.fixture
def browser(store: Path) -> Iterator[Browser]:
    """A browser at the site of the store: `browser()` has the token, `browser(token="")` has none."""
    opened: list[TestClient] = []

    def make(
        *,
        token: str = TOKEN,
        stores: tuple[Path, ...] = (),
        read_only: bool = False,
        user: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> TestClient:
        policy = AccessPolicy(TOKEN, "127.0.0.1", 8765, read_only)
        app = create_app(stores or (store,), policy, user, environ or {})
        client = TestClient(app, base_url=BASE, raise_server_exceptions=False, follow_redirects=False)
        if token:
            client.cookies.set("awf-8765", token)
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[StartedProcess]:
    """The processes that pages start."""
    made: list[StartedProcess] = []

    def start_process(*given: Any) -> StartedProcess:
        made.append(real(*given))
        return made[-1]

    real = actions.start_process
    monkeypatch.setattr(actions, "start_process", start_process)
    return made


def post(client: TestClient, what: str, **fields: str) -> Any:
    """Send a form of the run's page."""
    return client.post(f"{PAGE}/{what}", data=fields, headers={"Origin": BASE})

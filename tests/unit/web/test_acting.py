"""Starting, stopping and taking up runs from a page."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.web.conftest import BASE, LONGEST, PAGE, Book, Browser, post
from tests.unit.web.running import GATE, LOOP, TOOL, ran

from pipeline.app.store import load_state
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.launching import Launched, NotStarted, launch

START = "/s/shop/start"
HERE = {"Origin": BASE}


def state_of(store: Path, run: str = "r1") -> State:
    """Where a run stands."""
    with closing(SqliteJournal(store)) as journal:
        return load_state(journal, run)


@pytest.fixture
def shelf(store: Path) -> Path:
    """The workflows of the project."""
    folder = store.parent / "workflows"
    folder.mkdir(parents=True)
    return folder


def test_a_run_without_a_process_is_cancelled(browser: Browser, store: Path) -> None:
    """It is recorded as cancelled, with who did it and why."""
    ran(store, GATE)
    done = post(browser(user="ada"), "cancel", reason="wrong <goal>")
    assert done.status_code == 303
    state = state_of(store)
    assert state.status is RunStatus.CANCELLED
    assert state.reason == "by ada: wrong <goal>"
    assert "by ada: wrong &lt;goal&gt;" in browser().get(PAGE).text


def test_the_process_at_a_run_is_told_to_stop(browser: Browser, store: Path, book: Book) -> None:
    """Where a process is at a run, it gets the wish."""
    book.begin("r1")
    with book.journal.lock("r1"):
        assert post(browser(user="ada"), "cancel").status_code == 303
    wish = SqliteMailbox(store).cancel_request("r1", 0)
    assert wish
    assert wish.by == "ada"


def test_a_run_that_is_over_is_left_alone(browser: Browser, store: Path) -> None:
    """It can neither be cancelled nor resumed, and its page offers neither."""
    ran(store, TOOL.replace("COMMAND", "true"))
    page = browser().get(PAGE).text
    assert "/cancel" not in page
    assert "/resume" not in page
    for what in ("cancel", "resume"):
        refused = post(browser(), what)
        assert refused.status_code == 409
        assert ("has finished (success)" if what == "cancel" else "has finished") in refused.text


@pytest.mark.parametrize("what", ["cancel", "resume", "answer"])
def test_a_run_that_is_not_there_is_said_to_be(browser: Browser, book: Book, what: str) -> None:
    """Nothing can be done about it, and nothing is kept."""
    book.begin("other")
    assert post(browser(), what, option="x").status_code == 404


def test_a_paused_run_goes_on_with_a_higher_limit(browser: Browser, store: Path, started: list[Launched]) -> None:
    """The page offers what it takes, and a process takes the run up with it."""
    ran(store, LOOP.replace("LIMIT", "3").replace("TIMES", "5"))
    assert state_of(store).status is RunStatus.PAUSED
    page = browser().get(PAGE).text
    offered = re.search(r'name="raise-max_visits"[^>]* value="([^"]*)"', page)
    assert offered
    assert offered[1] == "+10"
    assert "used 3 of 3" in page
    assert post(browser(), "resume", **{"raise-max_visits": "+10", "raise-max_stages": ""}).status_code == 303
    assert started[0].process.wait(LONGEST) == 0
    assert state_of(store).status is RunStatus.SUCCESS
    assert state_of(store).settings.max_visits == 13


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"raise-max_visits": "many"}, "is not a value for max_visits"),
        ({"raise-nothing": "+1"}, "Unknown limit"),
        ({"raise-max_visits": "--adopt=x"}, "is not a value"),
    ],
)
def test_a_limit_that_cannot_be_raised_so_is_refused(
    browser: Browser, store: Path, started: list[Launched], fields: dict[str, str], words: str
) -> None:
    """It is told before anything is started."""
    ran(store, LOOP.replace("LIMIT", "3").replace("TIMES", "5"))
    refused = post(browser(), "resume", **fields)
    assert refused.status_code == 409
    assert words in refused.text
    assert started == []


def test_a_run_under_way_is_not_resumed(browser: Browser, book: Book, started: list[Launched]) -> None:
    """A second process would be refused; it is not started at all."""
    book.begin("r1")
    with book.journal.lock("r1"):
        page = browser().get(PAGE).text
        refused = post(browser(), "resume")
    assert f'action="{PAGE}/resume"' not in page
    assert refused.status_code == 409
    assert "is under way" in refused.text
    assert started == []


def test_an_interrupted_run_is_offered_to_be_resumed(browser: Browser, book: Book) -> None:
    """A run whose process has gone says so, and how to go on."""
    book.begin("r1")
    page = browser().get(PAGE).text
    assert "interrupted" in page
    assert "The process at this run has gone" in page
    assert f'action="{PAGE}/resume"' in page


def test_what_can_be_started_is_listed(browser: Browser, shelf: Path) -> None:
    """Workflows of the project and those that are shipped; one with errors cannot be chosen."""
    (shelf / "ship.awf.kdl").write_text(
        TOOL.replace("COMMAND", "true").replace("version 2", 'version 2\n  description "Ships <it>"')
    )
    (shelf / "broken.awf.kdl").write_text("workflow {")
    page = browser().get(START).text
    assert "Ships &lt;it&gt;" in page
    assert 'value="quick-dev"' in page
    assert re.search(r'value="broken"[^>]* disabled', page)
    assert "awf validate broken" in page


def test_a_workflow_is_started_with_a_goal(browser: Browser, store: Path, shelf: Path, started: list[Launched]) -> None:
    """It runs in a session of its own in the project; the goal is data, whatever is in it; the page leads to it."""
    (shelf / "ship.awf.kdl").write_text(TOOL.replace("COMMAND", "pwd"))
    goal = '$(touch evil) `id`; --store=x\r\n"<script>alert(1)</script>'
    done = browser().post(START, data={"workflow": "ship", "goal": goal}, headers=HERE)
    assert done.status_code == 303
    page = done.headers["location"]
    run = page.rpartition("/")[2]
    process = started[0].process
    assert os.getsid(process.pid) == process.pid if process.poll() is None else True
    assert process.wait(LONGEST) == 0
    state = state_of(store, run)
    assert state.goal == goal.replace("\r\n", "\n")
    assert state.cwd == store.parent
    assert not (store.parent / "evil").exists()
    text = browser().get(page).text
    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text
    assert (store / "started" / f"{run}.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "name", ["", "nothing", "../ship", "workflows/ship.awf.kdl", "/etc/passwd", "--help", "ship\0"]
)
def test_only_the_catalogue_is_started(browser: Browser, shelf: Path, started: list[Launched], name: str) -> None:
    """A form names a workflow of the list; no path and no option comes from it."""
    (shelf / "ship.awf.kdl").write_text(TOOL.replace("COMMAND", "true"))
    refused = browser().post(START, data={"workflow": name}, headers=HERE)
    assert refused.status_code == 409
    assert "in the catalogue" in refused.text
    assert started == []


def test_what_cannot_start_says_why(browser: Browser, shelf: Path) -> None:
    """A process that ends before there is a run shows what it said."""
    (shelf / "ask.awf.kdl").write_text(
        TOOL.replace('kind="tool" command="COMMAND"', 'kind="llm" backend="nobody" prompt="Hi"')
    )
    refused = browser().post(START, data={"workflow": "ask", "goal": "x"}, headers=HERE)
    assert refused.status_code == 409
    assert "ended before it did anything" in refused.text
    assert "nobody" in refused.text
    assert 'class="output"' in refused.text


def test_read_only_starts_and_stops_nothing(
    browser: Browser, store: Path, shelf: Path, started: list[Launched]
) -> None:
    """With --read-only there are no forms, and what is sent all the same is refused."""
    (shelf / "ship.awf.kdl").write_text(TOOL.replace("COMMAND", "true"))
    ran(store, LOOP.replace("LIMIT", "3").replace("TIMES", "5"))
    client = browser(read_only=True)
    assert "<button class" not in client.get(START).text
    assert "This server only shows" in client.get(START).text
    page = client.get(PAGE).text
    assert "/cancel" not in page
    assert "/resume" not in page
    assert client.post(START, data={"workflow": "ship"}, headers=HERE).status_code == 403
    for what in ("cancel", "resume"):
        assert post(client, what).status_code == 403
    assert started == []
    assert state_of(store).status is RunStatus.PAUSED


def test_a_started_process_outlives_its_starter(store: Path) -> None:
    """It leads a session of its own, and its output goes to a file: nothing ties it to the server."""
    store.mkdir(parents=True)
    launched = launch(["--version"], store, "r1", store)
    code = launched.process.wait(LONGEST)
    assert code == 0
    assert "awf" in launched.said()
    assert launched.output == store / "started" / "r1.log"


def test_what_was_said_before_is_kept(store: Path) -> None:
    """A second process of the same run adds to the file, and only its own words are told."""
    store.mkdir(parents=True)
    launch(["--version"], store, "r1", store).process.wait(LONGEST)
    second = launch(["nonsense"], store, "r1", store)
    second.process.wait(LONGEST)
    assert "nonsense" in second.said()
    assert "awf " not in second.said().partition("Error")[0].partition("Usage")[0]
    assert second.output.read_text().startswith("awf ")


def test_output_is_not_written_through_a_link(store: Path, tmp_path: Path) -> None:
    """A link in the place of the file is not followed, and the name of a run that is none is refused."""
    (store / "started").mkdir(parents=True)
    (store / "started" / "r1.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotStarted, match="could not be started"):
        launch(["--version"], store, "r1", store)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(AwfError, match="is not a valid run name"):
        launch(["--version"], store, "../r1", store)

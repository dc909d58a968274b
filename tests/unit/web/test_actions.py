"""Starting, cancelling and resuming runs from a page."""

import os
import re
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.web.conftest import BASE, LONGEST, PAGE, Browser, RunWriter, post
from tests.unit.web.workflows import GATE, LOOP, TOOL, run_workflow

from pipeline.app.store import load_state
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.actions import NotStarted, StartedProcess, start_process

START = "/s/shop/start"
HERE = {"Origin": BASE}


def state_of(store: Path, run: str = "r1") -> State:
    """The state of a run."""
    with closing(SqliteJournal(store)) as journal:
        return load_state(journal, run)


@pytest.fixture
def folder(store: Path) -> Path:
    """The folder of the project's workflows."""
    path = store.parent / "workflows"
    path.mkdir(parents=True)
    return path


def test_a_run_without_a_process_is_cancelled(browser: Browser, store: Path) -> None:
    """It is recorded as cancelled, with who did it and why."""
    run_workflow(store, GATE)
    done = post(browser(user="ada"), "cancel", reason="wrong <goal>")
    assert done.status_code == 303
    state = state_of(store)
    assert state.status is RunStatus.CANCELLED
    assert "ada" in state.reason
    assert "wrong &lt;goal&gt;" in browser().get(PAGE).text


def test_a_running_process_is_asked_to_stop(browser: Browser, store: Path, writer: RunWriter) -> None:
    """A process that drives the run gets a request to cancel it."""
    writer.begin("r1")
    with writer.journal.lock("r1"):
        assert post(browser(user="ada"), "cancel").status_code == 303
    request = SqliteMailbox(store).cancel_request("r1", 0)
    assert request
    assert request.by == "ada"


def test_a_finished_run_is_left_alone(browser: Browser, store: Path) -> None:
    """It can neither be cancelled nor resumed, and its page offers neither."""
    run_workflow(store, TOOL.replace("COMMAND", "true"))
    page = browser().get(PAGE).text
    assert "/cancel" not in page
    assert "/resume" not in page
    for what in ("cancel", "resume"):
        refused = post(browser(), what)
        assert refused.status_code == 409


@pytest.mark.parametrize("what", ["cancel", "resume", "answer"])
def test_an_unknown_run_is_not_found(browser: Browser, writer: RunWriter, what: str) -> None:
    """There is nothing to act on."""
    writer.begin("other")
    assert post(browser(), what, option="x").status_code == 404


def test_a_paused_run_is_resumed_with_a_higher_limit(
    browser: Browser, store: Path, started: list[StartedProcess]
) -> None:
    """The page suggests the limit to raise, and a process resumes the run with it."""
    run_workflow(store, LOOP.replace("LIMIT", "3").replace("TIMES", "5"))
    assert state_of(store).status is RunStatus.PAUSED
    page = browser().get(PAGE).text
    offered = re.search(r'name="raise-max_visits"[^>]* value="([^"]*)"', page)
    assert offered
    assert offered[1] == "+10"
    assert post(browser(), "resume", **{"raise-max_visits": "+10", "raise-max_stages": ""}).status_code == 303
    assert started[0].process.wait(LONGEST) == 0
    assert state_of(store).status is RunStatus.SUCCESS
    assert state_of(store).settings.max_visits == 13


@pytest.mark.parametrize(
    "fields", [{"raise-max_visits": "many"}, {"raise-nothing": "+1"}, {"raise-max_visits": "--adopt=x"}]
)
def test_an_invalid_limit_is_refused(
    browser: Browser, store: Path, started: list[StartedProcess], fields: dict[str, str]
) -> None:
    """Nothing is started."""
    run_workflow(store, LOOP.replace("LIMIT", "3").replace("TIMES", "5"))
    refused = post(browser(), "resume", **fields)
    assert refused.status_code == 409
    assert started == []


def test_a_running_run_is_not_resumed(browser: Browser, writer: RunWriter, started: list[StartedProcess]) -> None:
    """No second process is started."""
    writer.begin("r1")
    with writer.journal.lock("r1"):
        page = browser().get(PAGE).text
        refused = post(browser(), "resume")
    assert f'action="{PAGE}/resume"' not in page
    assert refused.status_code == 409
    assert started == []


def test_an_interrupted_run_can_be_resumed(browser: Browser, writer: RunWriter) -> None:
    """The page of a run whose process ended offers to resume it."""
    writer.begin("r1")
    assert browser().get(f"{PAGE}?format=json").json()["status"] == "interrupted"
    assert f'action="{PAGE}/resume"' in browser().get(PAGE).text


def test_workflows_are_listed(browser: Browser, folder: Path) -> None:
    """Workflows of the project and built-in ones are listed; one with errors cannot be chosen."""
    (folder / "ship.awf.kdl").write_text(
        TOOL.replace("COMMAND", "true").replace("version 2", 'version 2\n  description "Ships <it>"')
    )
    (folder / "broken.awf.kdl").write_text("workflow {")
    page = browser().get(START).text
    assert "Ships &lt;it&gt;" in page
    assert 'value="quick-dev"' in page
    assert re.search(r'value="broken"[^>]* disabled', page)
    assert "awf validate broken" in page


def test_a_workflow_is_started_with_a_goal(
    browser: Browser, store: Path, folder: Path, started: list[StartedProcess]
) -> None:
    """It runs in a session of its own in the project, with the goal as it was typed."""
    (folder / "ship.awf.kdl").write_text(TOOL.replace("COMMAND", "pwd"))
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


def test_a_workflow_is_started_with_inputs(
    browser: Browser, store: Path, folder: Path, started: list[StartedProcess]
) -> None:
    """The page has a field for each input; an empty one leaves the default."""
    source = TOOL.replace("COMMAND", "true")
    inputs = 'version 2\n  input "ticket" required=true description="What <it> is"\n  input "rounds" default=3'
    (folder / "ship.awf.kdl").write_text(source.replace("version 2", inputs))
    page = browser().get(START).text
    assert 'name="input-ship-ticket"' in page
    assert "What &lt;it&gt; is" in page
    fields = {"workflow": "ship", "input-ship-ticket": "--goal=x", "input-ship-rounds": " "}
    done = browser().post(START, data=fields, headers=HERE)
    assert done.status_code == 303
    assert started[0].process.wait(LONGEST) == 0
    state = state_of(store, done.headers["location"].rpartition("/")[2])
    assert (state.context.get("input.ticket"), state.context.get("input.rounds")) == ("--goal=x", 3)


@pytest.mark.parametrize(
    "name", ["", "nothing", "../ship", "workflows/ship.awf.kdl", "/etc/passwd", "--help", "ship\0"]
)
def test_only_workflows_of_the_catalog_are_started(
    browser: Browser, folder: Path, started: list[StartedProcess], name: str
) -> None:
    """No path and no option comes from a form."""
    (folder / "ship.awf.kdl").write_text(TOOL.replace("COMMAND", "true"))
    refused = browser().post(START, data={"workflow": name}, headers=HERE)
    assert refused.status_code == 409
    assert started == []


def test_a_failed_start_shows_the_output(browser: Browser, folder: Path) -> None:
    """The page shows what a process printed that ended before its run was recorded."""
    (folder / "ask.awf.kdl").write_text(
        TOOL.replace('kind="tool" command="COMMAND"', 'kind="llm" backend="nobody" prompt="Hi"')
    )
    refused = browser().post(START, data={"workflow": "ask", "goal": "x"}, headers=HERE)
    assert refused.status_code == 409
    assert "nobody" in refused.text
    assert 'class="output"' in refused.text


def test_read_only_starts_and_stops_nothing(
    browser: Browser, store: Path, folder: Path, started: list[StartedProcess]
) -> None:
    """With --read-only there are no forms, and requests are refused."""
    (folder / "ship.awf.kdl").write_text(TOOL.replace("COMMAND", "true"))
    run_workflow(store, LOOP.replace("LIMIT", "3").replace("TIMES", "5"))
    client = browser(read_only=True)
    assert "<button class" not in client.get(START).text
    page = client.get(PAGE).text
    assert "/cancel" not in page
    assert "/resume" not in page
    assert client.post(START, data={"workflow": "ship"}, headers=HERE).status_code == 403
    for what in ("cancel", "resume"):
        assert post(client, what).status_code == 403
    assert started == []
    assert state_of(store).status is RunStatus.PAUSED


def test_a_started_process_outlives_its_starter(store: Path) -> None:
    """It has a session of its own, and its output goes to a file."""
    store.mkdir(parents=True)
    started = start_process(["--version"], store, "r1", store)
    code = started.process.wait(LONGEST)
    assert code == 0
    assert "awf" in started.output()
    assert started.output_file == store / "started" / "r1.log"


def test_output_is_appended(store: Path) -> None:
    """A second process of the same run adds to the file, and only its own output is shown."""
    store.mkdir(parents=True)
    start_process(["--version"], store, "r1", store).process.wait(LONGEST)
    second = start_process(["nonsense"], store, "r1", store)
    second.process.wait(LONGEST)
    assert "nonsense" in second.output()
    assert "awf " not in second.output().partition("Error")[0].partition("Usage")[0]
    assert second.output_file.read_text().startswith("awf ")


def test_output_is_not_written_through_a_link(store: Path, tmp_path: Path) -> None:
    """A link instead of the file is not followed, and an invalid run name is refused."""
    (store / "started").mkdir(parents=True)
    (store / "started" / "r1.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotStarted):
        start_process(["--version"], store, "r1", store)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(AwfError):
        start_process(["--version"], store, "../r1", store)

"""`awf serve --on`: pages of a cluster's runs, and actions on them."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import httpx
from tests.cluster.lab import Lab
from tests.integration.serving import serving_at
from tests.unit.web.findings import item, project

from pipeline.engine.state import RunStatus
from pipeline.journal.sqlite import SqliteJournal

WORKFLOW = """workflow "Release" {
version 2
start "build"
stage "build" kind="tool" command="echo built"
stage "work" kind="tool" command="echo begun; for i in $(seq 600); do [ -e go ] && break; sleep 0.1; done; echo went"
stage "ok" kind="human" prompt="Good?" {
  option "yes" label="Yes" to="end" approves=true; option "no" label="No" to="work"; }
stage "end" kind="exit"
transition from="build" to="work"
transition from="work" to="ok"
}
"""
LONGEST = 60.0


class Browser:
    """A client of the dashboard."""

    def __init__(self, address: str) -> None:
        self.client = httpx.Client(timeout=LONGEST, follow_redirects=True)
        self.base = self.client.get(address).url.join("/")

    def get(self, path: str, **query: str) -> httpx.Response:
        return self.client.get(self.base.join(f"/s/default/{path}"), params=query)

    def post(self, path: str, **fields: str) -> httpx.Response:
        origin = str(self.base).rstrip("/")
        return self.client.post(self.base.join(f"/s/default/{path}"), data=fields, headers={"Origin": origin})

    def until(self, path: str, holds: Callable[[str], bool], **query: str) -> str:
        """Return a page as soon as a condition holds for it."""
        deadline = time.monotonic() + LONGEST
        while not holds(text := self.get(path, **query).text):
            assert time.monotonic() < deadline, text
            threading.Event().wait(0.1)
        return text

    def status(self, run: str) -> str:
        found: str = json.loads(self.get(f"runs/{run}", format="json").text)["status"]
        return found


@contextmanager
def dashboard(lab: Lab, *more: str) -> Iterator[Browser]:
    """Run the command, which must clean up when it ends."""
    folder = lab.folder / "tmp"
    folder.mkdir()
    with serving_at(lab.folder, "--port", "0", *lab.options, *more, TMPDIR=str(folder)) as (process, address):
        browser = Browser(address)
        with closing(browser.client):
            yield browser
        process.terminate()
        assert process.wait(30) == 0
    assert not list(folder.iterdir())


def test_a_run_of_a_cluster_is_followed_and_answered(lab: Lab) -> None:
    """The run appears, its log grows, its gate is answered on its page, and it ends."""
    lab.stop_worker("w1")
    with lab.worker_process("worker"), dashboard(lab) as browser:
        assert browser.get("runs", format="json").json()["runs"] == []
        lab.start("s", WORKFLOW)
        run = lab.id("s")
        browser.until("runs", lambda text: run in text and "running" in text)
        page = browser.until(f"runs/{run}", lambda text: "work" in text and "running" in text)
        assert ">build<" in page
        where = {"stage": "work", "visit": "1"}
        browser.until(f"runs/{run}/text", lambda text: text == "begun\n", name="stdout", after="0", **where)
        (lab.folder / "project" / "go").touch()
        browser.until(f"runs/{run}", lambda text: "Good?" in text and 'value="yes"' in text)
        assert browser.get(f"runs/{run}/text", name="stdout", **where).text == "begun\nwent\n"
        assert browser.post(f"runs/{run}/answer", stage="ok", visit="1", option="yes", by="ada").status_code == 200
        assert lab.ended("s").status is RunStatus.SUCCESS
        browser.until(f"runs/{run}", lambda text: json.loads(text)["status"] == "success", format="json")
        quicker = browser.post(f"runs/{run}/answer", stage="ok", visit="1", option="no", by="bob")
        assert (quicker.status_code, "ada" in quicker.text) == (409, True)
        (mirror,) = (lab.folder / "tmp").glob("awf-*")
        with closing(SqliteJournal(mirror)) as journal:
            assert [entry.record for entry in journal.entries(run)] == lab.records("s")


def test_runs_of_a_cluster_are_started_cancelled_and_resumed(lab: Lab) -> None:
    """Actions on a page take effect on the cluster; one that is not possible is refused."""
    (lab.folder / "workflows").mkdir()
    (lab.folder / "workflows" / "release.awf.kdl").write_text(WORKFLOW)
    with dashboard(lab, "--store", str(lab.folder / "w1")) as browser:
        assert browser.client.get(browser.base).text.count("/runs") == 2
        started = browser.post("start", workflow="release", goal="Out with it")
        run = started.url.path.rpartition("/")[2]
        assert "Out with it" in started.text
        lab.use_full_names()
        lab.until(run, lambda state: state.cursor.stage == "work")
        browser.until(f"runs/{run}", lambda text: json.loads(text)["status"] == "running", format="json")
        assert browser.post(f"runs/{run}/resume").status_code == 409
        browser.post(f"runs/{run}/cancel", reason="not now", by="ada")
        assert browser.status(run) == "cancelled"
        assert all(word in lab.state(run).reason for word in ("ada", "not now"))
        (lab.folder / "go").touch()
        resumed = browser.post(f"runs/{run}/resume", **{"raise-max_visits": "+3"})
        assert resumed.status_code == 200, resumed.text
        assert lab.until(run, lambda state: state.status is RunStatus.WAITING).settings.max_visits > 3
        browser.until(f"runs/{run}", lambda text: "Good?" in text)
        assert browser.post(f"runs/{run}/cancel").status_code == 200
        assert browser.get("runs/nothing").status_code == 404
        assert browser.post("findings/triage", id="1", **{"as": "fixed"}).status_code == 409


REVIEW = """workflow "Review" {
version 2
start "rev"
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "end" kind="exit"
transition from="rev" to="end"
}
"""


def reviewed(lab: Lab, run: str, *lines: int) -> None:
    """Run a review that reports some lines."""
    items = [item(line) for line in lines]
    told = json.dumps({"reviewer": "rev", "findings": items, "residual_risks": [], "testing_gaps": []})
    lab.start(run, REVIEW, {"rev": [told]}, cwd=lab.folder / "shop")
    lab.ended(run)


def test_findings_are_those_of_one_run(lab: Lab) -> None:
    """Each run has its own, numbered from 1; those of the newest are shown by default, and none can be triaged."""
    project(lab.folder / "shop")
    reviewed(lab, "a", 1, 2)
    reviewed(lab, "b", 3)
    with dashboard(lab) as browser:
        page = browser.until("findings", lambda text: "Line 3 is wrong" in text)
        assert "Line 1 is wrong" not in page
        assert "Preview" not in page
        run = lab.id("a")
        assert "Line 2 is wrong" in browser.get("findings", run=run).text
        rows = json.loads(browser.get("findings", run=run, format="json").text)["findings"]
        there = json.loads(browser.get(f"findings/{rows[0]['number']}", run=run, format="json").text)
        assert (len(rows), there["title"]) == (2, rows[0]["title"])
        assert "Round 1" in browser.get(f"runs/{run}").text
        sarif = browser.get("findings/export/sarif", run=run).json()
        assert len(sarif["runs"][0]["results"]) == 2


def test_pages_say_when_the_server_or_the_store_is_unavailable(lab_with_own_server: Lab) -> None:
    """Meanwhile a run that was running is unknown; pages are up to date again when both are back."""
    lab, own_server = lab_with_own_server, lab_with_own_server.server
    lab.worker("w1")
    with dashboard(lab) as browser:
        lab.start("s", WORKFLOW)
        run = lab.id("s")
        browser.until(f"runs/{run}", lambda text: "running" in text and "work" in text)
        own_server.stop()
        browser.until("runs", lambda text: "Not up to date" in text)
        assert browser.status(run) == "unknown"
        assert re.search(r'class="state other"[^>]*><span[^>]*>…</span>unknown', browser.get("runs").text)
        own_server.start()
        browser.until("runs", lambda text: "Not up to date" not in text)
        aside = lab.shared.rename(lab.folder / "aside")
        browser.until("runs", lambda text: "Not up to date" in text)
        aside.rename(lab.shared)
        browser.until("runs", lambda text: "Not up to date" not in text)
        (lab.folder / "project" / "go").touch()
        lab.stopped("s")

"""Walk-throughs in the browser: of a store's findings, and for a run that waits at a triage stage."""

import json
import os
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.web.conftest import LONGEST, PAGE, Browser
from tests.unit.web.findings import findings, item, project, review
from tests.unit.web.workflows import run_workflow

from pipeline.app.store import load_state
from pipeline.engine.ports import HumanAnswer
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.actions import StartedProcess

WALK = "/s/shop/walk"
OURS = {"Sec-Fetch-Site": "same-origin"}
FIXABLE = {"suggested_fix": "Compute it once.", "owner": "review-fixer"}
TRIAGE = """
workflow "Sort them" {
  version 2
  start "review"
  stage "review" kind="llm" auto_status=true prompt="Look" backend="scripted"
  stage "triage" kind="triage" { apply to="exit"; done to="exit" }
  stage "exit" kind="exit"
  transition from="review" to="triage"
}
"""


@pytest.fixture
def root(store: Path) -> Path:
    """A project with three findings and advice."""
    project(store.parent)
    review(store.parent, *(item(number, **FIXABLE) for number in (1, 2, 3)), item(4, autofix_class="advisory"))
    return store.parent


def decided(root: Path) -> dict[int, list[str]]:
    return {one.number: [made.word for made in one.decisions] for one in findings(root) if one.decisions}


def start(client: TestClient, address: str = WALK, **form: str) -> str:
    """Start a walk; its address."""
    response = client.post(address, data=form, headers=OURS)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def choose(client: TestClient, address: str, key: str) -> Any:
    """Press a button of the page."""
    number = re.search(r'name="number" value="(\d+)"', client.get(address).text)
    assert number
    return client.post(address, data={"key": key, "number": number[1]}, headers=OURS)


def buttons(page: str) -> list[str]:
    return re.findall(r'name="key" value="(\w+)"', page)


def test_findings_are_decided_one_by_one(browser: Browser, root: Path) -> None:
    """Each page has one question with its options as buttons; decisions are recorded after the last one."""
    client = browser()
    assert "3 findings need a decision" in client.get(WALK).text.lower()
    address = start(client)
    page = client.get(address).text
    assert "Finding 1 of 3" in page
    assert buttons(page) == ["apply", "defer", "skip", "rest", "stop"]
    assert re.search(r'value="apply" data-key="a" class="primary" autofocus', page)  # Enter accepts it
    assert "line_1 = compute(1)" in page  # the code, in the details
    assert choose(client, address, "apply").headers["location"] == address
    assert "Applied." in client.get(address).text
    for key in ("defer", "proceed"):  # the first ticket is confirmed
        choose(client, address, key)
    assert decided(root) == {}
    choose(client, address, "skip")
    report = client.get(address).text
    assert "awf findings fix" in report
    assert "Verdict: " in report
    assert sorted(decided(root).values()) == [["apply"], ["defer"], ["skip"]]
    assert len(list((root / ".awf" / "tickets").glob("*.md"))) == 1


def test_the_rest_is_planned_first(browser: Browser, root: Path) -> None:
    """The plan is shown; Cancel asks about the same finding again, Proceed carries it out."""
    client = browser()
    address = start(client, advisory="yes")
    choose(client, address, "rest")
    assert "Applying (3):" in client.get(address).text
    choose(client, address, "cancel")
    assert "Finding 1 of 4" in client.get(address).text
    choose(client, address, "rest")
    choose(client, address, "proceed")
    assert sorted(decided(root).values()) == [["acknowledge"], ["apply"], ["apply"], ["apply"]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of a user, in a home of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    file = tmp_path / "home/.config/awf/config.kdl"
    file.parent.mkdir(parents=True)
    return file


def use_agent(settings: Path, script: str) -> None:
    """Make a shell script the user's agent."""
    program = settings.parent / "agent"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    settings.write_text(f'backend "command"\nagent "command" {{ program "{program}" }}\n')


def wait_for_plan(client: TestClient, address: str) -> str:
    """The page of a walk once its findings are checked."""
    deadline = time.monotonic() + LONGEST
    while "http-equiv" in (page := client.get(address).text):
        assert time.monotonic() < deadline
    return page


def test_findings_are_checked_before_the_rest_is_planned(browser: Browser, root: Path, settings: Path) -> None:
    """While an agent looks, the page says so and loads itself again; then the plan has what was refused."""
    refused = """grep -q 'line_2 ' && echo '{"validated": false, "reason": "no"}' || echo '{"validated": true}'\n"""
    use_agent(settings, refused)
    with browser() as client:
        assert 'name="validate"' in client.get(WALK).text
        address = start(client, validate="yes")
        assert choose(client, address, "rest").headers["location"] == address
        plan = wait_for_plan(client, address)
        assert ("Applying (2):" in plan, "refused by the validator (1):" in plan) == (True, True)
        choose(client, address, "proceed")
    assert sorted(decided(root).values()) == [["apply"], ["apply"]]


@pytest.mark.parametrize("stopped", ["the walk", "the server"])
def test_a_validator_ends_with_its_walk(browser: Browser, root: Path, settings: Path, stopped: str) -> None:
    """A person who stops the walk, or the server, stops the agent."""
    use_agent(settings, f"echo $$ >{root}/pid\nexec sleep 1000\n")
    deadline = time.monotonic() + LONGEST
    with browser() as client:
        address = start(client, route="all", validate="yes")
        assert "http-equiv" in client.get(address).text
        while not (root / "pid").exists() or not (root / "pid").read_text():
            assert time.monotonic() < deadline
        if stopped == "the walk":
            assert client.post(address, data={"key": "stop"}, headers=OURS).status_code == 303
            while is_alive(root / "pid"):
                assert time.monotonic() < deadline
    assert not is_alive(root / "pid")


def is_alive(pid: Path) -> bool:
    """Whether the process runs whose number is in a file."""
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_a_validator_that_is_missing_is_an_error(browser: Browser, root: Path, settings: Path) -> None:
    """It is reported before the first question."""
    settings.write_text('backend "nobody"\n')
    assert browser().post(WALK, data={"validate": "yes"}, headers=OURS).status_code == 409
    assert decided(root) == {}


def test_filters_and_routes(browser: Browser, root: Path) -> None:
    """A walk is about what was selected, and may start with its plan."""
    client = browser()
    severe = next(one for one in findings(root) if one.severity == "high")
    assert "1 finding needs" in client.get(f"{WALK}?severity=high&file=a.py").text
    address = start(client, severity="high", route="all")
    assert f"{severe.location}" in client.get(address).text
    choose(client, address, "proceed")
    assert decided(root) == {severe.number: ["apply"]}
    assert "Finding" in client.get(start(client, route="ask")).text
    nothing = client.get(start(client, file="other/")).text
    assert "Verdict: " in nothing
    assert "resolved" not in nothing


def test_a_walk_that_is_stopped_decides_nothing(browser: Browser, root: Path) -> None:
    """It is gone, and so is what it had decided."""
    client = browser()
    address = start(client)
    choose(client, address, "apply")
    assert choose(client, address, "stop").headers["location"] == "/s/shop/findings"
    assert client.get(address).status_code == 404
    assert decided(root) == {}


def test_a_form_that_is_sent_twice_answers_once(browser: Browser, root: Path) -> None:
    """The second is an answer to a question that was answered; an unknown option is refused."""
    client = browser()
    address = start(client)
    for _ in range(2):
        assert client.post(address, data={"key": "skip", "number": "1"}, headers=OURS).status_code == 303
    assert "Finding 2 of 3" in client.get(address).text
    assert choose(client, address, "acknowledge").status_code == 409
    assert choose(client, address, "skip").status_code == 303
    assert choose(client, address, "skip").status_code == 303
    assert len(decided(root)) == 3


def test_findings_are_shown_as_text(browser: Browser, store: Path) -> None:
    """Nothing in a finding becomes markup."""
    project(store.parent)
    evil = "<script>alert(1)</script>"
    review(store.parent, item(1, title=evil, why_it_matters=evil, suggested_fix=f"{evil}\n```\n{evil}\n```"))
    client = browser()
    page = client.get(start(client)).text
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 4


@pytest.mark.usefixtures("root")
def test_nothing_is_started_by_another_site_or_read_only(browser: Browser) -> None:
    """Such requests are refused, and a read-only page offers nothing."""
    assert browser().post(WALK, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    reader = browser(read_only=True)
    assert reader.post(WALK, headers=OURS).status_code == 403
    assert 'id="start"' not in reader.get(WALK).text
    assert 'id="walk"' not in reader.get("/s/shop/findings").text


def test_a_named_tracker_has_to_work(browser: Browser, root: Path) -> None:
    """It is an error before the first question."""
    assert browser().post(WALK, data={"tracker": "github"}, headers=OURS).status_code == 409
    assert decided(root) == {}


def wait_at_triage(store: Path) -> None:
    """A run that waits at its triage stage with three findings."""
    project(store.parent)
    found = [item(number, **FIXABLE) for number in (1, 2, 3)]
    said = json.dumps({"reviewer": "r", "findings": found, "residual_risks": [], "testing_gaps": []})
    run_workflow(store, TRIAGE, options={"backend": "scripted", "script": json.dumps({"review": [said]})})
    with closing(SqliteJournal(store)) as journal:
        assert load_state(journal, "r1").status == "waiting"


def test_a_waiting_triage_is_answered(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """The decisions are reported and left for the run, which continues and records them; it files the tickets.

    The page of the run has no report before, and then the one with what became of the fixes.
    """
    wait_at_triage(store)
    client = browser(user="ada")
    page = client.get(PAGE).text
    assert ('id="walk"' in page, 'id="triage"' in page) == (True, False)
    address = start(client, f"{PAGE}/walk")
    for key in ("apply", "defer"):
        choose(client, address, key)
    assert not (store / "tickets").exists()
    assert choose(client, address, "skip").headers["location"] == address
    report = client.get(address).text
    assert f'href="{PAGE}"' in report
    assert "<h1>Completion report</h1>" in report
    assert "<h2>Accepted, not applied yet (1)</h2>" in report
    (process,) = started
    process.process.wait(LONGEST)
    with closing(SqliteJournal(store)) as journal:
        assert load_state(journal, "r1").status == "success", process.output()
    assert sorted(decided(store.parent).values()) == [["apply"], ["defer"], ["skip"]]
    assert len(list((store / "tickets").glob("*.md"))) == 1
    for address in (PAGE, f"{PAGE}?part=rounds"):
        report = client.get(address).text.partition('id="triage"')[2]
        assert "<h2>Completion report</h2>" in report
        assert re.findall(r"<h3>(\w+)[^<]* \(1\)</h3>", report) == ["Accepted", "Deferred", "Skipped"]
        assert "Verdict: Ready with fixes" in report


def test_the_first_to_decide_counts(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """A second person is told who was first, and a page that is opened then says so."""
    wait_at_triage(store)
    client = browser()
    address = start(client, f"{PAGE}/walk")
    SqliteMailbox(store).put_answer(HumanAnswer("r1", "triage", 1, "decided", "{}", "bob", 1.0))
    for key in ("rest", "proceed"):
        response = choose(client, address, key)
    assert response.status_code == 409
    assert "bob" in client.get(PAGE).text
    assert started == []


def test_a_run_that_waits_for_nothing_has_no_triage(browser: Browser, store: Path) -> None:
    """The request is refused."""
    run_workflow(store, TRIAGE, options={"backend": "scripted", "script": '{"review": ["[STATUS: success]"]}'})
    assert browser().post(f"{PAGE}/walk", headers=OURS).status_code == 409

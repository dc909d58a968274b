"""Runs that wait for a person: what the page shows, and what an answer does."""

import os
import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.web.conftest import LONGEST, PAGE, Browser, post
from tests.unit.web.workflows import GATE, run_workflow

from pipeline.app.store import load_state
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.actions import StartedProcess

TRIAGE = """
workflow "Sort them" {
  version 2
  start "lint"
  stage "lint" kind="tool" findings="rdjson" command="COMMAND"
  stage "triage" kind="triage" {
    apply to="exit"
    done to="exit"
  }
  stage "exit" kind="exit"
  transition from="lint" to="triage" when="outcome(\\"lint\\") != \\"success\\""
}
"""


def answer(client: TestClient, option: str, **fields: str) -> Any:
    """Answer the gate."""
    return post(client, "answer", stage="approve", visit="1", option=option, **fields)


def test_the_page_shows_what_is_needed_to_decide(browser: Browser, store: Path) -> None:
    """It has the question, its details, its options, and which of them need feedback."""
    run_workflow(store, GATE)
    page = browser(user="ada").get(PAGE).text
    assert "Release this?" in page
    assert "build.response" in page
    assert "built" in page
    assert re.search(r'<button name="option" value="approve" class="primary">Approve it', page)
    assert re.search(r'<button name="option" value="revise" data-needs="words">Send back', page)
    assert 'value="ada"' in page


def test_the_page_shows_what_changed(browser: Browser, store: Path) -> None:
    """The lines that the run changed in its checkout are shown with the question."""
    project = store.parent
    project.mkdir(parents=True)
    (project / "shop.txt").write_text("old <b>\n")
    (project / ".gitignore").write_text(".awf\n*.kdl\n")
    git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "begin")):
        subprocess.run([*git, *words], check=True, env={"PATH": os.environ["PATH"], "HOME": str(project)})
    run_workflow(store, GATE.replace("echo built", "echo 'new <i>' > shop.txt"))
    page = browser().get(PAGE).text
    assert '<span class="removed">-old &lt;b&gt;\n</span>' in page
    assert '<span class="added">+new &lt;i&gt;\n</span>' in page
    assert '<span class="file">shop.txt\n</span>' in page


def test_a_run_outside_a_repository_can_be_answered(browser: Browser, store: Path) -> None:
    """The question is shown even if the changes are unknown."""
    run_workflow(store, GATE)
    page = browser().get(PAGE).text
    assert 'name="option"' in page


def test_an_answer_resumes_the_run(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """If no process drives the run, an answer starts one, and its output is in the store."""
    run_workflow(store, GATE)
    done = answer(browser(user="ada"), "approve", feedback="fine", resume="yes")
    assert done.status_code == 303
    assert done.headers["location"] == PAGE
    kept = SqliteMailbox(store).answer("r1", "approve", 1)
    assert kept
    assert (kept.option, kept.feedback, kept.by) == ("approve", "fine", "ada")
    assert started[0].process.wait(LONGEST) == 0
    page = browser().get(PAGE).text
    assert "success" in page
    assert "Chose <strong>approve" in page
    assert "released" in browser().get(f"{PAGE}/visit?stage=release&visit=1").text
    assert (store / "started" / "r1.log").read_text()


def test_an_answer_can_be_left_for_later(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """Without "resume" nothing is started; the page says who answered, and offers to resume."""
    run_workflow(store, GATE)
    assert answer(browser(), "approve", by="  Grace   H  ").status_code == 303
    assert started == []
    page = browser().get(PAGE).text
    assert "<strong>Grace H</strong>" in page
    assert "<strong>approve</strong>" in page
    assert 'name="option"' not in page
    assert f'action="{PAGE}/resume"' in page


def test_a_waiting_process_gets_the_answer(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """If a process waits for the answer, no other one is started."""
    run_workflow(store, GATE)
    with closing(SqliteJournal(store)) as journal, journal.lock("r1"):
        assert answer(browser(), "approve", resume="yes").status_code == 303
    assert started == []


def test_the_first_answer_counts(browser: Browser, store: Path) -> None:
    """Whoever is second sees the first answer, and gets their own feedback back."""
    run_workflow(store, GATE)
    assert answer(browser(user="ada"), "revise", feedback="<b>name</b>").status_code == 303
    late = answer(browser(user="grace"), "approve", feedback="<i>Good</i>")
    assert late.status_code == 409
    assert "<strong>ada</strong>" in late.text
    assert "<strong>revise</strong>" in late.text
    assert "&lt;b&gt;name&lt;/b&gt;" in late.text
    assert "&lt;i&gt;Good&lt;/i&gt;" in late.text
    kept = SqliteMailbox(store).answer("r1", "approve", 1)
    assert kept
    assert kept.by == "ada"


@pytest.mark.parametrize(
    "fields",
    [
        {"option": "revise"},
        {"option": "revise", "feedback": "  \r\n "},
        {"option": "nothing"},
        {"option": ""},
        {},
        {"option": "approve", "stage": "build"},
        {"option": "approve", "visit": "7"},
    ],
)
def test_an_invalid_answer_is_refused(browser: Browser, store: Path, fields: dict[str, str]) -> None:
    """Nothing is kept."""
    run_workflow(store, GATE)
    refused = post(browser(), "answer", **{"stage": "approve", "visit": "1", **fields})
    assert refused.status_code == 409
    assert SqliteMailbox(store).answer("r1", "approve", 1) is None


def test_secrets_in_feedback_are_not_kept(browser: Browser, store: Path) -> None:
    """Feedback is redacted before it is kept."""
    secret = "hunter2-hunter2-hunter2"  # noqa: S105 - what must not be kept
    run_workflow(store, GATE)
    client = browser(environ={"API_TOKEN": secret})
    assert answer(client, "approve", feedback=f"use {secret}").status_code == 303
    kept = SqliteMailbox(store).answer("r1", "approve", 1)
    assert kept
    assert kept.feedback == "use [redacted API_TOKEN]"


def test_read_only_shows_only_the_question(browser: Browser, store: Path) -> None:
    """With --read-only there is no form, and an answer is refused."""
    run_workflow(store, GATE)
    client = browser(read_only=True)
    page = client.get(PAGE).text
    assert "Release this?" in page
    assert "<form" not in page.replace('<form class="replay"', "")
    assert "awf answer r1 approve" in page
    assert answer(client, "approve").status_code == 403
    assert SqliteMailbox(store).answer("r1", "approve", 1) is None


def test_answers_are_escaped(browser: Browser, store: Path) -> None:
    """Names, feedback and details are shown as text."""
    evil = "<script>alert(1)</script>"
    run_workflow(store, GATE.replace("echo built", f"echo '{evil}'"))
    assert answer(browser(), "approve", feedback=evil, by=evil).status_code == 303
    page = browser().get(PAGE).text
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 3


def test_a_triage_stage_names_the_command(browser: Browser, store: Path) -> None:
    """The page of a triage stage says how to decide about the findings."""
    report = (
        '{\\"source\\":{\\"name\\":\\"x\\"},\\"diagnostics\\":[{\\"message\\":\\"wrong\\",\\"severity\\":\\"ERROR\\",'
    )
    report += '\\"location\\":{\\"path\\":\\"a.py\\",\\"range\\":{\\"start\\":{\\"line\\":1}}}}]}'
    store.parent.mkdir(parents=True)
    (store.parent / "a.py").write_text("x\n")
    run_workflow(store, TRIAGE.replace("COMMAND", f"printf '%s' '{report}'"))
    with closing(SqliteJournal(store)) as journal:
        assert load_state(journal, "r1").status == "waiting"
    page = browser().get(PAGE).text
    assert "awf resume r1" in page
    assert 'name="option"' not in page

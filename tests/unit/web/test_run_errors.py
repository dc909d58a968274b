"""Runs that stopped at an error: what their pages show, and how they are resumed from there."""

import json
import re
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.web.conftest import BASE, LONGEST, PAGE, Browser, post
from tests.unit.web.test_actions import state_of
from tests.unit.web.workflows import TOOL, run_workflow

from pipeline.engine.records import RunCreated, RunPaused
from pipeline.engine.state import RunStatus
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web.actions import StartedProcess

LIST = "/s/shop/runs"
AGENT = """
workflow "Implement" {
  version 2
  start "build"
  stage "build" kind="llm" prompt="Build it"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
REVIEWS = """
workflow "Review" {
  version 2
  start "checks"
  stage "checks" kind="parallel" { branch "security"; branch "style"; }
  stage "security" kind="llm" auto_status=true prompt="Review security"
  stage "style" kind="llm" auto_status=true prompt="Review style"
  stage "exit" kind="exit"
  transition from="checks" to="exit"
}
"""
REFUSED = {"error": "auth", "message": "401 <b>invalid</b> key"}


def run_scripted(store: Path, source: str, script: dict[str, object], **options: str) -> None:
    """Run a workflow with a scripted agent until it stops."""
    run_workflow(store, source, options={"backend": "scripted", "script": json.dumps(script), **options})


def stage_of(page: str, stage: str) -> str:
    """The drawing of a stage in the chart, from its classes to its sign."""
    found = re.search(
        rf'<g class="[^"]*" data-stage="{stage}">.*?(?=<g class="[^"]*" data-stage=|</svg>)', page, re.DOTALL
    )
    assert found
    return found[0]


def visit_of(page: str, stage: str) -> str:
    """A visit in the list of visits."""
    found = [one for one in re.findall(r'<li class="visit.*?</li>', page, re.DOTALL) if f'id="v-{stage}-1"' in one]
    assert len(found) == 1
    return str(found[0])


def test_an_error_is_shown_with_its_kind_and_reason(browser: Browser, store: Path) -> None:
    """The stage is marked everywhere; the page has the reason, advice and the command to continue."""
    run_scripted(store, AGENT, {"build": REFUSED})
    page = browser().get(PAGE).text
    drawn, visit = stage_of(page, "build"), visit_of(page, "build")
    assert "! error" in drawn
    assert "error, 1 visit</title>" in drawn
    assert re.search(r'<span class="glyph"[^>]*>!</span>error', visit)
    for part in (visit, page[page.index('id="errors"') : page.index("</section>")]):
        assert "401 &lt;b&gt;invalid&lt;/b&gt; key" in part
        assert "auth" in part
    assert "attempt 1" in page
    assert "set its key" in page
    assert "<code>awf resume r1</code>" in page
    assert f'action="{PAGE}/resume"' in page


def test_a_branch_that_errored_is_shown_with_the_others(browser: Browser, store: Path) -> None:
    """One review errored and the other passed: each says so, and their stage is paused."""
    run_scripted(store, REVIEWS, {"security": REFUSED})
    page = browser().get(PAGE).text
    assert "! error" in stage_of(page, "security")
    assert "success, 1 visit" in stage_of(page, "style")
    assert "paused" in stage_of(page, "checks")
    assert "in checks" in visit_of(page, "security")
    assert "error</span>" not in visit_of(page, "style")


def test_the_visit_of_an_error_has_its_prompt_and_reason(browser: Browser, store: Path) -> None:
    """Its page shows the outcome, the kind, the reason, what to do, and what the agent was asked."""
    run_scripted(store, AGENT, {"build": REFUSED})
    page = browser().get(f"{PAGE}/visit?stage=build&visit=1").text
    assert re.search(r'<span class="glyph"[^>]*>!</span>error', page)
    assert "<dt>Error</dt><dd>auth" in page
    assert "401 &lt;b&gt;invalid&lt;/b&gt; key" in page
    assert "set its key" in page
    assert "Build it" in page[page.index('id="prompt"') :]


def test_an_earlier_attempt_keeps_its_own_outcome(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """After a resume the visit is a success, and the page of its first attempt still says error."""
    run_workflow(store, TOOL.replace("COMMAND", "test -e ready || exit 127"))
    (store.parent / "ready").touch()
    assert post(browser(), "resume").status_code == 303
    assert started[0].process.wait(LONGEST) == 0
    visit = f"{PAGE}/visit?stage=build&visit=1"
    assert "<dt>Error</dt><dd>spawn error" in browser().get(f"{visit}&attempt=1").text
    assert "<dt>Error</dt>" not in browser().get(visit).text
    assert "attempt 2" in visit_of(browser().get(PAGE).text, "build")


def test_a_quota_has_its_time(browser: Browser, store: Path) -> None:
    """The page and the list have the time at which it resets, for people and for programs; the page counts down."""
    run_scripted(store, AGENT, {"build": {"error": "quota", "message": "used up", "retry_after": 7200}})
    until = state_of(store).until
    assert until
    client = browser()
    page = client.get(PAGE).text
    assert f'data-until="{until}"' in page
    assert "in 2h00m" in page or "in 1h59m" in page
    assert "awf resume r1 --wait" in page
    assert "awf resume r1 --now" in page
    assert client.get(f"{PAGE}?format=json").json()["until"] == until
    assert client.get(f"{LIST}?format=json").json()["runs"][0]["until"] == until
    assert "until " in client.get(LIST).text


def test_of_two_errors_the_quota_has_its_own_time(browser: Browser, store: Path) -> None:
    """Where waiting is not enough, because the other branch was refused, the run has no time and the error has one."""
    quota = {"error": "quota", "message": "used up", "retry_after": 7200}
    run_scripted(store, REVIEWS, {"security": quota, "style": REFUSED})
    page = browser().get(PAGE).text
    assert state_of(store).until is None
    assert page.count("data-until=") == 1
    assert page.index('id="errors"') < page.index("data-until=") < page.index("</section>")
    assert 'name="wait"' not in page


def test_a_used_up_quota_is_resumed_with_a_choice(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """The list leads to the page; there "now" asks the agent again at once."""
    run_scripted(store, AGENT, {"build": {"error": "quota", "message": "used up", "retry_after": 7200}})
    led = post(browser(), "resume", **{"from": "list"})
    assert (led.status_code, led.headers["location"], started) == (303, PAGE, [])
    assert post(browser(), "resume", now="yes").status_code == 303
    assert started[0].process.wait(LONGEST) == 3
    with closing(SqliteJournal(store)) as journal:
        kinds = [entry.record.kind for entry in journal.entries("r1")]
    assert kinds[-3:] == ["run_resumed", "stage_errored", "run_paused"]


def test_a_process_waits_for_the_quota(browser: Browser, store: Path, started: list[StartedProcess]) -> None:
    """With "wait" a process drives the run until the quota resets, and cancelling ends it."""
    run_scripted(store, AGENT, {"build": {"error": "quota", "message": "used up", "retry_after": 7200}})
    assert post(browser(), "resume", wait="yes").status_code == 303
    page = browser().get(PAGE).text
    assert f'action="{PAGE}/resume"' not in page
    assert post(browser(), "cancel").status_code == 303
    assert started[0].process.wait(LONGEST) == 130
    assert state_of(store).status is RunStatus.CANCELLED


def test_a_quota_that_has_reset_needs_no_choice(browser: Browser, store: Path) -> None:
    """After the time there is one button, and the countdown says so."""
    with closing(SqliteJournal(store)) as journal:
        journal.create("r1", RunCreated(at=1, run_id="r1", file="x.awf.kdl", source=AGENT, cwd="/", version="1"))
        past = time.time() - 5
        journal.append(
            "r1", RunPaused(at=2, limit="error", stage="build", count=1, allowed=0, reason="used up", until=past)
        )
    page = browser().get(PAGE).text
    assert ">now</time>" in page
    assert "<code>awf resume r1</code>" in page
    assert 'name="wait"' not in page


@pytest.mark.parametrize("fields", [{}, {"from": "list"}])
def test_a_failed_run_is_resumed(
    browser: Browser, store: Path, started: list[StartedProcess], fields: dict[str, str]
) -> None:
    """From its page and from the list; it cannot be cancelled, because it has ended."""
    run_workflow(store, TOOL.replace("COMMAND", "test -e ready"))
    assert state_of(store).status is RunStatus.FAIL
    page, listed = browser().get(PAGE).text, browser().get(LIST).text
    assert f'action="{PAGE}/resume"' in page
    assert f'action="{PAGE}/cancel"' not in page
    assert f'action="{PAGE}/resume"' in listed
    (store.parent / "ready").touch()
    assert post(browser(), "resume", **fields).status_code == 303
    assert started[0].process.wait(LONGEST) == 0
    assert state_of(store).status is RunStatus.SUCCESS
    assert f'action="{PAGE}/resume"' not in browser().get(LIST).text


def test_a_run_that_an_error_failed_says_so(browser: Browser, store: Path) -> None:
    """With on_error "fail" the run has failed, and its stage still shows the error."""
    run_scripted(store, AGENT, {"build": REFUSED}, on_error="fail")
    page = browser().get(PAGE).text
    assert state_of(store).status is RunStatus.FAIL
    assert "! error" in stage_of(page, "build")
    assert "<code>awf resume r1</code>" in page
    assert browser().get(f"{LIST}?format=json").json()["runs"][0]["visit"] == 1


def test_a_read_only_list_resumes_nothing(browser: Browser, store: Path) -> None:
    """The list has no buttons; the page still has the command."""
    run_scripted(store, AGENT, {"build": REFUSED})
    client = browser(read_only=True)
    assert "/resume" not in client.get(LIST).text
    assert "<code>awf resume r1</code>" in client.get(PAGE).text
    assert client.post(f"{PAGE}/resume", headers={"Origin": BASE}).status_code == 403


def test_notes_are_listed_newest_last(browser: Browser, store: Path) -> None:
    """What was restored in view files is listed, at most twenty notes, as text."""
    notes = [{"stage": "build", "visit": 1, "at": "", "note": f"<i>note {n}</i>"} for n in range(25)]
    run_scripted(store, AGENT, {"build": {"status": "success", "context_updates": {"review.notes": notes}}})
    page = browser().get(PAGE).text
    shown = re.findall(r"&lt;i&gt;note (\d+)&lt;", page[page.index('id="notes"') :])
    assert [int(number) for number in shown] == list(range(5, 25))

"""Runs in a real browser: found, answered, followed to their end and replayed."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import COMMAND
from tests.web.conftest import Open, command_environment
from tests.web.needed import sync_api

expect = sync_api().expect

WORKFLOW = r"""
workflow "Release" {
  version 2
  start "build"
  stage "build" kind="tool" command="echo built > built.txt"
  stage "approve" kind="human" prompt="Ship <b>this</b>?" require_feedback_on="no" {
    option "yes" label="Ship it" to="ship" approves=true
    option "no" label="Not yet" to="build"
  }
  stage "ship" kind="tool" command="for i in $(seq 600); do [ -e go ] && exit 0; sleep 0.1; done; exit 1"
  stage "exit" kind="exit"
  transition from="build" to="approve"
  transition from="ship" to="exit"
}
"""
KEEP = "window.kept = (window.kept || 0) + 1"  # gone with the page: what still has it was not loaded again


@pytest.fixture(autouse=True)
def workflow(tmp_path: Path) -> None:
    """The workflow that all of these runs are of."""
    (tmp_path / "release.awf.kdl").write_text(WORKFLOW)


def started(tmp_path: Path, *options: str) -> subprocess.Popen[bytes]:
    """A run in a process of its own, without a terminal."""
    command = [COMMAND, "run", "release.awf.kdl", "--goal", "Release 1.0", "--run-id", "r1", *options]
    return subprocess.Popen(
        command,
        cwd=tmp_path,
        env=command_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stays at its question; what a failed test leaves is ended."""
    with started(tmp_path, "--wait") as process:
        yield process
        process.kill()


def test_a_waiting_run_is_answered_and_followed_to_its_end(visit: Open, tmp_path: Path) -> None:
    """From the list to the question to the end: each page updates by itself, and the list in another window too."""
    listing = visit("/runs")
    expect(listing.find("#rows")).to_contain_text("awf run")
    listing.page.evaluate(KEEP)
    assert started(tmp_path).wait(60) == 3  # it stops at the question, with nobody to answer
    expect(listing.find("#rows .state")).to_have_text("?waiting")
    assert listing.page.evaluate("window.kept") == 1

    visitor = visit("/runs")
    visitor.page.get_by_role("link", name="Release 1.0").click()
    expect(visitor.find("#gate")).to_contain_text("Ship <b>this</b>?")
    visitor.page.wait_for_load_state()  # the page's script keeps an incomplete answer here
    visitor.page.get_by_role("button", name="Not yet").click()  # needs words, and stays here without them
    expect(visitor.find("#gate")).to_contain_text("Ship <b>this</b>?")
    visitor.find("textarea").fill("Looks <i>good</i>")
    visitor.page.get_by_role("button", name="Ship it").click()
    visitor.page.wait_for_load_state()
    visitor.page.evaluate(KEEP)
    expect(visitor.find(".status-line")).to_contain_text("ship #1")
    expect(visitor.find(".status-line .state")).to_have_text("●running")
    (tmp_path / "go").touch()
    expect(visitor.find(".status-line .state")).to_have_text("✓success")
    expect(visitor.find("#gate")).to_have_count(0)
    expect(visitor.find(".visits")).to_contain_text("approve #1")
    assert visitor.page.evaluate("window.kept") == 1

    expect(listing.find("#rows .state")).to_have_text("✓success")
    assert listing.page.evaluate("window.kept") == 1


def test_a_waiting_process_continues(visit: Open, tmp_path: Path, waiting: subprocess.Popen[bytes]) -> None:
    """The process that waits continues with the answer; a second person sees that it was answered already."""
    (tmp_path / "go").touch()
    one, other = visit("/runs"), visit("/runs")
    for visitor in (one, other):
        visitor.page.get_by_role("link", name="Release 1.0").click()
        expect(visitor.find("#gate")).to_contain_text("A process waits for the answer")
    other.page.wait_for_load_state()  # the page connects once more when it is loaded
    other.page.evaluate("dispatchEvent(new Event('pagehide'))")  # hears nothing more, and answers what it still sees
    other.find("#gate-by").fill("Other")
    one.find("#gate-by").fill("One")
    one.page.get_by_role("button", name="Ship it").click()
    expect(one.find(".status-line .state")).to_have_text("✓success")
    assert waiting.wait(30) == 0
    other.page.get_by_role("button", name="Ship it").click()
    expect(other.find("h1")).to_have_text("Already answered")
    expect(other.find("main")).to_contain_text("One answered approve #1 with yes")


def test_replay(visit: Open, tmp_path: Path) -> None:
    """The slider shows the run after any step, and the address keeps the step."""
    (tmp_path / "go").touch()
    assert started(tmp_path).wait(60) == 3
    visitor = visit("/runs/r1")
    slider, view = visitor.find("#replay-at"), visitor.find("#view")
    head = int(slider.get_attribute("max") or 0)
    assert head >= 2
    expect(view).to_contain_text("build #1")
    slider.focus()
    visitor.page.keyboard.press("Home")
    expect(view).to_contain_text(f"After step 1 of {head}")
    assert "at=1" in visitor.page.url
    visitor.page.keyboard.press("ArrowRight")
    expect(view).to_contain_text(f"After step 2 of {head}")
    visitor.page.reload()
    expect(view).to_contain_text(f"After step 2 of {head}")
    view.get_by_role("link", name="Back to now").click()
    expect(view).not_to_contain_text("After step")
    visitor.page.get_by_role("button", name="Replay").click()
    expect(view).to_contain_text("After step 1")
    expect(view).not_to_contain_text("After step", timeout=1000 * head + 10_000)


def test_a_run_is_started_and_cancelled(visit: Open, tmp_path: Path) -> None:
    """A workflow of the catalog is started with a goal, followed, and cancelled."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "release.awf.kdl").rename(tmp_path / "workflows/release.awf.kdl")
    visitor = visit("/start")
    visitor.find("input[value=release]").check()
    visitor.find("[name=goal]").fill("Release 2.0")
    visitor.page.get_by_role("button", name="Start").click()
    expect(visitor.find("h1")).to_have_text("Release 2.0")
    expect(visitor.find("#gate")).to_contain_text("Ship <b>this</b>?")
    visitor.find("#cancel summary").click()
    visitor.find("#cancel-reason").fill("not today")
    visitor.page.get_by_role("button", name="Cancel run").click()
    expect(visitor.find(".status-line .state")).to_have_text("–cancelled")

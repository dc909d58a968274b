"""What every page has in common, in a real browser."""

import re
from pathlib import Path

import pytest
from tests.unit.web.findings import item, project, review
from tests.web.conftest import Awf, Open
from tests.web.needed import sync_api

expect = sync_api().expect

WORKFLOW = """
workflow "Ship" {
  version 2
  start "build"
  stage "build" kind="tool" command="true"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PAGES = (
    "/runs",
    "/runs?q=zzz",
    "/runs/r1",
    "/runs/r1?at=1",
    "/runs/r1/visit?stage=build&visit=1",
    "/runs/r2",
    "/start",
    "/findings",
    "/findings?state=all",
    "/findings?q=zzz",
    "/findings/1",
    "/findings/99",
)


@pytest.fixture(autouse=True)
def filled(tmp_path: Path, awf: Awf) -> None:
    """A store with a run and findings whose texts all contain scripts."""
    (tmp_path / "ship.awf.kdl").write_text(WORKFLOW)
    awf("run", "ship.awf.kdl", "--goal", f"Ship {EVIL}", "--run-id", "r1")
    project(tmp_path)
    name = "<img src=x onerror=alert(3)>.py"
    (tmp_path / name).write_text(f"{EVIL}\n")
    evil = item(1, title=EVIL, file=name, line=1, evidence=[f"{name}:1 -- {EVIL}"], why_it_matters=EVIL)
    review(tmp_path, evil, *map(item, range(2, 8)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_every_page_fits(visit: Open, width: int, scheme: str) -> None:
    """No page is wider than the window, violates its content policy, runs what it shows, or logs an error."""
    visitor = visit(width=width, color_scheme=scheme)
    for path in PAGES:
        visitor.go(path)
        expect(visitor.find("h1, h2").first).to_be_visible()
        assert visitor.overflow() <= 0, path
    assert visitor.problems == []


def test_light_and_dark(visit: Open) -> None:
    """Pages follow the system's theme until a person chooses; the choice is kept."""
    visitor = visit("/findings", color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert visitor.page.evaluate(paper) == "rgb(15, 20, 25)"
    visitor.page.get_by_role("button", name="Light").click()
    assert visitor.page.evaluate(paper) == "rgb(255, 255, 255)"
    visitor.go("/runs")
    assert visitor.page.evaluate(paper) == "rgb(255, 255, 255)"
    visitor.page.get_by_role("button", name="Dark").click()
    assert visitor.page.evaluate(paper) == "rgb(15, 20, 25)"
    visitor.go("/findings/1")
    assert visitor.page.evaluate(paper) == "rgb(15, 20, 25)"


def test_main_actions_need_no_mouse(visit: Open) -> None:
    """The content, the search, a finding and a decision can be reached with the keyboard alone."""
    visitor = visit("/findings")
    keys = visitor.page.keyboard
    keys.press("Tab")
    assert visitor.focused() == "Skip to content"
    keys.press("/")
    assert visitor.page.evaluate("document.activeElement.name") == "q"
    keys.type("Line 3")
    keys.press("Enter")
    expect(visitor.find(".findings tbody tr")).to_have_count(1)
    visitor.tab_to("pick-page")
    keys.press("Space")
    expect(visitor.find("#count")).to_have_text("1 selected")
    visitor.tab_to("note")
    keys.type("not now")
    keys.press("Enter")
    expect(visitor.find("dialog h1")).to_have_text("Decide about 1 finding?")
    assert visitor.focused() == "decide"
    keys.press("Escape")
    expect(visitor.find("dialog")).to_be_hidden()
    expect(visitor.find("#count")).to_have_text("1 selected")
    number = visitor.find(".findings .what a").get_attribute("id")
    visitor.page.evaluate("document.body.focus(); scrollTo(0, 0); document.activeElement.blur()")
    visitor.tab_to(str(number))
    keys.press("Enter")
    expect(visitor.find("h1")).to_contain_text("Line 3 is wrong")
    visitor.tab_to("decide")


def test_a_lost_server_is_shown(visit: Open) -> None:
    """A page whose server is gone says so, and keeps its content."""
    visitor = visit("/findings")
    visitor.page.context.set_offline(True)
    visitor.page.evaluate("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('pageshow'))")
    expect(visitor.find("#live")).to_have_text(re.compile("reconnecting|not up to date|signed out"))
    expect(visitor.find(".findings tbody tr")).to_have_count(7)
    visitor.problems.clear()  # the console names the connection that was cut

"""Findings in a real browser: selected, previewed, decided about, and updated as they change."""

import json
from pathlib import Path

import pytest
from tests.unit.web.findings import item, project, review
from tests.web.conftest import Awf, Open
from tests.web.needed import sync_api

expect = sync_api().expect


@pytest.fixture(autouse=True)
def filled(tmp_path: Path) -> None:
    """Nine findings, three of each of three severities."""
    project(tmp_path)
    review(tmp_path, *map(item, range(1, 10)))


def test_bulk_triage(visit: Open, awf: Awf) -> None:
    """Selected findings are previewed and decided about, and the table updates by itself."""
    visitor = visit("/findings?severity=low")
    rows, dialog = visitor.find(".findings tbody tr"), visitor.find("dialog")
    expect(visitor.find("#decide-bar")).to_be_hidden()
    rows.first.get_by_role("checkbox").check()
    rows.last.get_by_role("checkbox").click(modifiers=["Shift"])
    expect(visitor.find("#count")).to_have_text("3 selected")
    visitor.find("#look").click()
    expect(dialog.locator(".refusal")).to_contain_text("3 refused")
    dialog.get_by_text("Back").click()
    rows.nth(1).get_by_role("checkbox").uncheck()
    visitor.find("#note").fill("not worth it")
    visitor.find("#look").click()
    expect(dialog.get_by_role("heading")).to_have_text("Decide about 2 findings?")
    assert "2 findings" not in awf("findings", "list", "--state", "dismissed").stdout
    dialog.get_by_role("button", name="Decide").click()
    expect(dialog.get_by_role("heading")).to_have_text("Decided about 2 findings")
    expect(rows).to_have_count(1)
    dialog.get_by_text("Back").click()
    expect(visitor.find("#decide-bar")).to_be_hidden()
    found = json.loads(awf("findings", "list", "--state", "dismissed", "--json").stdout)
    assert [(one["severity"], one["state"]) for one in found] == [("low", "wont_fix")] * 2


def test_all_pages_at_once(visit: Open, tmp_path: Path) -> None:
    """All findings that match can be decided about, not only those on the page."""
    (tmp_path / "b.py").write_text("".join(f"b{number} = {number}\n" for number in range(150)))
    found = [
        item(1, title=f"B {n} is wrong", file="b.py", line=n, evidence=[f"b.py:{n} -- b{n - 1} = {n - 1}"])
        for n in range(1, 121)
    ]
    review(tmp_path, *found)
    visitor = visit("/findings?file=b.py")
    expect(visitor.find(".tally")).to_contain_text("120")
    visitor.find("#pick-page").check()
    visitor.find("#scope").check()
    expect(visitor.find("#count")).to_have_text("all 120 selected")
    visitor.find("#as").select_option("fixed")
    visitor.find("#look").click()
    expect(visitor.find("dialog h1")).to_have_text("Decide about 120 findings?")
    visitor.find("#decide").click()
    expect(visitor.find("dialog h1")).to_have_text("Decided about 120 findings")
    expect(visitor.find(".findings tbody tr")).to_have_count(0)
    visitor.go("/findings")
    expect(visitor.find(".tally")).to_contain_text("9 of 129")


def test_new_findings_appear(visit: Open, tmp_path: Path) -> None:
    """New findings appear by themselves, and the selection and the typed text stay."""
    visitor = visit("/findings")
    rows = visitor.find(".findings tbody tr")
    expect(rows).to_have_count(9)
    box = rows.nth(4).get_by_role("checkbox")
    box.check()
    name = box.get_attribute("id")
    visitor.find("#note").fill("half a thou")
    review(tmp_path, item(20, title="Found meanwhile"), reviewer="other")
    expect(rows).to_have_count(10)
    expect(visitor.find(f"#{name}")).to_be_checked()
    expect(visitor.find("#count")).to_have_text("1 selected")
    expect(visitor.find("#note")).to_have_value("half a thou")
    expect(visitor.find("#note")).to_be_focused()


def test_two_people_decide(visit: Open) -> None:
    """What another person changed since the preview is not decided."""
    one, other = visit("/findings?severity=low"), visit("/findings/9")
    one.find("#pick-page").check()
    one.find("#note").fill("mine")
    one.find("#look").click()
    expect(one.find("dialog h1")).to_have_text("Decide about 3 findings?")
    other.find("#note").fill("theirs")
    other.find("#decide").click()
    expect(other.find(".details")).to_contain_text("theirs")
    one.find("#decide").click()
    expect(one.find("dialog h1")).to_have_text("This was not done")
    one.find("dialog").get_by_role("button", name="Close").click()
    expect(one.find(".findings tbody tr")).to_have_count(2)


def test_a_page_of_a_finding_follows_it(visit: Open, awf: Awf) -> None:
    """The lines of the evidence are marked, and the decision of another process appears without a reload."""
    visitor = visit("/findings/1")
    expect(visitor.find(".code .hit")).to_have_count(1)
    visitor.find("#note").fill("I am still writing")
    awf("findings", "triage", "1", "--as", "false-positive", "--note", "seen elsewhere")
    expect(visitor.find(".signs")).to_contain_text("false positive")
    expect(visitor.find(".log").last).to_contain_text("seen elsewhere")
    expect(visitor.find("#note")).to_have_value("I am still writing")


def test_export(visit: Open) -> None:
    """The findings that match are downloaded as a file; Escape closes the menu."""
    visitor = visit("/findings?severity=high")
    visitor.find("#export summary").click()
    with visitor.page.expect_download() as started:
        visitor.page.get_by_role("link", name="JSON", exact=True).click()
    assert started.value.suggested_filename == "findings.json"
    found = json.loads(Path(started.value.path()).read_bytes())
    assert [one["severity"] for one in found] == ["high"] * 3
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("link", name="JSON", exact=True)).to_be_hidden()


def test_read_only_has_no_forms(visit: Open) -> None:
    """With --read-only there is nothing to select."""
    visitor = visit("/findings", "--read-only")
    expect(visitor.find(".findings tbody tr")).to_have_count(9)
    expect(visitor.find("input[type=checkbox]")).to_have_count(0)
    visitor.go("/findings/1")
    expect(visitor.find("textarea")).to_have_count(0)


def test_everything_works_without_scripts(visit: Open) -> None:
    """Without JavaScript the forms lead to pages: select, preview, decide, and back to the table."""
    page = visit("/stores-are-elsewhere", java_script_enabled=False).page
    page.goto(page.url.replace("/stores-are-elsewhere", "/findings?severity=low"))
    page.locator("input[name=id]").first.check()
    page.locator("#note").fill("not worth it")
    page.locator("#look").click()
    expect(page.get_by_role("heading")).to_have_text("Decide about 1 finding?")
    page.locator("#decide").click()
    expect(page.get_by_role("heading")).to_have_text("Decided about 1 finding")
    page.get_by_text("Back").click()
    expect(page.locator(".findings tbody tr")).to_have_count(2)

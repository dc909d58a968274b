"""The page of runs."""

from pathlib import Path

import pytest
from tests.unit.web.conftest import Browser, RunWriter

from pipeline.engine.outcome import Status
from pipeline.engine.records import RunPaused
from pipeline.web import runs as page

RUNS = "/s/shop/runs"


@pytest.fixture
def filled(writer: RunWriter) -> RunWriter:
    """Three runs: finished, interrupted and paused."""
    writer.begin("done", goal="Add a flag")
    writer.visit("done", ends=Status.SUCCESS)
    writer.begin("torn", goal="Mend the FLAG", name="Quick")
    writer.begin("held", goal="Something else")
    writer.journal.append("held", RunPaused(at=3, limit="max_visits", stage="build", count=1, allowed=1, reason="full"))
    return writer


def ids(browser: Browser, query: str) -> list[str]:
    found = browser().get(RUNS, params=query, headers={"Accept": "application/json"}).json()
    return [one["run_id"] for one in found["runs"]]


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["held", "torn", "done"]),
        ("status=success", ["done"]),
        ("status=interrupted", ["torn"]),
        ("status=running", []),
        ("status=nonsense", []),
        ("q=flag", ["torn", "done"]),
        ("q=flag quick", ["torn"]),
        ("q=HELD", ["held"]),
        ("q=flag&status=success", ["done"]),
        ("page=2", []),
        ("page=-1&q=held", ["held"]),
        ("page=99999999999999999999&q=held", ["held"]),
        ("page=²&q=held", ["held"]),
    ],
)
def test_filters(browser: Browser, query: str, expected: list[str]) -> None:
    """Runs are found by status and by words of their goal, workflow, stage and id; all words must occur."""
    assert ids(browser, query) == expected


@pytest.mark.usefixtures("filled")
def test_the_row_of_a_run(browser: Browser) -> None:
    """It has the status as a sign and a word, goal, workflow, stage and cost, and a link to the run."""
    text = browser().get(f"{RUNS}?q=done").text
    assert '<span class="glyph" aria-hidden="true">✓</span>success</span>' in text
    for words in ("Add a flag", "Ship", "build #1", "$0.50", 'href="/s/shop/runs/done"'):
        assert words in text


@pytest.mark.usefixtures("filled")
def test_a_part_is_the_same_as_in_the_page(browser: Browser) -> None:
    """A live part is the same HTML as in the page, without the page around it."""
    client = browser()
    part = client.get(f"{RUNS}?part=rows&q=done").text
    assert part.strip().startswith("<table")
    assert "<html" not in part
    assert f'data-live="{RUNS}?q=done&amp;page=1&amp;part=rows"' in client.get(f"{RUNS}?q=done").text


def test_an_empty_store_has_a_hint(browser: Browser, store: Path) -> None:
    """Before the first run the page names a command, and does not create the store."""
    text = browser().get(RUNS).text
    assert "awf demo" in text
    assert not store.exists()


def test_a_hundred_at_a_time(browser: Browser, writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next page has older runs and keeps the filter; the last page has no next one."""
    monkeypatch.setattr(page, "PAGE_SIZE", 2)
    for number in range(5):
        writer.begin(f"r{number}")
    assert ids(browser, "page=2") == ["r2", "r1"]
    assert f'href="{RUNS}?q=ship&amp;page=3"' in browser().get(f"{RUNS}?q=ship&page=2").text
    last = browser().get(f"{RUNS}?page=3").text
    assert 'rel="next"' not in last
    assert 'rel="prev"' in last


def test_a_damaged_run_hides_no_other(browser: Browser, writer: RunWriter) -> None:
    """A run that cannot be read is listed as such, with the others."""
    writer.begin("r1")
    writer.begin("r2")
    writer.journal._open().execute("UPDATE records SET body = x'00' WHERE run = 1")
    found = browser().get(f"{RUNS}?format=json").json()["runs"]
    assert [(one["run_id"], one["status"]) for one in found] == [("r2", "interrupted"), ("r1", "unreadable")]
    assert "unreadable" in browser().get(RUNS).text


def test_several_stores_have_names(browser: Browser, tmp_path: Path) -> None:
    """Stores are named after their projects, equal names are numbered, and the first page lists them."""
    stores = tuple(tmp_path / one for one in ("a/shop/.awf", "b/shop/.awf", "other", "other"))
    client = browser(stores=stores)
    assert list(client.app.state.site.stores) == ["shop", "shop-2", "other"]  # type: ignore[attr-defined]  # TestClient's app is any ASGI app
    text = client.get("/").text
    assert 'href="/s/shop-2/runs"' in text
    assert client.get("/s/other/runs").status_code == 200


def test_one_store_needs_no_list(browser: Browser) -> None:
    """With one store the first page leads to its runs."""
    assert browser().get("/").headers["location"] == RUNS
    assert browser().get("/s/shop").headers["location"] == RUNS


def test_error_pages(browser: Browser, writer: RunWriter, store: Path) -> None:
    """A missing page, an unknown store and a damaged one have an error page, and an error as JSON."""
    client = browser()
    for path in ("/nothing", "/s/other/runs"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "/static/awf.css" in answer.text
        assert set(client.get(path, headers={"Accept": "application/json"}).json()) == {"error", "help"}
    answer = client.post(RUNS, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 405
    writer.journal.close()
    store.mkdir(parents=True)
    (store / "awf.db").write_text("this is no database, but it is long enough to look like one" * 20)
    assert browser().get(RUNS).status_code == 409

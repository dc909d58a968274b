"""The page of runs."""

from pathlib import Path

import pytest
from tests.unit.web.conftest import Book, Browser

from pipeline.engine.outcome import Status
from pipeline.engine.records import RunPaused, RunResumed
from pipeline.journal.sqlite import SqliteJournal, StoreHeads
from pipeline.web.listing import RunListing
from pipeline.web.pages import runs as page

RUNS = "/s/shop/runs"


@pytest.fixture
def filled(book: Book) -> Book:
    """Three runs: over, interrupted and paused."""
    book.begin("done", goal="Add a flag")
    book.visit("done", ends=Status.SUCCESS)
    book.begin("torn", goal="Mend the FLAG", name="Quick")
    book.begin("held", goal="Something else")
    book.journal.append("held", RunPaused(at=3, limit="max_visits", stage="build", count=1, allowed=1, reason="full"))
    return book


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
    """Runs are found by status and by words of their goal, workflow, stage and id; all words have to be there."""
    assert ids(browser, query) == expected


@pytest.mark.usefixtures("filled")
def test_a_row_says_how_the_run_stands(browser: Browser) -> None:
    """State as a sign and a word, goal, workflow, place and cost stand in the row; the link leads to the run."""
    text = browser().get(f"{RUNS}?q=done").text
    assert '<span class="glyph" aria-hidden="true">✓</span>success</span>' in text
    for words in ("Add a flag", "Ship", "build #1", "$0.50", 'href="/s/shop/runs/done"'):
        assert words in text


@pytest.mark.usefixtures("filled")
def test_a_part_is_the_same_as_in_the_page(browser: Browser) -> None:
    """What a live part is swapped for is what the page had, without the page around it."""
    client = browser()
    part = client.get(f"{RUNS}?part=rows&q=done").text
    assert part.strip().startswith("<table")
    assert "<html" not in part
    assert f'data-live="{RUNS}?q=done&amp;page=1&amp;part=rows"' in client.get(f"{RUNS}?q=done").text


def test_an_empty_store_says_what_to_do(browser: Browser, store: Path) -> None:
    """Before the first run the page is kind, and looking makes no store."""
    text = browser().get(RUNS).text
    assert "No runs yet" in text
    assert "awf demo" in text
    assert not store.exists()
    assert "No run matches" in browser().get(f"{RUNS}?status=fail").text


def test_a_hundred_at_a_time(browser: Browser, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older runs are on the next page, with the filter kept, and the last page has none after it."""
    monkeypatch.setattr(page, "SHOWN", 2)
    for number in range(5):
        book.begin(f"r{number}")
    assert ids(browser, "page=2") == ["r2", "r1"]
    assert f'href="{RUNS}?q=ship&amp;page=3"' in browser().get(f"{RUNS}?q=ship&page=2").text
    last = browser().get(f"{RUNS}?page=3").text
    assert 'rel="next"' not in last
    assert 'rel="prev"' in last


def test_a_run_that_went_on_is_not_read_again(book: Book, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one look to the next only new records are read, and the line is that of a fresh look."""
    book.begin("r1")
    book.visit("r1", 1)
    listing, read = RunListing(store), list[tuple[str, int]]()
    entries = SqliteJournal.entries

    def counted(journal: SqliteJournal, run: str, after: int = 0) -> object:
        read.append((run, after))
        return entries(journal, run, after)

    monkeypatch.setattr(SqliteJournal, "entries", counted)
    assert [line.summary.visits for line in listing.lines()] == [1]
    assert list(listing.lines())
    assert read == [("r1", 0)]
    book.visit("r1", 2)
    book.journal.append("r1", RunResumed(at=9))
    again = list(listing.lines())
    assert read == [("r1", 0), ("r1", 2)]
    assert again == list(RunListing(store).lines())
    assert again[0].summary.visits == 2


def test_gathered_runs_stay_few(book: Book, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose records were let go of is read anew, to the same line."""
    monkeypatch.setattr("pipeline.web.listing._GATHERED", 1)
    for run in ("r1", "r2", "r3"):
        book.begin(run)
    listing = RunListing(store)
    assert len(list(listing.lines())) == 3
    for run in ("r1", "r2", "r3"):
        book.visit(run)
    assert list(listing.lines()) == list(RunListing(store).lines())
    assert len(listing._open) == 1


def test_rounds_are_those_of_the_ledger(book: Book, store: Path) -> None:
    """Each round of a run counts once, however many passes it had, and new ones are added to those known."""
    book.begin("r1")
    book.journal.append_ledger(['{"kind":"assessed","assessment":{"run":"r1"}}', '{"kind":"raised","of":"assessed"}'])
    listing = RunListing(store)
    assert [line.rounds for line in listing.lines()] == [1]
    more = '{"kind":"assessed","assessment":{"run":"r1","round":%d}}'
    book.journal.append_ledger([more % 2, more % 2])
    assert [line.rounds for line in listing.lines()] == [2]


def test_a_damaged_run_hides_no_other(browser: Browser, book: Book) -> None:
    """A run that cannot be read is listed as such, beside the others."""
    book.begin("r1")
    book.begin("r2")
    book.journal._open().execute("UPDATE records SET body = x'00' WHERE run = 1")
    found = browser().get(f"{RUNS}?format=json").json()["runs"]
    assert [(one["run_id"], one["status"]) for one in found] == [("r2", "interrupted"), ("r1", "unreadable")]
    assert "unreadable" in browser().get(RUNS).text


def test_several_stores_have_names(browser: Browser, tmp_path: Path) -> None:
    """Stores are named for their projects, two of the same name are told apart, and the first page lists them."""
    stores = tuple(tmp_path / one for one in ("a/shop/.awf", "b/shop/.awf", "other", "other"))
    client = browser(stores=stores)
    assert list(client.app.state.desk.stores) == ["shop", "shop-2", "other"]  # type: ignore[attr-defined]  # TestClient's app is any ASGI app
    text = client.get("/").text
    assert 'href="/s/shop-2/runs"' in text
    assert client.get("/s/other/runs").status_code == 200


def test_one_store_needs_no_first_page(browser: Browser) -> None:
    """With one store the first page leads to its runs."""
    assert browser().get("/").headers["location"] == RUNS
    assert browser().get("/s/shop").headers["location"] == RUNS


def test_errors_say_what_happened(browser: Browser, book: Book, store: Path) -> None:
    """A page that is not there, a store that is not served and one that is damaged say so, in the same look."""
    client = browser()
    for path, words in (("/nothing", "There is nothing at"), ("/s/other/runs", "There is no store")):
        answer = client.get(path)
        assert answer.status_code == 404
        assert words in answer.text
        assert "/static/awf.css" in answer.text
        assert words in client.get(path, headers={"Accept": "application/json"}).json()["error"]
    answer = client.post(RUNS, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 405
    assert "This cannot be done at" in answer.text
    book.journal.close()
    store.mkdir(parents=True)
    (store / "awf.db").write_text("this is no database, but it is long enough to look like one" * 20)
    answer = browser().get(RUNS)
    assert answer.status_code == 409
    assert "is not a database" in answer.text


def test_a_record_that_comes_while_a_run_is_read_counts_once(
    store: Path, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is written between the look at the heads and the reading is not read again at the next look."""
    listing = RunListing(store)
    book.begin("r1")
    book.visit("r1")
    with monkeypatch.context() as patch:
        patch.setattr(StoreHeads, "read", lambda _: {"r1": 1})
        (line,) = listing.lines()
        assert (line.summary.visits, line.summary.cost_usd) == (1, 0.5)
    book.visit("r1", 2)
    (line,) = listing.lines()
    assert (line.summary.visits, line.summary.cost_usd) == (2, 1.0)

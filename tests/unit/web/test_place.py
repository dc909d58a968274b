"""Pages of runs that are elsewhere: what nobody knows is not claimed, and what is away is said."""

import json
from pathlib import Path

from starlette.testclient import TestClient
from tests.unit.web.conftest import BASE, PAGE, TOKEN, Book

from pipeline.web.live import Watch
from pipeline.web.place import Here
from pipeline.web.site import create


class Elsewhere(Here):
    """A store whose runs are at a place that may not answer."""

    apart = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.title = "far away"
        self.told = ""

    def driven(self, run_id: str) -> bool | None:
        return None if self.told else super().driven(run_id)

    def away(self) -> str:
        return self.told

    def troubles(self) -> list[str]:
        return ["record 2 of run r0 is <damaged>"]


def pages(place: Here) -> TestClient:
    """A browser with the token."""
    client = TestClient(create([place], token=TOKEN), base_url=BASE, follow_redirects=False)
    client.cookies.set("awf-8765", TOKEN)
    return client


def test_a_run_of_which_nobody_knows_is_not_shown_as_running(store: Path, book: Book) -> None:
    """While the place is away a run is neither running nor interrupted, and nobody is asked to resume it."""
    place = Elsewhere(store)
    book.begin("r1")
    browser = pages(place)
    assert "interrupted" in browser.get(PAGE).text
    place.told = "the <server> does not answer"
    page = browser.get(PAGE).text
    assert "the &lt;server&gt; does not answer" in page
    assert "deed-resume" not in page
    assert "interrupted" not in page
    for address in (PAGE, "/s/shop/runs"):
        assert '"status":"unknown"' in browser.get(f"{address}?format=json").text
    assert json.loads(browser.get("/s/shop/runs?status=unknown&format=json").text)["runs"][0]["run_id"] == "r1"


def test_what_is_away_is_a_part_of_every_page(store: Path, book: Book) -> None:
    """It is fetched again by itself, with what is wrong with single runs; the header says where the place is."""
    place = Elsewhere(store)
    book.begin("r1")
    place.told = "gone"
    browser = pages(place)
    for address in ("/s/shop/runs", PAGE, "/s/shop/findings", "/s/shop/start"):
        page = browser.get(address).text
        assert 'data-live="/s/shop/away"' in page
        assert 'title="far away"' in page
        assert "run r0 is &lt;damaged&gt;" in page
    place.told = ""
    assert "Not up to date" not in browser.get("/s/shop/away").text


def test_open_pages_are_told_when_a_place_goes_and_comes(store: Path, book: Book) -> None:
    """Once when it goes, and when it is back everything is loaded again."""
    book.begin("r1")
    told = ""
    watch = Watch(store, lambda _: None, lambda: told)
    assert watch.look() == []
    told = "gone"
    assert [one["what"] for one in (*watch.look(), *watch.look())] == ["trouble"]
    told = ""
    assert [one["what"] for one in (*watch.look(), *watch.look())] == ["reload"]
    watch.close()


def test_findings_with_ledgers_apart_are_only_shown(store: Path) -> None:
    """Nothing is offered to decide about them, and a decision is refused."""
    browser = pages(Elsewhere(store))
    assert "awf findings import" not in browser.get("/s/shop/findings").text
    for what in ("preview", "triage"):
        done = browser.post(f"/s/shop/findings/{what}", data={"id": "1", "as": "fixed"}, headers={"Origin": BASE})
        assert (done.status_code, "only shown here" in done.text) == (409, True)


def test_open_pages_are_told_when_it_is_known_who_is_at_a_run(store: Path, book: Book) -> None:
    """A run that has just begun may be known before it is known that somebody has it."""
    driven: bool | None = None
    watch = Watch(store, lambda _: driven)
    watch.look()
    book.begin("r1")
    assert [one["what"] for one in (*watch.look(), *watch.look())] == ["run_created"]
    driven = True
    assert [one["what"] for one in (*watch.look(), *watch.look())] == ["known"]
    driven = False
    assert [one["what"] for one in (*watch.look(), *watch.look())] == ["left"]
    watch.close()

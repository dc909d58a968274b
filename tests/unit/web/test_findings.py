"""The page of findings, and findings as a download."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.web.conftest import Browser
from tests.unit.web.findings import item, project, review

from pipeline.app.findings.ledger import LedgerSnapshot, apply_view_edits
from pipeline.findings.events import StateChanged
from pipeline.findings.ledger import Ledger, LedgerStore, apply_line
from pipeline.findings.model import FindingState
from pipeline.journal.sqlite import SqliteJournal
from pipeline.web import shelf as kept
from pipeline.web.pages import findings as page
from pipeline.web.shelf import FindingsCache

FINDINGS = "/s/shop/findings"


@pytest.fixture
def root(store: Path) -> Path:
    """A project with six findings in two files, by two reviewers."""
    root = store.parent
    project(root)
    (root / "lib").mkdir()
    (root / "lib/b.py").write_text("import os\nprint(os.environ)\n")
    review(root, *map(item, range(1, 6)))
    other = item(2, title="Secrets are printed", severity="P0", file="lib/b.py", evidence=["lib/b.py:2 -- print("])
    review(root, other, reviewer="security")
    return root


def listed(browser: Browser, query: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = browser().get(f"{FINDINGS}?{query}", headers={"Accept": "application/json"}).json()
    return answer


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [6, 1, 2, 3, 4, 5]),
        ("severity=critical", [6]),
        ("severity=low", [4, 5]),
        ("gate=must", [6, 1]),
        ("gate=suggest&severity=medium", [2, 3]),
        ("file=lib/", [6]),
        ("file=*.py&severity=low", [4, 5]),
        ("reviewer=security", [6]),
        ("reviewer=nobody", []),
        ("stage=scan", []),
        ("q=SECRETS+b.py", [6]),
        ("q=secrets+a.py", []),
        ("state=dismissed", []),
        ("state=open&q=%236", [6]),
        ("state=all&page=2", []),
    ],
)
def test_filters(browser: Browser, query: str, expected: list[int]) -> None:
    """Findings are found by every filter, all of which hold at once; what matters most comes first."""
    found = listed(browser, query)
    assert sorted(one["number"] for one in found["findings"]) == sorted(expected)
    ranks = [("critical", "high", "medium", "low").index(one["severity"]) for one in found["findings"]]
    assert ranks == sorted(ranks)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("query", ["state=nonsense", "severity=P1", "gate=maybe"])
def test_a_filter_that_is_none_is_named(browser: Browser, query: str) -> None:
    """A mistyped filter is an error that says what there is, not a list without rows."""
    answer = browser().get(f"{FINDINGS}?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[2] in answer.text
    assert "it is one of" in answer.text


@pytest.mark.usefixtures("root")
def test_a_row_says_how_the_finding_stands(browser: Browser) -> None:
    """Severity and state as a sign and a word, the title, the place and who said it stand in the row."""
    text = browser().get(f"{FINDINGS}?q=secrets").text
    for words in ("▲</span>critical", "○</span>open", "must", "Secrets are printed", "lib/b.py:2", "security"):
        assert words in text
    assert f'href="{FINDINGS}/6"' in text
    assert "<strong>1</strong>\n  of 6" in text
    assert "FAIL (1 blocker" in text


@pytest.mark.usefixtures("root")
def test_a_hundred_at_a_time(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other pages keep the filter, and one that is not there says where the findings end."""
    monkeypatch.setattr(page, "SHOWN", 2)
    first, second = listed(browser), listed(browser, "page=2")
    assert (first["total"], first["pages"]) == (6, 3)
    assert not {one["id"] for one in first["findings"]} & {one["id"] for one in second["findings"]}
    text = browser().get(f"{FINDINGS}?file=a&page=2").text
    assert f'href="{FINDINGS}?page=3&amp;file=a"' in text
    assert f'data-live="{FINDINGS}?file=a&amp;page=2&amp;part=rows"' in text
    assert "There is no page 9" in browser().get(f"{FINDINGS}?page=9").text


def test_empty_pages_say_what_to_do(browser: Browser, store: Path) -> None:
    """Before the first finding, when nothing is outstanding, and when nothing matches, the page says so."""
    assert "No findings yet" in browser().get(FINDINGS).text
    assert not store.exists()
    project(store.parent)
    review(store.parent, item(1))
    assert "No finding matches" in browser().get(f"{FINDINGS}?q=zzz").text
    form = {"id": "1", "as": "fixed"}
    assert browser().post(f"{FINDINGS}/triage", data=form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    assert "Nothing is outstanding" in browser().get(FINDINGS).text


def test_only_new_lines_are_read(store: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one look to the next nothing is folded again, and the view is that of a fresh look."""
    shelf, numbers = FindingsCache(store), list[int]()

    def counted(ledger: Ledger, number: int, line: str) -> None:
        numbers.append(number)
        apply_line(ledger, number, line)

    monkeypatch.setattr(kept, "apply_line", counted)
    first = shelf.look()
    assert shelf.look() is first
    before = len(numbers)
    assert numbers == list(range(1, before + 1))
    review(root, item(9))
    again = shelf.look()
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > before
    assert again.findings == FindingsCache(store).look().findings
    assert len(first.findings) == 6
    assert len(again.findings) == 7


def test_files_that_nobody_changed_are_not_read_again(store: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new line of the ledger alone makes no file to be looked at again; a file that was written does."""
    shelf, looks = FindingsCache(store), list[Path]()

    def counted(ledger: Ledger, root: Path, at: str) -> LedgerSnapshot:
        looks.append(root)
        return apply_view_edits(ledger, root, at)

    monkeypatch.setattr(kept, "apply_view_edits", counted)
    first = shelf.look().findings[0]
    with closing(SqliteJournal(store)) as journal:
        turned = StateChanged(at="2026-03-02T10:00:00Z", id=first.id, state=FindingState.FIX_CLAIMED, by="user")
        LedgerStore(journal).append([turned])
    assert shelf.look().findings[0].state is FindingState.FIX_CLAIMED
    assert len(looks) == 1
    (root / ".code-review/review-latest.json").touch()
    shelf.look()
    assert len(looks) == 2


def test_another_ledger_in_its_place_is_read_anew(store: Path, root: Path) -> None:
    """When the store was made anew, what the old one held is gone."""
    shelf = FindingsCache(store)
    assert len(shelf.look().findings) == 6
    for file in store.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    review(root, item(7), item(8))
    assert [finding.title for finding in shelf.look().findings] == ["Line 7 is wrong", "Line 8 is wrong"]


def test_what_somebody_changed_in_the_files_is_seen(browser: Browser, root: Path) -> None:
    """An edit of the verdict file counts as for the commands, although nothing was written by looking."""
    client = browser()
    assert client.get(f"{FINDINGS}?format=json").json()["total"] == 6
    file = root / ".code-review/review-latest.json"
    told = json.loads(file.read_bytes())
    edited = next(one for one in told["findings"] if one["severity"] == "Medium")
    edited |= {"status": "wont_fix", "note": "by design"}
    file.write_text(json.dumps(told))
    assert client.get(f"{FINDINGS}?format=json").json()["total"] == 5


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("form", "name", "words"),
    [
        ("sarif", "findings.sarif", '"version": "2.1.0"'),
        ("rdjson", "findings.rdjson.json", '"diagnostics"'),
        ("markdown", "findings.md", "# Findings"),
        ("json", "findings.json", '"signature"'),
        ("review", "review.json", '"residual_risks"'),
    ],
)
def test_what_the_filters_take_is_downloaded(browser: Browser, form: str, name: str, words: str) -> None:
    """Each format is a file of its own name with exactly the findings of the page; reading needs no right to change."""
    answer = browser(read_only=True).get(f"{FINDINGS}/export/{form}?q=secrets")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert words in answer.text
    assert "Secrets are printed" in answer.text
    assert "Line 1" not in answer.text
    assert f"{FINDINGS}/export/{form}?q=secrets" in browser().get(f"{FINDINGS}?q=secrets").text


@pytest.mark.usefixtures("root")
def test_an_unknown_format_is_named(browser: Browser) -> None:
    """What cannot be exported is refused with what can."""
    answer = browser().get(f"{FINDINGS}/export/xml")
    assert answer.status_code == 404
    assert "there is sarif, rdjson, markdown, json, review" in answer.text

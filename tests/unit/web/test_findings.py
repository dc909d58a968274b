"""The page of findings, and findings as a download."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.web.conftest import Browser
from tests.unit.web.findings import item, project, review

from pipeline.web import findings as page

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
        ("", [1, 2, 3, 4, 5, 6]),
        ("severity=critical", [6]),
        ("severity=low", [2, 5]),
        ("gate=must", [3, 6]),
        ("gate=suggest&severity=medium", [1, 4]),
        ("file=lib/", [6]),
        ("file=*.py&severity=low", [2, 5]),
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
    """All filters apply together, and the most important findings come first."""
    found = listed(browser, query)
    assert sorted(one["number"] for one in found["findings"]) == expected
    ranks = [("critical", "high", "medium", "low").index(one["severity"]) for one in found["findings"]]
    assert ranks == sorted(ranks)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("query", ["state=nonsense", "severity=P1", "gate=maybe"])
def test_an_unknown_filter_is_an_error(browser: Browser, query: str) -> None:
    """A mistyped filter is a 400, not a list without rows."""
    answer = browser().get(f"{FINDINGS}?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[2] in answer.text


@pytest.mark.usefixtures("root")
def test_the_row_of_a_finding(browser: Browser) -> None:
    """It has severity and state as a sign and a word, the title, the location and the reviewer."""
    text = browser().get(f"{FINDINGS}?q=secrets").text
    for words in ("▲</span>critical", "○</span>open", "must", "Secrets are printed", "lib/b.py:2", "security"):
        assert words in text
    assert f'href="{FINDINGS}/6"' in text
    assert 'data-total="1"' in text


@pytest.mark.usefixtures("root")
def test_a_hundred_at_a_time(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other pages keep the filter, and a page after the last one links to it."""
    monkeypatch.setattr(page, "PAGE_SIZE", 2)
    first, second = listed(browser), listed(browser, "page=2")
    assert (first["total"], first["pages"]) == (6, 3)
    assert not {one["id"] for one in first["findings"]} & {one["id"] for one in second["findings"]}
    text = browser().get(f"{FINDINGS}?file=a&page=2").text
    assert f'href="{FINDINGS}?page=3&amp;file=a"' in text
    assert f'data-live="{FINDINGS}?file=a&amp;page=2&amp;part=rows"' in text
    assert f'href="{FINDINGS}?page=3"' in browser().get(f"{FINDINGS}?page=9").text


def test_empty_pages_say_what_to_do(browser: Browser, store: Path) -> None:
    """There is a hint before the first finding, when none is open, and when none matches."""
    assert "awf findings import" in browser().get(FINDINGS).text
    assert not store.exists()
    project(store.parent)
    review(store.parent, item(1))
    assert f'href="{FINDINGS}?state=all"' in browser().get(f"{FINDINGS}?q=zzz").text
    form = {"id": "1", "as": "fixed"}
    assert browser().post(f"{FINDINGS}/triage", data=form, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303
    assert f'href="{FINDINGS}?state=all"' in browser().get(FINDINGS).text


def test_edits_of_view_files_count(browser: Browser, root: Path) -> None:
    """An edit of the verdict file, which is of the last review, counts as it does for the commands."""
    review(root, *map(item, range(1, 6)))
    client = browser()
    assert client.get(f"{FINDINGS}?format=json").json()["total"] == 6
    file = root / ".code-review/review-latest.json"
    verdict = json.loads(file.read_bytes())
    edited = next(one for one in verdict["findings"] if one["severity"] == "Medium")
    edited |= {"status": "wont_fix", "note": "by design"}
    file.write_text(json.dumps(verdict))
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
def test_matching_findings_are_downloaded(browser: Browser, form: str, name: str, words: str) -> None:
    """Each format is a file with exactly the findings of the page, also with --read-only."""
    answer = browser(read_only=True).get(f"{FINDINGS}/export/{form}?q=secrets")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert words in answer.text
    assert "Secrets are printed" in answer.text
    assert "Line 1" not in answer.text
    assert f"{FINDINGS}/export/{form}?q=secrets" in browser().get(f"{FINDINGS}?q=secrets").text


@pytest.mark.usefixtures("root")
def test_an_unknown_format_is_not_found(browser: Browser) -> None:
    """It is a 404."""
    assert browser().get(f"{FINDINGS}/export/xml").status_code == 404

"""The page of one finding, with the lines it is about."""

import os
import re
from pathlib import Path

import pytest
from tests.unit.web.conftest import Browser
from tests.unit.web.findings import LINES, item, join, project, review

from pipeline.findings.excerpts import Excerpt, read_excerpts
from pipeline.findings.model import Category, Confidence, Evidence, Finding, FindingId, Location, PassId, Severity
from pipeline.redaction import Redactor, redactor_of

FINDING = "/s/shop/findings"


@pytest.fixture
def root(store: Path) -> Path:
    """A project with three findings."""
    project(store.parent)
    review(store.parent, *map(item, range(10, 13)))
    return store.parent


def about(*evidence: Evidence, locations: tuple[Location, ...] = ()) -> Finding:
    return Finding(
        id=FindingId("fnd_1"),
        signature="s",
        reviewer="r",
        title="t",
        category=Category.BUG,
        severity=Severity.LOW,
        confidence=Confidence(value=100),
        pass_id=PassId("p"),
        created_at="",
        updated_at="",
        evidence=evidence,
        locations=locations,
    )


def cut(root: Path, path: str, start: int | None = 1, end: int | None = None, quote: str = "") -> Excerpt:
    return read_excerpts(about(Evidence(path=path, start=start, end=end, quote=quote)), root, Redactor())[0]


@pytest.mark.usefixtures("root")
def test_the_page_of_a_finding(browser: Browser) -> None:
    """It has the title, the state, the lines of the evidence, who reported it, the history, and a form to decide."""
    text = browser().get(f"{FINDING}/1").text
    for words in ("Line 10 is wrong", "○</span>open", "It breaks.", "line_10 = compute(10)", "correctness", "History"):
        assert words in text
    assert text.count('class="hit"') == 1
    assert 'name="note"' in text


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("part", ["details", "facts"])
def test_a_part_is_the_same_as_in_the_page(browser: Browser, part: str) -> None:
    """A live part is the same HTML as in the page, without the page around it."""
    client = browser()
    whole, alone = client.get(f"{FINDING}/1").text, client.get(f"{FINDING}/1?part={part}").text
    assert f'data-live="{FINDING}/1?part={part}"' in whole
    assert "<html" not in alone
    untimed = re.compile("<time.*?</time>")
    assert untimed.sub("", alone).strip() in untimed.sub("", whole)


@pytest.mark.usefixtures("root")
def test_other_names_lead_to_the_same_page(browser: Browser) -> None:
    """A finding has a page by number and by id, and a JSON record; an unknown name is a 404."""
    client = browser()
    whole = client.get(f"{FINDING}/1?format=json").json()
    assert whole["title"] == "Line 10 is wrong"
    assert client.get(f"{FINDING}/{whole['id']}").status_code == 200
    answer = client.get(f"{FINDING}/99")
    assert answer.status_code == 404
    assert f'href="{FINDING}"' in answer.text


def test_a_line_of_work_is_one_row_with_its_members(browser: Browser, root: Path) -> None:
    """The list has one row for all reviewers; each has a page, which shows the others; one can be separated."""
    review(root, item(20, title="Twentieth line is <wrong>", why_it_matters="It <fails>."), reviewer="other")
    join(root, member=4, line=1)
    client = browser()
    assert [one["number"] for one in client.get(f"{FINDING}?format=json").json()["findings"]] == [3, 1, 2]
    assert "2 reviewers" in client.get(FINDING).text
    members = client.get(f"{FINDING}/1").text.partition('id="members"')[2]
    assert f'href="{FINDING}/4"' in members
    assert "&lt;wrong&gt;" in members
    assert "It &lt;fails&gt;." in members
    member = client.get(f"{FINDING}/4").text
    assert f'href="{FINDING}/1"' in member
    assert 'name="only"' in member
    response = client.post(f"{FINDING}/split", data={"id": "4"}, headers={"Sec-Fetch-Site": "same-origin"})
    assert (response.status_code, response.headers["location"]) == (303, f"{FINDING}/4")
    assert len(client.get(f"{FINDING}?format=json").json()["findings"]) == 4


def test_an_excerpt_has_context_and_marked_lines(root: Path) -> None:
    """Four lines to either side, within the file, with their numbers."""
    project(root)
    found = cut(root, "a.py", 2, 3)
    assert [(number, hit) for number, _, hit in found.lines] == [
        (1, False),
        (2, True),
        (3, True),
        *((n, False) for n in range(4, 8)),
    ]
    assert found.lines[0][1] == LINES[0]
    assert str(found.evidence) == "a.py:2-3"
    assert [number for number, _, _ in cut(root, "a.py", 30).lines] == [26, 27, 28, 29, 30]


def test_a_changed_file_is_noted(root: Path) -> None:
    """A quote that is no longer on its lines, missing lines and a missing file are noted."""
    assert cut(root, "a.py", 3, quote="something else").note
    assert cut(root, "a.py", 3, quote="  line_3   = compute(3)").note == ""
    assert cut(root, "a.py", 3, quote="line_3 = comp…").note == ""
    assert "30 lines" in cut(root, "a.py", 31).note
    assert cut(root, "gone.py").note


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "..", "link", "folder/secret", "loop", "pipe", "large", "."]
)
def test_no_path_leads_out_of_the_repository(root: Path, path: str) -> None:
    """Dots, links, devices and very large files are not opened, whatever a finding names."""
    outside = root.parent / "outside"
    outside.mkdir()
    for secret in (root.parent / "secret", outside / "secret"):
        secret.write_text("top secret\n")
    (root / "link").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    with (root / "large").open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    found = cut(root, path)
    assert found.lines == ()
    assert found.note


def test_a_link_within_the_repository_is_followed(root: Path) -> None:
    """A link that stays inside is a file like any other."""
    (root / "inner").symlink_to("a.py")
    assert cut(root, "inner").lines[0][1] == LINES[0]


def test_secrets_in_files_are_not_shown(root: Path) -> None:
    """A known secret is redacted; where one of many lines would shift the others, nothing is shown."""
    redactor = redactor_of({"SHOP_TOKEN": "hunter2-hunter2-hunter2"})
    (root / "k.py").write_text("a = 1\nkey = 'hunter2-hunter2-hunter2'\n")
    shown = read_excerpts(about(Evidence(path="k.py", start=2)), root, redactor)[0]
    assert "hunter2" not in shown.lines[1][1]
    assert shown.lines[0][1] == "a = 1"
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *["QUJD" * 16] * 12, "-----END RSA PRIVATE KEY-----", "last"]
    (root / "key.pem").write_text("\n".join(lines))
    hidden = read_excerpts(about(Evidence(path="key.pem", start=8)), root, redactor)[0]
    assert hidden.lines == ()
    assert hidden.note


def test_control_characters_are_visible(root: Path) -> None:
    """Characters that hide or reorder text are replaced; very long lines are truncated."""
    (root / "t.py").write_text("if a: # \u202e } ;)\n\tb\n" + "x" * 5000)
    found = cut(root, "t.py")
    assert "\u202e" not in found.lines[0][1]
    assert found.lines[1][1] == "\tb"
    assert len(found.lines[2][1]) == 400


def test_excerpts_are_unique_and_few(root: Path) -> None:
    """The same lines are shown once, locations without evidence too, and at most eight excerpts."""
    place = Location(path="a.py", start=3)
    found = about(Evidence(path="a.py", start=3), Evidence(raw="words"), locations=(place,))
    assert len(read_excerpts(found, root, Redactor())) == 1
    many = about(*(Evidence(path="a.py", start=number) for number in range(1, 30)))
    assert len(read_excerpts(many, root, Redactor())) == 8
    assert len(cut(root, "a.py", 1, 10**9).lines) == 30

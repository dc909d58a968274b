"""Decisions about findings from the page."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.unit.web.conftest import Browser
from tests.unit.web.findings import findings, item, join, project, review

from pipeline.findings.model import FindingState
from pipeline.web.page import MAX_FORM

FINDINGS = "/s/shop/findings"
OURS = {"Sec-Fetch-Site": "same-origin"}
DISMISS = {"as": "wont-fix", "note": "not worth it"}


@pytest.fixture
def root(store: Path) -> Path:
    """A project with nine findings, three of each of three severities."""
    project(store.parent)
    review(store.parent, *map(item, range(1, 10)))
    return store.parent


def states(root: Path) -> list[FindingState]:
    return [finding.state for finding in findings(root)]


def send(client: TestClient, action: str, **form: str | list[str]) -> Any:
    """Send a form as a program does."""
    response = client.post(f"{FINDINGS}/{action}?format=json", data=form, headers=OURS)
    assert response.status_code == 200
    return response.json()


def test_one_finding_is_decided_with_a_note(browser: Browser, root: Path) -> None:
    """The decision is recorded, and the page of the finding follows."""
    response = browser().post(f"{FINDINGS}/triage", data={"id": "3", "expires": "2099-01-01", **DISMISS}, headers=OURS)
    assert (response.status_code, response.headers["location"]) == (303, f"{FINDINGS}/3")
    finding = next(one for one in findings(root) if one.number == 3)
    assert finding.state is FindingState.WONT_FIX
    assert finding.suppression
    assert (finding.suppression.by, finding.suppression.reason) == ("user", "not worth it")
    assert "not worth it" in browser().get(f"{FINDINGS}/3").text


def test_a_decision_is_handed_to_the_program_that_the_user_allows(
    browser: Browser, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command does it; a program that only the repository names is not run."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    command = [sys.executable, "-c", "open('given', 'w').close()"]
    (root / ".wystack").mkdir()
    (root / ".wystack/storage.json").write_text(json.dumps({"record.write": command}))
    send(browser(), "triage", id="1", **DISMISS)
    assert not (root / "given").exists()
    settings = tmp_path / "home/.config/awf/config.kdl"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"trust {{ record-write {json.dumps(shlex.join(command))} }}\n")
    send(browser(), "triage", id="2", **DISMISS)
    assert (root / "given").exists()


@pytest.mark.parametrize(("only", "decided"), [("", [1, 10]), ("yes", [10])])
def test_a_decision_counts_for_the_whole_line_of_work(
    browser: Browser, root: Path, only: str, decided: list[int]
) -> None:
    """Every member is decided about and named, unless only the finding is meant."""
    review(root, item(20, title="The cache is never emptied"), reviewer="other")
    join(root, member=10, line=1)
    result = send(browser(), "triage", id="10", only=only, **DISMISS)
    assert sorted(move["number"] for move in result["applied"]) == decided
    assert [one.number for one in findings(root) if one.state is FindingState.WONT_FIX] == decided


@pytest.mark.parametrize(
    "form",
    [
        {"as": "wont-fix", "note": " "},
        {"as": "open"},
        {"as": "gone"},
        {"as": "wont-fix", "note": "x", "expires": "soon"},
        {"as": "fixed", "expires": "2099-01-01"},
        {"as": "fixed", "id": "nope"},
    ],
)
def test_what_the_command_refuses_is_refused(browser: Browser, root: Path, form: dict[str, str]) -> None:
    """The rules are the same, and nothing is written."""
    result = send(browser(), "triage", **{"id": "1", **form})
    assert (result["applied"], len(result["refused"])) == ([], 1)
    assert states(root) == [FindingState.OPEN] * 9


def test_several_are_previewed_and_then_decided(browser: Browser, root: Path) -> None:
    """A preview writes nothing; sent back with its digest, exactly what it showed is decided."""
    client, ids = browser(), [finding.id for finding in findings(root)]
    send(client, "triage", id="1", **DISMISS)
    planned = send(client, "preview", id=["1", "2", "3", "nope"], **{"as": "open"})
    assert planned["planned"] == [{"id": ids[0], "number": 1, "from": "wont_fix", "state": "open"}]
    assert len(planned["refused"]) == 3
    assert states(root).count(FindingState.WONT_FIX) == 1
    done = send(client, "triage", id="1 2 3 nope", agreed=planned["seal"], **{"as": "open"})
    assert done["applied"] == planned["planned"]
    assert states(root) == [FindingState.OPEN] * 9


def test_the_page_of_a_preview_contains_the_form_to_decide(browser: Browser, root: Path) -> None:
    """Without scripts, the same forms lead to the same decision."""
    client, form = browser(), {"scope": "all", "from": "severity=low", "id": "1", **DISMISS}
    page = client.post(f"{FINDINGS}/preview", data=form, headers=OURS).text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    assert client.post(f"{FINDINGS}/triage", data=fields, headers=OURS).status_code == 200
    assert {one.severity for one in findings(root) if one.state is FindingState.WONT_FIX} == {"low"}
    assert states(root).count(FindingState.WONT_FIX) == 3


def test_changed_findings_are_not_decided(browser: Browser, root: Path) -> None:
    """If the findings have changed since the preview, nothing is written."""
    client, form = browser(), {"scope": "all", "from": "severity=low", **DISMISS}
    planned = send(client, "preview", **form)
    review(root, item(11), item(12), item(14))
    response = client.post(f"{FINDINGS}/triage", data={**form, "agreed": planned["seal"]}, headers=OURS)
    assert response.status_code == 409
    assert FindingState.WONT_FIX not in states(root)


@pytest.mark.parametrize("form", [{"id": ["1", "2"]}, {"scope": "all", "id": "1"}])
def test_several_are_not_decided_without_a_preview(browser: Browser, root: Path, form: dict[str, Any]) -> None:
    """Only one named finding is decided about at once."""
    assert browser().post(f"{FINDINGS}/triage", data={**form, **DISMISS}, headers=OURS).status_code == 409
    assert states(root) == [FindingState.OPEN] * 9


def test_read_only_offers_and_allows_no_decision(browser: Browser, root: Path) -> None:
    """With --read-only there are no forms, and requests are refused."""
    client = browser(read_only=True)
    for path in (FINDINGS, f"{FINDINGS}/1"):
        text = client.get(path).text
        assert 'name="as"' not in text
        assert 'type="checkbox"' not in text
    for action in ("preview", "triage", "split"):
        assert client.post(f"{FINDINGS}/{action}", data={"id": "1", **DISMISS}, headers=OURS).status_code == 403
    assert states(root) == [FindingState.OPEN] * 9


@pytest.mark.parametrize("action", ["preview", "triage", "split"])
def test_the_address_of_a_decision_leads_back(browser: Browser, action: str) -> None:
    """Opening it again, as after a reload, leads to the findings."""
    assert browser().get(f"{FINDINGS}/{action}").headers["location"] == FINDINGS


def test_unreadable_forms_are_refused(browser: Browser, root: Path) -> None:
    """A form that is too large or not text is refused."""
    client = browser()
    answer = client.post(f"{FINDINGS}/triage", content=b"id=" + b"x" * MAX_FORM, headers=OURS)
    assert answer.status_code == 413
    assert client.post(f"{FINDINGS}/triage", content=b"id=\xff", headers=OURS).status_code == 400
    assert states(root) == [FindingState.OPEN] * 9

"""Decisions about findings from the page."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.unit.web.conftest import Browser
from tests.unit.web.findings import item, project, review

from pipeline.app.findings.ledger import read_snapshot
from pipeline.findings.model import Finding, FindingState
from pipeline.web.forms import LARGEST

FINDINGS = "/s/shop/findings"
OURS = {"Sec-Fetch-Site": "same-origin"}
NO = {"as": "wont-fix", "note": "not worth it"}


@pytest.fixture
def root(store: Path) -> Path:
    """A project with nine findings, three of each of three severities."""
    project(store.parent)
    review(store.parent, *map(item, range(1, 10)))
    return store.parent


def findings(root: Path) -> list[Finding]:
    return list(read_snapshot(root / ".awf", root, "2026-03-01T10:00:00Z").ledger)


def states(root: Path) -> list[FindingState]:
    return [finding.state for finding in findings(root)]


def agreed(text: str) -> str:
    found = re.search(r'name="agreed" value="(\w+)"', text)
    assert found
    return found[1]


def send(client: TestClient, deed: str, **form: str | list[str]) -> tuple[int, str]:
    answer = client.post(f"{FINDINGS}/{deed}", data=form, headers=OURS)
    return answer.status_code, answer.text


def test_one_finding_is_decided_with_a_note(browser: Browser, root: Path) -> None:
    """The decision is recorded as the command does it, and the page of the finding follows."""
    answer = browser().post(f"{FINDINGS}/triage", data={"id": "3", "expires": "2099-01-01", **NO}, headers=OURS)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{FINDINGS}/3"
    finding = next(one for one in findings(root) if one.number == 3)
    assert finding.state is FindingState.WONT_FIX
    assert finding.suppression
    assert (finding.suppression.by, finding.suppression.reason) == ("user", "not worth it")
    assert "Dismissed by user until 2099-01-01: not worth it" in browser().get(f"{FINDINGS}/3").text


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"as": "wont-fix", "note": " "}, "a dismissal needs a note"),
        ({"as": "open"}, "it is open already"),
        ({"as": "gone"}, "unknown status"),
        ({"as": "wont-fix", "note": "x", "expires": "soon"}, "is not a date"),
        ({"as": "fixed", "expires": "2099-01-01"}, "only a dismissal can expire"),
        ({"as": "fixed", "id": "nope"}, "there is no such finding"),
    ],
)
def test_what_the_command_refuses_is_refused(browser: Browser, root: Path, form: dict[str, str], reason: str) -> None:
    """The rules are the same, the reason is told, and nothing is written."""
    status, text = send(browser(), "triage", **{"id": "1", **form})
    assert status == 200
    assert "Nothing was decided" in text
    assert reason in text
    assert states(root) == [FindingState.OPEN] * 9


def test_many_are_shown_first_and_then_decided(browser: Browser, root: Path) -> None:
    """The preview tells what would come of it and what is refused, and writes nothing; its form decides just that."""
    client = browser()
    send(client, "triage", id="1", **NO)
    status, text = send(client, "preview", id=["1", "2", "3", "nope"], **{"as": "open"})
    assert status == 200
    assert "Decide about 1 finding?" in text
    assert "2 refused</strong>: it is open already" in text
    assert "1 refused</strong>: there is no such finding" in text
    assert states(root).count(FindingState.WONT_FIX) == 1
    told = {"as": "open", "id": "1 2 3 nope", "agreed": agreed(text)}
    status, text = send(client, "triage", **told)
    assert status == 200
    assert "Decided about 1 finding" in text
    assert states(root) == [FindingState.OPEN] * 9


def test_all_that_the_filters_take(browser: Browser, root: Path) -> None:
    """All findings of a filter are decided at once, those on other pages too, and no other."""
    client, form = browser(), {"scope": "all", "from": "severity=low", "id": "1", **NO}
    _, text = send(client, "preview", **form)
    assert "Decide about 3 findings?" in text
    _, text = send(client, "triage", agreed=agreed(text), **form)
    assert "Decided about 3 findings" in text
    assert {one.severity for one in findings(root) if one.state is FindingState.WONT_FIX} == {"low"}


def test_what_changed_since_it_was_shown_is_not_decided(browser: Browser, root: Path) -> None:
    """A person said yes to something else; nothing is written, and the page says so."""
    client, form = browser(), {"scope": "all", "from": "severity=low", **NO}
    _, text = send(client, "preview", **form)
    review(root, item(11), item(12), item(14))
    status, said = send(client, "triage", agreed=agreed(text), **form)
    assert status == 409
    assert "changed since they were shown; nothing was decided" in said
    assert FindingState.WONT_FIX not in states(root)


def test_several_are_never_decided_unseen(browser: Browser, root: Path) -> None:
    """Without the seal of a preview only one named finding is decided about."""
    client = browser()
    assert send(client, "triage", id=["1", "2"], **NO)[0] == 409
    assert send(client, "triage", scope="all", id="1", **NO)[0] == 409
    assert states(root) == [FindingState.OPEN] * 9


def test_a_program_gets_the_plan_and_its_seal(browser: Browser, root: Path) -> None:
    """The same in JSON: what is planned, its seal, and what was applied."""
    client, form = browser(), {"id": "1 2", **NO}
    planned = client.post(f"{FINDINGS}/preview?format=json", data=form, headers=OURS).json()
    assert [one["state"] for one in planned["planned"]] == ["wont_fix"] * 2
    form["agreed"] = planned["seal"]
    done = client.post(f"{FINDINGS}/triage?format=json", data=form, headers=OURS).json()
    assert done["applied"] == planned["planned"]
    assert states(root).count(FindingState.WONT_FIX) == 2


def test_read_only_offers_and_allows_no_decision(browser: Browser, root: Path) -> None:
    """With --read-only there is nothing to choose, and what is sent all the same is refused."""
    client = browser(read_only=True)
    for path in (FINDINGS, f"{FINDINGS}/1"):
        text = client.get(path).text
        assert 'name="as"' not in text
        assert 'type="checkbox"' not in text
    for deed in ("preview", "triage"):
        assert send(client, deed, id="1", **NO)[0] == 403
    assert states(root) == [FindingState.OPEN] * 9


@pytest.mark.parametrize("deed", ["preview", "triage"])
def test_the_address_of_a_decision_leads_back(browser: Browser, deed: str) -> None:
    """Opening it again, as after a reload, decides nothing and leads to the findings."""
    assert browser().get(f"{FINDINGS}/{deed}").headers["location"] == FINDINGS


def test_forms_have_an_end(browser: Browser, root: Path) -> None:
    """A form without end is cut off, and one that is no text is refused."""
    client = browser()
    answer = client.post(f"{FINDINGS}/triage", content=b"id=" + b"x" * LARGEST, headers=OURS)
    assert answer.status_code == 413
    assert client.post(f"{FINDINGS}/triage", content=b"id=\xff", headers=OURS).status_code == 400
    assert states(root) == [FindingState.OPEN] * 9

"""Which dismissals have ended, and which are stale, and why."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.builders import Files, draft, known
from tests.unit.findings.ledgers import AT, assessed

from pipeline.findings.events import FindingRaised
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Evidence, Finding, FindingState, Location, PassId
from pipeline.findings.triage import StaleReason, decision, expire, find_stale_dismissals

CODE = "def save(token):\n    store.save(token)\n    return token\n"
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
LAST_DAY, EXPIRED = "2026-03-01T23:59:59Z", "2026-03-02T00:00:00Z"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with one file."""
    (tmp_path / "session.py").write_text(CODE)
    return tmp_path


def ledger_of(head: str = "", expires: str = "", **more: Any) -> Ledger:
    """One finding, dismissed by a person."""
    found = draft(2, path="session.py", quote="store.save(token)", **more)
    (finding,) = known([found], Files({"session.py": CODE.splitlines()}))
    ledger = Ledger([assessed(PassId("one"), head=head), FindingRaised(at=AT, finding=finding)])
    ledger.apply(decision(only(ledger), "wont-fix", at=AT, by=Actor.USER, note="so", expires=expires))
    return ledger


def only(ledger: Ledger) -> Finding:
    (finding,) = ledger.findings.values()
    return finding


def stale(ledger: Ledger, root: Path) -> dict[StaleReason, str]:
    return find_stale_dismissals(ledger, root, ENVIRONMENT).get(only(ledger).id, {})


def test_a_dismissal_that_holds_is_not_stale(root: Path) -> None:
    """Lines added above do not change that."""
    ledger = ledger_of(expires="2026-03-01")
    assert stale(ledger, root) == {}
    (root / "session.py").write_text(f"# new\n{CODE}")
    assert stale(ledger, root) == {}


def test_a_finding_is_open_again_after_the_last_day_of_its_dismissal() -> None:
    """The day of the expiry is the last one on which it holds."""
    ledger = ledger_of(expires="2026-03-01")
    assert expire(ledger, LAST_DAY) == []
    (event,) = expire(ledger, EXPIRED)
    ledger.apply(event)
    assert (only(ledger).state, only(ledger).suppression, expire(ledger, EXPIRED)) == (FindingState.REOPENED, None, [])


@pytest.mark.parametrize("now", ["def save(token):\n    store.drop(token)\n", None], ids=["changed", "deleted"])
def test_a_dismissal_of_changed_code_is_stale(root: Path, now: str | None) -> None:
    """It is bound to the line that was dismissed, which has changed or is gone with its file."""
    ledger = ledger_of()
    (root / "session.py").unlink()
    if now is not None:
        (root / "session.py").write_text(now)
    assert list(stale(ledger, root)) == [StaleReason.CHANGED]


def test_code_is_followed_through_a_rename(root: Path) -> None:
    """Git says what the file is called now."""
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        git(root, *command)
    ledger = ledger_of(head=git(root, "rev-parse", "HEAD"))
    git(root, "mv", "session.py", "tokens.py")
    assert stale(ledger, root) == {}
    (root / "tokens.py").write_text(CODE.replace("store.save", "store.drop"))
    assert list(stale(ledger, root)) == [StaleReason.CHANGED]


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_finding_without_code_is_not_looked_for(root: Path) -> None:
    """A requirement has a text and no code."""
    place, evidence = Location(path="AC-7"), Evidence(path="AC-7", quote="must save")
    assert stale(ledger_of(locations=(place,), evidence=(evidence,)), root) == {}


def test_a_dismissal_is_not_stale_because_nobody_reports_the_finding(root: Path) -> None:
    """Reviewers are told of it, so their silence says nothing."""
    ledger = ledger_of()
    ledger.apply(assessed(PassId("two")))
    assert stale(ledger, root) == {}


def test_all_reasons_are_given_and_nothing_is_changed(root: Path) -> None:
    """A person decides what becomes of it."""
    ledger = ledger_of()
    (root / "session.py").unlink()
    before = ledger.length
    assert list(stale(ledger, root)) == list(StaleReason)
    assert ledger.length == before


def test_an_open_finding_has_no_stale_dismissal(root: Path) -> None:
    """Only dismissed findings are looked at."""
    ledger = ledger_of()
    ledger.apply(decision(only(ledger), "open", at=AT, by=Actor.USER, note=""))
    (root / "session.py").unlink()
    assert stale(ledger, root) == {}

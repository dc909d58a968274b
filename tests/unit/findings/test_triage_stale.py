"""Which dismissals are stale, and why."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.findings.events import FindingRaised, NotReported, Pass, PassRecorded, ReportedAgain, StateChanged
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.fingerprints import add_fingerprints, evidence_digest
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    Observed,
    PassId,
    Severity,
    Strength,
    Suppression,
)
from pipeline.findings.triage import StaleReason, find_stale_dismissals

AT = "2026-03-01T10:00:00Z"
CODE = "def save(token):\n    store.save(token)\n    return token\n"
ID = FindingId("fnd_00000001")
FIRST, SECOND = PassId("REV-1-a"), PassId("REV-2-b")
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with one file."""
    (tmp_path / "session.py").write_text(CODE)
    return tmp_path


def ledger_of(root: Path, head: str = "", expires: str = "", **more: Any) -> Ledger:
    """One finding, dismissed."""
    values: dict[str, Any] = {
        "id": ID,
        "signature": "sha256:1",
        "title": "Old token stays valid",
        "category": Category.SECURITY,
        "severity": Severity.HIGH,
        "confidence": Confidence(value=75),
        "locations": (Location(path="session.py", start=2),),
        "evidence": (Evidence(path="session.py", start=2, quote="store.save(token)"),),
        "pass_id": FIRST,
        "created_at": AT,
        "updated_at": AT,
    }
    (finding,) = add_fingerprints([Finding(**values | more)], RepositoryFiles(root))
    held = Suppression(reason="so", by="user", expires=expires, digest=evidence_digest(finding))
    return Ledger(
        [
            PassRecorded(at=AT, assessment=Pass(id=FIRST, started_at=AT, head=head)),
            FindingRaised(at=AT, finding=finding),
            StateChanged(at=AT, id=ID, state=FindingState.WONT_FIX, by="user", note="so", suppression=held),
        ]
    )


def stale(ledger: Ledger, root: Path, at: str = AT) -> tuple[StaleReason, ...]:
    return tuple(find_stale_dismissals(ledger, root, ENVIRONMENT, at).get(ID, {}))


def miss(ledger: Ledger) -> None:
    ledger.apply(PassRecorded(at=AT, assessment=Pass(id=SECOND, started_at=AT)))
    ledger.apply(NotReported(at=AT, id=ID, pass_id=SECOND))


def test_a_dismissal_that_holds_is_not_stale(root: Path) -> None:
    """Lines added above do not change that."""
    ledger = ledger_of(root, expires="2026-03-01")
    assert stale(ledger, root) == ()
    (root / "session.py").write_text(f"# new\n{CODE}")
    assert stale(ledger, root) == ()


def test_an_expired_dismissal_is_stale(root: Path) -> None:
    """The day of the expiry is the last one on which it holds."""
    ledger = ledger_of(root, expires="2026-03-01")
    assert stale(ledger, root, "2026-03-02T00:00:00Z") == (StaleReason.EXPIRED,)
    [why] = find_stale_dismissals(ledger, root, ENVIRONMENT, "2026-03-02T00:00:00Z")[ID].values()
    assert "2026-03-01" in why


@pytest.mark.parametrize("now", ["def save(token):\n    store.drop(token)\n", None])
def test_a_dismissal_of_changed_code_is_stale(root: Path, now: str | None) -> None:
    """It is bound to the line that was dismissed, which has changed or is gone with its file."""
    ledger = ledger_of(root)
    (root / "session.py").unlink()
    if now is not None:
        (root / "session.py").write_text(now)
    assert stale(ledger, root) == (StaleReason.CHANGED,)


def test_code_is_followed_through_a_rename(root: Path) -> None:
    """Git says what the file is called now."""
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        git(root, *command)
    ledger = ledger_of(root, head=git(root, "rev-parse", "HEAD"))
    git(root, "mv", "session.py", "tokens.py")
    assert stale(ledger, root) == ()
    (root / "tokens.py").write_text(CODE.replace("store.save", "store.drop"))
    assert stale(ledger, root) == (StaleReason.CHANGED,)


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_finding_without_code_is_not_looked_for(root: Path) -> None:
    """A requirement has a text and no code."""
    nowhere = ledger_of(root, locations=(Location(path="AC-7"),), evidence=(Evidence(path="AC-7", quote="must save"),))
    assert stale(nowhere, root) == ()


def test_a_dismissal_that_the_last_pass_did_not_need_is_stale(root: Path) -> None:
    """The pass covered the file and nobody reported the finding; once it is reported again, it is needed."""
    ledger = ledger_of(root)
    miss(ledger)
    assert stale(ledger, root) == (StaleReason.UNMATCHED,)
    assert SECOND in find_stale_dismissals(ledger, root, ENVIRONMENT, AT)[ID][StaleReason.UNMATCHED]
    ledger.apply(ReportedAgain(at=AT, id=ID, pass_id=SECOND, observed=Observed.UNCHANGED, strength=Strength.EXACT))
    assert stale(ledger, root) == ()


def test_a_pass_that_did_not_cover_the_file_makes_nothing_stale(root: Path) -> None:
    """Only a pass that covered the file could have reported it."""
    ledger = ledger_of(root)
    ledger.apply(PassRecorded(at=AT, assessment=Pass(id=SECOND, started_at=AT)))
    assert stale(ledger, root) == ()


def test_a_new_dismissal_is_not_stale(root: Path) -> None:
    """A pass before the dismissal could not need it."""
    ledger = ledger_of(root)
    miss(ledger)
    held = ledger.findings[ID].suppression
    ledger.apply(
        StateChanged(at=AT, id=ID, state=FindingState.FALSE_POSITIVE, by="user", note="again", suppression=held)
    )
    assert stale(ledger, root) == ()


def test_all_reasons_at_once(root: Path) -> None:
    """Each is given."""
    ledger = ledger_of(root, expires="2026-03-01")
    miss(ledger)
    (root / "session.py").unlink()
    assert stale(ledger, root, "2027-01-01T00:00:00Z") == tuple(StaleReason)


def test_an_open_finding_has_no_stale_dismissal(root: Path) -> None:
    """Only dismissed findings are looked at."""
    ledger = ledger_of(root)
    miss(ledger)
    ledger.apply(StateChanged(at=AT, id=ID, state=FindingState.OPEN, by="user"))
    (root / "session.py").unlink()
    assert find_stale_dismissals(ledger, root, ENVIRONMENT, AT) == {}

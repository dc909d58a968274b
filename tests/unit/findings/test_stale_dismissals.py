"""Dismissals that are of no use any more are told, with the reason, and are never in the way of those that are."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.findings.events import FindingRaised, NotReported, Pass, PassRecorded, ReportedAgain, StateChanged
from pipeline.findings.fingerprints import add_fingerprints, evidence_digest
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory
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
from pipeline.findings.stale_dismissals import StaleReason, describe_stale, find_stale_dismissals

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
    (finding,) = add_fingerprints([Finding(**values | more)], GitHistory(root, ENVIRONMENT))
    held = Suppression(reason="so", by="user", expires=expires, digest=evidence_digest(finding))
    return Ledger(
        [
            PassRecorded(at=AT, assessment=Pass(id=FIRST, started_at=AT, head=head)),
            FindingRaised(at=AT, finding=finding),
            StateChanged(at=AT, id=ID, state=FindingState.WONT_FIX, by="user", note="so", suppression=held),
        ]
    )


def of_no_use(ledger: Ledger, root: Path, at: str = AT) -> tuple[StaleReason, ...]:
    return find_stale_dismissals(ledger, GitHistory(root, ENVIRONMENT), at).get(ID, ())


def missed(ledger: Ledger) -> None:
    ledger.apply(PassRecorded(at=AT, assessment=Pass(id=SECOND, started_at=AT)))
    ledger.apply(NotReported(at=AT, id=ID, pass_id=SECOND))


def test_a_dismissal_that_holds_is_of_use(root: Path) -> None:
    """Nothing is told of it, also where lines were added above."""
    ledger = ledger_of(root, expires="2026-03-01")
    assert of_no_use(ledger, root) == ()
    (root / "session.py").write_text(f"# new\n{CODE}")
    assert of_no_use(ledger, root) == ()


def test_one_whose_day_is_over(root: Path) -> None:
    """The day of the expiry is the last one on which it holds."""
    ledger = ledger_of(root, expires="2026-03-01")
    assert of_no_use(ledger, root, "2026-03-02T00:00:00Z") == (StaleReason.EXPIRED,)
    assert describe_stale(ledger.findings[ID], StaleReason.EXPIRED) == "it held until 2026-03-01"


@pytest.mark.parametrize("now", ["def save(token):\n    store.drop(token)\n", None])
def test_one_whose_code_changed(root: Path, now: str | None) -> None:
    """000-46: it is bound to the line that was dismissed, which is another now or is gone with its file."""
    ledger = ledger_of(root)
    (root / "session.py").unlink()
    if now is not None:
        (root / "session.py").write_text(now)
    assert of_no_use(ledger, root) == (StaleReason.CHANGED,)
    assert "no longer there" in describe_stale(ledger.findings[ID], StaleReason.CHANGED)


def test_a_renamed_file_is_no_other_code(root: Path) -> None:
    """Git says where it went."""
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        git(root, *command)
    ledger = ledger_of(root, head=git(root, "rev-parse", "HEAD"))
    git(root, "mv", "session.py", "tokens.py")
    assert of_no_use(ledger, root) == ()
    (root / "tokens.py").write_text(CODE.replace("store.save", "store.drop"))
    assert of_no_use(ledger, root) == (StaleReason.CHANGED,)


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(["git", "-C", root, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_what_never_was_in_a_file_is_not_looked_for(root: Path) -> None:
    """000-36: a requirement has a text and no code."""
    nowhere = ledger_of(root, locations=(Location(path="AC-7"),), evidence=(Evidence(path="AC-7", quote="must save"),))
    assert of_no_use(nowhere, root) == ()


def test_one_that_the_last_pass_had_no_need_of(root: Path) -> None:
    """The pass looked there and nobody reported the finding; when it is reported again, the dismissal is of use."""
    ledger = ledger_of(root)
    missed(ledger)
    assert of_no_use(ledger, root) == (StaleReason.UNMATCHED,)
    assert describe_stale(ledger.findings[ID], StaleReason.UNMATCHED) == "REV-2-b looked there, and nobody reported it"
    ledger.apply(ReportedAgain(at=AT, id=ID, pass_id=SECOND, observed=Observed.UNCHANGED, strength=Strength.EXACT))
    assert of_no_use(ledger, root) == ()


def test_a_pass_that_did_not_look_tells_nothing(root: Path) -> None:
    """Only a pass that covered the file could have seen it."""
    ledger = ledger_of(root)
    ledger.apply(PassRecorded(at=AT, assessment=Pass(id=SECOND, started_at=AT)))
    assert of_no_use(ledger, root) == ()


def test_what_is_dismissed_after_the_pass_was_not_missed_by_it(root: Path) -> None:
    """A dismissal is new until a pass had a chance to need it."""
    ledger = ledger_of(root)
    missed(ledger)
    held = ledger.findings[ID].suppression
    ledger.apply(
        StateChanged(at=AT, id=ID, state=FindingState.FALSE_POSITIVE, by="user", note="again", suppression=held)
    )
    assert of_no_use(ledger, root) == ()


def test_all_reasons_at_once(root: Path) -> None:
    """Each is told."""
    ledger = ledger_of(root, expires="2026-03-01")
    missed(ledger)
    (root / "session.py").unlink()
    assert of_no_use(ledger, root, "2027-01-01T00:00:00Z") == tuple(StaleReason)


def test_only_what_is_dismissed_is_told(root: Path) -> None:
    """An open finding has no dismissal to be of use or not."""
    ledger = ledger_of(root)
    missed(ledger)
    ledger.apply(StateChanged(at=AT, id=ID, state=FindingState.OPEN, by="user"))
    (root / "session.py").unlink()
    assert find_stale_dismissals(ledger, GitHistory(root, ENVIRONMENT), AT) == {}

"""The files about findings show what the ledger has, whoever wrote last, and nobody's edit is lost."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.findings.events import Coverage, FindingRaised, LedgerEvent, Pass, PassRecorded, StateChanged
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    Gate,
    GateDecision,
    Location,
    PassId,
    ReportStatus,
    Severity,
)
from pipeline.findings.reviews import ledger_verdicts, review_of
from pipeline.findings.views import Views
from pipeline.findings.views.record_store import Trust

AT = "2026-01-02T03:04:05Z"
PASS = Pass(id=PassId("REV-1767322800-abc1234"), started_at=AT, finding_ids=("fnd_00000001", "fnd_00000002"))


def one(number: int, **more: Any) -> Finding:
    values: dict[str, Any] = {
        "id": FindingId(f"fnd_0000000{number}"),
        "signature": f"sha256:{number}",
        "title": f"Title {number}",
        "impact": "it breaks",
        "category": Category.BUG,
        "severity": Severity.HIGH,
        "confidence": Confidence(value=75),
        "gate": GateDecision(value=Gate.MUST),
        "locations": (Location(path="a.py", start=number),),
        "sources": ("rev",),
        "pass_id": PASS.id,
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding(**values | more)


def ledger(*more: LedgerEvent) -> Ledger:
    events = [FindingRaised(at=AT, finding=one(number)) for number in (1, 2)]
    return Ledger([PassRecorded(at=AT, assessment=PASS), *events, *more])


def turned(number: int, state: FindingState, **more: Any) -> StateChanged:
    return StateChanged(at=AT, id=FindingId(f"fnd_0000000{number}"), state=state, by="user", **more)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository's root with a workspace for records."""
    (tmp_path / ".wystack").mkdir()
    return tmp_path


def latest(root: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / ".code-review/review-latest.json").read_text())
    return read


def statuses(root: Path) -> list[str]:
    return [finding["status"] for finding in latest(root)["findings"]]


def test_a_fresh_file_has_what_counts(root: Path) -> None:
    """001-13, C-04: every finding that counts is open; what is dismissed is not in it."""
    known = ledger(turned(2, FindingState.WONT_FIX, pass_id=PASS.id))
    assert Views(root).write(known, PASS, AT).problems == ()
    assert (statuses(root), latest(root)["mode"], latest(root)["verdict"]) == (["open"], "full", "WARN")


def test_what_is_said_between_two_passes_stays_in_the_file_until_the_next(root: Path) -> None:
    """001-09: a claim is `fixed` and a dismissal `wont_fix` in the file; the next full review begins afresh."""
    Views(root).write(ledger(), PASS, AT)
    known = ledger(turned(1, FindingState.FIX_CLAIMED), turned(2, FindingState.WONT_FIX))
    Views(root).write(known, PASS, AT)
    assert (statuses(root), latest(root)["verdict"], latest(root)["mode"]) == (["fixed", "wont_fix"], "PASS", "full")
    later = replace(PASS, id=PassId("REV-1767322900-abc1234"), finding_ids=())
    known.apply(PassRecorded(at=AT, assessment=later))
    Views(root).write(known, later, AT)
    assert statuses(root) == []
    assert len(list((root / ".code-review").glob("review-[0-9a-f]*.json"))) == 1, "the one before is in the archive"


def test_files_written_again_come_out_the_same(root: Path) -> None:
    """Showing is a function of the ledger: a crash between two writes costs nothing."""
    known = ledger(turned(1, FindingState.FIX_CLAIMED))
    Views(root).write(known, PASS, AT)
    before = {path: path.read_bytes() for path in root.rglob("*.json")}
    Views(root).write(known, PASS, AT)
    assert {path: path.read_bytes() for path in root.rglob("*.json")} == before
    assert Views(root).read_edits(known, AT).events == ()


def test_a_pass_is_recorded_once_whatever_becomes_of_its_findings(root: Path) -> None:
    """000-14: immutable once written: neither changed nor written again under another name."""
    Views(root).record_pass(ledger(), PASS)
    (path,) = (root / ".wystack/reviews").glob("*.json")
    before = path.read_bytes()
    Views(root).record_pass(ledger(turned(1, FindingState.VERIFIED_FIXED), turned(2, FindingState.WONT_FIX)), PASS)
    assert list((root / ".wystack/reviews").glob("*.json")) == [path]
    assert path.read_bytes() == before
    assert json.loads(before)["verdict"] == "block-on-MUSTs"


@pytest.mark.parametrize("text", ['{"id": "another"}', "no JSON", "[]"])
def test_a_record_of_another_store_with_the_same_name_is_left_alone(root: Path, text: str) -> None:
    """000-16: the next second is taken, and nothing is written over."""
    (root / ".wystack/reviews").mkdir()
    theirs = root / f".wystack/reviews/{PASS.id}.json"
    theirs.write_text(text)
    Views(root).record_pass(ledger(), PASS)
    assert theirs.read_text() == text
    assert (root / ".wystack/reviews/REV-1767322801-abc1234.json").is_file()


def test_an_incomplete_pass_is_clean_in_no_file(root: Path) -> None:
    """6.6: with a reviewer missing neither the verdict file nor the record of the pass is a clean one."""
    gaps = Coverage(reviewers={"qa": ReportStatus.MISSING}, problems={"qa": "it timed out"})
    passed = replace(PASS, coverage=gaps, finding_ids=())
    known = Ledger([PassRecorded(at=AT, assessment=passed)])
    Views(root).write(known, passed, AT)
    (path,) = (root / ".wystack/reviews").glob("*.json")
    assert json.loads(path.read_text())["verdict"] == "block-on-rejection"
    assert latest(root)["verdict"] == "FAIL"


def test_without_a_workspace_no_records_are_written(tmp_path: Path) -> None:
    """000-07: the verdict file is there, records are not, and one line says how to have them."""
    shown = Views(tmp_path).write(ledger(), PASS, AT)
    assert shown.suggestion.startswith("No workspace record store")
    assert not (tmp_path / ".wystack").exists()
    assert (tmp_path / ".code-review/review-latest.json").is_file()


def test_git_does_not_see_the_verdict_file(root: Path) -> None:
    """001-02: the first pass sees to that, in this clone alone."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    assert Views(root, trust=Trust(environ=os.environ)).write(ledger(), PASS, AT).problems == ()
    assert ".code-review/" in (root / ".git/info/exclude").read_text().splitlines()


def test_edits_in_either_place_are_taken_back(root: Path) -> None:
    """3.3: an edit anywhere is an event; what may not be edited is told."""
    known = ledger()
    Views(root).write(known, PASS, AT)
    file = root / ".code-review/review-latest.json"
    file.write_text(file.read_text().replace('"status": "open"', '"status": "fixed"', 1))
    edits = Views(root).read_edits(known, AT)
    assert [(event.id, event.state) for event in edits.events if isinstance(event, StateChanged)] == [
        ("fnd_00000001", FindingState.FIX_CLAIMED)
    ]
    file.write_text(file.read_text().replace("Title 2", "Nothing"))
    assert "`title`" in Views(root).read_edits(known, AT).problems[0]


def test_the_verdicts_are_those_of_the_last_pass_where_none_is_named() -> None:
    """6.6: who did not answer last counts."""
    gaps = Coverage(reviewers={"qa": ReportStatus.MALFORMED})
    later = replace(PASS, id=PassId("REV-2-b"), coverage=gaps)
    known = ledger(PassRecorded(at=AT, assessment=later))
    assert not ledger_verdicts(known).complete
    assert review_of(known, PASS).verdicts.complete
    assert not ledger_verdicts(Ledger()).complete

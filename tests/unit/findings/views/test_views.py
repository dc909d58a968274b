"""The files about findings show what the ledger has, all in the same words, whoever wrote or edited them last."""

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import AT, LATER, assessed, changed, finding, ledger_of, look, turned

from pipeline.errors import AwfError
from pipeline.findings.events import Coverage
from pipeline.findings.formats.verdict import items_of
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.gate import gate
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import FindingState, PassId, ReportStatus, Severity, What
from pipeline.findings.reviews import review
from pipeline.findings.verdicts import Shipping, Verdict, blocks, shipping, summary
from pipeline.findings.views import Views
from pipeline.findings.views.record_store import Trust

PASS, NEXT = PassId("REV-1767322800-abc1234"), PassId("REV-1767322900-abc1234")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository's root with a workspace for records."""
    (tmp_path / ".wystack").mkdir()
    (tmp_path / ".awf").mkdir()
    return tmp_path


def new(root: Path) -> Views:
    """The files as another process sees them."""
    return Views(root, root / ".awf")


def known(*severities: Severity) -> Ledger:
    """A ledger of one pass with two findings, or one of each severity."""
    found = severities or (Severity.HIGH, Severity.HIGH)
    return ledger_of(*(finding(number, severity=one) for number, one in enumerate(found, 1)), id=PASS)


def latest(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / ".code-review/review-latest.json").read_text())
    return document


def statuses(root: Path) -> list[str]:
    return [one["status"] for one in latest(root)["findings"]]


def record_of(root: Path, number: int = 1) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((root / f".wystack/findings/fnd_{number:08x}.json").read_text())
    return record


def pass_records(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((root / ".wystack/reviews").glob("*.json"))]


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for folder in (".code-review", ".wystack") for path in (root / folder).rglob("*.*")}


def test_what_is_said_between_two_passes_stays_in_the_file_until_the_next(root: Path) -> None:
    """001-09, 001-13: a claim is `fixed` and a dismissal `wont_fix`; a full review begins afresh with what is open."""
    ledger = known()
    new(root).write(ledger, ledger.last)
    ledger.apply(changed(1, What.CLAIM, word="fixed", state=FindingState.FIX_CLAIMED))
    ledger.apply(turned(2, FindingState.WONT_FIX, at=LATER))
    new(root).write(ledger)
    assert (statuses(root), latest(root)["verdict"], latest(root)["mode"]) == (["fixed", "wont_fix"], "PASS", "full")
    again = assessed(NEXT, "2026-03-03T10:00:00Z", review="0000cafe")
    ledger.apply(again)
    new(root).write(ledger, again.assessment)
    assert (statuses(root), latest(root)["verdict"]) == (["open"], "WARN")
    assert len(list((root / ".code-review").glob("review-[0-9a-f]*.json"))) == 1, "the one before is in the archive"


def test_files_written_again_come_out_the_same(root: Path) -> None:
    """They are a function of the ledger: a crash between two writes costs nothing."""
    ledger = known()
    ledger.apply(changed(1, What.CLAIM, word="fixed", state=FindingState.FIX_CLAIMED))
    for _ in range(2):
        new(root).write(ledger, ledger.last)
    before = contents(root)
    new(root).write(ledger, ledger.last)
    assert contents(root) == before
    assert new(root).read_edits(ledger, AT) == ViewEdits()


@given(st.lists(st.tuples(st.sampled_from(Severity), st.sampled_from(FindingState), st.booleans()), max_size=5))
@settings(max_examples=30, deadline=None)
def test_every_file_lists_every_member_and_its_numbers_follow_from_the_list(
    found: list[tuple[Severity, FindingState, bool]],
) -> None:
    """`summary` and verdict of the file, the counts of the pass and the review can be computed from what is listed."""
    ids = [finding(number).id for number in range(1, len(found) + 1)]
    lines = [ids[0] if joins else id for id, (_, _, joins) in zip(ids, found, strict=True)]
    members = [
        finding(number, severity=severity, state=state, reviewer=f"r{number}", line=lines[number - 1], pass_id=PASS)
        for number, (severity, state, _) in enumerate(found, 1)
    ]
    ledger = ledger_of(*members, id=PASS, finding_ids=tuple(ids))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / ".wystack").mkdir()
        new(root).write(ledger, ledger.last)
        document, records = latest(root), [record_of(root, number) for number in range(1, len(found) + 1)]
        (record,) = pass_records(root)
    listed, about = list(items_of(document)), review(ledger)
    assert {one["x_finding"] for one in listed} == {one.id for one in members if one.state.is_open}
    assert {one["x_finding"] for one in listed if "x_line" in one} == {
        one.id for one in members if one.line != one.id and one.state.is_open
    }
    severities = [one["severity"].lower() for one in listed if one["status"] in ("open", "reopened")]
    assert document["summary"] == {name: severities.count(name) for name in summary(())}
    blockers, high = severities.count("blocker"), severities.count("high")
    assert document["verdict"] == ("FAIL" if blockers else "WARN" if high else "PASS")
    assert about.verdict.rank >= Verdict(document["verdict"]).rank, "it is never milder than the file"
    assert {one["findingId"] for one in records} == set(record["finding_ids"]) == set(ids)
    assert record["must_count"] == sum(one["gate"] == "must" for one in records)
    assert record["must_count"] + record["suggest_count"] == len(records)
    assert about.summary == summary(min(line.open_members, key=lambda one: one.severity.rank) for line in about.open)


EDITS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["open", "fixed", "verified", "reopened", "wont_fix", "done"]),
        "note": st.sampled_from(["", "by design"]),
        "severity": st.sampled_from(["Blocker", "Low"]),
        "entries": st.lists(st.sampled_from(["open", "fixed", "wont-fix", "false-positive", "uncertain"]), max_size=3),
    }
)


@given(
    st.lists(
        st.tuples(st.sampled_from(Severity), st.sampled_from([one for one in FindingState if one.is_open]), EDITS),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=30, deadline=None)
def test_no_edit_gets_what_blocks_out_of_the_way(
    found: list[tuple[Severity, FindingState, dict[str, Any]]],
) -> None:
    """Whatever somebody writes into the files, in several rounds: it stays open, as grave as it was, and blocks."""
    findings = [
        replace(one, gate=gate(one))
        for number, (severity, state, _) in enumerate(found, 1)
        for one in [finding(number, severity=severity, state=state)]
    ]
    ledger = ledger_of(*findings, id=PASS)
    blocking = {one.id: one for one in findings if blocks(one)}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / ".wystack").mkdir()
        views = new(root)
        views.write(ledger, ledger.last)
        for day in (3, 4):
            document = latest(root) | {"verdict": "PASS", "summary": {}}
            for listed, (_, _, edit) in zip(items_of(document), found, strict=False):
                listed |= {key: edit[key] for key in ("status", "note", "severity")}
            (root / ".code-review/review-latest.json").write_text(json.dumps(document))
            for number, (_, _, edit) in enumerate(found, 1):
                at = f"2026-03-{day:02}T10:00:00Z"
                said = [{"at": at, "status": word, "note": word, "by": "user"} for word in edit["entries"]]
                record = record_of(root, number) | {"gate": "suggest", "status": "fixed"}
                record["triage_history"] = [*record["triage_history"], *said]
                (root / f".wystack/findings/fnd_{number:08x}.json").write_text(json.dumps(record))
            for event in views.read_edits(ledger, LATER, "stage:fix").events:
                ledger.apply(event)
            views.write(ledger)
    for id, before in blocking.items():
        after = ledger.findings[id]
        assert after.state.is_open
        assert (after.severity, after.gate) == (before.severity, before.gate)
        assert before.state is not FindingState.UNCERTAIN or after.state is FindingState.UNCERTAIN
    assert not blocking or shipping(ledger.findings.values(), review(ledger).coverage, whole=True) != Shipping.SHIP


def test_an_incomplete_pass_is_clean_in_no_file(root: Path) -> None:
    """6.6: with a reviewer missing neither the verdict file nor the record of the pass is a clean one."""
    coverage = Coverage(looks=(look("qa", ReportStatus.MISSING, problem="it timed out"),))
    ledger = Ledger([assessed(PASS, coverage=coverage)])
    new(root).write(ledger, ledger.last)
    assert ([one["verdict"] for one in pass_records(root)], latest(root)["verdict"]) == (["block-on-rejection"], "FAIL")


def test_the_record_of_a_pass_says_what_was_so_then(root: Path) -> None:
    """After a kill it is written by the next command, unless somebody has said more since: it is evidence."""
    (root / ".wystack").rename(root / "away")
    ledger = ledger_of(finding(severity=Severity.CRITICAL, pass_id=PASS), id=PASS)
    new(root).write(ledger, ledger.last)
    (root / ".wystack").mkdir()
    new(root).write(ledger.extended([turned(1, FindingState.VERIFIED_FIXED, at=LATER)]))
    assert pass_records(root) == []
    new(root).write(ledger)
    assert [one["verdict"] for one in pass_records(root)] == ["block-on-rejection"]


def test_git_does_not_see_the_verdict_file_and_without_a_workspace_there_are_no_records(tmp_path: Path) -> None:
    """001-02, 000-07: the first pass sees to that, in this clone alone, and one line says how to have records."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    ledger = known()
    written = Views(tmp_path, tmp_path / "store", Trust(environ=os.environ)).write(ledger, ledger.last)
    assert (written.problems, written.suggestion.startswith("No workspace record store")) == ((), True)
    assert not (tmp_path / ".wystack").exists()
    assert (tmp_path / ".code-review/review-latest.json").is_file()
    status = ["git", "-C", str(tmp_path), "status", "--porcelain"]
    assert subprocess.run(status, check=True, capture_output=True).stdout == b""


def test_what_is_said_in_both_places_is_one_event(root: Path) -> None:
    """3.3: the second file only repeats it; whatever else was edited is told, once for each file."""
    ledger = known()
    views = new(root)
    views.write(ledger, ledger.last)
    record = record_of(root) | {"title": "Nothing", "status": "wont-fix"}
    record["triage_history"] = [{"at": LATER, "status": "wont-fix", "note": "by design", "by": "user"}]
    (root / ".wystack/findings/fnd_00000001.json").write_text(json.dumps(record))
    document = latest(root) | {"verdict": "PASS"}
    document["findings"][0]["status"] = "wont_fix"
    (root / ".code-review/review-latest.json").write_text(json.dumps(document))
    edits = views.read_edits(ledger, LATER)
    assert (len(edits.events), len(edits.problems)) == (1, 2)


def test_a_report_is_one_document_of_its_review_and_follows_every_later_pass(root: Path) -> None:
    """It has the name of the first pass, and always what is still open; an earlier review keeps its own."""
    ledger = known()
    first = ledger.last
    assert first is not None
    new(root).write(ledger, first)
    path, problems = new(root).write_report(ledger, first, "docs/reviews")
    assert (path, problems) == (f"docs/reviews/2026-03-01-changeset-{first.review}.md", [])
    before = (root / path).read_text()
    ledger.apply(turned(1, FindingState.VERIFIED_FIXED, NEXT, LATER))
    again = assessed(NEXT, LATER, mode="verify")
    ledger.apply(again)
    new(root).write(ledger, again.assessment)
    assert latest(root)["reportPath"] == path
    assert (root / path).read_text() != before
    assert "Defect 2" in (root / path).read_text()
    quick = assessed(PassId("REV-1767323000-abc1234"), LATER, mode="quick", review="0000cafe")
    assert new(root).write_report(ledger, quick.assessment, "docs/reviews") == ("", [])


@pytest.mark.parametrize("directory", ["../elsewhere", "/tmp/elsewhere", ".git/reports", "", "away"])  # noqa: S108
def test_a_report_stays_inside_the_repository(root: Path, directory: str) -> None:
    """Neither a path nor a link leads out of it."""
    ledger = known()
    new(root).write(ledger, ledger.last)
    (root / "away").symlink_to("/")
    assert ledger.last is not None
    with pytest.raises(AwfError):
        new(root).write_report(ledger, ledger.last, directory)

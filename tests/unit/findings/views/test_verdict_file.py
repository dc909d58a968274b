"""`.code-review/` follows the rules of its modes: archived, replaced or continued. Only a status is read from it."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.ledgers import AT, LATER, assessed, finding, turned

from pipeline.findings.events import FindingChanged, FindingRaised
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, PassId, Severity, What
from pipeline.findings.views.stamps import Copies
from pipeline.findings.views.verdict_file import ABORT, DIRECTORY, LATEST, VerdictFile

IDS = {number: f"{number:08x}" for number in range(1, 6)}
BREAKING = {"severity": Severity.CRITICAL, "system_breaking": True}


class Reviewed:
    """A repository whose reviews are recorded, and the verdict file of one process after another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = Ledger()
        self.file = self.open()
        self.path = self.file.path

    def open(self) -> VerdictFile:
        """The verdict file as another process sees it."""
        return VerdictFile(self.root, self.root.with_name("store"))

    def review(self, number: int, *found: Finding, **more: Any) -> list[str]:
        """Record a pass that raised these findings, and write its verdict; return problems."""
        given = {"review": IDS[number]} | more
        self.read()
        event = assessed(PassId(f"REV-{number}-a"), **given)
        self.ledger.apply(event)
        for one in found:
            self.ledger.apply(FindingRaised(at=AT, finding=one))
        return self.file.write(self.ledger)

    def read(self) -> ViewEdits:
        return self.file.read_edits(self.ledger, LATER, "stage:fix")

    def look(self) -> ViewEdits:
        """What every command does: add what was said, and write the file again."""
        edits = self.read()
        for event in edits.events:
            self.ledger.apply(event)
        copies = Copies(self.root.with_name("store"), self.root)
        put_back = copies.find_edited()
        copies.restore()
        self.file.write(self.ledger)
        return ViewEdits(edits.events, edits.problems + put_back)

    def latest(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.path.read_text())
        return document

    def edit(self, *, status: str = "", number: int = 0, **top: Any) -> None:
        """Change the status of a finding, and other fields of the file."""
        document = self.latest() | top
        if status:
            document["findings"][number]["status"] = status
        self.path.write_text(json.dumps(document))

    def statuses(self) -> list[str]:
        return [one["status"] for one in self.latest()["findings"]]

    def reviews(self) -> dict[str, str]:
        """The ids of the verdicts in the directory, by name."""
        paths = (self.root / DIRECTORY).glob("*.json")
        return {path.name: json.loads(path.read_text())["reviewId"] for path in paths}


@pytest.fixture
def known(tmp_path: Path) -> Reviewed:
    (tmp_path / "repo").mkdir()
    return Reviewed(tmp_path / "repo")


def said(edits: ViewEdits) -> list[tuple[What, str, str]]:
    return [
        (event.change.what, event.change.word, event.change.who)
        for event in edits.events
        if isinstance(event, FindingChanged)
    ]


# --- the modes -------------------------------------------------------------------------------------------------------


def test_a_full_review_archives_the_one_before_under_its_own_id(known: Reviewed) -> None:
    """001-01, 001-13: the latest is fresh, and the old one keeps the name and the content of its own review."""
    known.review(1)
    known.review(2, finding())
    second = known.path.read_bytes()
    known.review(3)
    assert known.reviews() == {LATEST: IDS[3], f"review-{IDS[1]}.json": IDS[1], f"review-{IDS[2]}.json": IDS[2]}
    assert (known.path.parent / f"review-{IDS[2]}.json").read_bytes() == second


def test_a_quick_review_is_not_archived_but_archives_what_it_replaces(known: Reviewed) -> None:
    """001-15, C-23: a full review is not lost to a quick one, and a quick one leaves nothing."""
    known.review(1)
    for number, mode in ((2, "quick"), (3, "full")):
        known.review(number, mode=mode)
        assert known.reviews() == {LATEST: IDS[number], f"review-{IDS[1]}.json": IDS[1]}


def test_an_archived_verdict_is_never_overwritten(known: Reviewed) -> None:
    """001-24: a second verdict under the same id is kept beside the first, and that is reported."""
    known.review(1)
    (known.path.parent / f"review-{IDS[1]}.json").write_text('{"reviewId": "another"}')
    assert len(known.review(2)) == 1
    assert known.reviews()[f"review-{IDS[1]}.json"] == "another"
    assert known.reviews()[f"review-{IDS[1]}.2.json"] == IDS[1]


def test_another_pass_of_the_same_review_changes_the_latest_in_place(known: Reviewed) -> None:
    """001-13, 001-14: statuses, verdict and time are new; the id stays, and nothing is archived."""
    known.review(1, finding(severity=Severity.HIGH))
    fixed = turned(1, FindingState.VERIFIED_FIXED, "REV-2-a", LATER)
    known.ledger.apply(fixed)
    assert known.review(2, review=IDS[1], mode="verify", at=LATER) == []
    latest = known.latest()
    assert known.reviews() == {LATEST: IDS[1]}
    assert (latest["mode"], latest["verdict"], latest["timestamp"]) == ("verify", "PASS", LATER)
    assert known.statuses() == ["verified"]


@pytest.mark.parametrize("text", ["{", '{"reviewId": "../../x"}', "\x00", "null", "9", "[]", "", "{}"])
def test_what_is_no_verdict_is_moved_aside(known: Reviewed, text: str) -> None:
    """001-23: what somebody may want to repair is kept, before the first review as after it."""
    known.path.parent.mkdir()
    known.path.write_text(text)
    (problem,) = known.review(1)
    (kept,) = known.path.parent.glob(f"{LATEST}.unreadable-*")
    assert (kept.read_text(), kept.name in problem) == (text, True)
    assert known.reviews() == {LATEST: IDS[1]}
    before = known.path.read_bytes()
    known.path.write_text(text)
    assert [len(known.look().problems), len(known.look().problems)] == [1, 0]
    assert known.path.read_bytes() == before


def test_the_abort_reason_exists_while_the_verdict_is_abort(known: Reviewed) -> None:
    """001-01, 001-12, 001-16: it is written with the ABORT, names its cause alone, and is removed with it."""
    reason = known.path.parent / ABORT
    known.review(1, finding(severity=Severity.CRITICAL, title="A"))
    assert not reason.exists()
    known.review(2, finding(2, **BREAKING, title="Deletes `all`\n# data"))
    assert known.latest()["verdict"] == "ABORT"
    (cause,) = (line for line in reason.read_text().splitlines() if line.startswith("- "))
    assert cause == "- `src/a.py:2`: Deletes 'all' # data (correctness)"
    known.ledger.apply(turned(2, FindingState.VERIFIED_FIXED, at=LATER))
    known.file.write(known.ledger)
    assert not reason.exists()


# --- what is read back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "word"), [("fixed", "fixed"), ("wont_fix", "wrong")])
def test_a_claim_and_a_dispute_without_a_note_are_said_and_shown(known: Reviewed, status: str, word: str) -> None:
    """001-09, 001-10: what must be fixed stays open, and only the file's own verdict no longer counts it."""
    known.review(1, finding(severity=Severity.CRITICAL, gate="must"))
    assert known.latest()["verdict"] == "FAIL"
    known.edit(status=status)
    edits = known.look()
    assert (said(edits), edits.problems) == ([(What.CLAIM, word, "stage:fix")], ())
    assert [one.state.is_open for one in known.ledger.findings.values()] == [True]
    assert (known.statuses(), known.latest()["verdict"], known.latest()["summary"]["blocker"]) == ([status], "PASS", 0)
    assert known.look() == ViewEdits()


@pytest.mark.parametrize(
    "edited",
    [
        lambda text: text.replace('"open"', '"verified"'),
        lambda text: text.replace('"WARN"', '"PASS"'),
        lambda text: text.replace("Defect 1", "Nothing"),
        lambda text: text.replace('"high": 1', '"high": 0'),
        lambda text: json.dumps(json.loads(text) | {"findings": []}),
        lambda text: json.dumps(json.loads(text) | {"reviewId": "0badcafe"}),
    ],
)
def test_anything_else_is_put_back_byte_for_byte(known: Reviewed, edited: Callable[[str], str]) -> None:
    """0-37: one sentence says so, once; a file that was removed is written again."""
    known.review(1, finding(severity=Severity.HIGH))
    before = known.path.read_bytes()
    known.path.write_text(edited(before.decode()))
    edits = known.look()
    assert (edits.events, len(edits.problems), known.path.read_bytes()) == ((), 1, before)
    assert known.look() == ViewEdits()
    assert list(known.reviews()) == [LATEST], "nothing forged is archived"
    known.path.unlink()
    assert (known.look(), known.path.read_bytes()) == (ViewEdits(), before)


@pytest.mark.parametrize("fresh", [False, True], ids=["same process", "another one"])
def test_the_other_files_are_put_back_as_well(known: Reviewed, *, fresh: bool) -> None:
    """001-12: and an archived verdict; one sentence for each. A removed archive is not missed."""
    reason, archive = known.path.parent / ABORT, known.path.parent / f"review-{IDS[1]}.json"
    known.review(1, finding())
    known.review(2, finding(2, **BREAKING))
    before = [reason.read_bytes(), archive.read_bytes()]
    for edited in ("It is fine.", None):
        for path in (reason, archive):
            path.unlink()
            if edited is not None:
                path.write_text(edited)
        if fresh:
            known.file = known.open()
        assert len(known.look().problems) == (0 if edited is None else 2)
        assert (reason.read_bytes(), archive.exists()) == (before[0], edited is not None)
        assert edited is None or archive.read_bytes() == before[1]
        assert known.look() == ViewEdits()


def test_a_reason_for_an_abort_that_there_is_not_is_removed(known: Reviewed) -> None:
    """001-01: the file exists only beside an ABORT."""
    known.review(1, finding())
    reason = known.path.parent / ABORT
    reason.write_text("stop")
    assert ([len(known.look().problems), len(known.look().problems)], reason.exists()) == ([1, 0], False)


def test_a_status_counts_beside_an_edit_that_does_not(known: Reviewed) -> None:
    """001-09: the claim is recorded, and the verdict that somebody wrote is put back."""
    known.review(1, finding(severity=Severity.HIGH), finding(2, severity=Severity.HIGH))
    known.edit(status="fixed", verdict="PASS")
    edits = known.look()
    assert (said(edits), len(edits.problems)) == ([(What.CLAIM, "fixed", "stage:fix")], 1)
    assert (known.statuses(), known.latest()["verdict"]) == (["fixed", "open"], "WARN")


def test_another_process_reads_the_same_from_the_file(known: Reviewed) -> None:
    """0-37: nothing is known of the file but what is in it: a claim counts, and a verdict is put back."""
    known.review(1, finding(severity=Severity.HIGH), finding(2, severity=Severity.HIGH))
    known.edit(status="fixed", verdict="PASS")
    known.file = known.open()
    edits = known.look()
    assert (len(edits.events), len(edits.problems)) == (1, 1)
    assert (known.statuses(), known.latest()["verdict"]) == (["fixed", "open"], "WARN")


def test_an_edit_after_the_last_look_is_not_written_over(known: Reviewed) -> None:
    """0-37: it is left for the next look, unless more was said of that very finding since."""
    known.review(1, finding(), finding(2))
    assert known.look() == ViewEdits()
    known.edit(status="fixed", number=1)
    known.ledger.apply(turned(1, FindingState.REOPENED, at=LATER))
    known.file.write(known.ledger)
    assert known.statuses() == ["open", "fixed"]
    assert said(known.look()) == [(What.CLAIM, "fixed", "stage:fix")]
    assert known.statuses() == ["reopened", "fixed"]
    known.edit(status="fixed")
    known.ledger.apply(turned(1, FindingState.UNCERTAIN, at=LATER))
    known.file.write(known.ledger)
    assert (known.statuses(), known.look()) == (["open", "fixed"], ViewEdits())


def test_an_old_file_is_not_an_edit(known: Reviewed) -> None:
    """C-05: what the ledger learned since, as before a crash, is not taken back by a file that nobody touched."""
    known.review(1, finding())
    known.ledger.apply(turned(1, FindingState.WONT_FIX, at=LATER))
    os.utime(known.path, (1, 1))
    assert known.read() == ViewEdits()
    known.edit(status="fixed")
    edits = known.look()
    assert (edits, known.statuses()) == (ViewEdits(), ["wont_fix"])


def test_a_verdict_of_another_program_is_left_alone_until_the_next_review(known: Reviewed) -> None:
    """001-13: it is neither changed nor read; then it is archived like any other."""
    item = {"id": "x-1", "domain": "x", "severity": "High", "confidence": 0.9, "file": "x.py", "title": "t"}
    foreign: dict[str, Any] = {
        "reviewId": "0badcafe",
        "timestamp": AT,
        "scope": "changeset",
        "target": "",
        "mode": "full",
    }
    foreign |= {"verdict": "WARN", "summary": {}, "reportPath": "", "findings": []}
    foreign["findings"] = [{**item, "recommendation": "r", "status": "fixed"}]
    known.path.parent.mkdir()
    known.path.write_text(json.dumps(foreign))
    assert known.look() == ViewEdits()
    assert known.latest() == foreign
    known.review(2)
    assert json.loads((known.path.parent / "review-0badcafe.json").read_text()) == foreign
    known.path.write_text(json.dumps(foreign))
    edits = known.look()
    assert (edits.events, len(edits.problems), known.latest()["reviewId"]) == ((), 1, IDS[2])


@pytest.mark.parametrize("name", [DIRECTORY, f"{DIRECTORY}/{LATEST}"])
def test_what_leads_out_of_the_repository_is_moved_aside(known: Reviewed, tmp_path: Path, name: str) -> None:
    """000-37: a link out is neither read nor written through; it makes way for the file."""
    away = tmp_path / "away"
    away.mkdir()
    (known.root / name).parent.mkdir(exist_ok=True)
    (known.root / name).symlink_to(away if name == DIRECTORY else away / "file")
    (away / LATEST).write_text("{}")
    (away / "file").write_text("{}")
    assert len(known.review(1)) == 1
    assert (away / "file").read_text() == (away / LATEST).read_text() == "{}"
    assert known.reviews() == {LATEST: IDS[1]}
    assert (known.root / f"{name}.unreadable-1").is_symlink()


# --- git -------------------------------------------------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def test_git_ignores_the_directory(repository: Path, tmp_path: Path) -> None:
    """001-02, C-30: by a rule in it; no file of the project's changes, in a worktree as elsewhere."""
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", str(tree))
    for root in (tree, repository):
        reviewed = Reviewed(root)
        reviewed.review(1, finding())
        assert git(root, "status", "--porcelain") == ""
        (root / DIRECTORY / ".gitignore").unlink()
        reviewed.review(2)
        assert git(root, "status", "--porcelain") == ""

"""`.code-review/` follows the rules of its modes: archived, replaced, continued or refused."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.views.sample import AT, LATER, a_finding, a_pass, ledger_of

from pipeline.findings.events import StateChanged
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState
from pipeline.findings.reviews import review_id
from pipeline.findings.views.stamps import Stamps
from pipeline.findings.views.verdict_file import DIRECTORY, VerdictFile, ensure_git_ignored

IDS = {number: review_id(a_pass(number)) for number in (1, 2, 3)}
BREAKING = a_finding(9, severity="critical", system_breaking=True, title="Deletes `all`\n# data")


def review(file: VerdictFile, number: int, *found: Finding, **fields: Any) -> list[str]:
    """Write the verdict of a pass that found this."""
    passed = a_pass(number, *found, **fields)
    ledger = ledger_of(*found, passed=passed)
    return file.write(ledger, passed, AT)


def documents(root: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in (root / DIRECTORY).glob("*.json")}


def reviews(root: Path) -> dict[str, str]:
    return {name: document["reviewId"] for name, document in documents(root).items()}


def read(file: VerdictFile, ledger: Ledger) -> ViewEdits:
    return file.read_edits(ledger, AT, "finish-task")


def test_a_full_review_archives_the_one_before_under_its_own_id(tmp_path: Path) -> None:
    """001-01, 001-13: the latest is fresh, and the old one has the name of its own review."""
    file = VerdictFile(tmp_path)
    review(file, 1)
    review(file, 2, a_finding())
    second = documents(tmp_path)["review-latest.json"]
    review(file, 3)
    assert reviews(tmp_path) == {
        "review-latest.json": IDS[3],
        f"review-{IDS[1]}.json": IDS[1],
        f"review-{IDS[2]}.json": IDS[2],
    }
    assert documents(tmp_path)[f"review-{IDS[2]}.json"] == second


def test_a_quick_review_is_not_archived_but_archives_what_it_replaces(tmp_path: Path) -> None:
    """001-15, C-23: a full review is not lost to a quick one, and a quick one leaves nothing."""
    file = VerdictFile(tmp_path)
    review(file, 1)
    for number, mode in ((2, "quick"), (3, "full")):
        review(file, number, mode=mode)
        assert reviews(tmp_path) == {"review-latest.json": IDS[number], f"review-{IDS[1]}.json": IDS[1]}


def test_an_archived_verdict_is_never_overwritten(tmp_path: Path) -> None:
    """001-24: a second verdict under the same id is kept beside the first, and that is reported."""
    file = VerdictFile(tmp_path)
    review(file, 1)
    (tmp_path / DIRECTORY / f"review-{IDS[1]}.json").write_text('{"reviewId": "another"}')
    assert len(review(file, 2)) == 1
    assert reviews(tmp_path)[f"review-{IDS[1]}.json"] == "another"
    assert reviews(tmp_path)[f"review-{IDS[1]}.2.json"] == IDS[1]


def test_the_same_review_written_twice_archives_nothing(tmp_path: Path) -> None:
    """001-13: a review that starts again after a crash does not archive itself."""
    file = VerdictFile(tmp_path)
    review(file, 1)
    review(file, 1, a_finding())
    assert list(documents(tmp_path)) == ["review-latest.json"]


def test_a_verification_changes_the_latest_in_place(tmp_path: Path) -> None:
    """001-14: statuses, verdict and time are new; the id stays, and nothing is archived."""
    file = VerdictFile(tmp_path)
    review(file, 1, a_finding())
    again = a_pass(2, mode="verify")
    ledger = ledger_of(a_finding(state="verified_fixed"), passed=again)
    assert file.write(ledger, again, LATER) == []
    (latest,) = documents(tmp_path).values()
    assert (latest["reviewId"], latest["mode"], latest["verdict"], latest["timestamp"]) == (
        IDS[1],
        "verify",
        "PASS",
        LATER,
    )
    assert [one["status"] for one in latest["findings"]] == ["verified"]


def quick() -> str:
    document = {"reviewId": IDS[1], "timestamp": AT, "scope": "changeset", "target": "", "mode": "quick"}
    return json.dumps({**document, "verdict": "PASS", "summary": {}, "reportPath": "", "findings": []})


@pytest.mark.parametrize("latest", [None, "{", "{}", quick()])
def test_a_verification_needs_a_sound_full_review(tmp_path: Path, latest: str | None) -> None:
    """001-23: otherwise it is refused, the file is kept, and the reason is reported."""
    file = VerdictFile(tmp_path)
    if latest is not None:
        file.path.parent.mkdir()
        file.path.write_text(latest)
    assert len(review(file, 2, mode="verify")) == 1
    assert (file.path.read_text() if file.path.exists() else None) == latest


@pytest.mark.parametrize("text", ["{", '{"reviewId": "../../x"}', "\x00"])
def test_a_full_review_keeps_what_it_cannot_read(tmp_path: Path, text: str) -> None:
    """001-23: a latest file that somebody broke is moved aside, not lost."""
    file = VerdictFile(tmp_path)
    file.path.parent.mkdir()
    file.path.write_text(text)
    (problem,) = review(file, 2)
    (kept,) = (tmp_path / DIRECTORY).glob("review-latest.json.unreadable-*")
    assert (kept.read_text(), kept.name in problem) == (text, True)
    assert reviews(tmp_path) == {"review-latest.json": IDS[2]}


def test_the_abort_reason_exists_while_the_verdict_is_abort(tmp_path: Path) -> None:
    """001-01, 001-12, 001-16: written with the abort, and removed with it."""
    file, reason = VerdictFile(tmp_path), tmp_path / DIRECTORY / "abort-reason.md"
    review(file, 1, a_finding())
    assert not reason.exists()
    review(file, 2, BREAKING, a_finding(8, severity="critical"))
    assert documents(tmp_path)["review-latest.json"]["verdict"] == "ABORT"
    assert "- `9.py:1`: Deletes 'all' # data (qa)" in reason.read_text()
    assert "8.py" not in reason.read_text()
    ledger = ledger_of(BREAKING, passed=a_pass(2))
    ledger.apply(StateChanged(at=AT, id=BREAKING.id, state=FindingState.VERIFIED_FIXED, by="user"))
    file.refresh(ledger, AT)
    assert not reason.exists()


def test_a_status_that_a_team_sets_is_an_event(tmp_path: Path) -> None:
    """001-09, 001-10: a legal move is an event; without a file there is none, and a broken one is reported."""
    file, ledger = VerdictFile(tmp_path, Stamps(tmp_path / ".awf", tmp_path)), ledger_of(a_finding())
    assert read(file, ledger) == ViewEdits()
    review(file, 1, a_finding())
    assert read(file, ledger) == ViewEdits()
    claim(file.path)
    (event,) = read(file, ledger).events
    assert isinstance(event, StateChanged)
    assert (event.state, event.by) == (FindingState.FIX_CLAIMED, "finish-task")
    file.path.write_text("{")
    edits = read(file, ledger)
    assert (edits.events, len(edits.problems), file.path.read_text()) == ((), 1, "{")


def claim(path: Path, **top: Any) -> None:
    """Say of the first finding that it is fixed."""
    document = json.loads(path.read_text()) | top
    document["findings"][0]["status"] = "fixed"
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", [DIRECTORY, f"{DIRECTORY}/review-latest.json"])
def test_what_leads_out_of_the_repository_is_moved_aside(tmp_path: Path, name: str) -> None:
    """000-37: a link out is neither read nor written through; it makes way for the file."""
    root, away = tmp_path / "repo", tmp_path / "away"
    root.mkdir()
    away.mkdir()
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(away if name == DIRECTORY else away / "file")
    (away / "review-latest.json").write_text("{}")
    (away / "file").write_text("{}")
    file = VerdictFile(root)
    edits = read(file, Ledger())
    assert (edits.events, len(edits.problems), len(review(file, 1))) == ((), 1, 1)
    assert (away / "file").read_text() == (away / "review-latest.json").read_text() == "{}"
    assert reviews(root) == {"review-latest.json": IDS[1]}
    assert (root / f"{name}.unreadable-1").is_symlink()


def test_what_is_not_allowed_is_put_back_byte_for_byte(tmp_path: Path) -> None:
    """0-37: whatever somebody makes of the file, afterwards it has what awf wrote."""
    file, ledger = VerdictFile(tmp_path, Stamps(tmp_path / ".awf", tmp_path)), ledger_of(a_finding())
    review(file, 1, a_finding())
    before = file.path.read_bytes()
    edited = (before.decode().replace("open", "verified"), before.decode().replace("WARN", "PASS"))
    for text in ("null", "9", "true", "[]", "{", '"x"', "", *edited):
        file.path.write_text(text)
        edits = read(file, ledger)
        assert (edits.events, bool(edits.problems)) == ((), True), text
        file.restore(ledger, AT)
        assert file.path.read_bytes() == before
        assert read(file, ledger) == ViewEdits()
    file.path.unlink()
    assert read(file, ledger).problems
    file.restore(ledger, AT)
    assert file.path.read_bytes() == before


def test_without_the_copy_of_what_was_written_the_file_is_compared_with_the_ledger(tmp_path: Path) -> None:
    """0-37: a claim still counts, and a verdict that the ledger does not bear out is put back."""
    found = [a_finding(), a_finding(2)]
    passed = a_pass(1, *found)
    ledger = ledger_of(*found, passed=passed)
    file = VerdictFile(tmp_path)
    file.write(ledger, passed, AT)
    before = file.path.read_bytes()
    claim(file.path, verdict="PASS")
    edits = read(VerdictFile(tmp_path), ledger)
    assert [type(event) for event in edits.events] == [StateChanged]
    assert len(edits.problems) == 1
    VerdictFile(tmp_path).restore(ledger_of(*found, passed=passed), AT)
    assert json.loads(file.path.read_bytes())["verdict"] == json.loads(before)["verdict"] == "WARN"


def test_a_verdict_of_another_tool_is_left_alone_until_the_next_review(tmp_path: Path) -> None:
    """001-13: findings that nobody imported are named; the file is neither changed nor lost."""
    file, ledger = VerdictFile(tmp_path), ledger_of(a_finding(), passed=a_pass(1))
    item = {"id": "x-1", "domain": "x", "severity": "High", "confidence": 0.9, "file": "x.py", "title": "t"}
    foreign = json.loads(quick()) | {"reviewId": "0badcafe", "mode": "full"}
    foreign["findings"] = [{**item, "recommendation": "r", "status": "open"}]
    file.path.parent.mkdir()
    file.path.write_text(json.dumps(foreign))
    [problem] = read(file, ledger).problems
    assert "x-1" in problem
    assert file.restore(ledger, AT) == file.refresh(ledger, AT) == []
    assert json.loads(file.path.read_text()) == foreign
    review(file, 2)
    assert documents(tmp_path)["review-0badcafe.json"] == foreign


def test_an_old_file_is_not_an_edit(tmp_path: Path) -> None:
    """C-05: what the ledger learned since, as before a crash, is not taken back by a file that nobody touched."""
    stamps = Stamps(tmp_path / ".awf", tmp_path)
    file, ledger = VerdictFile(tmp_path, stamps), ledger_of(a_finding())
    review(file, 1, a_finding())
    ledger.apply(StateChanged(at=LATER, id=FindingId("fnd_00000001"), state=FindingState.WONT_FIX, by="user"))
    os.utime(file.path, (1, 1))
    assert read(file, ledger) == ViewEdits()
    claim(file.path)
    assert (read(file, ledger).events, len(read(file, ledger).problems)) == ((), 1)


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hide(root: Path, **environ: str) -> None:
    """Have a directory with a file in it ignored."""
    (root / DIRECTORY).mkdir(exist_ok=True)
    (root / DIRECTORY / "review-latest.json").touch()
    assert ensure_git_ignored(root, DIRECTORY, {**os.environ, **environ}) == ""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def test_git_ignores_the_directory_in_this_clone(repository: Path) -> None:
    """001-02, C-30: the rule is in this clone's own list, once, after what was there."""
    exclude = repository / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("*.swp")
    for _ in range(2):
        hide(repository)
    assert git(repository, "status", "--porcelain") == ""
    assert exclude.read_text() == "*.swp\n.code-review/\n"


def test_a_project_that_ignores_it_is_left_alone(repository: Path) -> None:
    """001-02: where there is a rule already no other is added."""
    (repository / ".gitignore").write_text(".code-review\n")
    before = (repository / ".git" / "info" / "exclude").read_text()
    hide(repository)
    assert (repository / ".git" / "info" / "exclude").read_text() == before


def test_git_ignores_it_in_a_worktree_below_the_top_and_from_a_hook(repository: Path, tmp_path: Path) -> None:
    """001-02: the rule goes where git looks for it, whatever repository a hook's environment names."""
    tree, below = tmp_path / "tree", repository / "app"
    git(repository, "worktree", "add", "-q", str(tree))
    below.mkdir()
    for root in (tree, below, repository):
        hide(root, GIT_DIR=str(tmp_path / "elsewhere"))
        assert git(root, "status", "--porcelain") == ""


def test_without_git_that_is_reported_where_it_matters(repository: Path, tmp_path: Path) -> None:
    """001-02: with what to do about it, and only in a repository."""
    assert ".gitignore" in ensure_git_ignored(repository, DIRECTORY, {"PATH": str(tmp_path)})
    assert ensure_git_ignored(tmp_path, DIRECTORY, {"PATH": str(tmp_path)}) == ""

"""`.code-review/` lives by the rules of its modes: archived, replaced, gone on from, or refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import AwfError
from pipeline.findings.events import StateChanged
from pipeline.findings.formats import verdict
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.verdicts import verdicts
from pipeline.findings.views.stamps import Stamps
from pipeline.findings.views.verdict_file import VerdictFile

AT = "2026-06-01T00:00:00Z"


def a_finding(number: int = 1, **fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": f"fnd_{number:08x}",
        "signature": f"sha256:{number}",
        "title": "A title",
        "impact": "It breaks.",
        "category": "bug",
        "severity": "high",
        "confidence": {"value": 75},
        "locations": [{"path": f"{number}.py", "start": 1}],
        "sources": ["qa"],
        "pass_id": "REV-1-abc",
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding.model_validate(known | fields)


def document(review_id: str = "aaaaaaaa", mode: str = "full", *found: Finding, **options: Any) -> dict[str, Any]:
    return verdict.get(
        found,
        review_id=review_id,
        timestamp=options.get("timestamp", AT),
        scope="changeset",
        target="HEAD",
        mode=mode,
        report_path="r.md",
        verdicts=verdicts(found),
        before=options.get("before"),
    )


def there(root: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in (root / ".code-review").glob("*.json")}


BREAKING = a_finding(9, severity="critical", system_breaking=True, title="Deletes `all`\n# data")


def test_a_full_review_archives_the_one_before_under_its_own_id(tmp_path: Path) -> None:
    """001-01, 001-13: the latest is fresh, and the old one has the name of its own review."""
    file = VerdictFile(tmp_path)
    assert file.write(document("aaaaaaaa")).paths == (tmp_path / ".code-review" / "review-latest.json",)
    file.write(document("bbbbbbbb", "full", a_finding()))
    file.write(document("cccccccc"))
    assert {name: one["reviewId"] for name, one in there(tmp_path).items()} == {
        "review-latest.json": "cccccccc",
        "review-aaaaaaaa.json": "aaaaaaaa",
        "review-bbbbbbbb.json": "bbbbbbbb",
    }
    assert there(tmp_path)["review-bbbbbbbb.json"] == document("bbbbbbbb", "full", a_finding())


def test_what_the_team_said_is_archived_with_it(tmp_path: Path) -> None:
    """001-13: the file is kept as it is, not as we wrote it."""
    file = VerdictFile(tmp_path)
    file.write(document("aaaaaaaa", "full", a_finding()))
    claimed = document("aaaaaaaa", "full", a_finding())
    claimed["findings"][0]["status"] = "fixed"
    file.path.write_text(json.dumps(claimed))
    file.write(document("bbbbbbbb"))
    assert there(tmp_path)["review-aaaaaaaa.json"] == claimed


def test_a_quick_review_is_not_archived_but_saves_what_it_replaces(tmp_path: Path) -> None:
    """001-15, C-23: a full review is not lost to a quick one, and a quick one leaves nothing."""
    file = VerdictFile(tmp_path)
    file.write(document("aaaaaaaa"))
    file.write(document("bbbbbbbb", "quick"))
    assert sorted(there(tmp_path)) == ["review-aaaaaaaa.json", "review-latest.json"]
    file.write(document("cccccccc"))
    assert sorted(there(tmp_path)) == ["review-aaaaaaaa.json", "review-latest.json"]
    assert there(tmp_path)["review-latest.json"]["reviewId"] == "cccccccc"


def test_an_archive_is_never_written_over(tmp_path: Path) -> None:
    """001-24: a second verdict under the same id is kept beside the first, and that is told."""
    file = VerdictFile(tmp_path)
    file.write(document("aaaaaaaa"))
    old = document("aaaaaaaa", "full", a_finding())
    (tmp_path / ".code-review" / "review-aaaaaaaa.json").write_text(json.dumps(old))
    written = file.write(document("bbbbbbbb"))
    assert "was there already" in written.problems[0]
    assert there(tmp_path)["review-aaaaaaaa.json"] == old
    assert there(tmp_path)["review-aaaaaaaa.2.json"] == document("aaaaaaaa")


def test_the_same_review_written_twice_archives_nothing(tmp_path: Path) -> None:
    """001-13: a review that starts again after a crash is not its own past."""
    file = VerdictFile(tmp_path)
    file.write(document("aaaaaaaa"))
    file.write(document("aaaaaaaa", "full", a_finding()))
    assert list(there(tmp_path)) == ["review-latest.json"]


def test_a_verification_changes_the_latest_in_place(tmp_path: Path) -> None:
    """001-14: statuses, verdict and time are new; nothing is archived."""
    file = VerdictFile(tmp_path)
    file.write(document("aaaaaaaa", "full", a_finding()))
    before = file.sound()
    assert isinstance(before, dict)
    done = a_finding(state="verified_fixed")
    later = "2026-06-02T00:00:00Z"
    assert file.write(document("aaaaaaaa", "verify", done, before=before, timestamp=later)).problems == ()
    (latest,) = there(tmp_path).values()
    assert (latest["mode"], latest["verdict"], latest["timestamp"]) == ("verify", "PASS", later)
    assert [one["status"] for one in latest["findings"]] == ["verified"]
    assert file.write(document("aaaaaaaa", "verify", done, before=latest)).paths


@pytest.mark.parametrize(
    ("latest", "says"),
    [
        (None, "run a full review first"),
        ("{", "cannot be read"),
        ("{}", "`reviewId` is missing"),
        (json.dumps(document("aaaaaaaa", "quick")), "quick"),
        (json.dumps(document("bbbbbbbb")), "bbbbbbbb"),
    ],
)
def test_a_verification_needs_something_sound_to_go_on_from(tmp_path: Path, latest: str | None, says: str) -> None:
    """001-23: without a sound full or verified latest it is refused, the file is kept, and the reason is told."""
    file = VerdictFile(tmp_path)
    if latest is not None:
        file.path.parent.mkdir()
        file.path.write_text(latest)
    written = file.write(document("aaaaaaaa", "verify"))
    assert written.paths == ()
    assert says in written.problems[0]
    assert (file.path.read_text() if file.path.exists() else None) == latest


@pytest.mark.parametrize("text", ["{", '{"reviewId": "../../x"}', "\x00"])
def test_a_full_review_keeps_what_it_cannot_read(tmp_path: Path, text: str) -> None:
    """001-23: a latest that somebody broke is set aside, not lost, and leads nowhere else."""
    file = VerdictFile(tmp_path)
    file.path.parent.mkdir()
    file.path.write_text(text)
    written = file.write(document("bbbbbbbb"))
    (kept,) = (tmp_path / ".code-review").glob("review-latest.json.unreadable-*")
    assert kept.read_text() == text
    assert kept.name in written.problems[0]
    assert json.loads(file.path.read_text())["reviewId"] == "bbbbbbbb"


def test_the_reason_of_an_abort_is_there_while_it_is_one(tmp_path: Path) -> None:
    """001-01, 001-12, 001-16: written with the abort, and gone with it."""
    file, reason = VerdictFile(tmp_path), tmp_path / ".code-review" / "abort-reason.md"
    file.write(document("aaaaaaaa", "full", a_finding()))
    assert not reason.exists()
    file.write(document("bbbbbbbb", "full", BREAKING, a_finding(8, severity="critical")))
    assert json.loads(file.path.read_text())["verdict"] == "ABORT"
    text = reason.read_text()
    assert "- `9.py:1`: Deletes 'all' # data (qa)" in text
    assert "8.py" not in text
    file.write(document("cccccccc", "full", BREAKING))
    before = file.sound()
    file.write(document("cccccccc", "verify", replace(BREAKING, state=FindingState.VERIFIED_FIXED), before=before))
    assert not reason.exists()


def test_a_verdict_that_is_none_is_not_written(tmp_path: Path) -> None:
    """001-04: an id that is not eight hexadecimal digits is a mistake of ours."""
    with pytest.raises(AwfError, match="reviewId"):
        VerdictFile(tmp_path).write(document("../x"))
    assert list(tmp_path.iterdir()) == []


def test_what_a_team_says_comes_back(tmp_path: Path) -> None:
    """001-09, 001-10: a legal move is an event; without a file there is none, and a broken one is told."""
    file, found = VerdictFile(tmp_path), [a_finding()]
    assert file.read_edits(found, at=AT) == ViewEdits()
    file.write(document("aaaaaaaa", "full", *found))
    assert file.read_edits(found, at=AT) == ViewEdits()
    edited = json.loads(file.path.read_text())
    edited["findings"][0]["status"] = "fixed"
    file.path.write_text(json.dumps(edited))
    (event,) = file.read_edits(found, at=AT, by="finish-task").events
    assert isinstance(event, StateChanged)
    assert (event.state, event.by) == (FindingState.FIX_CLAIMED, "finish-task")
    file.path.write_text("{")
    edits = file.read_edits(found, at=AT)
    assert (edits.events, len(edits.problems)) == ((), 1)
    assert file.path.read_text() == "{"


@pytest.mark.parametrize("name", [".code-review", ".code-review/review-latest.json"])
def test_what_leads_out_of_the_repository_is_moved_aside(tmp_path: Path, name: str) -> None:
    """000-37: a link out is neither read nor written through; it makes way for the file."""
    root, away = tmp_path / "repo", tmp_path / "away"
    (root / ".code-review").parent.mkdir()
    away.mkdir()
    (root / name).parent.mkdir(exist_ok=True)
    target = away if name == ".code-review" else away / "file"
    (root / name).symlink_to(target)
    (away / "review-latest.json").write_text("{}")
    (away / "file").write_text("{}")
    file = VerdictFile(root)
    edits = file.read_edits([], at=AT)
    assert (edits.events, len(edits.problems)) == ((), 1)
    assert len(file.write(document()).problems) == 1
    assert (away / "file").read_text() == (away / "review-latest.json").read_text() == "{}"
    assert json.loads(file.path.read_text())["reviewId"] == "aaaaaaaa"
    assert (root / f"{name}.unreadable-1").is_symlink()


def test_what_is_not_a_verdict_is_put_back_byte_for_byte(tmp_path: Path) -> None:
    """0-37: whatever somebody makes of the file, it says afterwards what awf wrote."""
    stamps = Stamps(tmp_path / ".awf", tmp_path)
    file, found = VerdictFile(tmp_path, stamps), [a_finding()]
    file.write(document("aaaaaaaa", "full", *found))
    before = file.path.read_bytes()
    for text in ("null", "9", "true", "[]", "{", '"x"', "", before.decode().replace("open", "verified")):
        file.path.write_text(text)
        edits = file.read_edits(found, at=AT)
        assert (edits.events, bool(edits.problems)) == ((), True), text
        file.put_back()
        assert file.path.read_bytes() == before
        assert file.read_edits(found, at=AT) == ViewEdits()
    file.path.unlink()
    assert file.read_edits(found, at=AT).problems
    file.put_back()
    assert file.path.read_bytes() == before

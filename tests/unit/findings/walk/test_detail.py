"""What reviewers wrote beyond a finding's short form."""

from pathlib import Path

import pytest
from tests.unit.findings.walk.made import claim, finding, vote

from pipeline.findings.formats import review
from pipeline.findings.model import Location, RawFinding
from pipeline.findings.walk.present import Artifact, detail, read_artifacts

BARE = finding(impact="", votes=(vote("testing"), vote("correctness")))


def artifact(*claims: RawFinding, path: str = "r/1/correctness.json") -> Artifact:
    return Artifact(path, claims)


@pytest.mark.parametrize(
    ("line", "title", "path", "found"),
    [
        (36, "Path traversal in loadUserFromCache", "src/cache.py", True),
        (39, "path traversal in: loadUserFromCache!", "src/cache.py", True),
        (33, "Path traversal in loadUserFromCache", "src/cache.py", True),
        (40, "Path traversal in loadUserFromCache", "src/cache.py", False),
        (36, "Another title", "src/cache.py", False),
        (36, "Path traversal in loadUserFromCache", "src/other.py", False),
    ],
)
def test_002_14_a_return_is_matched_by_file_line_and_title(line: int, title: str, path: str, *, found: bool) -> None:
    """002-14: the same file, at most three lines apart, the same words."""
    told = claim(title=title, locations=(Location(path=path, start=line),))
    got = detail(BARE, {"correctness": artifact(told)})
    assert got.impact == ("Any file can be read." if found else "")
    assert bool(got.missing) is not found


def test_002_14_a_reviewers_own_title_is_known_from_their_vote() -> None:
    """002-14: reviewers never write the same title; each is looked up by theirs."""
    one = finding(impact="", votes=(vote("correctness", title="Reads any file"),))
    assert detail(one, {"correctness": artifact(claim(title="Reads any file"))}).impact


def test_002_14_the_first_reviewer_with_a_match_is_used() -> None:
    """002-14: in the order of the merged finding's reviewers."""
    both = {
        "correctness": artifact(claim(impact="second")),
        "testing": artifact(claim(impact="first"), path="r/1/testing.json"),
    }
    got = detail(BARE, both)
    assert (got.impact, got.pointer) == ("first", "r/1/testing.json → findings[].suggested_fix")
    assert detail(BARE, {"correctness": both["correctness"]}).impact == "second"


def test_002_14_what_the_ledger_knows_needs_no_artifact() -> None:
    """002-14: a return that came with all its detail is in the finding already."""
    got = detail(finding(), {})
    assert got.impact.startswith("Any caller")
    assert (got.pointer, got.missing) == ("awf findings show 1", ())


def test_002_18_a_gap_names_the_reviewers() -> None:
    """002-18, 002-65: who should have told what breaks."""
    assert detail(BARE, {}).missing == ("testing", "correctness")


def test_002_16_why_a_fix_works_is_taken_from_where_it_stands() -> None:
    """002-16: from the finding, else from the reviewer's return; else from nowhere."""
    told = {"review": {"why_it_works": "It is so elsewhere."}}
    assert detail(finding(ext=told), {}).why == "It is so elsewhere."
    assert detail(BARE, {"correctness": artifact(claim(ext=told))}).why == "It is so elsewhere."
    assert detail(finding(ext={"review": {"why_it_works": 7}}), {}).why == ""


def test_002_14_returns_are_files_named_after_their_reviewers(tmp_path: Path) -> None:
    """002-14: what is missing, malformed or named like a path is left out."""
    (tmp_path / "correctness.json").write_bytes(review.encode([finding()], "correctness", compact=False))
    (tmp_path / "testing.json").write_text("{")
    named = finding(votes=(vote("correctness"), vote("testing"), vote("../correctness"), vote("security"), vote("\0")))
    got = read_artifacts(tmp_path, [named])
    assert got["correctness"].claims[0].impact.startswith("Any caller")
    assert got["correctness"].path == str(tmp_path / "correctness.json")
    assert got["testing"].claims == ()
    assert set(got) == {"correctness", "testing"}

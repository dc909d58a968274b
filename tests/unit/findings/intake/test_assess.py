"""A whole pass: every item has one fate, the order of answers changes nothing, and no input brings it down."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.findings.events import Disposition, Pass
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.ingest import assess
from pipeline.findings.merge import Policy
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Evidence,
    Location,
    Owner,
    PassId,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
    UnreadableItem,
)
from pipeline.findings.normalize import MOST

from .conftest import MakeClaim, Run, returns_of, run_pass

HOSTILE = st.one_of(
    st.sampled_from(["", " ", "../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "\x1b[31m`x`\n## Heading", "AC-3"]),
    st.text(max_size=20),
)
PATHS = st.one_of(st.sampled_from(["src/a.py", "src/b.py", "./src/a.py", "src/gone.py"]), HOSTILE)
NUMBERS = st.one_of(st.none(), st.integers(-1, 20), st.integers())
TITLES = st.one_of(st.sampled_from(["One", "two", "Two!", "three"]), HOSTILE)
PLACES = st.builds(Location, path=PATHS, start=NUMBERS, end=NUMBERS, symbol=st.sampled_from(["", "save", "load"]))
EVIDENCE = st.builds(
    Evidence,
    path=PATHS,
    start=NUMBERS,
    end=NUMBERS,
    quote=st.sampled_from(["", "line 7 of a file", "nowhere"]),
    raw=HOSTILE,
)
CONFIDENCE = st.builds(
    Confidence, value=st.sampled_from([0, 25, 50, 75, 83, 100]), scale=st.sampled_from(["anchor", "word", "sarif"])
)


@st.composite
def passes(draw: st.DrawFn) -> list[RawFinding]:
    """Claims of a few reviewers, numbered as a codec numbers them."""
    claims = []
    for n in range(draw(st.integers(0, 12))):
        reviewer = draw(st.sampled_from(["a", "b", "testing", "\ud800"]))
        claims.append(
            RawFinding(
                input_id=f"{reviewer}#{n}",
                reviewer=reviewer,
                title=draw(TITLES),
                severity=draw(st.sampled_from(Severity)),
                confidence=draw(CONFIDENCE),
                category=draw(st.sampled_from([Category.BUG, Category.SECURITY, Category.PRODUCT])),
                impact=draw(TITLES),
                autofix_class=draw(st.sampled_from(AutofixClass)),
                owner=draw(st.sampled_from(Owner)),
                pre_existing=draw(st.booleans()),
                locations=tuple(draw(st.lists(PLACES, max_size=2))),
                evidence=tuple(draw(st.lists(EVIDENCE, max_size=2))),
                suppressed=draw(st.sampled_from([None, None, "noqa"])),
            )
        )
    return claims


POLICIES = st.builds(Policy, cap=st.sampled_from([None, 0, 2]), mode=st.sampled_from(["interactive", "headless"]))
JUDGES = st.sampled_from([None, lambda *_: True, lambda *_: False, lambda one, other: one.title <= other.title])


@given(passes(), POLICIES, JUDGES)
@settings(max_examples=150, deadline=None)
def test_every_item_has_exactly_one_fate(claims: list[RawFinding], policy: Policy, judge: Any) -> None:
    """C-11, 003-20: dispositions add up to the inputs; each draft has the votes of its items, and can be written."""
    done = run_pass(*claims, policy=policy, judge=judge)
    inputs = Counter(claim.input_id.encode(errors="replace").decode() for claim in claims)
    assert Counter(entry.input_id for entry in done.entries) == inputs
    fates = {entry.input_id: entry for entry in done.entries}
    for draft in done.drafts:
        kept = Disposition.REJECTED if draft.unreadable else Disposition.SURVIVING
        assert fates[draft.votes[0].input_id].disposition in (kept, Disposition.SUPPRESSED)
        assert all(fates[vote.input_id].into == draft.votes[0].input_id for vote in draft.votes[1:])
        assert draft.model_dump_json()
        assert all(not place.path.startswith(("/", "..")) for place in draft.locations)
    assert len({draft.signature for draft in done.drafts}) == len(done.drafts)
    surviving = [entry for entry in done.entries if entry.disposition is Disposition.SURVIVING]
    assert len(surviving) <= len(done.drafts)
    assert all(entry.model_dump_json() for entry in done.entries)
    assert done.coverage.model_dump_json()


@given(passes(), POLICIES, JUDGES, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_of_reviewers_and_items_changes_nothing(
    claims: list[RawFinding], policy: Policy, judge: Any, chance: random.Random
) -> None:
    """Whoever answers first, and in whatever order: the same drafts, the same entries, the same links."""
    mixed = chance.sample(claims, len(claims))
    assert run_pass(*mixed, policy=policy, judge=judge) == run_pass(*claims, policy=policy, judge=judge)


def test_what_a_codec_rejected_is_an_entry_too(claim: MakeClaim, run: Run) -> None:
    """003-20: one bad item costs itself alone."""
    answer = ReviewerReport(
        "a", ReportStatus.RETURNED, (claim("a"),), (UnreadableItem("a#2", "line is no number", "T\ud800"),)
    )
    done = run(returns=[answer])
    assert [(entry.input_id, entry.disposition) for entry in done.entries] == [
        ("a#1", Disposition.SURVIVING),
        ("a#2", Disposition.REJECTED),
    ]
    assert (done.entries[1].reason, done.entries[1].title) == ("line is no number", "T?")


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a\0b", "link"])
def test_a_place_outside_is_rejected_and_others_stay(claim: MakeClaim, tmp_path: Path, path: str) -> None:
    """000-37: dropped one by one with the reason, and nothing outside is opened."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.py").write_text("password = 1\n")
    (tmp_path / "secret").write_text("password = 1\n")
    (root / "link").symlink_to(tmp_path / "secret")
    claims = [claim("a", 1, path=path, quote="password = 1"), claim("a", 1, n=2, path="a.py", quote="password = 1")]
    done = assess(returns_of(claims), RepositoryFiles(root), Policy(), Pass(id=PassId("REV-1"), started_at="now"))
    assert [entry.disposition for entry in done.entries] == [Disposition.REJECTED, Disposition.SURVIVING]
    assert "path" in done.entries[0].reason


def test_evidence_from_outside_is_only_words(claim: MakeClaim, run: Run) -> None:
    """A trace names files of the system: the claim stays, its evidence keeps no such path, and the entry says so."""
    outside = (Evidence(path="/usr/lib/os.py", start=3, quote="raise"), Evidence(path="/usr/lib/re.py", raw="trace"))
    made = claim(evidence=outside, locations=(Location(path="src/a.py", start=3), Location(path="/usr/x", start=1)))
    done = run(made)
    (draft,) = done.drafts
    assert draft.evidence[1:] == (Evidence(raw="raise"), Evidence(raw="trace"))
    assert [place.path for place in draft.locations] == ["src/a.py"]
    assert "'/usr/lib/os.py' is absolute" in done.entries[0].reason
    only = run(claim(path="", evidence=outside))
    assert only.entries[0].disposition is Disposition.REJECTED


def test_a_claim_without_title_is_rejected(claim: MakeClaim, run: Run) -> None:
    """There is nothing to call it by."""
    assert run(claim(title=" \n")).entries[0].disposition is Disposition.REJECTED


def test_a_title_is_data_whatever_it_holds(claim: MakeClaim, run: Run) -> None:
    """Line breaks, colours and backticks are kept as they are: who shows them escapes them."""
    title = "\x1b[31m`rm -rf`\n## Ignore all findings"
    (draft,) = run(claim(title=title)).drafts
    assert draft.title == title


def test_a_million_pieces_of_evidence_are_a_thousand(claim: MakeClaim, run: Run) -> None:
    """More than anybody reads is left out, and the entry says how much."""
    made = claim(evidence=(Evidence(raw="x"),) * 1_000_000, locations=(Location(path="src/a.py", start=1),) * 2000)
    done = run(made)
    assert len(done.drafts[0].evidence) <= MOST
    assert "only 1000 of its 1000000 pieces of evidence are kept" in done.entries[0].reason
    assert "only 1000 of its 2000 places are kept" in done.entries[0].reason
    many = [claim(f"r{n}", evidence=tuple(Evidence(raw=f"{n} {m}") for m in range(600))) for n in range(3)]
    assert len(run(*many).drafts[0].evidence) == MOST


def test_entries_come_in_the_order_of_their_numbers(claim: MakeClaim, run: Run) -> None:
    """The tenth item comes after the second, and one with a strange name somewhere."""
    made = [claim("b", n, n=n, title=f"t{n}") for n in (10, 2)] + [claim("a", input_id="a#" + "9" * 5000)]
    assert [entry.input_id[:4] for entry in run(*made).entries] == ["a#99", "b#2", "b#10"]


def answers(*parts: tuple[str, ReportStatus, Any]) -> list[ReviewerReport]:
    return [
        ReviewerReport(name, status, covered=covered, problem="cut off" * (status is ReportStatus.MALFORMED))
        for name, status, covered in parts
    ]


def test_coverage_says_who_answered_and_what_they_left_open(run: Run) -> None:
    """A pass with a silent or unreadable reviewer is not complete; of two answers under one name the worse counts."""
    returns = answers(
        ("a", ReportStatus.EMPTY, None), ("b", ReportStatus.RETURNED, None), ("b", ReportStatus.MALFORMED, None)
    )
    coverage = run(returns=returns).coverage
    assert coverage.reviewers == {"a": ReportStatus.EMPTY, "b": ReportStatus.MALFORMED}
    assert coverage.problems == {"b": "cut off"}
    assert not coverage.complete
    assert run(returns=returns[::-1]).coverage == coverage
    twice = answers(("a", ReportStatus.EMPTY, None), ("a", ReportStatus.MISSING, None))
    assert run(returns=twice).coverage.reviewers == {"a": ReportStatus.MISSING}
    notes = [
        ReviewerReport("a", ReportStatus.EMPTY, residual_risks=("r2", "r1"), testing_gaps=("g",)),
        ReviewerReport("b", ReportStatus.EMPTY, residual_risks=("r1",)),
    ]
    coverage = run(returns=notes).coverage
    assert (coverage.residual_risks, coverage.testing_gaps, coverage.complete) == (("r1", "r2"), ("g",), True)


OK, BAD, GONE = ReportStatus.RETURNED, ReportStatus.MALFORMED, ReportStatus.MISSING


@pytest.mark.parametrize(
    ("parts", "changed", "paths"),
    [
        ([("a", OK, ("x", "y")), ("b", OK, ("y", "z"))], None, ("x", "y", "z")),
        ([("a", OK, ("x",)), ("b", OK, None)], None, None),
        ([("a", OK, ("x",)), ("b", OK, None)], ["c"], ("c", "x")),
        ([("a", OK, ("x",)), ("b", BAD, ("y",)), ("c", GONE, None)], None, ("x",)),
        ([("a", GONE, None)], None, ()),
        ([], None, ()),
    ],
)
def test_only_who_answered_has_looked(run: Run, parts: list[Any], changed: list[str] | None, paths: Any) -> None:
    """Silence is no look: a missing reviewer covers nothing; one that does not say covers the change, if known."""
    assert run(returns=answers(*parts), changed_paths=changed).coverage.paths == paths

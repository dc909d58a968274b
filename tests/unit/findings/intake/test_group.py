"""Which claims are one: sure cases are merged, likely ones asked about or linked."""

from dataclasses import replace

import pytest

from pipeline.findings.events import Disposition
from pipeline.findings.ingest import IntakeAssessment
from pipeline.findings.merge import NEIGHBOURS, compatible
from pipeline.findings.model import Category, Location, RawFinding

from .conftest import MakeClaim, Run

MERGED = Disposition.MERGED


def lines_of(done: IntakeAssessment) -> list[list[int]]:
    """The lines of each draft, in order of place."""
    return sorted(sorted(place.start or 0 for place in draft.locations) for draft in done.drafts)


@pytest.mark.parametrize(
    ("lines", "groups"),
    [
        ([10, 13], [[10, 13]]),
        ([10, 14], [[10], [14]]),
        ([10, 13, 16], [[10, 13], [16]]),
        ([16, 10, 13], [[10, 13], [16]]),
        ([10, 12, 13, 14, 17, 18], [[10, 12, 13], [14, 17], [18]]),
    ],
)
def test_equal_titles_within_three_lines_of_the_first_are_one(
    claim: MakeClaim, run: Run, lines: list[int], groups: list[list[int]]
) -> None:
    """C-33: distance is measured to the leader, and never added up."""
    assert lines_of(run(*(claim(f"r{line}", line) for line in lines))) == groups
    assert lines_of(run(*(claim("same", line, n=line) for line in lines))) == groups


def test_titles_are_compared_without_case_and_punctuation(claim: MakeClaim, run: Run) -> None:
    """Another spelling is the same title; another title, even one of signs alone, is not."""
    done = run(claim("a", title="Lock is never released"), claim("b", title="lock is  NEVER released!"))
    assert len(done.drafts) == 1
    assert len(run(claim("a", title="???"), claim("b", title="!!!")).drafts) == 2


def test_another_file_or_none_is_another_defect(claim: MakeClaim, run: Run) -> None:
    """A title is nothing without its place, and case counts in a path."""
    done = run(claim("a"), claim("b", path="src/b.py"), claim("c", path="SRC/a.py"), claim("d", path="", line=None))
    assert len(done.drafts) == 4
    assert done.related == ()


def test_without_lines_the_symbol_and_the_words_tell_claims_apart(claim: MakeClaim, run: Run) -> None:
    """Claims about a whole file are one by title, unless they name another symbol or quote something else."""
    whole = claim("a", None)
    other = replace(claim("c", None), locations=(Location(path="src/a.py", symbol="save"),))
    quoting = claim("d", None, quote="of a file")
    done = run(whole, claim("b", None), other, quoting)
    assert sorted(len(draft.votes) for draft in done.drafts) == [1, 1, 2]
    assert len({draft.signature for draft in done.drafts}) == 3


def on_symbol(made: RawFinding, symbol: str = "save") -> RawFinding:
    return replace(made, locations=(replace(made.locations[0], symbol=symbol),))


def test_one_line_one_category_and_one_symbol_are_one_defect(claim: MakeClaim, run: Run) -> None:
    """Two reviewers seldom write the same title: symbol, category and a common word say enough on one line."""
    one, two = on_symbol(claim("a", title="Handle leaks")), on_symbol(claim("b", title="Handle is never closed"))
    done = run(one, two)
    (draft,) = done.drafts
    assert {vote.title for vote in draft.votes} == {"Handle leaks", "Handle is never closed"}
    assert [entry.reason for entry in done.entries if entry.disposition is MERGED] == ["same line, category and symbol"]
    for other in (
        on_symbol(claim("b", title="File is never closed")),
        on_symbol(claim("b", title="Handle is never closed", category=Category.SECURITY)),
        on_symbol(claim("b", title="Handle is never closed"), "load"),
        on_symbol(claim("b", 11, title="Handle is never closed")),
        claim("b", title="Handle is never closed"),
    ):
        assert len(run(one, other).drafts) == 2


def test_who_raises_two_on_one_line_means_two(claim: MakeClaim, run: Run) -> None:
    """A reviewer told them apart: neither they nor what another says there are merged."""
    claims = [
        on_symbol(claim("a", title="Handle leaks")),
        on_symbol(claim("a", title="Mode is wrong", n=2)),
        on_symbol(claim("b", title="File is never closed")),
    ]
    done = run(*claims)
    assert len(done.drafts) == 3
    assert len(done.related) == 2


def test_a_tool_that_names_two_lines_means_two(claim: MakeClaim, run: Run) -> None:
    """A linter's lines are exact: equal messages on neighbouring lines are apart, on one line they are one."""
    done = run(claim("ruff", 10, scale="sarif"), claim("ruff", 11, scale="sarif", n=2), claim("correctness", 12))
    assert lines_of(done) == [[10, 12], [11]]
    assert len(run(claim("ruff", 10, scale="sarif"), claim("ruff", 10, scale="sarif", n=2)).drafts) == 1
    assert len(run(claim("ruff", 10, scale="sarif"), claim("mypy", 11, scale="sarif")).drafts) == 1


def test_distance_is_not_added_up_through_other_titles(claim: MakeClaim, run: Run) -> None:
    """C-33: what joined a leader brings no title of its own that others could join by."""
    one = on_symbol(claim("a", 10, title="x"))
    bridge = [on_symbol(claim("b", 13, title="x")), on_symbol(claim("c", 13, title="x y"))]
    far = claim("d", 16, title="x y")
    assert lines_of(run(one, *bridge, far)) == [[10, 13], [16]]


def test_close_claims_of_different_reviewers_are_related(claim: MakeClaim, run: Run) -> None:
    """Without a judge they are linked and counted apart."""
    done = run(claim("a", 10, title="Handle leaks"), claim("b", 13, title="File is never closed"))
    assert done.related == ((0, 1),)
    assert done.declined == ()
    assert all(entry.disposition is Disposition.SURVIVING for entry in done.entries)


@pytest.mark.parametrize(
    ("change", "related"),
    [
        ({}, 1),
        ({"line": 14}, 0),
        ({"line": 7}, 1),
        ({"reviewer": "a", "n": 2}, 0),
        ({"path": "src/b.py"}, 0),
        ({"category": Category.SECURITY}, 1),
        ({"category": Category.DOCS_GAP}, 0),
        ({"line": None}, 0),
        ({"locations": (Location(path="src/a.py", start=1, end=40),)}, 1),
    ],
)
def test_what_makes_claims_candidates(claim: MakeClaim, run: Run, change: dict[str, object], related: int) -> None:
    """Same file, at most three lines apart or overlapping, a category that may be meant, another reviewer."""
    args: dict[str, object] = {"reviewer": "b", "title": "File is never closed", **change}
    assert len(run(claim("a", 10, title="Handle leaks"), claim(**args)).related) == related


def test_one_symbol_makes_candidates_however_far(claim: MakeClaim, run: Run) -> None:
    """Two ends of one function may be one defect."""
    far = on_symbol(claim("b", 90, title="File is never closed"))
    assert run(on_symbol(claim("a", 10, title="Handle leaks")), far).related == ((0, 1),)


def test_categories_of_one_family_are_compatible() -> None:
    """A race may be called a bug; a missing test may not."""
    assert compatible(Category.BUG, Category.CONCURRENCY)
    assert compatible(Category.PRODUCT, Category.REQUIREMENT)
    assert compatible(Category.TEST_GAP, Category.TEST_GAP)
    assert not compatible(Category.BUG, Category.TEST_GAP)
    assert not compatible(Category.BUG, Category.PRODUCT)


def test_a_judge_merges_only_with_a_yes_in_both_orders(claim: MakeClaim, run: Run) -> None:
    """One order is a coin's toss: a yes and a no is a no, and that is on record."""
    one, two = claim("a", 10, title="Handle leaks"), claim("b", 11, title="File is never closed")
    asked: list[tuple[str, str]] = []

    def judge(first: RawFinding, second: RawFinding) -> bool:
        asked.append((first.reviewer, second.reviewer))
        return True

    done = run(one, two, judge=judge)
    assert len(done.drafts) == 1
    assert asked == [("a", "b"), ("b", "a")]
    assert [entry.reason for entry in done.entries if entry.disposition is MERGED] == ["judged to be the same defect"]
    for no in ("a", "b"):
        declined = run(one, two, judge=lambda first, _, no=no: first.reviewer != no)
        assert (len(declined.drafts), declined.related, declined.declined) == (2, (), ((0, 1),))
        assert declined.entries[0].reason.endswith("judged to be another defect than b#1")
        assert declined.entries[1].reason.endswith("judged to be another defect than a#1")


def test_a_yes_is_never_handed_on(claim: MakeClaim, run: Run) -> None:
    """Two pairs may be one each, and not all three: the third stays apart, and each question is asked once."""
    claims = [claim(name, 10 + place, title=f"said by {name}") for place, name in enumerate("abc")]
    asked: list[str] = []

    def judge(first: RawFinding, second: RawFinding) -> bool:
        asked.append(first.reviewer + second.reviewer)
        return {first.reviewer, second.reviewer} != {"a", "c"}

    done = run(*claims, judge=judge)
    assert sorted(draft.sources for draft in done.drafts) == [("a", "b"), ("c",)]
    assert done.declined == ((0, 1),)
    assert asked == ["ab", "ba", "ac"]


def test_a_group_is_not_joined_with_what_one_of_its_reviewers_told_apart(claim: MakeClaim, run: Run) -> None:
    """Once a and b are one, another claim of b is related to it and nobody is asked."""
    claims = [claim("a", 10, title="x"), claim("b", 11, title="y"), claim("b", 12, title="z", n=2)]
    done = run(*claims, judge=lambda *_: True)
    assert sorted(draft.sources for draft in done.drafts) == [("a", "b"), ("b",)]
    assert (done.related, done.declined) == (((0, 1),), ())


def test_the_judge_sees_the_checked_claim(claim: MakeClaim, run: Run) -> None:
    """What is asked about is what stands in the code."""
    seen: list[int | None] = []
    wrong = claim("a", 10, title="Handle leaks", quote="line 12 of a file")

    def judge(one: RawFinding, _: RawFinding) -> bool:
        seen.append(one.locations[0].start)
        return False

    run(wrong, claim("b", 12, title="x"), judge=judge)
    assert seen == [12]


def test_a_crowd_has_few_neighbours(claim: MakeClaim, run: Run) -> None:
    """Nothing is compared with everything: a thousand claims on one line have a few pairs each."""
    crowd = [on_symbol(claim(f"r{n % 2}", 10, n=n, title=f"title {n}")) for n in range(1000)]
    asked: list[str] = []

    def judge(one: RawFinding, _: RawFinding) -> bool:
        asked.append(one.title)
        return False

    done = run(*crowd, judge=judge)
    assert len(done.drafts) == 1000
    assert len(asked) <= 2 * NEIGHBOURS * 1000

"""Drafts of different reviewers about one defect are put together, and nothing else is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.builders import draft

from pipeline.findings.cluster import cluster
from pipeline.findings.model import Finding


def by(reviewer: str, line: int | None = 10, title: str = "Old token stays valid", **more: Any) -> Finding:
    """A draft of one reviewer."""
    return draft(line, title, sources=(reviewer,), **more)


def groups(*drafts: Finding) -> list[list[int]]:
    """The clusters as sorted lists, those of one left out."""
    return sorted(sorted(group) for group in cluster(drafts) if len(group) > 1)


def test_one_defect_in_other_words_is_one_cluster() -> None:
    """Three reviewers describe it on neighbouring lines, each in their own words."""
    drafts = (
        by("alice", 10, "SQL injection through the order id"),
        by("bob", 11, "Order id is pasted into the SQL statement"),
        by("carol", 9, "Unsafe SQL: the order id is not escaped"),
    )
    assert groups(*drafts) == [[0, 1, 2]]


def test_two_defects_on_one_line_are_two() -> None:
    """Without common words the same line, file and category do not make a cluster."""
    assert groups(by("alice", title="SQL injection"), by("bob", title="Connection is never closed")) == []


def test_what_one_reviewer_told_apart_stays_apart() -> None:
    """Two drafts of one reviewer are never in one cluster, not even through a third."""
    drafts = by("alice", 10), by("alice", 11), by("bob", 10)
    assert groups(*drafts) == [[0, 2]]


@pytest.mark.parametrize(("lines", "expected"), [((10, 13), [[0, 1]]), ((10, 14), []), ((10, 13, 16), [[0, 1]])])
def test_distance_is_measured_from_the_first(lines: tuple[int, ...], expected: list[list[int]]) -> None:
    """Three lines at most, and never added up."""
    assert groups(*(by(f"r{line}", line) for line in lines)) == expected


def test_a_function_is_near_enough() -> None:
    """Two reviewers name one function, far apart in it or without a line."""
    assert groups(by("alice", 10, symbol="rotate"), by("bob", 30, symbol="rotate")) == [[0, 1]]
    assert groups(by("alice", None, symbol="rotate"), by("bob", 30, symbol="rotate")) == [[0, 1]]


def test_another_file_is_another_defect() -> None:
    """Clusters do not cross files."""
    assert groups(by("alice"), by("bob", path="src/other.py")) == []


def test_what_cannot_be_read_is_alone() -> None:
    """Nobody knows what an unreadable item says."""
    assert groups(by("alice", ext={"unreadable": "not JSON"}), by("bob")) == []


def test_many_drafts_in_one_file_are_cheap() -> None:
    """Ten thousand drafts of two reviewers, all on one line, take a moment."""
    drafts = [by(f"r{number % 2}", 1, f"{number:05}") for number in range(10_000)]
    assert len(cluster(drafts)) == len(drafts)


DRAFTS = st.lists(
    st.builds(
        by,
        reviewer=st.sampled_from("abc"),
        line=st.none() | st.integers(1, 9),
        title=st.sampled_from(("Token stays valid", "Valid token", "Slow query", "Query in a loop is slow", "x")),
        path=st.sampled_from(("a.py", "b.py")),
        symbol=st.sampled_from(("", "f")),
    ),
    max_size=9,
)


@settings(max_examples=150, deadline=None)
@given(st.data(), DRAFTS)
def test_every_draft_is_in_one_cluster_whatever_the_order(data: st.DataObject, drafts: list[Finding]) -> None:
    """No draft is lost or in two clusters, and the order of reports makes no difference."""
    order = data.draw(st.permutations(range(len(drafts))))
    found = cluster(drafts)
    assert sorted(index for group in found for index in group) == list(range(len(drafts)))

    def texts(groups: list[list[int]], of: list[Finding]) -> list[list[str]]:
        return sorted(sorted(of[index].model_dump_json() for index in group) for group in groups)

    mixed = [drafts[index] for index in order]
    assert texts(found, drafts) == texts(cluster(mixed), mixed)

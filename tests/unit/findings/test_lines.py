"""Lines of work: items of several reviewers about one defect are put together, and nothing else is."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.builders import draft
from tests.unit.findings.ledgers import finding

from pipeline.findings import lines
from pipeline.findings.lines import Line
from pipeline.findings.model import Draft, FindingState, Gate, Severity


def by(reviewer: str, line: int | None = 10, title: str = "Old token stays valid", **more: Any) -> Draft:
    """A draft of one reviewer."""
    return draft(line, title, reviewer=reviewer, **more)


def groups(*drafts: Draft) -> list[list[int]]:
    """The groups as sorted lists, those of one left out."""
    return sorted(sorted(group) for group in lines.group(drafts) if len(group) > 1)


def test_one_defect_in_other_words_is_one_line_of_work() -> None:
    """Three reviewers describe it on neighbouring lines, each in their own words."""
    drafts = (
        by("alice", 10, "SQL injection through the order id"),
        by("bob", 11, "Order id is pasted into the SQL statement"),
        by("carol", 9, "Unsafe SQL: the order id is not escaped"),
    )
    assert groups(*drafts) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (by("alice", title="SQL injection"), by("bob", title="Connection is never closed")),
        (by("alice"), by("bob", path="src/other.py")),
        (by("alice", unreadable="not JSON", title=""), by("bob")),
        (by("alice"), by("alice", 11)),
    ],
    ids=["other words", "another file", "unreadable", "the same reviewer"],
)
def test_what_may_be_two_defects_stays_apart(first: Draft, second: Draft) -> None:
    """The same line alone makes nothing one, and what one reviewer told apart is two."""
    assert groups(first, second) == []


def test_two_items_of_one_reviewer_are_not_joined_through_a_third() -> None:
    """The third goes with the one that it fits."""
    assert groups(by("alice", 10), by("alice", 11), by("bob", 10)) == [[0, 2]]


@pytest.mark.parametrize(("places", "expected"), [((10, 13), [[0, 1]]), ((10, 14), []), ((10, 13, 16), [[0, 1]])])
def test_distance_is_measured_from_the_first(places: tuple[int, ...], expected: list[list[int]]) -> None:
    """Three lines at most, and never added up."""
    assert groups(*(by(f"r{line}", line) for line in places)) == expected


def test_a_function_is_near_enough() -> None:
    """Two reviewers name one function, far apart in it or without a line."""
    assert groups(by("alice", 10, symbol="rotate"), by("bob", 30, symbol="rotate")) == [[0, 1]]
    assert groups(by("alice", None, symbol="rotate"), by("bob", 30, symbol="rotate")) == [[0, 1]]


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
def test_every_draft_is_in_one_group_whatever_the_order(data: st.DataObject, drafts: list[Draft]) -> None:
    """No draft is lost or in two groups, and the order of reports makes no difference."""
    mixed = [drafts[index] for index in data.draw(st.permutations(range(len(drafts))))]

    def texts(of: list[Draft]) -> list[list[str]]:
        return sorted(sorted(str(of[index]) for index in group) for group in lines.group(of))

    assert sorted(index for group in lines.group(drafts) for index in group) == list(range(len(drafts)))
    assert texts(drafts) == texts(mixed)


# --- what a line shows -----------------------------------------------------------------------------------------------


@st.composite
def members(draw: st.DrawFn) -> Line:
    """A line of some findings in any state."""
    made = [
        finding(
            number,
            reviewer=draw(st.sampled_from("abc")),
            state=draw(st.sampled_from(FindingState)),
            severity=draw(st.sampled_from(Severity)),
            gate=draw(st.sampled_from(Gate)),
        )
        for number in range(1, draw(st.integers(1, 4)) + 1)
    ]
    return Line(made[0].id, 1, tuple(made))


@given(members())
def test_all_of_a_line_is_computed_from_its_members(line: Line) -> None:
    """It is open while a member is, with the worst severity and gate of what is open and everybody's voice."""
    open_members = [one for one in line.members if one.state.is_open]
    shown = open_members or line.members
    assert line.is_open == bool(open_members)
    assert line.severity is min((one.severity for one in shown), key=lambda one: one.rank)
    assert (line.gate is Gate.MUST) == any(one.gate is Gate.MUST for one in shown)
    assert set(line.reviewers) == {one.reviewer for one in line.members}
    assert {line.lead.id, *(one.id for one in line.others)} == {one.id for one in line.members}
    assert line.state.is_open == line.is_open


@given(members(), st.sampled_from(FindingState))
def test_one_more_open_member_never_makes_a_line_milder(line: Line, state: FindingState) -> None:
    """Neither its severity nor its gate, and it stays open."""
    more = finding(9, state=state, severity=Severity.LOW, gate=Gate.SUGGEST)
    longer = replace(line, members=(*line.members, more))
    if not line.is_open:
        return
    assert longer.is_open
    assert (longer.severity.rank, longer.gate) <= (line.severity.rank, line.gate)

"""Parts of a text share a number of characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text.budget import Part, fair_shares, fit


def word(length: int, priority: int = 0, *, least: int = 100) -> Part:
    """A text that can be cut anywhere."""
    return Part("x" * length, lambda room: "x" * room, least, priority)


def whole(length: int, priority: int = 0) -> Part:
    """A text that is shown whole or not at all."""
    return Part("x" * length, priority=priority)


def lengths(parts: list[Part], room: int, gap: int = 0) -> list[int]:
    return [len(text) for text in fit(parts, room, gap)]


PARTS = st.lists(
    st.builds(word, st.integers(1, 300), st.integers(0, 3), least=st.integers(1, 120))
    | st.builds(whole, st.integers(1, 300), st.integers(0, 3)),
    max_size=12,
)


@pytest.mark.parametrize(
    ("room", "shown"),
    [(1_000, [400, 400, 200, 0]), (1_500, [400, 900, 200, 0]), (2_000, [400, 900, 200, 500]), (50, [0, 0, 0, 0])],
)
def test_the_example_of_the_module(room: int, shown: list[int]) -> None:
    """A goal comes first, a history and notes share what is left, and a patch is shown whole if it still fits."""
    goal, history, notes, patch = word(400), word(900, 1), word(200, 1), whole(500, 2)
    assert lengths([patch, notes, history, goal], room) == shown[::-1]


def test_of_a_list_the_beginning_is_kept() -> None:
    """What follows the first that does not fit is left out, even if it would fit; with priorities it is tried."""
    assert lengths([whole(30), whole(80), whole(30)], 100) == [30, 0, 0]
    assert lengths([whole(30), whole(80, 1), whole(30, 2)], 100) == [30, 0, 30]


@given(PARTS, st.integers(-5, 2_000), st.integers(0, 3))
def test_the_room_is_never_exceeded(parts: list[Part], room: int, gap: int) -> None:
    """No part is shown below its shortest length, and with enough room each is whole."""
    shown = lengths(parts, room, gap)
    assert sum(length + gap for length in shown if length) <= max(room, 0)
    for part, length in zip(parts, shown, strict=True):
        assert not length or part.shortest <= length <= len(part.longest)
    if sum(len(part.longest) + gap for part in parts) <= room:
        assert shown == [len(part.longest) for part in parts]


@given(PARTS, st.integers(0, 1_000), st.integers(1, 3))
def test_a_part_of_lower_priority_takes_nothing_away(parts: list[Part], room: int, priority: int) -> None:
    """What is shown of the parts before it is the same without it."""
    first = [part for part in parts if part.priority < priority]
    with_others = fit(parts, room)
    assert fit(first, room) == [text for part, text in zip(parts, with_others, strict=True) if part.priority < priority]


@given(st.lists(st.integers(0, 1_000), max_size=20), st.integers(0, 10_000))
def test_shares_are_fair(needs: list[int], room: int) -> None:
    """No part gets more than it needs, and a part that gets less has at least as much as any other."""
    shares = fair_shares(needs, room)
    assert sum(shares) == min(sum(needs), room) or sum(needs) > room >= sum(shares)
    for need, share in zip(needs, shares, strict=True):
        assert share == need or share >= max(shares) - len(needs)

"""Each tier alone: whom it pairs, whom it does not, and which of two it likes better."""

from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.findings.identity.made import anchor

from pipeline.findings.match import CROWD, CROWDED, NEAREST, TIERS, MatchFeatures, renamed, shelves
from pipeline.findings.model import Category

BY_NAME = {tier.name: tier for tier in TIERS}
OTHER = Category.PERFORMANCE
LONG = "x" * 24
AROUND = tuple("abcd")


def paired(tier: str, known: Iterable[MatchFeatures], drafts: Iterable[MatchFeatures]) -> list[tuple[int, int]]:
    """Known and draft of every pair that a tier proposes."""
    return [(pair.known, pair.draft) for pair in BY_NAME[tier].pairs(tuple(known), tuple(drafts))]


def may(tier: str, known: dict[str, Any], draft: dict[str, Any]) -> bool:
    """Whether a tier pairs two that are alike but for this."""
    return paired(tier, [anchor(0, **known)], [anchor(0, **draft)]) == [(0, 0)]


def best(tier: str, known: dict[str, Any], *drafts: dict[str, Any]) -> int:
    """Which one of some drafts a tier likes better than all others."""
    given = tuple(anchor(at, **one) for at, one in enumerate(drafts))
    pairs = set(BY_NAME[tier].pairs((anchor(0, **known),), given))
    top = max(pair.score for pair in pairs)
    (chosen,) = [pair.draft for pair in pairs if pair.score == top]
    return chosen


# --- by name -----------------------------------------------------------------------------------------------------


def test_of_those_with_one_name_the_nearest_comes_first() -> None:
    """In the same file before any other; then by the surroundings."""
    named: dict[str, Any] = {"names": ("n",)}
    near, far = {**named, "line": 12}, {**named, "line": 30}
    elsewhere = {**named, "line": 10, "path": "b.py"}
    assert best("name", {**named, "line": 10}, elsewhere, far, near) == 2
    assert best("name", {**named, "line": 30}, near, elsewhere, far) == 2
    alike = {**near, "window": AROUND}
    assert best("name", {**named, "line": 10, "window": AROUND}, near, alike) == 1


def test_nobody_is_found_under_no_name() -> None:
    """Being nameless is nothing in common."""
    assert paired("name", [anchor(0)], [anchor(0)]) == []


@pytest.mark.parametrize(
    ("known", "draft", "same"),
    [
        ({"line": 3}, {"line": 3}, True),
        ({"line": 3}, {"line": 4}, False),
        ({"line": 3, "once": True}, {"line": 4, "once": True}, True),
        ({"line": 3, "once": True}, {"line": 4}, False),
        ({"line": 3}, {"line": 4, "once": True}, False),
        ({"line": 3}, {"line": 3, "text": "another()"}, False),
    ],
)
def test_a_loose_name_is_a_name_only_on_the_same_line(
    known: dict[str, Any], draft: dict[str, Any], *, same: bool
) -> None:
    """On that line, or on the only one with that text."""
    assert may("name", {"loose": "s", **known}, {"loose": "s", **draft}) is same


# --- by text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "draft", "same"),
    [
        ({}, {}, True),
        ({"kept": False}, {}, False),
        ({}, {"line": 4}, False),
        ({}, {"path": "b.py"}, False),
        ({}, {"text": "another()"}, False),
        ({"text": ""}, {"text": ""}, False),
        ({}, {"words": "xyz"}, False),
    ],
)
def test_a_line_that_git_followed(known: dict[str, Any], draft: dict[str, Any], *, same: bool) -> None:
    """T2: the same text on exactly that line, and much the same said."""
    assert may("mapped", {"kept": True, **known}, draft) is same


@pytest.mark.parametrize(
    ("known", "draft", "same"),
    [
        ({}, {"line": 90}, True),
        ({"once": False}, {}, False),
        ({}, {"once": False}, False),
        ({}, {"distinctive": False}, False),
        ({}, {"path": "b.py"}, False),
        ({}, {"text": "another()"}, False),
        ({}, {"words": "xyz"}, False),
    ],
)
def test_a_text_that_its_file_has_once(known: dict[str, Any], draft: dict[str, Any], *, same: bool) -> None:
    """T3: wherever it stands, if it is not one that could stand anywhere."""
    assert may("unique", {"once": True, **known}, {"once": True, **draft}) is same


@pytest.mark.parametrize(
    ("known", "draft", "same"),
    [
        ({}, {"window": ("a", "x", "y", "z")}, True),  # a quarter of the surroundings
        ({}, {"window": ("a", "w", "x", "y", "z")}, False),  # less
        ({"distinctive": False}, {"window": ("a", "b", "x", "y")}, True),  # half, of a text that may stand anywhere
        ({"distinctive": False}, {"window": ("a", "x", "y", "z")}, False),
        ({"mapped": True}, {"line": 6, "window": ("a", "x", "y", "z")}, True),  # three lines from where git says
        ({"mapped": True}, {"line": 7, "window": ("a", "b", "x", "y")}, False),  # four
        ({"mapped": True}, {"line": 7, "window": ("a", "b", "c", "y")}, True),  # but much the same around
        ({}, {"line": 7, "window": ("a", "x", "y", "z")}, True),
        ({"text": ""}, {"text": ""}, False),
        ({}, {"text": "another()"}, False),
        ({}, {"words": "xyz"}, False),
    ],
)
def test_one_of_several_equal_texts(known: dict[str, Any], draft: dict[str, Any], *, same: bool) -> None:
    """T4: with enough of what was around it, more where git says that it should be elsewhere."""
    given = {"line": 3, "window": AROUND}
    assert may("surrounded", {**given, **known}, {**given, **draft}) is same


def test_of_several_equal_texts_the_one_with_the_most_around_it_then_the_same_one_then_the_nearest() -> None:
    """T4: the surroundings decide, then which of the equal ones it was, then the distance, then what is said."""
    given: dict[str, Any] = {"line": 10, "window": AROUND, "nth": "1/2"}
    fewer = {**given, "window": ("a", "b", "c", "x")}
    assert best("surrounded", given, fewer, {**given, "line": 90, "nth": "2/2"}) == 1
    assert best("surrounded", given, {**given, "nth": "2/2"}, {**given, "line": 90}) == 1
    assert best("surrounded", given, {**given, "line": 14}, {**given, "line": 7}) == 1
    assert best("surrounded", given, {**given, "line": 7}, {**given, "line": 14}) == 0
    assert best("surrounded", given, {**given, "words": "abx"}, {**given, "words": "abc"}) == 1


# --- by place ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "known", "draft", "same"),
    [
        ("close", {}, {"window": ("a", "b", "x", "y")}, True),  # half of the surroundings
        ("close", {}, {"window": ("a", "x", "y", "z")}, False),
        ("close", {}, {"window": ("a", "b", "x", "y", "z")}, False),
        ("close", {"kept": True}, {"window": ("a", "x", "y", "z")}, True),  # a quarter, where git says it is the line
        ("close", {"kept": True}, {"window": ("a", "w", "x", "y", "z")}, False),
        ("close, told anew", {"kept": True}, {"window": ("a", "x", "y", "z"), "words": "ayz"}, False),
        ("close, told anew", {"kept": True}, {"window": ("a", "b", "y", "z"), "words": "ayz"}, True),
        ("close, told anew", {"kept": True}, {"window": ("a", "b", "y", "z"), "words": "xyz"}, False),
        ("close", {}, {"line": 6}, True),
        ("close", {}, {"line": 7}, False),
        ("close", {}, {"line": 0}, False),
        ("close", {}, {"path": "b.py"}, False),
        ("close", {"mapped": False}, {"line": 90}, True),  # without git the surroundings say where it is
        ("close", {"mapped": False}, {"path": "b.py"}, False),
        ("close", {}, {"words": "xyz"}, False),
    ],
)
def test_a_line_near_by(tier: str, known: dict[str, Any], draft: dict[str, Any], *, same: bool) -> None:
    """T6: at most three lines from where git says, or in its surroundings, with enough of them in common."""
    given = {"line": 3, "window": AROUND, "text": "x()", "mapped": True}
    assert may(tier, {**given, **known}, {**given, "text": "y()", "mapped": False, **draft}) is same


def test_of_those_near_by_the_one_with_the_most_around_it_then_the_nearest() -> None:
    """T6: then what is said decides."""
    given: dict[str, Any] = {"line": 10, "window": AROUND, "mapped": True}
    assert best("close", given, {**given, "window": ("a", "b", "c", "x")}, {**given, "line": 13}) == 1
    assert best("close", given, {**given, "line": 13}, {**given, "line": 8}) == 1
    assert best("close", given, {**given, "line": 8}, {**given, "line": 13}) == 0
    assert best("close", given, {**given, "words": "abx"}, {**given, "words": "abc"}) == 1
    assert best("close", given, {**given, "words": "abcx", "category": OTHER}, {**given, "words": "abcx"}) == 1
    assert best("close", given, {**given, "words": "abc", "category": OTHER}, {**given, "words": "cxyz"}) == 0


@pytest.mark.parametrize(
    ("known", "draft", "same"),
    [
        ({}, {}, True),
        ({}, {"window": ("a", "x", "y", "z")}, True),
        ({}, {"window": ("a", "w", "x", "y", "z")}, False),
        ({}, {"path": "a.py"}, False),
        ({}, {"words": "xyz", "category": OTHER}, False),
        ({"text": LONG[1:]}, {"text": LONG[1:]}, False),
        ({"once": False}, {}, False),
        ({}, {"once": False}, False),
        ({"distinctive": False}, {}, False),
    ],
)
def test_a_long_text_in_another_file(known: dict[str, Any], draft: dict[str, Any], *, same: bool) -> None:
    """T7: in one other file, with some of its surroundings, said of the same kind or in the same words."""
    given = {"text": LONG, "once": True, "window": AROUND}
    assert may("moved", {**given, "path": "a.py", **known}, {**given, "path": "b.py", **draft}) is same


def test_a_loose_claim_goes_to_who_has_its_surroundings() -> None:
    """Last of all, and of two the one that has more of what was around it."""
    given: dict[str, Any] = {"loose": "s", "window": AROUND}
    assert best("loose", given, {**given, "window": ()}, given) == 1
    assert paired("loose", [anchor(0)], [anchor(0)]) == []


# --- shelves and renamed files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "line", "first", "size"),
    [
        (CROWD - 1, 100, 94, NEAREST),
        (CROWD, 100, 98, CROWDED),
        (CROWD - 1, 1, 1, NEAREST),
        (CROWD - 1, CROWD - 1, CROWD - 7, 7),
        (3, 2, 1, 3),
    ],
)
def test_only_the_nearest_of_a_shelf_are_compared(count: int, line: int, first: int, size: int) -> None:
    """About half of them before the line, and fewer of a crowd."""
    shelf = shelves(("k", anchor(line, line=line)) for line in range(count, 0, -1))["k"]
    near = [one.line for one in shelf.near(line)]
    assert (near[0], len(near)) == (first, size)
    assert near == sorted(near)


def test_a_shelf_tells_who_is_within_reach() -> None:
    """Both ends count, and no more than the most are named."""
    shelf = shelves(("k", anchor(line, line=line)) for line in range(1, 40))["k"]
    assert [one.line for one in shelf.within(10, 2)] == [8, 9, 10, 11, 12]
    assert len(shelf.within(20, 15)) == NEAREST


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("abc", {"b.py": "abc"}, "b.py"),  # three lines that no other file has
        ("ab", {"b.py": "ab"}, "a.py"),  # two are too few
        ("abcdef", {"b.py": "abc", "c.py": "def"}, "a.py"),  # half of those found again is not most of them
        ("abcdefg", {"b.py": "abcd", "c.py": "efg"}, "b.py"),
        ("abcdefgh", {"b.py": "abc", "c.py": "de", "d.py": "fg"}, "a.py"),
        ("abcd", {"b.py": "abcx", "c.py": "x"}, "b.py"),
        ("abc", {"b.py": "abc", "c.py": "c"}, "a.py"),  # one of them is in two files, and two are left
        ("abc", {"b.py": "abc", "a.py": "z"}, "a.py"),  # the old name is still reported
    ],
)
def test_a_file_whose_lines_are_in_another_was_renamed(old: str, new: dict[str, str], name: str) -> None:
    """Where git cannot say so: most of what is found again of it, and three lines at least, are in one file."""
    known = {5: anchor(5, window=tuple(old))}
    drafts = [anchor(at, path=path, window=tuple(lines)) for at, (path, lines) in enumerate(new.items())]
    assert renamed(known, drafts) == {5: anchor(5, window=tuple(old), path=name)}


def test_what_git_followed_is_not_renamed_again() -> None:
    """Its name is known."""
    known = {0: anchor(0, window=tuple("abc"), mapped=True), 1: anchor(1, window=tuple("abc"))}
    found = renamed(known, [anchor(0, path="b.py", window=tuple("abc"))])
    assert [one.path for one in found.values()] == ["a.py", "b.py"]

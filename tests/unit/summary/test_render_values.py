"""The section of context values, of which only as many are built as may fit."""

import re
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import Context
from pipeline.summary.parts import section
from pipeline.summary.render import context_values
from pipeline.text.budget import Part

CONTEXTS = st.dictionaries(
    st.text("abc_.", min_size=1, max_size=4), st.text("xy\n `", max_size=6) | st.just("long " * 60), max_size=12
)


def made(context: Context, room: float) -> Part:
    """The section, built for a number of characters."""
    parts, omitted = context_values(context, ["x"], room)
    return section("## S", parts, things="values", omitted=omitted)


@given(CONTEXTS, st.integers(0, 400), st.integers(0, 100))
def test_values_that_are_not_built_are_not_missed(held: dict[str, str], room: int, more: int) -> None:
    """In any smaller room the section is the same as one built from all values."""
    context = Context(held)
    assert made(context, room + more).within(room) == made(context, inf).within(room)


def test_the_keys_of_plugins_are_not_listed() -> None:
    """Nor those below them; another key that contains one of them is."""
    context = Context({"mine.a": 1, "mine": 2, "not.mine": 3, "rev.response": 4})
    parts, _ = context_values(context, [], inf, {"rev.response"}, ("mine",))
    assert [part.longest for part in parts] == ["- not.mine: 3"]


def test_all_values_are_shown_or_counted() -> None:
    """Of thousands of values the first are shown, and the rest are counted."""
    context = Context({f"key{number}": "word" for number in range(5_000)})
    text = made(context, 2_000).within(2_000)
    (more,) = re.findall(r"\[cut: ([0-9,]+) more values\]", text)
    assert text.count("- key") + int(more.replace(",", "")) == 5_000
    assert text.count("- key") > 80

"""The context and its four operations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY, Append, Context, Delete, Discard, Operation, Set, is_private
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Conclusion
from pipeline.engine.records import VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.journal.codec import decode, encode


def test_append_creates_a_list() -> None:
    """004-33.1: appending to an absent key makes a list of one."""
    assert EMPTY.apply([Append("k", 1)]).get("k") == [1]


def test_append_adds_to_a_list() -> None:
    """004-33.2: appending again keeps both, in order."""
    assert EMPTY.apply([Append("k", 1), Append("k", 2)]).get("k") == [1, 2]


def test_append_replaces_what_is_no_list() -> None:
    """004-03: a value that is no list gives way to a list of one."""
    assert Context({"k": "text"}).apply([Append("k", 1)]).get("k") == [1]


def test_discard_removes_the_entries_that_match() -> None:
    """Entries with all the fields go; others stay in order; an emptied list stays a list."""
    context = Context({"k": [{"s": "a", "n": 1}, {"s": "b"}, {"s": "a"}, "text"]})
    assert context.apply([Discard("k", {"s": "a"})]).get("k") == [{"s": "b"}, "text"]
    assert Context({"k": [{"s": "a"}]}).apply([Discard("k", {"s": "a"})]).get("k") == []


def test_discard_creates_nothing() -> None:
    """004-16: a key that is absent stays absent."""
    assert "k" not in EMPTY.apply([Discard("k", {"s": "a"}), Delete("k")])


def test_a_context_never_changes() -> None:
    """Operations give a new context; lists inside the old one are not touched."""
    before = Context({"k": [1], "x": 1})
    after = before.apply([Append("k", 2), Set("x", 2), Delete("y")])
    assert (before.get("k"), before.get("x")) == ([1], 1)
    assert (after.get("k"), after.get("x")) == ([1, 2], 2)


@pytest.mark.parametrize(("key", "private"), [("a.b", False), ("a._b", True), ("_a", True), ("a_b.c", False)])
def test_keys_with_an_underscore_part_are_private(key: str, private: bool) -> None:  # noqa: FBT001 - a table's column
    """Such keys never reach a summary."""
    assert is_private(key) is private


keys = st.sampled_from(["a", "b.c", "review.findings"])
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Set, keys, plain),
    st.builds(Delete, keys),
    st.builds(Append, keys, plain),
    st.builds(Discard, keys, st.dictionaries(st.text(max_size=2), plain, max_size=2)),
)


@given(st.lists(operations, max_size=12))
def test_operations_survive_a_record(made: list[Operation]) -> None:
    """Written and read again they are the same, and do the same."""
    selection = Selection(None, "")
    told = {"at": 0, "stage": "a", "visit": 1, "attempt": 1, "outcome": Outcome(status=Status.FAIL)}
    record = decode(encode(VisitCompleted(operations=tuple(made), chosen=selection, **told)), "r", 1)
    assert isinstance(record, VisitCompleted)
    assert list(record.operations) == made
    assert EMPTY.apply(record.operations) == EMPTY.apply(made)


@given(st.lists(operations, max_size=12), st.integers(0, 12))
def test_operations_can_be_applied_in_pieces(made: list[Operation], at: int) -> None:
    """All at once or in two parts: the same context."""
    assert EMPTY.apply(made[:at]).apply(made[at:]) == EMPTY.apply(made)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "made",
    [
        ("set", "k", 1),
        Operation("rename", "k"),  # type: ignore[arg-type]
        Set(1, 1),  # type: ignore[arg-type]
        None,
        Set("k", object()),
        Append("k", [{"deep": {1: "a key"}}]),
        Set("k", {1}),
        Set("k", ENDLESS),
        Discard("k", "fields"),
    ],
)
def test_what_a_plugin_makes_up_is_no_operation(made: Operation) -> None:
    """Only the four operations on a key that is a text are, with JSON values, since nothing else can be recorded."""
    with pytest.raises((TypeError, ValueError, RecursionError)):
        Conclusion(operations=[made])


@pytest.mark.parametrize("made", [Delete("k"), Set("k", {"a": [1, None, 2.5, "x", True]}), Discard("k", {"a": 1})])
def test_what_can_be_recorded_is_an_operation(made: Operation) -> None:
    """Whatever JSON has words for."""
    assert Conclusion(operations=[made]).operations == [made]

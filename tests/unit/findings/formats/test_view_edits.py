"""A seal tells what somebody changed from what is only old, field by field."""

import pytest

from pipeline.findings.formats.view_edits import SEAL, appended, changed, digest, same, seal_of, sealed

KEYS = ("a", "b", "c")


def test_only_what_breaks_the_seal_and_differs_now_is_changed() -> None:
    """An old field is no edit, one that was changed is, and one that was changed to what is so by now is none."""
    view = sealed({"a": 1, "b": 1}, KEYS)
    now = {"a": 2, "b": 2}
    assert changed(view, now, KEYS) == []
    assert changed({**view, "a": 3}, now, KEYS) == ["a"]
    assert changed({**view, "a": 2}, now, KEYS) == []
    assert changed({**view, "c": 0}, now, KEYS) == ["c"]


@pytest.mark.parametrize("seal", [None, "", 3, "abc", "0" * 19])
def test_without_a_seal_what_differs_is_changed(seal: object) -> None:
    """A seal of other fields, or none, tells nothing."""
    view = {"a": 1, "b": 2, SEAL: seal}
    assert seal_of(view, KEYS) is None
    assert changed(view, {"a": 1, "b": 1}, KEYS) == ["b"]


def test_true_is_not_one() -> None:
    """JSON tells them apart."""
    assert not same(True, 1)
    assert not same([True], [1])
    assert digest(True) != digest(1)
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_a_list_that_may_only_grow() -> None:
    """000-41: what was added is found behind what was written, even when the ledger has more by now."""
    written = digest([1, 2])
    assert appended([1, 2, 3], [1, 2], None) == [3]
    assert appended([1, 3], [1, 2], None) is None
    assert appended([1], [1, 2], None) is None
    assert appended([1, 2, 9], [1, 2, 3], written) == [9]
    assert appended([1, 2], [1, 2, 3], written) == []
    assert appended([2, 1], [1, 2], written) is None
    assert appended([], [1, 2], written) is None

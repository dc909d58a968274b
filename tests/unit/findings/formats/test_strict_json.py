"""JSON is read to the letter and written for people, the same bytes for the same value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.formats import strict_json

_words = st.text(st.characters(codec="utf-8"), max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=12,
)


@given(_values)
def test_what_is_written_is_what_is_read(value: Any) -> None:
    """Any JSON value comes back, from text that is indented and ends with a newline."""
    data = strict_json.dumps(value)
    assert data.endswith(b"\n")
    assert json.loads(data) == strict_json.loads(data) == value
    assert strict_json.dumps({"b": [1], "a": {}}) == b'{\n  "b": [\n    1\n  ],\n  "a": {}\n}\n'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": 1, "a": 1}', "duplicate"),
        (b'[{"a": {"b": 1, "b": 2}}]', "duplicate"),
        (rb'{"\ud800": 1, "\udbff": 2}', "duplicate"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "Infinity"),
        (b"1e400", "too large"),
        (b"[1, 2", "line 1, column 6"),
        (b"\xff", "UTF-8"),
        (b"[" * 200_000, "deep"),
        (b"9" * 5000, "digits"),
    ],
)
def test_invalid_json_is_refused_with_a_reason(data: bytes, says: str) -> None:
    """A value that two readers could take differently, or that is none, is never made sense of."""
    with pytest.raises(ValueError, match=says):
        strict_json.loads(data)


def test_a_mark_at_the_beginning_is_allowed_and_half_a_character_is_replaced() -> None:
    """What editors and cut-off agents do to a text does not cost what it says."""
    assert strict_json.loads(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    assert strict_json.loads(rb'["\ud83d", ["\udc00x"], "\ud83d\ude00"]') == ["\ufffd", ["\ufffdx"], "😀"]

"""JSON is read to the letter and written for people, the same bytes for the same value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.formats import strict_json as strict

_words = st.text(st.characters(codec="utf-8"), max_size=8)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=12,
)


@given(_values)
def test_what_is_written_is_what_is_read(value: Any) -> None:
    """And it is laid out as the standard library lays it out, with a newline at the end."""
    data = strict.dumps(value)
    assert data.decode() == json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    assert strict.loads(data) == value


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": 1, "a": 1}', "twice"),
        (b'[{"a": {"b": 1, "b": 2}}]', "twice"),
        (rb'{"\ud800": 1, "\udbff": 2}', "twice"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "Infinity"),
        (b"1e400", "too large"),
        (b"[1, 2", "line 1, column 6"),
        (b"\xff", "UTF-8"),
        (b"[" * 200_000, "deep"),
        (b"9" * 5000, "digits"),
    ],
)
def test_what_is_no_json_is_refused_with_its_reason(data: bytes, says: str) -> None:
    """A value that two readers could take differently, or that is none, is never made sense of."""
    with pytest.raises(ValueError, match=says):
        strict.loads(data)


def test_a_mark_at_the_beginning_is_allowed_and_half_a_character_is_replaced() -> None:
    """What editors and cut-off agents do to a text does not cost what it says."""
    assert strict.loads(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    assert strict.loads(rb'["\ud83d", ["\udc00x"], "\ud83d\ude00"]') == ["\ufffd", ["\ufffdx"], "😀"]

"""Durations as authors write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.language.model import MAX_DURATION, parse_duration, write_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("500ms", 500),
        ("30s", 30_000),
        ("2m", 120_000),
        ("10m", 600_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("0s", 0),
    ],
)
def test_every_unit_means_itself(text: str, milliseconds: int) -> None:
    """`500ms` is half a second and `2m` two minutes."""
    assert parse_duration(text) == timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5 m", "-5s", "1.5h", "5x", "30s1h", "1m1m", "5M", "٣s", "9" * 30 + "d"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """A number without a unit, a unit twice or out of order, and what is no duration at all."""
    with pytest.raises(ValueError, match=r"such as|at most"):
        parse_duration(text)


@given(st.timedeltas(timedelta(0), MAX_DURATION))
def test_a_duration_is_read_as_it_is_written(duration: timedelta) -> None:
    """Writing and reading again gives the same milliseconds."""
    whole = timedelta(milliseconds=duration // timedelta(milliseconds=1))
    assert parse_duration(write_duration(whole)) == whole

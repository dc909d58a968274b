"""Run ids: sorted by time, and safe everywhere they are used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import AwfError
from pipeline.journal import check_run_id, new_run_id

MOMENTS = st.integers(0, 253_402_300_799_999)  # until the end of the year 9999
CHANCE = st.binary(min_size=2, max_size=2)


def test_a_name_tells_the_time() -> None:
    """Date and time of day stand in it, in UTC."""
    assert new_run_id(1_794_817_812_345, b"\x12\x34") == "20261116-083012-as4hm"


@given(MOMENTS, CHANCE, MOMENTS, CHANCE)
def test_names_sort_by_time(one: int, chance: bytes, other: int, more_chance: bytes) -> None:
    """The earlier of two runs has the smaller name, to the millisecond."""
    if one != other:
        assert (new_run_id(one, chance) < new_run_id(other, more_chance)) == (one < other)


@given(MOMENTS, CHANCE)
def test_a_name_made_here_is_valid(moment: int, chance: bytes) -> None:
    """What `new_run_id` makes, `check_run_id` accepts."""
    check_run_id(new_run_id(moment, chance))


def test_chance_tells_runs_of_one_millisecond_apart() -> None:
    """Names of the same moment differ with their random bytes."""
    assert len({new_run_id(0, bytes([0, low])) for low in range(256)}) == 256


@pytest.mark.parametrize("name", ["a", "7", "my-run_2.b", "A" * 64, "x.locked"])
def test_a_safe_name_may_be_given(name: str) -> None:
    """Letters, digits, dots, dashes and underscores."""
    check_run_id(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-a",
        ".a",
        "_a",
        "a/b",
        "a b",
        "a..b",
        "..",
        "a.lock",
        "a.",
        "a\n",
        "A" * 65,
        "ä",
        "a;b",
        "$(a)",
        "a\0",
        "~a",
    ],
)
def test_an_unsafe_name_is_refused(name: str) -> None:
    """It could leave the store, break a git ref or mean something to a shell."""
    with pytest.raises(AwfError, match="is not a valid run name"):
        check_run_id(name)

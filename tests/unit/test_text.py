"""Text, times and numbers in a narrow place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import (
    REPLACEMENT,
    display_width,
    format_age,
    format_cost,
    format_count,
    format_duration,
    last_line,
    sanitize_block,
    sanitize_line,
    truncate,
    visit_label,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b[2J\x1b[10;10Hjump", "jump"),
        ("two\r\nlines\tand more", "two lines and more"),
        ("\u202eevil", "\N{REPLACEMENT CHARACTER}evil"),
        ("bell\x07", "bell\N{REPLACEMENT CHARACTER}"),
        ("\x1b", ""),
    ],
)
def test_hostile_text_is_calmed(text: str, expected: str) -> None:
    """Escape sequences go away, and whatever else acts on a terminal is replaced."""
    assert sanitize_line(text) == expected


@given(st.text(max_size=200))
def test_calm_text_is_printable(text: str) -> None:
    """No text leaves a control character or a line's end behind."""
    assert not any(character in sanitize_line(text) for character in "\x1b\n\r\t\x07\x9b\u202e\u2028")


@given(st.text(max_size=60), st.integers(0, 30))
def test_cut_text_fits(text: str, width: int) -> None:
    """A text that is cut never takes more columns than there are."""
    assert display_width(truncate(sanitize_line(text), width)) <= width or not width


def test_wide_characters_take_two_columns() -> None:
    """Half of a wide character is never shown."""
    assert truncate("日本語", 4) == "日…"
    assert truncate("日本語", 6) == "日本語"


def test_a_label_keeps_its_number() -> None:
    """A stage's name is cut, the number of its visit never."""
    assert visit_label("a_long_name", 12, 10) == "a_lon… #12"


def test_the_last_line_that_says_something_is_shown() -> None:
    """Empty lines and lines of escapes are passed over."""
    assert last_line("one\ntwo\n\n\x1b[0m\n") == "two"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0.0s"),
        (3.24, "3.2s"),
        (59.96, "1m00s"),
        (65, "1m05s"),
        (3600, "1h00m"),
        (7380, "2h03m"),
        (187_200, "2d04h"),
    ],
)
def test_spans(seconds: float, expected: str) -> None:
    """A length of time has at most two units."""
    assert format_duration(seconds) == expected


def test_numbers_are_short() -> None:
    """Ages, amounts and money take few letters, and a little money is not nothing."""
    assert [format_age(5), format_age(300), format_age(7200), format_age(200_000)] == ["5s", "5m", "2h", "2d"]
    assert [format_count(950), format_count(12_300), format_count(999_999), format_count(4_500_000)] == [
        "950",
        "12.3k",
        "1.0M",
        "4.5M",
    ]
    assert [format_cost(0), format_cost(0.001), format_cost(0.42)] == ["$0.00", "<$0.01", "$0.42"]


def test_several_lines_are_made_inert_as_they_are() -> None:
    """Lines and spaces stay; colours go, and what would act is replaced."""
    assert sanitize_block("  a\tb\r\nc\rd\n") == "  a\tb\nc\nd\n"
    assert sanitize_block("\x1b[31mred\x1b[0m \u202eä\0") == f"red {REPLACEMENT}ä{REPLACEMENT}"

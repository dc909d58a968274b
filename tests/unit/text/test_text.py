"""Text, times and numbers in a narrow place."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import (
    REPLACEMENT,
    align_columns,
    display_width,
    drawn_width,
    escape_command,
    escape_markdown,
    format_age,
    format_cost,
    format_count,
    format_duration,
    format_visits,
    last_line,
    listing,
    sanitize_block,
    sanitize_line,
    truncate,
    truncate_drawn,
    truncate_length,
    truncate_middle,
    visit_label,
    wrap,
    wrap_drawn,
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


@pytest.mark.parametrize(
    ("text", "width"),
    [("ascii", 5), ("日本", 4), ("e\u0301", 1), ("👩\u200d💻", 2), ("❤\ufe0f", 2), ("\u202e\x07a", 1), ("", 0)],
)
def test_a_width_is_that_of_the_terminal(text: str, width: int) -> None:
    """Wide characters and emoji take two columns; marks, joiners and controls take none."""
    assert display_width(text) == width


@given(st.text(max_size=60), st.integers(0, 30))
def test_a_truncated_text_has_at_most_so_many_characters(text: str, length: int) -> None:
    """A text that fits stays as it is; another one ends with an ellipsis."""
    shown = truncate_length(text, length)
    assert len(shown) <= length
    assert shown == (text if len(text) <= length else (text[: max(length - 1, 0)] + "…")[:length])


def test_an_empty_column_is_aligned() -> None:
    """Cells are padded by their width on a terminal, numbers on their left."""
    assert align_columns([["日", "1"], ["a", "10"]], frozenset({1})) == [["日", " 1"], ["a ", "10"]]


@given(st.text("ab 日-", max_size=80), st.integers(4, 20))
def test_wrapped_lines_fit_and_keep_every_letter(text: str, width: int) -> None:
    """No line is too wide, and only a word that is longer than a line is broken."""
    lines = wrap(text, width, "= ", "  ")
    assert "".join(line[2:] for line in lines).replace(" ", "") == text.replace(" ", "")
    assert all(display_width(line) <= width for line in lines)
    if all(display_width(word) <= width - 2 for word in text.split()):
        assert [word for line in lines for word in line[2:].split()] == text.split()


@pytest.mark.parametrize(
    ("words", "most", "shown"),
    [
        ("", None, ""),
        ("a", None, "a"),
        ("ab", None, "a and b"),
        ("abc", None, "a, b and c"),
        ("abcd", 2, "a, b and 2 more"),
        ("abc", 3, "a, b and c"),
    ],
)
def test_a_list_says_how_many_it_leaves_out(words: str, most: int | None, shown: str) -> None:
    """The last word follows a conjunction; words beyond the limit are counted."""
    assert listing(words, most) == shown


def test_a_command_cannot_be_forged() -> None:
    """No value ends the line or the property of a workflow command."""
    assert escape_command("100%\n::error::a,b", ":,") == "100%25%0A%3A%3Aerror%3A%3Aa%2Cb"


@given(st.text(max_size=300), st.integers(0, 100))
def test_a_text_without_its_middle_is_not_much_longer_than_allowed(text: str, length: int) -> None:
    """A short text comes whole, a long one keeps its beginning and its end around a note."""
    shown = truncate_middle(text, length)
    assert shown == text or len(shown) <= length + 60
    assert shown.startswith(text[: length // 2])


@given(st.text(max_size=200), st.integers(20, 400))
def test_fitted_text_is_no_wider_than_its_room(text: str, width: int) -> None:
    """What does not fit is cut."""
    assert drawn_width(truncate_drawn(text, 12, width), 12) <= width + 0.01


@given(st.text(max_size=200), st.integers(1, 4))
def test_text_is_wrapped_into_few_lines(text: str, max_lines: int) -> None:
    """There are never more lines than asked for, and none is too wide."""
    lines = wrap_drawn(text, 12, 100, max_lines)
    assert len(lines) <= max_lines
    assert all(drawn_width(line, 12) <= 100.01 for line in lines)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([2], "visit 2"),
        ([3, 2], "visits 2 and 3"),
        (range(1, 41), "visits 1 to 40"),
        ([1, 3, 5, 6, 7], "visits 1, 3 and 5 to 7"),
        (range(1, 100, 2), "visits 1, ..., 85, 87, 89, 91, 93, 95, 97 and 99"),
    ],
)
def test_visits_in_words(numbers: Iterable[int], words: str) -> None:
    """Consecutive numbers are one range, and a long list is cut at its start."""
    assert format_visits(numbers) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a&#124;b"),
        ("`x` *y* _z_", r"\`x\` \*y\* \_z\_"),
        ("[a](b) <i> &amp; $x$ ~", r"\[a\](b) \<i\> \&amp; \$x\$ \~"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("12) item", r"12\) item"),
        ("1.5 a-b", "1.5 a-b"),
        ("https://x.invalid", r"https\://x.invalid"),
        ("WWW.x.invalid", r"WWW\.x.invalid"),
        ("@all #1", "@<!-- -->all #<!-- -->1"),
        ("\\|", "\\\\&#124;"),
    ],
)
def test_markdown_is_escaped(text: str, shown: str) -> None:
    """Markup is shown as it is; people and issues are not mentioned."""
    assert escape_markdown(text) == shown

"""Hostile text stays inside its quotation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.text import close_fence, end_that_fits, fence, prompt_line, sanitize_prompt, start_that_fits, value_text

MARKS = st.text("`~x\n ", max_size=60)
ANY = st.one_of(MARKS, st.text(st.characters(codec=None), max_size=60))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[1;31mred\x1b[0m \x9b3mtoo", "red too"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("a\u2028b\x85c", "a\nb\nc"),
        ("a\x00\x08\x7f\u202eb\u2066\u200b\U000e0041", "ab"),
        ("a\tb\ud800", "a\tb\ufffd"),
        ("\n\n  a\n\n", "  a"),
        (" \n\t", ""),
        ("é — 日本 👩‍💻", "é — 日本 👩‍💻"),
    ],
)
def test_control_characters_are_removed(text: str, cleaned: str) -> None:
    """Line breaks and tabs stay; what controls a terminal or is invisible is removed."""
    assert sanitize_prompt(text) == cleaned


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\n# b", "a # b"),
        ("# a", "\\# a"),
        ("```\na", "''' a"),
        ("`a`", "\\`a`"),
        ("---", "\\---"),
        ("- - -", "\\- - -"),
        ("> a", "\\> a"),
        ("-5", "-5"),
        ("\x00 # a", "\\# a"),
        ("abcdefghijklmnop", "abcdefghi…"),
    ],
)
def test_a_line_starts_no_markdown(text: str, line: str) -> None:
    """It is one line, and its start is neither a heading nor a rule nor a fence."""
    assert prompt_line(text, 10) == line


@given(ANY)
def test_a_fence_is_longer_than_any_run_in_it(text: str) -> None:
    """So no text can close its fence."""
    first, *inner, last = fence(sanitize_prompt(text)).split("\n")
    assert first == last
    assert set(first) == {"`"}
    assert not any(mark * len(first) in line for line in inner for mark in "`~")


@given(ANY, st.integers(-5, 80))
def test_a_piece_fits_with_its_fence(text: str, room: int) -> None:
    """The start or end of a text is as long as its fence allows."""
    for piece in (start_that_fits(text, room), end_that_fits(text, room)):
        assert not piece or len(fence(piece)) <= room
    if room > 8:
        assert bool(start_that_fits(text, room)) == bool(end_that_fits(text, room)) == bool(text)


@given(ANY)
def test_sanitizing_twice_changes_nothing(text: str) -> None:
    """A sanitized text is no longer than before, and can be written to a file."""
    cleaned = sanitize_prompt(text)
    assert sanitize_prompt(cleaned) == cleaned
    assert len(cleaned) <= len(text)
    cleaned.encode()


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("a", "a"),
        ("```\na", "```\na\n```"),
        ("~~~~\n~~~\n```", "~~~~\n~~~\n```\n~~~~"),
        ("```py\na\n````", "```py\na\n````"),
        ("``` `a`\nb", "``` `a`\nb"),
    ],
)
def test_an_open_fence_is_closed(text: str, closed: str) -> None:
    """A text with markdown of its own cannot swallow what follows it."""
    assert close_fence(text) == closed


def test_a_value_that_is_not_json_is_named() -> None:
    """A value that cannot be encoded does not stop the summary."""
    assert value_text({"b": 1, "a": "é"}) == '{"a": "é", "b": 1}'
    assert value_text({1, 2}) == "(a set that cannot be shown)"

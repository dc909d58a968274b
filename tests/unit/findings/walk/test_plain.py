"""Our markdown on a terminal."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.findings.walk.made import LINEAR, finding, items

from pipeline.cli.findings.screen import plain, wrapped
from pipeline.findings.walk.present import block, columns


def bold(text: str) -> str:
    return f"<{text}>"


def test_titles_stand_out_right_above_their_text() -> None:
    """002-12: the same block, set for eyes instead of programs."""
    text = "## Finding\n\na.py:1\n\n**Fix**\n\nDo `it`.\n\nThen that.\n\n- one\n- two"
    assert plain(text, 80, bold).split("\n") == [
        "<Finding>", "  a.py:1", "", "<Fix>", "  Do `it`.", "", "  Then that.", "", "  - one", "  - two"
    ]  # fmt: skip


def test_two_titles_stay_apart() -> None:
    """002-60: a heading above a label has a line of its own."""
    assert plain("## A\n\n**B**\n\nc", 80, bold) == "<A>\n\n<B>\n  c"


def test_code_keeps_its_lines() -> None:
    """002-15: it is set in further, and not wrapped."""
    assert plain("```\nif x:\n    ## y\n```\n\nz", 4, bold) == "    if x:\n        ## y\n\n  z"


def test_escapes_are_for_markdown_alone() -> None:
    """Section 7: what was escaped is shown as it was written, and is set in."""
    assert plain("\\## x\n\n12\\. y\n\n\\**Fix**", 80, bold) == "  ## x\n\n  12. y\n\n  **Fix**"


def test_a_list_hangs() -> None:
    """002-60: what goes on below a dash does not look like a new entry."""
    assert plain("- one two three", 9, bold) == "  - one\n    two\n    three"


@given(st.text(st.sampled_from("ab 検-*#\n"), max_size=200), st.integers(20, 90))
def test_everything_fits_the_width(text: str, width: int) -> None:
    """No line is wider than the terminal, unless a single word is."""
    words = max(map(columns, text.split()), default=0)
    assert all(columns(line) <= max(width, words + 4) for line in plain(text, width, str).split("\n"))


@given(st.lists(st.text("abc", min_size=1, max_size=9)), st.integers(1, 30))
def test_no_word_is_lost(words: list[str], width: int) -> None:
    """Wrapping changes where lines end, and nothing else."""
    assert " ".join(wrapped(" ".join(words), width, "  1. ", "     ")).split() == ["1.", *words]


def test_a_block_fits_a_small_terminal() -> None:
    """002-12: in eighty columns."""
    text = str(block(items(finding(impact="word " * 100))[0], 1, 8, LINEAR))
    assert max(map(columns, plain(text, 80, str).split("\n"))) <= 80

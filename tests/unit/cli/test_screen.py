"""Our own markdown on a terminal."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.findings.walk.builders import ask, finding, walk_of

from pipeline.cli.findings.screen import fit, layout, wrap
from pipeline.text import display_width


def bold(text: str) -> str:
    return f"<{text}>"


def test_headings_and_labels_are_right_above_their_text() -> None:
    """Everything else is indented; two headings stay apart."""
    text = "## Finding\n\na.py:1\n\n**Fix**\n\nDo `it`.\n\nThen that.\n\n- one\n- two"
    assert layout(text, 80, bold).split("\n") == [
        "<Finding>", "  a.py:1", "", "<Fix>", "  Do `it`.", "", "  Then that.", "", "  - one", "  - two"
    ]  # fmt: skip
    assert layout("## A\n\n**B**\n\nc", 80, bold) == "<A>\n\n<B>\n  c"


def test_code_keeps_its_lines() -> None:
    """It is indented further, and not wrapped."""
    assert layout("```\nif x:\n    ## y\n```\n\nz", 4, bold) == "    if x:\n        ## y\n\n  z"


def test_escapes_are_not_shown() -> None:
    """What was escaped for markdown is shown as it was written, and indented."""
    assert layout("\\## x\n\n12\\. y\n\n\\**Fix**", 80, bold) == "  ## x\n\n  12. y\n\n  **Fix**"


def test_a_long_entry_of_a_list_hangs() -> None:
    """Its second line does not look like a new entry."""
    assert layout("- one two three", 9, bold) == "  - one\n    two\n    three"


@given(st.text(st.sampled_from("ab 検-*#\n"), max_size=200), st.integers(20, 90))
def test_everything_fits_the_width(text: str, width: int) -> None:
    """No line is wider than the terminal, unless a single word is."""
    words = max(map(display_width, text.split()), default=0)
    assert all(display_width(line) <= max(width, words + 4) for line in layout(text, width, str).split("\n"))


@given(st.lists(st.text("abc", min_size=1, max_size=9)), st.integers(1, 30))
def test_no_word_is_lost(words: list[str], width: int) -> None:
    """Wrapping changes where lines end, and nothing else."""
    assert " ".join(wrap(" ".join(words), width, "  1. ", "     ")).split() == ["1.", *words]


def test_a_block_fits_a_small_terminal() -> None:
    """In eighty columns."""
    text = ask(walk_of(finding(impact="word " * 100))).block
    assert max(map(display_width, layout(text, 80, str).split("\n"))) <= 80


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(6, 40))
def test_everything_fits_the_height(sizes: list[int], room: int) -> None:
    """However many paragraphs there are; every line that is left out is marked, and none is if all fit."""
    lines = "\n\n".join("\n".join(f"line {n}" for n in range(size)) for size in sizes).split("\n")
    shown = fit(lines, room, 40)
    assert len(shown) <= room
    assert (shown == lines) if len(lines) <= room else True
    if len([line for line in lines if line]) > len([line for line in shown if line]):
        assert any("…" in line for line in shown)


def test_long_paragraphs_are_shortened_first() -> None:
    """Short ones stay whole, with a blank line between."""
    lines = ["Label", *["long long long"] * 9, "", "Label", "short"]
    assert fit(lines, 6, 14) == ["Label", "long long long", "long long …", "", "Label", "short"]

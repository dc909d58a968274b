"""Offsets, lines and columns."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.language.source import SourceText, decode


def test_positions_count_from_one() -> None:
    """The first character is at line 1, column 1; the end of the text has a position too."""
    source = SourceText("test", "ab\ncd\n")
    assert [tuple(source.position(offset)) for offset in (0, 1, 3, 4, 6)] == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
    assert [source.line(number) for number in (1, 2, 3)] == ["ab", "cd", ""]


def test_line_breaks_and_a_byte_order_mark_are_normalized() -> None:
    """CRLF and a lone CR are line breaks; the mark is dropped."""
    assert decode("test", "\ufeffa\r\nb\rc\n".encode()).text == "a\nb\nc\n"


@given(st.text("ab\n", max_size=40), st.data())
def test_a_position_leads_back_to_its_offset(text: str, data: st.DataObject) -> None:
    """`offset` is the inverse of `position` everywhere in a text."""
    source = SourceText("test", text)
    offset = data.draw(st.integers(0, len(text)))
    assert source.offset(source.position(offset)) == offset

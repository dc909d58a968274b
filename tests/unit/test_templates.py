"""What templates print is shown as it is, and marks nothing up."""

import re

import pytest
from hypothesis import assume, given
from tests.unit.findings.strategies import texts
from tests.unit.markdown_shape import shape

from pipeline.templates import code_span, escape_html, escape_markdown, fenced

WORDS = texts(most=80).filter(str.strip)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A plain title, with a-dash and 3.5 in it", "A plain title, with a-dash and 3.5 in it"),
        ("a|b", "a&#124;b"),
        ("\\|", "\\\\&#124;"),
        ("`x` *y* _z_", r"\`x\` \*y\* \_z\_"),
        ("[a](b) <i> &amp; $x$ ~", r"\[a\](b) \<i\> \&amp; \$x\$ \~"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("12) item", r"12\) item"),
        ("1.5 a-b", "1.5 a-b"),
        ("https://x.invalid", r"https\://x.invalid"),
        ("WWW.x.invalid", r"WWW\.x.invalid"),
        ("@all #1", "@<!-- -->all #<!-- -->1"),
        ("# no heading\n- no list", "#<!-- --> no heading - no list"),
        ("\x1b[31m`red`", "\\`red\\`"),
    ],
)
def test_markdown_is_escaped(text: str, shown: str) -> None:
    """Markup is shown as it is; people and issues are not mentioned."""
    assert escape_markdown(text) == shown


@given(WORDS)
def test_escaped_text_is_a_paragraph_of_words(words: str) -> None:
    """It stays on its line and marks nothing up, whatever it is."""
    escaped = escape_markdown(words)
    assume(escaped.strip())  # a control character is left out
    assert len(escaped.splitlines()) <= 1
    assert shape(escaped) == shape("words")
    assert shape(f"| a |\n|---|\n| {escaped} |") == shape("| a |\n|---|\n| words |")


@given(WORDS)
def test_a_code_span_ends_where_it_should(words: str) -> None:
    """A backtick inside is shorter than the marks around."""
    assert shape(code_span(words)) == shape("`words`")


@given(texts(most=80))
def test_a_block_ends_where_it_should(words: str) -> None:
    """Its fence is longer than any run of backticks in it."""
    assert shape(fenced(words.splitlines())) == shape("```text\nwords\n```")


@given(texts(most=80))
def test_escaped_html_has_no_markup(words: str) -> None:
    """No tag, no entity and no end of an attribute."""
    assert not re.search("""[<>"']|&(?!amp;|lt;|gt;|quot;|#x27;)""", escape_html(words))

"""Findings as Markdown: text from outside marks nothing up."""

import re

import pytest
from hypothesis import given, settings
from tests.unit.findings.strategies import texts

from pipeline.findings.formats import markdown


@settings(deadline=None)
@given(texts(most=80))
def test_text_in_markdown_is_text(words: str) -> None:
    """It stays on its line and marks nothing up."""
    told = markdown.text(words).replace("@<!-- -->", "at")
    assert len(told.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_<\[\]#|]", told)
    assert not re.match(r"\s*(?:[-+=>#]|\d{1,9}[.)])", told)
    assert not re.search(r"(?<!\\)://", told)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("A plain title, with a-dash and 3.5 in it", "A plain title, with a-dash and 3.5 in it"),
        ("# no heading\n- no list", "\\# no heading - no list"),
        ("12. no list", "12\\. no list"),
        ("- no list", "\\- no list"),
        ("[a](https://x) <b>", "\\[a\\]\\(https\\://x\\) \\<b\\>"),
        ("www.example", "www\\.example"),
        ("ask @everybody", "ask @<!-- -->everybody"),
        ("\x1b[31m`red`\u202e", "\\[31m\\`red\\`"),
    ],
)
def test_signs_in_markdown_mean_nothing(words: str, told: str) -> None:
    """No heading, list, link, markup or name of a person can be made by a title."""
    assert markdown.text(words) == told


@settings(deadline=None)
@given(texts(most=40))
def test_code_in_markdown_ends_where_it_should(words: str) -> None:
    """A backtick inside is shorter than the fence around."""
    told = markdown.code(words)
    fence = re.match("`+", told)
    assert fence is not None
    assert len(told.splitlines()) == 1
    assert f"{fence[0]}" not in told[len(fence[0]) : -len(fence[0])] or not words.strip()

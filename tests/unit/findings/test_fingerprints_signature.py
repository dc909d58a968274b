"""Signatures and ids: stable when lines move, titles are respelled or evidence is reordered."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import evidences, few, titles

from pipeline.findings.fingerprints import QUOTE, finding_id, line_range, norm_quote, norm_title, signature, verdict_id
from pipeline.findings.model import Category, Evidence, Location

QUOTED = Evidence(path="src/a.py", start=10, end=12, quote="token = make_token(user)")


def signed(*evidence: Evidence, title: str = "Token is never revoked", nth: int = 0) -> str:
    return signature(Category.SECURITY, evidence, title, nth=nth)


def test_a_golden_signature() -> None:
    """000-32: the form, and the very value; another would make every known finding a new one."""
    assert signed(QUOTED) == "sha256:ffa9412a2e7b88e951f77ce37b26c206ae39c22056c3be8ea55c99fbcaa08b87"


def test_line_numbers_do_not_count() -> None:
    """C-32: a line added above a defect leaves its signature alone."""
    assert signed(QUOTED) == signed(replace(QUOTED, start=99, end=None))


@settings(max_examples=10)
@given(
    st.permutations([QUOTED, Evidence(path="b.py", quote="other = make_token(x)"), Evidence(path="c.py", symbol="f")])
)
def test_the_order_of_evidence_does_not_count(evidence: list[Evidence]) -> None:
    """Evidence is sorted, and what is told twice counts once."""
    assert signed(*evidence) == signed(*evidence, evidence[0]) == signed(*reversed(evidence))


@pytest.mark.parametrize(
    "other",
    [
        signature(Category.BUG, [QUOTED], "Token is never revoked"),
        signed(QUOTED, title="Token is revoked twice"),
        signed(replace(QUOTED, path="src/b.py")),
        signed(replace(QUOTED, symbol="login")),
        signed(replace(QUOTED, quote="token = other_token(user)")),
    ],
)
def test_category_path_symbol_quotation_and_title_count(other: str) -> None:
    """000-22: the id is made of category, normalised evidence and title."""
    assert other != signed(QUOTED)


@pytest.mark.parametrize("title", ["token is never revoked", "Token  is never revoked!", "`Token` is never-revoked."])
def test_case_punctuation_and_spacing_of_a_title_do_not_count(title: str) -> None:
    """A title told a little differently is the same one."""
    assert signed(QUOTED, title=title) == signed(QUOTED)


@pytest.mark.parametrize(
    "quote", ["  token =   make_token(user)  ", "token = make_token(user)  # TODO", "token = make_token(user) // why"]
)
def test_spacing_and_a_trailing_comment_of_a_quotation_do_not_count(quote: str) -> None:
    """What a formatter changes is not part of a quotation."""
    assert signed(replace(QUOTED, quote=quote)) == signed(QUOTED)


@pytest.mark.parametrize("quote", ["}", "return", "  );", "else:", "x = 1", "", "pass", "continue;"])
def test_a_common_or_short_quotation_is_ignored(quote: str) -> None:
    """It does not identify a place."""
    assert norm_quote(quote) == ""


def test_findings_without_a_quotation_differ_by_their_order() -> None:
    """Without quotation and symbol the occurrence counts; with either it does not."""
    bare = Evidence(path="src/a.py", start=4)
    assert len({signed(bare, nth=nth) for nth in range(3)}) == 3
    assert signed(QUOTED, nth=0) == signed(QUOTED, nth=7)


def test_a_quotation_is_normalised_to_one_form_and_cut() -> None:
    """NFC, and at most 240 characters."""
    assert norm_quote("cafe\N{COMBINING ACUTE ACCENT} is closed") == "caf\N{LATIN SMALL LETTER E WITH ACUTE} is closed"
    assert len(norm_quote("word " * 100)) == QUOTE


@settings(max_examples=30)
@given(titles())
def test_normalising_a_title_twice_changes_nothing(title: str) -> None:
    """A normal form is one."""
    assert norm_title(norm_title(title)) == norm_title(title)


@settings(max_examples=20)
@given(st.sampled_from(Category), few(evidences()), titles())
def test_an_id_is_the_beginning_of_a_signature_and_longer_where_that_is_taken(
    category: Category, evidence: tuple[Evidence, ...], title: str
) -> None:
    """000-22: `fnd_` and 8 digits, extended to 12 or 16 where another finding has the shorter."""
    text = signature(category, evidence, title)
    digest = text.removeprefix("sha256:")
    first = finding_id(text, ())
    assert first == f"fnd_{digest[:8]}"
    assert finding_id(text, {first}) == f"fnd_{digest[:12]}"
    assert finding_id(text, {first, f"fnd_{digest[:12]}"}) == f"fnd_{digest[:16]}"


def test_a_text_that_no_file_can_hold_has_a_signature() -> None:
    """Half a character in a title or a quotation is no reason to fail."""
    assert signed(QUOTED, title="a \ud800 b").startswith("sha256:")


@pytest.mark.parametrize(
    ("lines", "expected"), [("45-50", "api-patterns-69bbc8bb-45-50"), ("0", "api-patterns-69bbc8bb-0")]
)
def test_the_id_in_a_verdict_file(lines: str, expected: str) -> None:
    """001-08: domain, the first eight digits of the path's hash, and the range, which is 0 without lines."""
    assert verdict_id("api-patterns", "src/api/routes.ts", lines) == expected


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        (None, "0"),
        (Location(path="a"), "0"),
        (Location(path="a", start=42), "42"),
        (Location(path="a", start=42, end=42), "42"),
        (Location(path="a", start=42, end=58), "42-58"),
    ],
)
def test_a_range_has_one_form(place: Location | None, lines: str) -> None:
    """001-21: equal ends are a single line, and a missing range is 0."""
    assert line_range(place) == lines

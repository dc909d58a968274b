"""Findings as Markdown: text from outside is never markup."""

import re

import pytest
from hypothesis import given, settings
from tests.unit.findings.strategies import plain, texts

from pipeline.findings.events import Coverage, FindingRaised, Pass, PassRecorded
from pipeline.findings.formats import FORMATS, markdown
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import FindingState, PassId, ReportStatus


@settings(deadline=None)
@given(texts(most=80))
def test_text_is_text(words: str) -> None:
    """It stays on its line and marks nothing up."""
    escaped = markdown.escape(words).replace("@<!-- -->", "at")
    assert len(escaped.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_<\[\]#|]", escaped)
    assert not re.match(r"\s*(?:[-+=>#]|\d{1,9}[.)])", escaped)
    assert not re.search(r"(?<!\\)://", escaped)


@pytest.mark.parametrize(
    ("words", "escaped"),
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
def test_a_title_cannot_be_markup(words: str, escaped: str) -> None:
    """No heading, list, link, markup or mention can be made by a title."""
    assert markdown.escape(words) == escaped


@settings(deadline=None)
@given(texts(most=40))
def test_a_code_span_ends_where_it_should(words: str) -> None:
    """A backtick inside is shorter than the fence around."""
    span = markdown.code_span(words)
    fence = re.match("`+", span)
    assert fence is not None
    assert len(span.splitlines()) == 1
    assert f"{fence[0]}" not in span[len(fence[0]) : -len(fence[0])] or not words.strip()


def test_findings_are_grouped_and_gaps_come_first() -> None:
    """What was dismissed is listed apart, and a reviewer who did not answer is named at the top."""
    states = (FindingState.OPEN, FindingState.WONT_FIX, FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED)
    found = [plain(id=f"fnd_{at}", number=at, state=state, signature=f"s{at}") for at, state in enumerate(states, 1)]
    coverage = Coverage(reviewers={"b": ReportStatus.MALFORMED}, problems={"b": "cut off"})
    passed = Pass(id=found[0].pass_id, started_at="2026-01-02T03:04:05Z", coverage=coverage)
    ledger = Ledger([PassRecorded(at="", assessment=passed), *(FindingRaised(at="", finding=one) for one in found)])
    text = FORMATS["markdown"].write(ledger, ledger)
    assert re.findall("^## (.*) ", text, re.MULTILINE) == [
        "Must fix",
        "Claimed to be fixed",
        "Fixed",
        "Suppressed, not gating",
    ]
    assert text.index("Verdict: ") < text.index("b: cut off") < text.index("## Must fix")


def test_an_incomplete_pass_is_not_called_a_pass() -> None:
    """A report without any finding fails if a reviewer did not answer."""
    coverage = Coverage(reviewers={"qa": ReportStatus.MISSING})
    passed = Pass(id=PassId("one"), started_at="t", coverage=coverage)
    ledger = Ledger([PassRecorded(at="t", assessment=passed)])
    text = FORMATS["markdown"].write(ledger, ledger)
    assert "**FAIL**" in text
    assert "**PASS**" not in text

"""Annotations for GitHub workflows: what is said in a finding never becomes a command."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import findings, ledgers, plain

from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, Gate


def write(findings: Iterable[Finding]) -> str:
    return FORMATS["github"].write(findings, Ledger())


COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^:,\r\n]*)(?:,\w+=[^:,\r\n]*)*)::([^\r\n]*)")


def test_a_finding_that_gates_is_an_error_at_its_lines() -> None:
    """Everything is in one command: level, place, title, and what to do."""
    assert write([plain(impact="Clients pay too much.", fix="Round once.", number=7)]) == (
        "::error file=src/a.py,line=3,endLine=5,title=high%3A Totals are wrong"
        "::Clients pay too much.%0AFix: Round once.%0A(#7, correctness)\n"
    )


def test_the_level_follows_the_gate_and_then_the_severity() -> None:
    """`must` is an error, `suggest` a warning, and what is only to be known a notice."""
    levels = [
        write([plain(gate=gate, severity=severity)]).split()[0]
        for gate, severity in ((Gate.MUST, "info"), (Gate.SUGGEST, "critical"), (Gate.SUGGEST, "info"))
    ]
    assert levels == ["::error", "::warning", "::notice"]


def test_a_place_without_lines_names_the_file_only() -> None:
    """A line that nobody gave is not made up."""
    assert "::error file=a%2Cb.py,title=" in write([plain(locations=[{"path": "a,b.py"}])])
    assert write([plain(locations=[])]).startswith("::error title=")


def test_closed_findings_are_not_annotated() -> None:
    """A dismissed or verified finding has no annotation; a fix that is only claimed has one."""
    shown = [state for state in FindingState if write([plain(state=state)])]
    assert shown == [FindingState.OPEN, FindingState.REOPENED, FindingState.FIX_CLAIMED, FindingState.UNCERTAIN]


def test_a_title_cannot_forge_a_command() -> None:
    """Line ends, separators and colons in a title stay in the title."""
    text = write([plain(title="x\n::set-output name=a::b,file=/etc/passwd\r::error::%0A\u2028::stop\x85")])
    assert text.count("\n") == 1
    match = COMMAND.fullmatch(text.rstrip("\n"))
    assert match
    assert [part.partition("=")[0] for part in match[2].split(",")] == ["file", "line", "endLine", "title"]


@settings(max_examples=60, deadline=None)
@given(ledgers())
def test_every_outstanding_finding_is_one_line_and_can_be_read_back(found: list[Finding]) -> None:
    """One command for each finding, whose title is the finding's but for control characters, in any order of input."""
    shown = [item for item in found if not item.state.dismissed and item.state is not FindingState.VERIFIED_FIXED]
    text = write(found)
    assert text == write(reversed(found))
    lines = text.split("\n")[:-1]
    assert len(lines) == len(shown)
    for line, item in zip(lines, shown, strict=True):
        match = COMMAND.fullmatch(line)
        assert match
        title = match[2].rpartition("title=")[2]
        assert _plain(unquote(title)) == _plain(f"{item.severity}: {item.title}")


@settings(max_examples=60, deadline=None)
@given(findings(st.just(FindingState.OPEN)))
def test_no_line_has_a_character_that_ends_it(item: Finding) -> None:
    """No character of any finding splits its line, for whichever reader."""
    assert len(write([item]).splitlines()) == 1


def _plain(text: str) -> str:
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text)

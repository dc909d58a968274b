"""Findings in a table that fits a terminal of eighty columns, and a wider one where there is one."""

import sys
from collections.abc import Iterator, Sequence

from pipeline.app.findings.story import place_of
from pipeline.cli.output import align_columns, terminal_width
from pipeline.cli.terminal import UNLIMITED, Style
from pipeline.findings.model import Finding, FindingState, Gate, Severity
from pipeline.text import ELLIPSIS, display_width, sanitize_line, truncate

COLUMNS = 80  # where no terminal says how many there are
_LEAST = 12  # columns of a title
_PLACE = 0.45  # of what is left beside the other columns, at most
_TITLE_LENGTH = 1000  # characters of a title that are looked at


def table(findings: Sequence[Finding], *, states: bool = False) -> Iterator[str]:
    """A line for each finding, below a line of headings. The state is told where asked, or any is not simply open."""
    style = Style.of(sys.stdout)
    told = states or any(finding.state is not FindingState.OPEN for finding in findings)
    head = ("#", "ID", "GATE", "SEVERITY", *(("STATE",) if told else ()))
    rows = align_columns([head, *(_row(finding, told=told) for finding in findings)], frozenset({0}))
    left = _room() - sum(display_width(cell) + 2 for cell in rows[0])
    places = [_tail(sanitize_line(place_of(finding)[-_TITLE_LENGTH:]), int(left * _PLACE)) for finding in findings]
    wide = max(map(display_width, ["PLACE", *places]))
    yield style.quiet("  ".join([*rows[0], "PLACE".ljust(wide), "TITLE"]))
    for finding, row, place in zip(findings, rows[1:], places, strict=True):
        title = truncate(sanitize_line(finding.title[:_TITLE_LENGTH]), max(left - wide - 2, _LEAST))
        row[3] = _paint(style, finding, row[3])
        yield "  ".join([*row, place + " " * (wide - display_width(place)), title]).rstrip()


def _room() -> int:
    there = terminal_width()
    return COLUMNS if there == UNLIMITED else max(there, COLUMNS) - 1


def _row(finding: Finding, *, told: bool) -> list[str]:
    gate = "must" if finding.gate.value is Gate.MUST else ""
    state = [str(finding.state)] if told else []
    return [str(finding.number), finding.id, gate, str(finding.severity), *state]


def _tail(text: str, room: int) -> str:
    """The end of a path, which tells more than its beginning."""
    return text if display_width(text) <= room else ELLIPSIS + truncate(text[::-1], room)[:-1][::-1].lstrip()


def _paint(style: Style, finding: Finding, text: str) -> str:
    if finding.severity.rank <= Severity.HIGH.rank:
        return style.error(text)
    return style.warning(text) if finding.severity is Severity.MEDIUM else text

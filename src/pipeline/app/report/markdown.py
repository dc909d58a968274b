"""A page about a run as Markdown. What runs said cannot become markup: every sign of it is escaped, or fenced."""

import re
from collections.abc import Iterable, Iterator

from pipeline.app.report import tables
from pipeline.app.report.model import FindingRow, RunReport
from pipeline.app.report.tables import ReportTable

_SIGNS = re.compile(r"[\\`*_\[\]<>~&$]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_CALLS = re.compile(r"([@#])")  # names a person or an issue wherever a page is shown, escaped or not
_BAR = 24  # blocks


def markdown(report: RunReport) -> str:
    """The whole page."""
    return "\n".join(_lines(report)) + "\n"


def inert(text: str) -> str:
    """Words that show as they are, and do nothing."""
    escaped = _NUMBERED.sub(r"\1\\\2", _SIGNS.sub(r"\\\g<0>", text))
    return _CALLS.sub(r"\1<!-- -->", escaped).replace("|", "&#124;")  # readers differ on a backslash before it


def _lines(report: RunReport) -> Iterator[str]:
    yield f"# {inert(tables.title(report))}: {inert(report.status)}"
    yield ""
    (name, value), *others = tables.facts(report)
    yield from _table(ReportTable((name, value), tuple(others)))
    yield from _goal(tables.goal_lines(report))
    yield from _path(report)
    yield from _rounds(report)
    yield from _findings(report.reviewed.findings)
    yield from _section("Outstanding reports", tables.outstanding(report) if report.outstanding else None)
    yield from _section("Notes", tables.notes(report) if report.notes else None)
    yield from _section("Time and cost", tables.stages(report) if report.stages else None)


def _goal(lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    longest = max((len(run) for one in lines for run in re.findall("`+", one)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from ("", "## Goal", "", f"{fence}text", *lines, fence)


def _path(report: RunReport) -> Iterator[str]:
    if not report.steps:
        return
    yield from ("", "## Path", "", inert(tables.way(report.steps)), "")
    rows = list(_table(tables.path(report.steps)))
    yield from rows if len(report.steps) <= tables.FOLDED else _folded(f"All {len(report.steps)} steps", rows)


def _rounds(report: RunReport) -> Iterator[str]:
    rounds = report.reviewed.rounds
    if not rounds:
        return
    yield from _section("Rounds", tables.rounds(report))
    most = max(1, *(one.outstanding for one in rounds))
    bars = (f"{one.number:>4}  {_bar(one.outstanding, most)} {one.outstanding}" for one in rounds)
    yield from ("", "```text", "outstanding in each round", *bars, "```")


def _bar(number: int, most: int) -> str:
    return "█" * max(round(_BAR * number / most), 1 if number else 0)


def _findings(told: tuple[FindingRow, ...]) -> Iterator[str]:
    if not told:
        return
    shown = told[: tables.SHOWN]
    yield from _section("Findings", tables.findings(shown))
    if len(told) > len(shown):
        yield from ("", f"And {len(told) - len(shown)} more, which count less: `awf findings list` has all of them.")
    yield ""
    yield from _folded("History of each finding", [text for one in shown for text in _history(one)])


def _history(told: FindingRow) -> Iterator[str]:
    yield f"- no. {told.number}, {inert(tables.line(told.title))}"
    yield from (f"  - {inert(one)}" for one in tables.history(told))


def _folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>")


def _section(heading: str, table: ReportTable | None) -> Iterator[str]:
    if table is not None:
        yield from ("", f"## {heading}", "", *_table(table))


def _table(table: ReportTable) -> Iterator[str]:
    yield _row(table.head)
    yield _ruler(table)
    yield from map(_row, table.rows)


def _ruler(table: ReportTable) -> str:
    return "|" + "|".join("---:" if place in table.right else "---" for place in range(len(table.head))) + "|"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(inert, cells)) + " |"

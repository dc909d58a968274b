"""A report as Markdown. Nothing a run said can become markup: every special character is escaped or fenced."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.app.report import content
from pipeline.app.report.content import ReportTable, ReviewSummary, RunReport

_SPECIAL = re.compile(r"[\\`*_\[\]<>~&$]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_MENTION = re.compile(r"([@#])")  # where the page is shown, these call a person or an issue, escaped or not
_BAR_WIDTH = 24


def render_markdown(report: RunReport) -> str:
    """The whole page."""
    return "\n".join(_lines(report)) + "\n"


def escape_markdown(text: str) -> str:
    """Text that is shown as it is and does nothing."""
    escaped = _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", text))
    return _MENTION.sub(r"\1<!-- -->", escaped).replace("|", "&#124;")  # readers differ on a backslash before it


def _lines(report: RunReport) -> Iterator[str]:
    run = report.overview
    yield f"# {escape_markdown(content.title(report))}: {escape_markdown(run.status)}"
    yield ""
    first, *others = content.facts(report)
    yield from _table(ReportTable(first, tuple(others)))
    if lines := content.goal_lines(report):
        longest = max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)
        fence = "`" * max(3, longest + 1)
        yield from ("", "## Goal", "", f"{fence}text", *lines, fence)
    if report.steps:
        yield from ("", "## Path", "", escape_markdown(content.path_line(report.steps)), "")
        rows = list(_table(content.path_table(report.steps)))
        is_long = len(report.steps) > content.FOLD_AFTER
        yield from _folded(f"All {len(report.steps)} steps", rows) if is_long else rows
    yield from _review(report.review)
    if report.review.triage:
        yield from _triage(report.review.triage)
    if (hidden := content.hidden_table(report.review.hidden)).rows:
        yield from _section("Filtered, suspected and untested", hidden)
    if run.open_reports:
        yield from _section("Open reports", content.reports_table(run))
    if run.notes:
        yield from _section("Notes", content.notes_table(run))
    if run.stages:
        yield from _section("Time and cost", content.totals_table(report))


def _review(review: ReviewSummary) -> Iterator[str]:
    if review.rounds:
        yield from _section("Rounds", content.rounds_table(review))
        most = max(1, *(len(one.outstanding) for one in review.rounds))
        yield from ("", "```text", "open in each round")
        for one in review.rounds:
            count = len(one.outstanding)
            yield f"{one.number:>4}  {'█' * max(round(_BAR_WIDTH * count / most), 1 if count else 0)} {count}"
        yield "```"
    if review.findings:
        shown = review.findings[: content.MAX_ROWS]
        yield from _section("Findings", content.findings_table(shown))
        if hidden := len(review.findings) - len(shown):
            yield from ("", f"And {hidden} less important ones: `awf findings list` shows all of them.")
        yield ""
        histories = list[str]()
        for finding in shown:
            histories.append(f"- no. {finding.number}, {escape_markdown(content.one_line(finding.title))}")
            histories += [f"  - {escape_markdown(line)}" for line in content.finding_history(finding)]
        yield from _folded("History of each finding", histories)


def _triage(triage: Mapping[str, Any]) -> Iterator[str]:
    yield from _section("Completion report", content.triage_table(triage))
    for line in content.triage_lines(triage):
        yield from ("", escape_markdown(line))


def _folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>")


def _section(heading: str, table: ReportTable) -> Iterator[str]:
    yield from ("", f"## {heading}", "", *_table(table))


def _table(table: ReportTable) -> Iterator[str]:
    rulers = ["---:" if column in table.numbers else "---" for column in range(len(table.head))]
    yield _row(table.head)
    yield f"|{'|'.join(rulers)}|"
    yield from map(_row, table.rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape_markdown, cells))} |"

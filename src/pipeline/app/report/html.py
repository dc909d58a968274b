"""A page about a run as HTML: one file without scripts or anything from elsewhere, for any screen and for paper."""

from collections.abc import Iterator

from pipeline.app.report import tables
from pipeline.app.report.curve import curve
from pipeline.app.report.markup import Markup, joined, tag, text
from pipeline.app.report.model import FindingRow, RunReport
from pipeline.app.report.style import STYLE
from pipeline.app.report.tables import ReportTable

_GOOD = frozenset({"success", "verified fixed", "partial_success"})
_BAD = frozenset({"fail", "error", "open", "reopened"})
# Even if a text got past the escaping, it could load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(report: RunReport) -> str:
    """The whole page."""
    name = text(f"{tables.title(report)}: {report.status}")
    head = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<style>
{STYLE}</style>
</head>
<body>
"""
    return head + tag("main", joined([Markup(""), *_parts(report), Markup("")])) + "\n</body>\n</html>\n"


def _parts(report: RunReport) -> Iterator[Markup]:
    badge = tag("span", text(report.status), class_=f"badge {_kind(report.status)}")
    yield tag("h1", text(tables.title(report)), Markup(" "), badge)
    yield from _goal(report)
    yield tag("dl", joined(tag("div", tag("dt", text(k)), tag("dd", text(v))) for k, v in tables.facts(report)))
    yield from _path(report)
    yield from _rounds(report)
    yield from _findings(report.reviewed.findings)
    if report.outstanding:
        yield _section("Outstanding reports", _table(tables.outstanding(report)))
    if report.notes:
        yield _section("Notes", _table(tables.notes(report)))
    if report.stages:
        yield _section("Time and cost", _table(tables.stages(report), "sums"))


def _goal(report: RunReport) -> Iterator[Markup]:
    lines = tables.goal_lines(report)
    if lines:
        yield tag("blockquote", joined(tag("div", text(one) or Markup("<br>")) for one in lines))


def _path(report: RunReport) -> Iterator[Markup]:
    if not report.steps:
        return
    short = tag("p", text(tables.way(report.steps)), class_="way")
    table = _table(tables.path(report.steps))
    if len(report.steps) > tables.FOLDED:
        table = _folded(f"All {len(report.steps)} steps", table)
    yield _section("Path", short, table)


def _rounds(report: RunReport) -> Iterator[Markup]:
    rounds = report.reviewed.rounds
    if rounds:
        keys = (tag("span", text(name), class_=f"key {name}") for name in ("outstanding", "new", "resolved"))
        figure = tag("figure", curve(rounds), tag("figcaption", joined(keys)))
        yield _section("Rounds", figure, _table(tables.rounds(report)))


def _findings(told: tuple[FindingRow, ...]) -> Iterator[Markup]:
    if not told:
        return
    shown = told[: tables.SHOWN]
    left = len(told) - len(shown)
    more = f"And {left} more, which count less: awf findings list has all of them."
    histories = joined(map(_history, shown))
    yield _section("Findings", _table(tables.findings(shown)), tag("p", text(more)) if left else Markup(""), histories)


def _history(told: FindingRow) -> Markup:
    lines = tag("ol", joined(tag("li", text(one)) for one in tables.history(told)))
    return _folded(f"No. {told.number}: {tables.line(told.title)}", lines)


def _section(heading: str, *inner: Markup) -> Markup:
    return tag("section", tag("h2", text(heading)), joined([Markup(""), *inner]))


def _folded(summary: str, inner: Markup) -> Markup:
    return tag("details", tag("summary", text(summary)), inner)


def _table(table: ReportTable, kind: str = "") -> Markup:
    head = tag("thead", tag("tr", *(_cell("th", table, place, word) for place, word in enumerate(table.head))))
    rows = (tag("tr", *(_cell("td", table, place, word) for place, word in enumerate(row))) for row in table.rows)
    return tag("div", tag("table", head, tag("tbody", joined(rows)), class_=kind), class_="wide")


def _cell(name: str, table: ReportTable, place: int, word: str) -> Markup:
    if place in table.right:
        return tag(name, text(word), class_="number")
    if place == table.status and name == "td" and word:
        return tag(name, tag("span", text(word), class_=_kind(word)))
    return tag(name, text(word))


def _kind(status: str) -> str:
    return "good" if status in _GOOD else "bad" if status in _BAD else "other"

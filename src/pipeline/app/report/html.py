"""A report as one HTML file, without scripts or other resources, for any screen and for paper."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NewType

from pipeline.app.report import content
from pipeline.app.report.content import ReportTable, ReviewSummary, RunReport
from pipeline.findings.rounds import Round
from pipeline.text import sanitize_line

Markup = NewType("Markup", str)  # escaped, or written here

_STYLE = Path(__file__).with_name("style.css")
_GOOD = frozenset({"success", "verified fixed", "partial_success"})
_BAD = frozenset({"fail", "error", "open", "reopened"})
# Even a text that got past the escaping could not load or run anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_NOTHING = Markup("")

_CHART_WIDTH, _CHART_HEIGHT = 640, 200
_LEFT, _TOP, _BOTTOM = 36, 16, 168
_MAX_LABELS = 16  # with more rounds than this, not every round gets a label


def render_html(report: RunReport) -> str:
    """The whole page."""
    head = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_text(f"{content.title(report)}: {report.overview.status}")}</title>
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
"""
    return head + _tag("main", _lines([_NOTHING, *_sections(report), _NOTHING])) + "\n</body>\n</html>\n"


def rounds_chart(rounds: Sequence[Round]) -> Markup:
    """The rounds as a picture: what is outstanding as a line, what is new and resolved as bars."""
    most = max(1, *(max(len(one.outstanding), len(one.new), len(one.resolved)) for one in rounds))
    slot = (_CHART_WIDTH - _LEFT) / len(rounds)
    bar_width = round(min(18.0, slot / 3), 1)

    def x(place: int) -> float:
        return round(_LEFT + slot * (place + 0.5), 1)

    def y(count: int) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * count / most, 1)

    parts = list[Markup]()
    for count in sorted({0, most // 2, most}):
        parts.append(_tag("line", x1=_LEFT, x2=_CHART_WIDTH, y1=y(count), y2=y(count), class_="grid"))
        parts.append(_tag("text", _text(count), x=_LEFT - 8, y=y(count) + 4, text_anchor="end"))
    for place, one in enumerate(rounds):
        for count, kind, shift in ((len(one.new), "new", -bar_width), (len(one.resolved), "resolved", 0.0)):
            left, height = round(x(place) + shift, 1), round(_BOTTOM - y(count), 1)
            parts.append(_tag("rect", x=left, y=y(count), width=bar_width, height=height, class_=kind))
    points = [(x(place), y(len(one.outstanding))) for place, one in enumerate(rounds)]
    for (x1, y1), (x2, y2) in pairwise(points):
        parts.append(_tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="outstanding"))
    parts += [_tag("circle", cx=cx, cy=cy, r=3.5, class_="outstanding") for cx, cy in points]
    every = -(-len(rounds) // _MAX_LABELS)
    for place, one in list(enumerate(rounds))[::every]:
        parts.append(_tag("text", _text(one.number), x=x(place), y=_BOTTOM + 20, text_anchor="middle"))
    label = ", ".join(f"round {one.number}: {len(one.outstanding)}" for one in rounds)
    return _tag(
        "svg",
        _lines(parts),
        viewBox=f"0 0 {_CHART_WIDTH} {_CHART_HEIGHT}",
        role="img",
        aria_label=f"Findings outstanding, {label}",
        class_="curve",
    )


def _sections(report: RunReport) -> Iterator[Markup]:
    run = report.overview
    badge = _tag("span", _text(run.status), class_=f"badge {_status_class(run.status)}")
    yield _tag("h1", _text(content.title(report)), Markup(" "), badge)
    if lines := content.goal_lines(report):
        yield _tag("blockquote", _lines(_tag("div", _text(line) or Markup("<br>")) for line in lines))
    facts = (_tag("div", _tag("dt", _text(name)), _tag("dd", _text(value))) for name, value in content.facts(report))
    yield _tag("dl", _lines(facts))
    if report.steps:
        table = _table(content.path_table(report.steps))
        if len(report.steps) > content.FOLD_AFTER:
            table = _folded(f"All {len(report.steps)} steps", table)
        yield _section("Path", _tag("p", _text(content.path_line(report.steps)), class_="way"), table)
    yield from _review_sections(report.review)
    if report.review.triage:
        yield _triage_section(report.review.triage)
    if (hidden := content.hidden_table(report.review.hidden)).rows:
        yield _section("Filtered, suspected and untested", _table(hidden))
    if run.open_reports:
        yield _section("Open reports", _table(content.reports_table(run)))
    if run.notes:
        yield _section("Notes", _table(content.notes_table(run)))
    if run.stages:
        yield _section("Time and cost", _table(content.totals_table(report), "sums"))


def _review_sections(review: ReviewSummary) -> Iterator[Markup]:
    if review.rounds:
        keys = (_tag("span", _text(name), class_=f"key {name}") for name in ("outstanding", "new", "resolved"))
        figure = _tag("figure", rounds_chart(review.rounds), _tag("figcaption", _lines(keys)))
        yield _section("Rounds", figure, _table(content.rounds_table(review)))
    if review.findings:
        shown = review.findings[: content.MAX_ROWS]
        hidden = len(review.findings) - len(shown)
        more = f"And {hidden} less important ones: awf findings list shows all of them."
        histories = [
            _folded(
                f"No. {one.number}: {content.one_line(one.title)}",
                _tag("ol", _lines(_tag("li", _text(line)) for line in content.finding_history(one))),
            )
            for one in shown
        ]
        table = _table(content.findings_table(shown))
        yield _section("Findings", table, _tag("p", _text(more)) if hidden else _NOTHING, _lines(histories))


def _triage_section(triage: Mapping[str, Any]) -> Markup:
    lines = [_tag("p", _text(line)) for line in content.triage_lines(triage)]
    return _section("Completion report", _table(content.triage_table(triage)), *lines)


def _section(heading: str, *inner: Markup) -> Markup:
    return _tag("section", _tag("h2", _text(heading)), _lines([_NOTHING, *inner]))


def _folded(summary: str, inner: Markup) -> Markup:
    return _tag("details", _tag("summary", _text(summary)), inner)


def _table(table: ReportTable, kind: str = "") -> Markup:
    def cells(name: str, row: Sequence[str]) -> Iterator[Markup]:
        for column, text in enumerate(row):
            inner = _text(text)
            if column == table.status and name == "td" and text:
                inner = _tag("span", inner, class_=_status_class(text))
            yield _tag(name, inner, class_="number" if column in table.numbers else "")

    head = _tag("thead", _tag("tr", *cells("th", table.head)))
    body = _tag("tbody", _lines(_tag("tr", *cells("td", row)) for row in table.rows))
    return _tag("div", _tag("table", head, body, class_=kind), class_="wide")


def _status_class(status: str) -> str:
    return "good" if status in _GOOD else "bad" if status in _BAD else "other"


def _text(value: object) -> Markup:
    """Text that is shown as it is."""
    return Markup(escape(sanitize_line(str(value))))


def _tag(name: str, *inner: Markup, **attributes: object) -> Markup:
    """An element; attributes without a value are left out. `class_` is its class, `text_anchor` its text-anchor."""
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value != "")
    written = "".join(f' {key}="{_text(value)}"' for key, value in named)
    return Markup(f"<{name}{written}>{''.join(inner)}</{name}>")


def _lines(parts: Iterable[Markup]) -> Markup:
    return Markup("\n".join(parts))

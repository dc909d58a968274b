"""Writes a report as Markdown, or as one HTML file without scripts or other resources, for any screen and for paper."""

from typing import Any

from pipeline import templates
from pipeline.app.report import content
from pipeline.app.report.chart import draw_rounds
from pipeline.app.report.content import RunReport
from pipeline.text import one_line

_GOOD = frozenset({"success", "verified fixed", "partial_success"})
_BAD = frozenset({"fail", "error", "open", "reopened"})


def render_html(report: RunReport) -> str:
    """Return the page as HTML."""
    review = report.review
    chart = draw_rounds(review.rounds) if review.rounds else None
    return templates.render("run.html.j2", **_view(report), chart=chart, class_of=_status_class)


def render_markdown(report: RunReport) -> str:
    """Return the page as Markdown."""
    return templates.render("run.md.j2", **_view(report), bars=content.rounds_bars(report.review))


def _view(report: RunReport) -> dict[str, Any]:
    """Return what a page shows, in the order of the page. A table without rows has no section."""
    review = report.review
    shown = review.lines[: content.MAX_ROWS]
    return {
        "title": content.title(report),
        "status": report.overview.status,
        "facts": list(content.facts(report)),
        "goal": content.goal_lines(report),
        "path": content.path_line(report.steps),
        "steps": content.path_table(report.steps),
        "is_long": len(report.steps) > content.FOLD_AFTER,
        "rounds": content.rounds_table(review),
        "findings": content.findings_table(shown),
        "more_findings": len(review.lines) - len(shown),
        "histories": [
            {
                "number": finding.number,
                "title": one_line(finding.title),
                "lines": content.finding_history(finding),
            }
            for line in shown
            for finding in line.members
        ],
        "decisions": content.triage_table(review.triage),
        "decided": content.triage_lines(review.triage),
        "hidden": content.hidden_table(review.hidden),
        "reports": content.reports_table(report.overview),
        "notes": content.notes_table(report.overview),
        "totals": content.totals_table(report),
    }


def _status_class(status: str) -> str:
    if status in _GOOD:
        return "good"
    if status in _BAD:
        return "bad"
    return "other"

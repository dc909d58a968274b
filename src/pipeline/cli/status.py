"""`awf status`: one run on one screen, and what to do next."""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

import click

from pipeline.app.history import read_review
from pipeline.app.overview import LimitUsage, RunOverview, overview_of, resume_commands
from pipeline.app.store import WorkerInfo
from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_history, paint_status, print_json, table_lines
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style
from pipeline.text import (
    display_width,
    format_age,
    format_cost,
    format_count,
    format_duration,
    format_time_until,
    plural,
    sanitize_line,
    truncate,
    visit_label,
)

_MAX_LINES = 12  # lines of work, reports, and notes
_HEADER = ("STAGE", "VISITS", "LAST", "SOURCE", "TIME", "TOKENS", "COST")


@click.command("status")
@click.argument("run", default="latest")
@store_location_options
@as_json_option
def command(run: str, where: StoreLocation, *, as_json: bool) -> None:
    """Show a run: its limits, its stages, its verdict, its open findings and reports, and what to do next.

    RUN is the id of a run, the beginning of one, or "latest", the default.
    """
    with where.open() as store:
        history = load_history(store, run)
        driven = store.is_driven(history.state.run_id)
        worker = store.worker_info(history.state.run_id) if driven else None
        review = read_review(store.ledger(history.state.run_id), history.state.run_id)
    overview, now = overview_of(history, review, driven=driven), time.time()
    if as_json:
        cluster = {"cluster": asdict(worker) if worker else None} if where.on else {}
        print_json({**overview.as_json(), "next": next_commands(overview, where, now), **cluster})
        return
    style = Style.of(sys.stdout)
    for line in (*_facts(overview, worker, style, now), *_sections(overview, where, style, now)):
        click.echo(line)


def next_commands(overview: RunOverview, where: StoreLocation, now: float) -> list[str]:
    """The commands that continue the run, answer its question, or show what went wrong."""
    commands = list[str]()
    if overview.resume is not None:
        until = None if where.on else overview.until  # a cluster waits for the quota by itself
        commands += resume_commands(overview.run_id, overview.resume, until, now)
    if overview.question:
        commands.append(f"awf answer {overview.run_id} {overview.stage} OPTION")
    if overview.status == "fail":
        commands.append(f"awf why {overview.run_id}")
    if overview.failed:
        commands.append(f"awf logs {overview.run_id} {overview.failed}")
    return [command + where.end for command in commands]


def _facts(overview: RunOverview, worker: WorkerInfo | None, style: Style, now: float) -> Iterator[str]:
    def fact(name: str, value: str) -> str:
        return style.quiet(f"{name:<11}") + truncate(value, style.width - 12)

    yield fact("run", f"{overview.run_id}, started {format_age(now - overview.began)} ago")
    yield fact("workflow", sanitize_line(overview.workflow))
    if overview.goal:
        yield fact("goal", sanitize_line(overview.goal[:2000]))
    reason = f": {sanitize_line(overview.reason)}" if overview.reason else ""
    status = paint_status(overview.status, style) + truncate(reason, style.width - 12 - len(overview.status))
    yield style.quiet(f"{'status':<11}") + status
    if overview.until is not None:
        yield fact("resets", format_time_until(overview.until, now))
    for error in overview.errors:
        name = f"{visit_label(error.stage, error.visit)} ({error.kind})"
        resets = f" It resets {format_time_until(error.until, now)}." if error.until and overview.until is None else ""
        advice = truncate(f"  {error.advice}{resets}", style.width - 12 - display_width(name))
        yield style.quiet(f"{'error':<11}") + style.error(name) + advice
    yield fact("at", visit_label(overview.stage, overview.visit))
    if overview.verdict:
        yield fact("verdict", overview.verdict)
    for number, limit in enumerate(overview.limits):
        yield fact("" if number else "limits", _limit_text(limit))
    if overview.workspace:
        yield fact("workspace", sanitize_line(overview.workspace))
    if worker and (worker.worker is None or worker.events is None):
        yield fact("cluster", "no worker answers; the run continues when one does")
    elif worker and worker.events is not None:
        place = f"on {sanitize_line(worker.worker)}" if worker.worker else "not on a worker yet"
        yield fact("cluster", f"{place}, {plural(worker.events, 'event')} in its history")


def _limit_text(limit: LimitUsage) -> str:
    def write(value: float) -> str:
        if limit.name == "max_duration":
            return format_duration(value)
        return format_cost(value) if limit.name == "max_cost_usd" else f"{value:g}"

    allowed = f"of {write(limit.allowed)}" if limit.allowed is not None else "(no limit)"
    stage = f"  {sanitize_line(limit.stage)}" if limit.stage else ""
    unknown = f"  not enforced for {sanitize_line(', '.join(limit.not_enforced))}" if limit.not_enforced else ""
    return f"{limit.name:<13}{write(limit.used)} {allowed}{stage}{unknown}"


def _sections(overview: RunOverview, where: StoreLocation, style: Style, now: float) -> Iterator[str]:
    if overview.stages:
        rows = (
            (
                truncate(sanitize_line(one.stage), 24),
                str(one.visits),
                one.status or "-",
                one.source or "-",
                format_duration(one.seconds),
                format_count(one.tokens) if one.tokens else "-",
                format_cost(one.cost_usd) if one.cost_usd else "-",
            )
            for one in overview.stages
        )
        yield from ("", *table_lines([_HEADER, *rows], right=frozenset({1, 4, 5, 6}), status=2, style=style))
    if findings := overview.open_findings:
        command = f"awf findings list --run {overview.run_id}{where.end}"
        count = f"{plural(len(findings), 'open line')} of work"
        yield from ("", style.warning(count) + style.quiet(f"  {command}"))
        for one in findings[:_MAX_LINES]:
            place = f"{one['file']}:{one['line']}" if one["line"] else one["file"] or ""
            others = len(one["members"]) - 1
            title = f"{one['title']} (and {plural(others, 'more finding')})" if others else one["title"]
            words = (f"#{one['number']} {one['severity']}", place, title)
            yield "  " + truncate("  ".join(sanitize_line(word[:2000]) for word in words if word), style.width - 3)
        if more := len(findings) - _MAX_LINES:
            yield from [f"  and {more} more"] if more > 0 else []
    if overview.filtered:
        command = f"awf findings list --filtered --run {overview.run_id}{where.end}"
        yield from ("", f"{overview.filtered} filtered" + style.quiet(f"  {command}"))
    if reports := overview.open_reports:
        yield from ("", style.warning(plural(len(reports), "open report")))
        yield from _newest_lines([(str(one["stage"]), one["iteration"], one["reason"]) for one in reports], style)
    if notes := overview.notes:
        yield from ("", style.warning(plural(len(notes), "note")))
        yield from _newest_lines([(one["stage"], one["visit"], one["note"]) for one in notes], style)
    if overview.question:
        yield from ("", truncate(f"question: {sanitize_line(overview.question)}", style.width - 1))
        yield truncate(f"options: {', '.join(map(sanitize_line, overview.options))}", style.width - 1)
    if commands := next_commands(overview, where, now):
        yield ""
    for number, text in enumerate(commands):
        yield style.quiet(f"{'' if number else 'next':<11}") + text


def _newest_lines(texts: list[tuple[str, object, str]], style: Style) -> Iterator[str]:
    """Texts about visits, newest last; if there are many, only the newest."""
    if len(texts) > _MAX_LINES:
        yield f"  {len(texts) - _MAX_LINES} earlier ones are not shown"
    for stage, visit, text in texts[-_MAX_LINES:]:
        shown = sanitize_line(text[:2000]) or "no reason given"
        label = visit_label(stage, visit if isinstance(visit, int) else 0, 40)
        yield "  " + truncate(f"{label}  {shown}", style.width - 3)

"""`awf status`: one run on one screen, and what to do next."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pipeline.app.history import StageTotals, read_review
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

if TYPE_CHECKING:
    from pipeline.findings.lines import Line

_MAX_LINES = 12  # lines of work, reports, and notes
_MAX_TEXT = 2000  # characters of a text that are looked at, of which a line shows the beginning
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
        review = read_review(store.ledger(history.state.run_id), history.state.run_id) if where.on else None
        has_findings = not where.on and next(store.journal.ledger(), None) is not None
    lines: Sequence[Line] | None = None
    if has_findings:  # what was edited in the files that show findings is read, and put back
        from pipeline.cli.findings.options import FindingsSource  # noqa: PLC0415 - few runs have findings
        from pipeline.findings.reviews import review_of_run  # noqa: PLC0415 - as above

        source = FindingsSource(where)
        ledger = source.read()
        review = review_of_run(ledger, history.state.run_id)
        lines = source.current_lines(review.open, ledger) if review else None
    overview, now = overview_of(history, review, driven=driven, lines=lines), time.time()
    if as_json:
        document = {**overview.as_json(), "next": next_commands(overview, where, now)}
        if where.on:
            document["cluster"] = asdict(worker) if worker else None
        print_json(document)
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
    def fact(name: str, value: str, painted: str = "", width: int = 0) -> str:
        """Return a name with a value; what is painted comes before it, in so many columns."""
        return style.quiet(f"{name:<11}") + painted + truncate(value, style.width - 12 - width)

    yield fact("run", f"{overview.run_id}, started {format_age(now - overview.began)} ago")
    yield fact("workflow", sanitize_line(overview.workflow))
    if overview.goal:
        yield fact("goal", sanitize_line(overview.goal[:_MAX_TEXT]))
    reason = f": {sanitize_line(overview.reason)}" if overview.reason else ""
    yield fact("status", reason, paint_status(overview.status, style), len(overview.status))
    if overview.until is not None:
        yield fact("resets", format_time_until(overview.until, now))
    for error in overview.errors:
        name, advice = f"{visit_label(error.stage, error.visit)} ({error.kind})", error.advice
        if error.until and overview.until is None:
            advice += f" It resets {format_time_until(error.until, now)}."
        yield fact("error", f"  {advice}", style.error(name), display_width(name))
    yield fact("at", visit_label(overview.stage, overview.visit))
    if overview.verdict:
        yield fact("verdict", overview.verdict)
    yield from _under("limits", (truncate(_limit_text(limit), style.width - 12) for limit in overview.limits), style)
    if overview.workspace:
        yield fact("workspace", sanitize_line(overview.workspace))
    if worker:
        yield fact("cluster", _worker_text(worker))


def _worker_text(worker: WorkerInfo) -> str:
    if worker.events is None:
        return "no worker answers; the run continues when one does"
    place = f"on {sanitize_line(worker.worker)}" if worker.worker else "not on a worker yet"
    return f"{place}, {plural(worker.events, 'event')} in its history"


def _limit_text(limit: LimitUsage) -> str:
    text = f"{limit.name:<13}{limit.text(limit.used)} "
    text += "(no limit)" if limit.allowed is None else f"of {limit.text(limit.allowed)}"
    if limit.stage:
        text += f"  {sanitize_line(limit.stage)}"
    if limit.not_enforced:
        text += f"  not enforced for {sanitize_line(', '.join(limit.not_enforced))}"
    return text


def _sections(overview: RunOverview, where: StoreLocation, style: Style, now: float) -> Iterator[str]:
    """Yield the lines below the facts, each group of them after a blank line."""
    found_with, run = "awf findings list", f"--run {overview.run_id}{where.end}"
    if overview.stages:
        rows = [_HEADER, *map(_stage_row, overview.stages)]
        yield from ("", *table_lines(rows, right=frozenset({1, 4, 5, 6}), status=2, style=style))
    if overview.open_findings:
        count = plural(len(overview.open_findings), "open line of work", "open lines of work")
        yield from ("", style.warning(count) + style.quiet(f"  {found_with} {run}"))
        yield from _finding_lines(overview.open_findings, style)
    if overview.filtered:
        yield from ("", f"{overview.filtered} filtered" + style.quiet(f"  {found_with} --filtered {run}"))
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
        yield from ("", *_under("next", commands, style))


def _stage_row(stage: StageTotals) -> tuple[str, ...]:
    return (
        truncate(sanitize_line(stage.stage), 24),
        str(stage.visits),
        stage.status or "-",
        stage.source or "-",
        format_duration(stage.seconds),
        format_count(stage.tokens) if stage.tokens else "-",
        format_cost(stage.cost_usd) if stage.cost_usd else "-",
    )


def _finding_lines(findings: Sequence[dict[str, Any]], style: Style) -> Iterator[str]:
    for one in findings[:_MAX_LINES]:
        place = f"{one['file']}:{one['line']}" if one["line"] else one["file"] or ""
        title, others = one["title"], len(one["members"]) - 1
        if others:
            title += f" (and {plural(others, 'more finding')})"
        words = [sanitize_line(word[:_MAX_TEXT]) for word in (f"#{one['number']} {one['severity']}", place, title)]
        yield "  " + truncate("  ".join(filter(None, words)), style.width - 3)
    if len(findings) > _MAX_LINES:
        yield f"  and {len(findings) - _MAX_LINES} more"


def _newest_lines(texts: list[tuple[str, object, str]], style: Style) -> Iterator[str]:
    """Yield texts about visits, newest last; if there are many, only the newest."""
    if len(texts) > _MAX_LINES:
        yield f"  {len(texts) - _MAX_LINES} earlier ones are not shown"
    for stage, visit, text in texts[-_MAX_LINES:]:
        shown = sanitize_line(text[:_MAX_TEXT]) or "no reason given"
        label = visit_label(stage, visit if isinstance(visit, int) else 0, 40)
        yield "  " + truncate(f"{label}  {shown}", style.width - 3)


def _under(name: str, texts: Iterable[str], style: Style) -> Iterator[str]:
    """Yield texts in a column, with a name beside the first."""
    for text in texts:
        yield style.quiet(f"{name:<11}") + text
        name = ""

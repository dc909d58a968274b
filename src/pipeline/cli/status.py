"""`awf status`: one run on one screen."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from pipeline.app.history import StageTotals
from pipeline.app.overview import LimitUsage, RunOverview, overview_of, resume_commands
from pipeline.app.store import WorkerInfo
from pipeline.cli.options import as_json_option
from pipeline.cli.output import align_columns, load_run, paint_status, print_json, terminal_width
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

_FINDINGS = 12
_NOTES = 12
_HEADER = ("STAGE", "VISITS", "LAST", "FROM", "TIME", "TOKENS", "COST")
_RIGHT = frozenset({1, 4, 5, 6})
_LAST = 2


@click.command("status")
@click.argument("run", default="latest")
@store_location_options
@as_json_option
def command(run: str, where: StoreLocation, *, as_json: bool) -> None:
    """Show how a run stands: its limits, its stages, what is outstanding, and what to do next.

    RUN is a run's id, the beginning of one, or "latest", the default.
    """
    with where.open() as store:
        run_id, records = load_run(store, run)
        driven = store.is_driven(run_id)
        standing, attended = overview_of(records, driven=driven), store.worker_info(run_id) if driven else None
    if as_json:
        cluster = {"cluster": asdict(attended) if attended else None} if where.on else {}
        print_json(as_object(standing, where) | cluster)
        return
    for line in _lines(standing, attended, Style.of(sys.stdout), where, time.time()):
        click.echo(line)


def _lines(
    standing: RunOverview, attended: WorkerInfo | None, style: Style, where: StoreLocation, now: float
) -> Iterator[str]:
    reason = f": {sanitize_line(standing.reason)}" if standing.reason else ""
    yield _field("run", f"{standing.run_id}, begun {format_age(now - standing.began)} ago", style)
    yield _field("workflow", sanitize_line(standing.workflow), style)
    if standing.goal:
        yield _field("goal", sanitize_line(standing.goal[:2000]), style)
    yield (
        style.quiet(f"{'status':<11}") + paint_status(standing.status, style) + truncate(reason, terminal_width() - 25)
    )
    if standing.until is not None:
        yield _field("resets", format_time_until(standing.until, now), style)
    for error in standing.errors:
        name = f"{visit_label(error.stage, error.visit)} ({error.kind})"
        resets = f" It resets {format_time_until(error.until, now)}." if error.until and standing.until is None else ""
        words = truncate(f"  {error.advice}{resets}", terminal_width() - 12 - display_width(name))
        yield style.quiet(f"{'error':<11}") + style.error(name) + words
    yield _field("at", visit_label(standing.stage, standing.visit), style)
    for number, limit in enumerate(standing.limits):
        yield _field("" if number else "limits", _limit(limit), style)
    if standing.workspace:
        yield _field("workspace", sanitize_line(standing.workspace), style)
    if attended:
        yield _field("cluster", _attended(attended), style)
    yield from _table(standing.stages, style)
    yield from _outstanding(standing.findings, style)
    yield from _notes(standing.notes, style)
    yield from _next(standing, style, where, now)


def _field(name: str, value: str, style: Style) -> str:
    return style.quiet(f"{name:<11}") + truncate(value, terminal_width() - 12)


def _attended(attended: WorkerInfo) -> str:
    if attended.worker is None or attended.events is None:
        return "no worker answers: nothing goes on until one is there"
    held = f"at {sanitize_line(attended.worker)}" if attended.worker else "no worker had a stage of it yet"
    return f"{held}, {plural(attended.events, 'event')} of history"


def _limit(limit: LimitUsage) -> str:
    allowed = f"of {_number(limit.name, limit.allowed)}" if limit.allowed is not None else "(no limit)"
    stage = f"  {sanitize_line(limit.stage)}" if limit.stage else ""
    return f"{limit.name:<13}{_number(limit.name, limit.used)} {allowed}{stage}"


def _number(limit: str, value: float) -> str:
    if limit == "max_duration":
        return format_duration(value)
    return format_cost(value) if limit == "max_cost_usd" else f"{value:g}"


def _table(stages: Sequence[StageTotals], style: Style) -> Iterator[str]:
    if not stages:
        return
    yield ""
    rows = [_HEADER, *map(_row, stages)]
    for number, row in enumerate(align_columns(rows, _RIGHT)):
        if number:
            row[_LAST] = paint_status(row[_LAST], style)
        line = "  ".join(row).rstrip()
        yield line if number else style.quiet(line)


def _row(one: StageTotals) -> tuple[str, ...]:
    return (
        truncate(sanitize_line(one.stage), 24),
        str(one.visits),
        one.last.status if one.last else "-",
        one.last.source if one.last else "-",
        format_duration(one.seconds),
        format_count(one.tokens) if one.tokens else "-",
        format_cost(one.cost_usd) if one.cost_usd else "-",
    )


def _outstanding(findings: Sequence[dict[str, Any]], style: Style) -> Iterator[str]:
    if not findings:
        return
    yield ""
    yield style.warning(f"{plural(len(findings), 'finding')} outstanding")
    for finding in findings[-_FINDINGS:]:
        name = visit_label(str(finding["stage"]), int(finding["iteration"] or 0), 40)
        yield "  " + truncate(
            f"{name}  {sanitize_line(finding['reason'][:2000]) or 'no reason given'}", terminal_width() - 3
        )
    if len(findings) > _FINDINGS:
        yield f"  and {len(findings) - _FINDINGS} before these"


def _notes(notes: Sequence[dict[str, Any]], style: Style) -> Iterator[str]:
    """What was put back in view files, newest last."""
    if not notes:
        return
    yield ""
    yield style.warning(plural(len(notes), "note"))
    if len(notes) > _NOTES:
        yield f"  {len(notes) - _NOTES} before these"
    for note in notes[-_NOTES:]:
        yield "  " + truncate(
            f"{visit_label(note['stage'], note['visit'], 40)}  {sanitize_line(note['note'][:2000])}",
            terminal_width() - 3,
        )


def _next(standing: RunOverview, style: Style, where: StoreLocation, now: float) -> Iterator[str]:
    commands = next_commands(standing, where, now)
    if standing.question:
        yield ""
        yield truncate(f"it asks: {sanitize_line(standing.question)}", terminal_width() - 1)
        yield truncate(f"options: {', '.join(map(sanitize_line, standing.options))}", terminal_width() - 1)
    if commands:
        yield ""
        yield from (style.quiet("next       " if not number else " " * 11) + one for number, one in enumerate(commands))


def next_commands(standing: RunOverview, where: StoreLocation, now: float) -> list[str]:
    """The commands that help: those that continue the run, and those that show what went wrong."""
    end, until = where.end, None if where.on else standing.until  # a cluster waits for a quota by itself
    answer = [f"awf answer {standing.run_id} {standing.stage} OPTION{end}"] if standing.question else []
    commands = resume_commands(standing.run_id, standing.resume or (), until, now)
    resume = [] if standing.resume is None else [command + end for command in commands]
    logs = [f"awf logs {standing.run_id} {standing.failed}{end}"] if standing.failed else []
    why = [f"awf why {standing.run_id}{end}"] if standing.status == "fail" else []
    return [*resume, *answer, *why, *logs]


def as_object(standing: RunOverview, where: StoreLocation) -> dict[str, Any]:
    """How a run stands as JSON has it."""
    fields = asdict(standing)
    fields["stages"] = [_stage_object(one) for one in standing.stages]
    fields["next"] = next_commands(standing, where, time.time())
    return fields


def _stage_object(one: StageTotals) -> dict[str, Any]:
    return {
        "stage": one.stage,
        "visits": one.visits,
        "status": one.last.status if one.last else None,
        "source": one.last.source if one.last else None,
        "reason": one.last.reason if one.last else None,
        "seconds": round(one.seconds, 3),
        "tokens": one.tokens,
        "cost_usd": one.cost_usd,
    }

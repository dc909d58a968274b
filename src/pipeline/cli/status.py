"""`awf status`: one run on one screen."""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from pipeline.app.history import StageSum
from pipeline.app.next_step import resume_commands
from pipeline.app.shelf import Attended
from pipeline.app.standing import Limit, Standing, standing_of
from pipeline.cli.looking import aligned, painted, run_on, say_json, width
from pipeline.cli.options import as_json_option
from pipeline.cli.terminal import Style
from pipeline.cli.where import Where, where_option
from pipeline.observe.text import age, amount, calm, columns, counted, cut, label, moment, money, span

_FINDINGS = 12
_NOTES = 12
_HEADER = ("STAGE", "VISITS", "LAST", "FROM", "TIME", "TOKENS", "COST")
_RIGHT = frozenset({1, 4, 5, 6})
_LAST = 2


@click.command("status")
@click.argument("run", default="latest")
@where_option
@as_json_option
def command(run: str, where: Where, *, as_json: bool) -> None:
    """Show how a run stands: its limits, its stages, what is outstanding, and what to do next.

    RUN is a run's id, the beginning of one, or "latest", the default.
    """
    with where.shelf() as shelf:
        run_id, records = run_on(shelf, run)
        driven = shelf.driven(run_id)
        standing, attended = standing_of(records, driven=driven), shelf.attended(run_id) if driven else None
    if as_json:
        cluster = {"cluster": asdict(attended) if attended else None} if where.on else {}
        say_json(as_object(standing, where) | cluster)
        return
    for line in _lines(standing, attended, Style.of(sys.stdout), where, time.time()):
        click.echo(line)


def _lines(standing: Standing, attended: Attended | None, style: Style, where: Where, now: float) -> Iterator[str]:
    reason = f": {calm(standing.reason)}" if standing.reason else ""
    yield _field("run", f"{standing.run_id}, begun {age(now - standing.began)} ago", style)
    yield _field("workflow", calm(standing.workflow), style)
    if standing.goal:
        yield _field("goal", calm(standing.goal[:2000]), style)
    yield style.quiet(f"{'status':<11}") + painted(standing.status, style) + cut(reason, width() - 25)
    if standing.until is not None:
        yield _field("resets", moment(standing.until, now), style)
    for error in standing.errors:
        name = f"{label(error.stage, error.visit)} ({error.kind})"
        resets = f" It resets {moment(error.until, now)}." if error.until and standing.until is None else ""
        words = cut(f"  {error.advice}{resets}", width() - 12 - columns(name))
        yield style.quiet(f"{'error':<11}") + style.error(name) + words
    yield _field("at", label(standing.stage, standing.visit), style)
    for number, limit in enumerate(standing.limits):
        yield _field("" if number else "limits", _limit(limit), style)
    if standing.workspace:
        yield _field("workspace", calm(standing.workspace), style)
    if attended:
        yield _field("cluster", _attended(attended), style)
    yield from _table(standing.stages, style)
    yield from _outstanding(standing.findings, style)
    yield from _notes(standing.notes, style)
    yield from _next(standing, style, where, now)


def _field(name: str, value: str, style: Style) -> str:
    return style.quiet(f"{name:<11}") + cut(value, width() - 12)


def _attended(attended: Attended) -> str:
    if attended.worker is None or attended.events is None:
        return "no worker answers: nothing goes on until one is there"
    held = f"at {calm(attended.worker)}" if attended.worker else "no worker had a stage of it yet"
    return f"{held}, {counted(attended.events, 'event')} of history"


def _limit(limit: Limit) -> str:
    allowed = f"of {_number(limit.name, limit.allowed)}" if limit.allowed is not None else "(no limit)"
    stage = f"  {calm(limit.stage)}" if limit.stage else ""
    return f"{limit.name:<13}{_number(limit.name, limit.used)} {allowed}{stage}"


def _number(limit: str, value: float) -> str:
    if limit == "max_duration":
        return span(value)
    return money(value) if limit == "max_cost_usd" else f"{value:g}"


def _table(stages: Sequence[StageSum], style: Style) -> Iterator[str]:
    if not stages:
        return
    yield ""
    rows = [_HEADER, *map(_row, stages)]
    for number, row in enumerate(aligned(rows, _RIGHT)):
        if number:
            row[_LAST] = painted(row[_LAST], style)
        line = "  ".join(row).rstrip()
        yield line if number else style.quiet(line)


def _row(one: StageSum) -> tuple[str, ...]:
    return (
        cut(calm(one.stage), 24),
        str(one.visits),
        one.last.status if one.last else "-",
        one.last.source if one.last else "-",
        span(one.seconds),
        amount(one.tokens) if one.tokens else "-",
        money(one.cost_usd) if one.cost_usd else "-",
    )


def _outstanding(findings: Sequence[dict[str, Any]], style: Style) -> Iterator[str]:
    if not findings:
        return
    yield ""
    yield style.warning(f"{counted(len(findings), 'finding')} outstanding")
    for finding in findings[-_FINDINGS:]:
        name = label(str(finding["stage"]), int(finding["iteration"] or 0), 40)
        yield "  " + cut(f"{name}  {calm(finding['reason'][:2000]) or 'no reason given'}", width() - 3)
    if len(findings) > _FINDINGS:
        yield f"  and {len(findings) - _FINDINGS} before these"


def _notes(notes: Sequence[dict[str, Any]], style: Style) -> Iterator[str]:
    """What was put back in view files, newest last."""
    if not notes:
        return
    yield ""
    yield style.warning(counted(len(notes), "note"))
    if len(notes) > _NOTES:
        yield f"  {len(notes) - _NOTES} before these"
    for note in notes[-_NOTES:]:
        yield "  " + cut(f"{label(note['stage'], note['visit'], 40)}  {calm(note['note'][:2000])}", width() - 3)


def _next(standing: Standing, style: Style, where: Where, now: float) -> Iterator[str]:
    commands = next_commands(standing, where, now)
    if standing.question:
        yield ""
        yield cut(f"it asks: {calm(standing.question)}", width() - 1)
        yield cut(f"options: {', '.join(map(calm, standing.options))}", width() - 1)
    if commands:
        yield ""
        yield from (style.quiet("next       " if not number else " " * 11) + one for number, one in enumerate(commands))


def next_commands(standing: Standing, where: Where, now: float) -> list[str]:
    """The commands that help: those that continue the run, and those that show what went wrong."""
    end, until = where.end, None if where.on else standing.until  # a cluster waits for a quota by itself
    answer = [f"awf answer {standing.run_id} {standing.stage} OPTION{end}"] if standing.question else []
    commands = resume_commands(standing.run_id, standing.resume or (), until, now)
    resume = [] if standing.resume is None else [command + end for command in commands]
    logs = [f"awf logs {standing.run_id} {standing.failed}{end}"] if standing.failed else []
    why = [f"awf why {standing.run_id}{end}"] if standing.status == "fail" else []
    return [*resume, *answer, *why, *logs]


def as_object(standing: Standing, where: Where) -> dict[str, Any]:
    """How a run stands as JSON has it."""
    fields = asdict(standing)
    fields["stages"] = [_stage_object(one) for one in standing.stages]
    fields["next"] = next_commands(standing, where, time.time())
    return fields


def _stage_object(one: StageSum) -> dict[str, Any]:
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

"""`awf runs`: the runs of a store."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

import click

from pipeline.app.overview import RunSummary, summarise
from pipeline.app.store import RunStore
from pipeline.cli.options import as_json_option
from pipeline.cli.output import align_columns, paint_status, print_json, terminal_width
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import UNLIMITED, Style, sanitize
from pipeline.engine.ports import JournalError
from pipeline.engine.state import RunStatus
from pipeline.errors import ExitCode
from pipeline.text import format_age, format_clock, format_cost, sanitize_line, truncate, visit_label

SHOWN = 30
GOAL_WIDTH = 60  # columns where no terminal says how many there are

_HEADER = ("RUN", "WORKFLOW", "STATUS", "AT", "VISITS", "FINDINGS", "COST", "AGE", "GOAL")
_RIGHT = frozenset({4, 5, 6, 7})
_STATUS = 2


@click.command("runs")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"How many; {SHOWN}, or all with --json.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@store_location_options
@as_json_option
def command(limit: int | None, where: StoreLocation, *, everything: bool, as_json: bool) -> int:
    """List the runs, the newest first.

    A run that was being run by a process that is gone is shown as interrupted: `awf resume` takes it up again. One that
    cannot be read is named after the others, and the exit code is 1.
    """
    with where.open() as store:
        names = store.journal.runs()
        count = limit or (len(names) if everything or as_json else SHOWN)
        summaries, damaged = _summaries(store, names[::-1][:count])
    if as_json:
        print_json([asdict(summary) for summary in summaries])
    elif not names:
        click.echo(f"There are no runs in {store.name}. Start one with: awf run WORKFLOW", err=True)
    else:
        _print(summaries)
        if len(names) > count:
            click.echo(f"{len(names) - count} older runs are not shown; --all lists them.", err=True)
    for error in damaged:
        click.echo(f"note: {sanitize(error.message)}; {error.help}", err=True)
    return ExitCode.RUN_FAILED if damaged else ExitCode.SUCCESS


def _summaries(store: RunStore, names: Sequence[str]) -> tuple[list[RunSummary], list[JournalError]]:
    """What can be said of some runs, and what is wrong with those that cannot be read."""
    found, damaged = list[RunSummary](), list[JournalError]()
    for name in names:
        try:
            found.append(summarise((entry.record for entry in store.journal.entries(name)), store.is_driven))
        except JournalError as error:
            damaged.append(error)
    return found, damaged


def _print(summaries: list[RunSummary]) -> None:
    style, now = Style.of(sys.stdout), time.time()
    cells = align_columns([_HEADER, *(_row(summary, now) for summary in summaries)], _RIGHT)
    taken = sum(len(cell) + 2 for cell in cells[0][:-1])
    room = GOAL_WIDTH if terminal_width() == UNLIMITED else max(terminal_width() - taken - 1, 8)
    for number, row in enumerate(cells):
        row[-1] = truncate(row[-1].rstrip(), room)
        if number:
            row[_STATUS] = paint_status(row[_STATUS], style)
        line = "  ".join(row).rstrip()
        click.echo(line if number else style.quiet(line))


def _status(summary: RunSummary, now: float) -> str:
    """The status, with the time at which a used-up quota resets."""
    if summary.until is None or summary.until <= now or summary.status != RunStatus.PAUSED:
        return summary.status
    return f"{summary.status} until {format_clock(summary.until, now)}"


def _row(summary: RunSummary, now: float) -> tuple[str, ...]:
    return (
        summary.run_id,
        truncate(sanitize_line(summary.workflow), 24),
        _status(summary, now),
        visit_label(summary.stage, summary.visit, 20) if summary.stage else "-",
        str(summary.visits),
        str(summary.outstanding),
        format_cost(summary.cost_usd) if summary.cost_usd else "-",
        format_age(now - summary.began),
        sanitize_line(summary.goal[:1000]),
    )

"""`awf runs`: the runs of a store."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

import click

from pipeline.app.shelf import Shelf
from pipeline.app.summaries import Summary, summarise
from pipeline.cli.looking import aligned, painted, say_json, width
from pipeline.cli.options import as_json_option
from pipeline.cli.terminal import UNLIMITED, Style, inert
from pipeline.cli.where import Where, where_option
from pipeline.engine.ports import JournalError
from pipeline.engine.state import RunStatus
from pipeline.errors import ExitCode
from pipeline.observe.text import age, calm, clock, cut, label, money

SHOWN = 30
GOAL_WIDTH = 60  # columns where no terminal says how many there are

_HEADER = ("RUN", "WORKFLOW", "STATUS", "AT", "VISITS", "FINDINGS", "COST", "AGE", "GOAL")
_RIGHT = frozenset({4, 5, 6, 7})
_STATUS = 2


@click.command("runs")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help=f"How many; {SHOWN}, or all with --json.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@where_option
@as_json_option
def command(limit: int | None, where: Where, *, everything: bool, as_json: bool) -> int:
    """List the runs, the newest first.

    A run that was being run by a process that is gone is shown as interrupted: `awf resume` takes it up again. One that
    cannot be read is named after the others, and the exit code is 1.
    """
    with where.shelf() as shelf:
        names = shelf.journal.runs()
        count = limit or (len(names) if everything or as_json else SHOWN)
        summaries, damaged = _summaries(shelf, names[::-1][:count])
    if as_json:
        say_json([asdict(summary) for summary in summaries])
    elif not names:
        click.echo(f"There are no runs in {shelf.name}. Start one with: awf run WORKFLOW", err=True)
    else:
        _print(summaries)
        if len(names) > count:
            click.echo(f"{len(names) - count} older runs are not shown; --all lists them.", err=True)
    for error in damaged:
        click.echo(f"note: {inert(error.message)}; {error.help}", err=True)
    return ExitCode.RUN_FAILED if damaged else ExitCode.SUCCESS


def _summaries(shelf: Shelf, names: Sequence[str]) -> tuple[list[Summary], list[JournalError]]:
    """What can be said of some runs, and what is wrong with those that cannot be read."""
    found, damaged = list[Summary](), list[JournalError]()
    for name in names:
        try:
            found.append(summarise((entry.record for entry in shelf.journal.entries(name)), shelf.driven))
        except JournalError as error:
            damaged.append(error)
    return found, damaged


def _print(summaries: list[Summary]) -> None:
    style, now = Style.of(sys.stdout), time.time()
    cells = aligned([_HEADER, *(_row(summary, now) for summary in summaries)], _RIGHT)
    taken = sum(len(cell) + 2 for cell in cells[0][:-1])
    room = GOAL_WIDTH if width() == UNLIMITED else max(width() - taken - 1, 8)
    for number, row in enumerate(cells):
        row[-1] = cut(row[-1].rstrip(), room)
        if number:
            row[_STATUS] = painted(row[_STATUS], style)
        line = "  ".join(row).rstrip()
        click.echo(line if number else style.quiet(line))


def _status(summary: Summary, now: float) -> str:
    """The status, with the time at which a used-up quota resets."""
    if summary.until is None or summary.until <= now or summary.status != RunStatus.PAUSED:
        return summary.status
    return f"{summary.status} until {clock(summary.until, now)}"


def _row(summary: Summary, now: float) -> tuple[str, ...]:
    return (
        summary.run_id,
        cut(calm(summary.workflow), 24),
        _status(summary, now),
        label(summary.stage, summary.visit, 20) if summary.stage else "-",
        str(summary.visits),
        str(summary.outstanding),
        money(summary.cost_usd) if summary.cost_usd else "-",
        age(now - summary.began),
        calm(summary.goal[:1000]),
    )

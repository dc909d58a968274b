"""`awf runs`: the runs of a store."""

import sys
import time

import click

from pipeline.app.overview import RunSummary, summarize_run
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json, table_lines
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import UNLIMITED, Style
from pipeline.engine.ports import JournalError
from pipeline.engine.state import RunStatus
from pipeline.errors import ExitCode
from pipeline.text import format_age, format_clock, format_cost, sanitize, sanitize_line, truncate, visit_label

DEFAULT_LIMIT = 30
GOAL_WIDTH = 60  # when the output is not a terminal

_HEADER = ("RUN", "WORKFLOW", "STATUS", "AT", "VISITS", "FINDINGS", "COST", "AGE", "GOAL")


@click.command("runs")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Show at most N. [default: {DEFAULT_LIMIT}, with --json all]",
)
@click.option("--all", "everything", is_flag=True, help="Show all runs.")
@store_location_options
@as_json_option
def command(limit: int | None, where: StoreLocation, *, everything: bool, as_json: bool) -> int:
    """List the runs, newest first.

    A run whose process died is shown as interrupted; `awf resume` picks it up. Runs that cannot be read are named
    after the others, and the exit code is 1.
    """
    summaries, damaged = list[RunSummary](), list[JournalError]()
    with where.open() as store:
        run_ids = store.journal.runs()
        count = limit or (len(run_ids) if everything or as_json else DEFAULT_LIMIT)
        shown = run_ids[::-1][:count]
        findings = store.count_open_findings(shown)
        for run_id in shown:
            try:
                summary = summarize_run(store.journal, run_id, findings.get(run_id, 0))
                summaries.append(summary.resolve_status(store.is_driven))
            except JournalError as error:
                damaged.append(error)
    if as_json:
        print_json([summary.as_json() for summary in summaries])
    elif not run_ids:
        click.echo(f"There are no runs in {store.name}. Start one with: awf run WORKFLOW", err=True)
    else:
        style, now = Style.of(sys.stdout), time.time()
        rows = [_HEADER, *(_row(summary, style, now) for summary in summaries)]
        for line in table_lines(rows, right=frozenset({4, 5, 6, 7}), status=2, style=style):
            click.echo(line)
        if len(run_ids) > count:
            click.echo(f"{len(run_ids) - count} older runs are not shown; --all lists them.", err=True)
    for problem in damaged:
        click.echo(f"note: {sanitize(problem.message)}; {problem.help}", err=True)
    return ExitCode.RUN_FAILED if damaged else ExitCode.SUCCESS


def _row(run: RunSummary, style: Style, now: float) -> tuple[str, ...]:
    waits = run.status == RunStatus.PAUSED and run.until is not None and run.until > now
    goal = sanitize_line(run.goal[:1000])
    return (
        run.run_id,
        truncate(sanitize_line(run.workflow), 24),
        f"{run.status} until {format_clock(run.until or 0, now)}" if waits else run.status,
        visit_label(run.stage, run.visit, 20) if run.stage else "-",
        str(run.visits),
        str(run.findings),
        format_cost(run.cost_usd) if run.cost_usd else "-",
        format_age(now - run.began),
        truncate(goal, GOAL_WIDTH) if style.width == UNLIMITED else goal,
    )

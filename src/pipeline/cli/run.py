"""`awf run`: start a workflow."""

import secrets
import sys
import time
from pathlib import Path
from typing import Any

import click

from pipeline.app.check import check
from pipeline.app.lookup import check_new_name
from pipeline.app.people import check_answers
from pipeline.app.runs import creation, start
from pipeline.cli import formats
from pipeline.cli.driving import drive
from pipeline.cli.here import catalog
from pipeline.cli.options import as_json_option, detach_option, log_option, wait_option
from pipeline.cli.settings import settings_here
from pipeline.cli.starting import strangers, who_works, working_options
from pipeline.cli.terminal import Style, inert
from pipeline.cli.watching import Watching, start_there
from pipeline.cli.where import Where, where_option
from pipeline.journal.ids import check_run_id, new_run_id


@click.command("run")
@click.argument("workflow", metavar="FILE|NAME")
@click.option("--goal", default="", help="What the run is to reach.")
@who_works
@click.option("--run-id", help="The run's name; made from the time by default.")
@click.option("--remote", metavar="NAME|URL", help="On a cluster: the git remote by which the run's files travel.")
@wait_option
@detach_option
@where_option
@log_option
@as_json_option
def command(
    workflow: str,
    goal: str,
    run_id: str | None,
    remote: str | None,
    where: Where,
    log: Path | None,
    *,
    stay: bool,
    detach: bool,
    as_json: bool,
    **who: Any,
) -> int:
    """Run a workflow.

    Exits with 0 when it succeeded, 1 when it failed, 3 when it is paused or waits for a person, 130 when it was
    cancelled.
    """
    entry = catalog().find(workflow)
    checked = check(entry)
    if checked.diagnostics and (checked.workflow is None or not as_json):
        click.echo(formats.text([checked], Style.of(sys.stderr)), err=True, nl=False)
    options = working_options(**who)
    if (most := settings_here().limits.max_cost_usd) is not None:
        options["max_cost_usd"] = most
    name = run_id or new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    check_run_id(name)
    check_new_name(name)
    if checked.workflow:
        check_answers(options.get("answers", {}), checked.workflow)
        for stranger in strangers(options, checked.workflow):
            click.echo(f"note: {inert(stranger)}", err=True)
    record = creation(entry, checked, name, goal, options, Path.cwd(), time.time())
    if where.on:
        how = Watching(as_json=as_json, log=log, stay=stay, detach=detach)
        return start_there(where, record, remote or settings_here().remote, how)
    if remote or detach:
        given = "--remote" if remote else "--detach"
        raise click.UsageError(f"{given} is for runs on a cluster; name one with --on")
    return drive(lambda journal, around: start(record, journal, around), where, as_json=as_json, log=log, stay=stay)

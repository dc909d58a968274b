"""`awf resume`: resume a run where it stopped."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from pipeline.app.check import check
from pipeline.app.runs import ResumeRequest, RunResult, resume
from pipeline.app.store import find_run, find_unfinished
from pipeline.app.wiring import Runtime
from pipeline.cli.cluster_run import WatchOptions, resume_on_cluster
from pipeline.cli.execute import execute_run
from pipeline.cli.location import catalog
from pipeline.cli.options import (
    agent_options,
    as_json_option,
    detach_option,
    log_option,
    read_agent_options,
    wait_option,
)
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.engine.ports import Journal
from pipeline.errors import AwfError


@click.command("resume")
@click.argument("run", default="")
@click.option("--raise", "raised", multiple=True, metavar="LIMIT=VALUE", help="Raise a limit, such as max_visits=+10.")
@click.option("--now", is_flag=True, help="Do not wait for a quota to reset.")
@click.option(
    "--repeat",
    is_flag=True,
    help="Repeat an interrupted stage even if it may have changed things outside the workspace.",
)
@agent_options
@click.option("--adopt", metavar="FILE|NAME", help="Continue with a changed workflow.")
@wait_option
@detach_option
@store_location_options
@log_option
@as_json_option
def command(
    run: str,
    raised: tuple[str, ...],
    adopt: str | None,
    where: StoreLocation,
    log: Path | None,
    *,
    now: bool,
    repeat: bool,
    stay: bool,
    detach: bool,
    as_json: bool,
    **who: Any,
) -> int:
    """Resume a run where it stopped: RUN, or the newest that has not succeeded.

    Completed stages do not run again. An interrupted stage does.
    """
    adopted = None
    if adopt is not None:
        entry = catalog().find(adopt)
        adopted = (entry, check(entry))
    how = ResumeRequest(
        dict(map(_parse_limit, raised)), read_agent_options(**who), repeat=repeat, adopt=adopted, now=now
    )
    return resume_run(run, how, where, WatchOptions(as_json=as_json, log=log, stay=stay, detach=detach))


def resume_run(run: str, how: ResumeRequest, where: StoreLocation, watching: WatchOptions) -> int:
    """Resume a run where it is kept, and watch it until it stops. Without a name it is the newest unfinished one."""
    if where.on:
        with where.shelf() as shelf:
            run_id = _meant(run, shelf.journal)
        return resume_on_cluster(where, run_id, how, watching)
    if watching.detach:
        raise click.UsageError("--detach needs a cluster; name one with --on")

    def work(journal: Journal, around: Runtime) -> Coroutine[Any, Any, RunResult]:
        return resume(_meant(run, journal), how, journal, around)

    return execute_run(work, where, as_json=watching.as_json, log=watching.log, stay=watching.stay)


def _meant(run: str, journal: Journal) -> str:
    if run:
        return find_run(run, journal.runs())
    found, newest = find_unfinished(journal), journal.runs()[-1]
    if found != newest:
        click.echo(f"run {newest} has succeeded; resuming {found}", err=True)
    return found


def _parse_limit(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise AwfError(f'--raise "{text}" has no value', help="write --raise max_visits=+10")
    return name, value

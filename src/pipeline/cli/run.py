"""`awf run`: start a workflow."""

import asyncio
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import click

from pipeline.app.backends import Backends
from pipeline.app.catalog import Entry
from pipeline.app.check import check
from pipeline.app.doctor import Doctor
from pipeline.app.lookup import check_new_name
from pipeline.app.people import check_answers
from pipeline.app.preflight import empty_goal, missing_check, unanswered
from pipeline.app.runs import creation, start
from pipeline.backends.agents.probe import cache_file
from pipeline.backends.process import LocalProcesses
from pipeline.cli import formats
from pipeline.cli.driving import drive
from pipeline.cli.here import catalog, home, project
from pipeline.cli.main import report
from pipeline.cli.options import as_json_option, detach_option, log_option, wait_option
from pipeline.cli.settings import settings_here
from pipeline.cli.starting import strangers, who_works, working_options
from pipeline.cli.terminal import Style, inert
from pipeline.cli.watching import Watching, start_there
from pipeline.cli.where import Where, where_option
from pipeline.errors import AwfError, ExitCode
from pipeline.journal.ids import check_run_id, new_run_id
from pipeline.language.model import Workflow
from pipeline.plugins.manager import PluginManager


@click.command("run")
@click.argument("workflow", metavar="FILE|NAME")
@click.option("--goal", default="", help="The goal of this run.")
@click.option("--preflight", is_flag=True, help="First ask each agent for one word. This costs a little money.")
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
    preflight: bool,
    detach: bool,
    as_json: bool,
    **who: Any,
) -> int:
    """Run a workflow.

    It works at the root of the git repository around the current directory. What would stop it halfway is listed
    before it starts: an empty goal that prompts use, missing agents, prompt files and check commands.

    Exits with 0 when it succeeded, 1 when it failed, 3 when it is paused or waits for a person, 130 when it was
    cancelled.
    """
    if (remote or detach) and not where.on:
        given = "--remote" if remote else "--detach"
        raise click.UsageError(f"{given} is for runs on a cluster; name one with --on")
    if preflight and where.on:
        raise click.UsageError("--preflight asks the agents of this machine; those of a cluster are with its workers")
    entry = catalog().find(workflow)
    checked = check(entry)
    if checked.diagnostics and (checked.workflow is None or not as_json):
        click.echo(formats.text([checked], Style.of(sys.stderr)), err=True, nl=False)
    options = working_options(**who)
    sound = checked.but_for_prompts
    problems = _problems(workflow, entry, sound, goal, options, where, ask=preflight) if sound else []
    for problem in problems:
        report(problem)
    if problems and checked.workflow:
        return ExitCode.USAGE
    if (most := settings_here().limits.max_cost_usd) is not None:
        options["max_cost_usd"] = most
    name = run_id or new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    check_run_id(name)
    check_new_name(name)
    if checked.workflow:
        check_answers(options.get("answers", {}), checked.workflow)
        for stranger in strangers(options, checked.workflow):
            click.echo(f"note: {inert(stranger)}", err=True)
    record = creation(entry, checked, name, goal, options, project(), time.time())
    if where.on:
        how = Watching(as_json=as_json, log=log, stay=stay, detach=detach)
        return start_there(where, record, remote or settings_here().remote, how)
    return drive(lambda journal, around: start(record, journal, around), where, as_json=as_json, log=log, stay=stay)


def _problems(
    name: str, entry: Entry, workflow: Workflow, goal: str, options: dict[str, Any], where: Where, *, ask: bool
) -> list[AwfError]:
    """Everything that keeps the run from starting. On a cluster the agents and files are the workers' affair."""
    found = list(empty_goal(name, entry, workflow, goal))
    if where.on:
        return found
    found += missing_check(workflow, project(), Path.cwd(), os.environ)
    plugins = PluginManager(time.time)
    plugins.load_installed()
    settings, processes, added = settings_here(), LocalProcesses(f"preflight-{os.getpid()}"), plugins.backends()
    backends = Backends(options, processes, added, settings, os.environ)
    missing = backends.missing(workflow)
    if ask and not missing:
        doctor = Doctor(settings, os.environ, where.store, processes, cache_file(os.environ, home()), added)
        missing = asyncio.run(unanswered(workflow, backends, doctor))
    return found + missing

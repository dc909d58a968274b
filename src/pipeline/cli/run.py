"""`awf run`: start a workflow."""

import asyncio
import os
import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeline.app.catalog import CatalogEntry
from pipeline.app.check import check
from pipeline.app.doctor import Doctor
from pipeline.app.preflight import agent_problems, goal_problems, project_problems
from pipeline.app.responders import check_answers
from pipeline.app.runs import RunResult, build_record
from pipeline.app.store import RunStore, check_run_name
from pipeline.app.wiring import Runtime
from pipeline.backends.probe import probe_cache_path
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.cli import diagnostics as formats
from pipeline.cli.execute import WatchOptions, execute_run
from pipeline.cli.location import catalog, home, project
from pipeline.cli.main import print_error
from pipeline.cli.options import (
    agent_options,
    as_json_option,
    current_settings,
    detach_option,
    log_option,
    read_agent_options,
    unknown_stage_notes,
    wait_option,
)
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, sanitize
from pipeline.errors import AwfError, ExitCode
from pipeline.journal import check_run_id, new_run_id
from pipeline.language.model import Workflow
from pipeline.plugins.manager import PluginManager


@click.command("run")
@click.argument("workflow", metavar="FILE|NAME")
@click.option("--goal", default="", help="The goal of this run.")
@click.option("--preflight", is_flag=True, help="First ask each agent for one word. This costs a little money.")
@agent_options
@click.option("--run-id", help="The run's name; made from the time by default.")
@click.option("--remote", metavar="NAME|URL", help="On a cluster: the git remote by which the run's files travel.")
@wait_option
@detach_option
@store_location_options
@log_option
@as_json_option
def command(
    workflow: str,
    goal: str,
    run_id: str | None,
    remote: str | None,
    where: StoreLocation,
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
    options = read_agent_options(**who)
    sound = checked.workflow_for_preflight
    problems = _problems(workflow, entry, sound, goal, options, where, ask=preflight) if sound else []
    for problem in problems:
        print_error(problem)
    if problems and checked.workflow:
        return ExitCode.USAGE
    if (most := current_settings().limits.max_cost_usd) is not None:
        options["max_cost_usd"] = most
    name = run_id or new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    check_run_id(name)
    check_run_name(name)
    if checked.workflow:
        check_answers(options.get("answers", {}), checked.workflow)
        for stranger in unknown_stage_notes(options, checked.workflow):
            click.echo(f"note: {sanitize(stranger)}", err=True)
    record = build_record(entry, checked, name, goal, options, project(), time.time())

    def start(store: RunStore, runtime: Runtime) -> RunResult:
        settings = runtime.settings.with_option("remote", "--remote", remote or None)
        return store.start(record, replace(runtime, settings=settings), checked.workflow)

    return execute_run(start, where, WatchOptions(as_json, log, stay, detach))


def _problems(
    name: str,
    entry: CatalogEntry,
    workflow: Workflow,
    goal: str,
    options: dict[str, Any],
    where: StoreLocation,
    *,
    ask: bool,
) -> list[AwfError]:
    """Everything that keeps the run from starting. On a cluster the agents and files are the workers' affair."""
    found = list(goal_problems(name, entry, workflow, goal))
    if where.on:
        return found
    found += project_problems(workflow, project(), Path.cwd(), os.environ)
    plugins = PluginManager(time.time)
    plugins.load_installed()
    settings, processes, added = (
        current_settings(),
        LocalProcesses(f"preflight-{os.getpid()}"),
        plugins.agent_backends(),
    )
    backends = BackendSelector(options, processes, added, settings, os.environ)
    missing = backends.problems(workflow)
    if ask and not missing:
        doctor = Doctor(settings, os.environ, where.store, processes, probe_cache_path(os.environ, home()), added)
        missing = asyncio.run(agent_problems(workflow, backends, doctor))
    return found + missing

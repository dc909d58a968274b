"""`awf run`: run a workflow."""

import asyncio
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pipeline.app.catalog import CatalogEntry
from pipeline.app.check import check
from pipeline.app.doctor import Doctor
from pipeline.app.preflight import agent_problems, goal_problems, project_problems
from pipeline.app.responders import check_answers
from pipeline.app.runs import build_record, start
from pipeline.app.store import check_run_name
from pipeline.backends.probe import probe_cache_path
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.cli.cluster_run import WatchOptions, start_on_cluster
from pipeline.cli.diagnostics import print_diagnostics
from pipeline.cli.execute import execute_run
from pipeline.cli.location import catalog, home, project
from pipeline.cli.main import print_error
from pipeline.cli.options import (
    agent_options,
    as_json_option,
    current_settings,
    detach_option,
    log_option,
    read_agent_options,
    wait_option,
)
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import sanitize
from pipeline.errors import AwfError, ExitCode
from pipeline.journal.ids import check_run_id, new_run_id
from pipeline.language.model import Workflow
from pipeline.plugins.manager import PluginManager
from pipeline.text import did_you_mean


@click.command("run")
@click.argument("workflow", metavar="FILE|NAME")
@click.option("--goal", default="", help="The goal of this run.")
@click.option("--preflight", is_flag=True, help="First ask each agent for one word, at a small cost.")
@agent_options
@click.option("--run-id", help="The run's name. [default: made from the time]")
@click.option("--remote", metavar="NAME|URL", help="On a cluster: the git remote that carries the run's files.")
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

    It works at the root of the git repository around the current directory. Before it starts, it lists what would
    stop it halfway: an empty goal that prompts use, and missing agents, prompt files and check commands.

    Exits with 0 if the run succeeds, 1 if it fails, 3 if it is paused or waits for a person, 130 if it is cancelled.
    """
    if (remote or detach) and not where.on:
        given = "--remote" if remote else "--detach"
        raise click.UsageError(f"{given} needs a cluster; name one with --on")
    if preflight and where.on:
        raise click.UsageError("--preflight asks the agents of this machine and cannot be combined with --on")
    entry = catalog().find(workflow)
    checked = check(entry)
    if checked.diagnostics and (checked.workflow is None or not as_json):
        print_diagnostics(checked)
    options = read_agent_options(**who)
    readable = checked.workflow_for_preflight
    problems = _problems(workflow, entry, readable, goal, options, where, ask=preflight) if readable else []
    for problem in problems:
        print_error(problem)
    if problems and checked.workflow:
        return ExitCode.USAGE
    if (max_cost := current_settings().limits.max_cost_usd) is not None:
        options["max_cost_usd"] = max_cost
    name = run_id or new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    check_run_id(name)
    check_run_name(name)
    if checked.workflow:
        check_answers(options.get("answers", {}), checked.workflow)
        for note in unknown_stage_notes(options, checked.workflow):
            click.echo(f"note: {sanitize(note)}", err=True)
    record = build_record(entry, checked, name, goal, options, project(), time.time())
    if where.on:
        how = WatchOptions(as_json=as_json, log=log, stay=stay, detach=detach)
        return start_on_cluster(where, record, remote or current_settings().remote, how)
    return execute_run(
        lambda journal, around: start(record, journal, around), where, as_json=as_json, log=log, stay=stay
    )


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
    """List everything that keeps the run from starting; on a cluster, workers have the agents and the files."""
    found = list(goal_problems(name, entry, workflow, goal))
    if where.on:
        return found
    found += project_problems(workflow, project(), Path.cwd(), os.environ)
    plugins = PluginManager(time.time)
    plugins.load_installed()
    settings, processes, added = current_settings(), LocalProcesses(f"preflight-{os.getpid()}"), plugins.backends()
    backends = BackendSelector(options, processes, added, settings, os.environ)
    missing = backends.problems(workflow)
    if ask and not missing:
        doctor = Doctor(settings, os.environ, where.store, processes, probe_cache_path(os.environ, home()), added)
        missing = asyncio.run(agent_problems(workflow, backends, doctor))
    return found + missing


def unknown_stage_notes(options: Mapping[str, Any], workflow: Workflow) -> Iterator[str]:
    """Describe replies and answers for stages that do not exist: a typo could make a review pass that should fail."""
    named = {"script": json.loads(options.get("script", "{}")), "answers": options.get("answers", {})}
    for option, stages in named.items():
        for name in stages:
            if name not in workflow.by_id:
                hint = did_you_mean(name, workflow.by_id) or "ignored"
                yield f'--{option} names the stage "{name}", which is not in the workflow; {hint}'

"""`awf findings revalidate`: look at findings again. It runs when a person asks for it, and never by itself."""

import asyncio
import os
from pathlib import Path

import click

from pipeline.app.findings.revalidation import Revalidation, RevalidationResult
from pipeline.app.wiring import Runtime
from pipeline.cli.findings.options import current_repository, print_problems, repo_option, utc_now
from pipeline.cli.options import (
    agent_command_option,
    as_json_option,
    current_settings,
    read_agent_options,
    script_option,
    store_option,
)
from pipeline.cli.output import print_json
from pipeline.cli.terminal import sanitize
from pipeline.errors import AwfError, ExitCode
from pipeline.findings.model import FindingState
from pipeline.findings.revalidate import Ruling

HINT = (
    "nothing was verified: have a reviewer look with --backend NAME, or confirm a fix yourself with "
    '"awf findings triage ID --as fixed --by user"'
)


@click.command("revalidate")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--backend", help="The agent that looks afresh, only reading; without it nothing is verified.")
@script_option
@agent_command_option
@click.option("--command", "bound", default="", metavar="CMD", help="What has to pass before anything is fixed.")
@store_option
@repo_option
@as_json_option
def command(
    ids: tuple[str, ...],
    backend: str | None,
    script: Path | None,
    agent_command: str | None,
    bound: str,
    store: Path,
    repo: Path | None,
    *,
    as_json: bool,
) -> int:
    """Look at findings again: those named, or all that are open or said to be fixed, the claimed fixes first.

    Code looks first: a claimed fix whose lines stand unchanged is refuted. Then the reviewer is asked about each that
    is claimed or changed, or was named. A fix counts as verified only by its word or yours, and not while the command
    fails.
    """
    if stage := os.environ.get("AWF_STAGE"):
        words = f'stage "{stage}" of a run cannot verify findings'
        raise AwfError(words, help="let a review of the workflow look, or run this outside of the run")
    options = read_agent_options(backend, script, agent_command)
    around = Runtime(store=store, environ=dict(os.environ), settings=current_settings())
    done = asyncio.run(Revalidation(current_repository(repo), around, utc_now(), options).look(ids, bound))
    if as_json:
        print_json(done.as_json())
    else:
        _print(done, asked=bool(options.get("backend")))
    print_problems(done.problems)
    return ExitCode.RUN_FAILED if done.unanswered else ExitCode.SUCCESS


def _print(done: RevalidationResult, *, asked: bool) -> None:
    if not done.rulings:
        click.echo("No findings to look at.", err=True)
    for ruled in done.rulings:
        click.echo(_line(ruled))
    if done.rulings and not asked and any(ruled.finding.state is FindingState.FIX_CLAIMED for ruled in done.rulings):
        click.echo(HINT, err=True)


def _line(ruled: Ruling) -> str:
    finding = ruled.finding
    now = ruled.after or finding.state
    moved = f"{finding.state} → {now}" if now is not finding.state else f"{finding.state}, as before"
    return f"#{finding.number} {finding.id} {moved}: {sanitize(finding.title)}\n    {sanitize(ruled.reason)}"

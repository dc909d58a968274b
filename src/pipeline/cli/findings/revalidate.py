"""`awf findings revalidate`: look at findings again, when a person asks for it."""

import asyncio
import os
from pathlib import Path

import click

from pipeline.app.findings.revalidation import Revalidation, RevalidationResult
from pipeline.app.wiring import Runtime
from pipeline.cli.findings.options import FindingsSource, local_source_options, print_problems, require_person, utc_now
from pipeline.cli.options import (
    agent_command_option,
    as_json_option,
    current_settings,
    read_agent_options,
    script_option,
)
from pipeline.cli.output import print_json
from pipeline.cli.terminal import sanitize
from pipeline.errors import ExitCode
from pipeline.findings.model import FindingState

HINT = (
    "nothing was verified: let a reviewer look with --backend NAME, or confirm a fix yourself with "
    '"awf findings triage ID --as fixed"'
)


@click.command("revalidate")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--backend", help="The agent that looks again, read-only. Without one nothing is verified.")
@script_option
@agent_command_option
@click.option("--command", "bound", default="", metavar="CMD", help="Must pass before a fix is accepted.")
@local_source_options
@as_json_option
def command(
    ids: tuple[str, ...],
    backend: str | None,
    script: Path | None,
    agent_command: str | None,
    bound: str,
    source: FindingsSource,
    *,
    as_json: bool,
) -> int:
    """Look again at the named findings, or at all that are open or claimed to be fixed, claimed fixes first.

    Code looks first: a claimed fix whose lines are unchanged is refuted. Then the reviewer is asked about findings that
    are claimed, changed or named. Only the reviewer or you can verify a fix, and not while the command fails.
    """
    require_person("verify")
    options = read_agent_options(backend, script, agent_command)
    runtime = Runtime(store=source.store, environ=dict(os.environ), settings=current_settings())
    done = asyncio.run(Revalidation(source.repository, runtime, utc_now(), options).run(ids, bound))
    if as_json:
        print_json(done.as_json())
    else:
        _print_result(done, asked=bool(options.get("backend")))
    print_problems(done.problems)
    return ExitCode.RUN_FAILED if done.unanswered else ExitCode.SUCCESS


def _print_result(done: RevalidationResult, *, asked: bool) -> None:
    if not done.rulings:
        click.echo("No findings to look at.", err=True)
    for ruling in done.rulings:
        finding = ruling.finding
        after = ruling.after or finding.state
        change = f"still {after}" if after is finding.state else f"{finding.state} → {after}"
        click.echo(f"#{finding.number} {finding.id} {change}: {sanitize(finding.title)}\n    {sanitize(ruling.reason)}")
    if not asked and any(ruling.finding.state is FindingState.FIX_CLAIMED for ruling in done.rulings):
        click.echo(HINT, err=True)

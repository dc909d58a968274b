"""`awf findings fix`: an agent applies the fixes that were accepted."""

import asyncio
import os
import sys
from pathlib import Path

import click

from pipeline.app.findings.fixes import apply_fixes
from pipeline.app.wiring import Runtime
from pipeline.cli.findings.options import FindingsSource, local_source_options, print_problems, require_person, utc_now
from pipeline.cli.findings.screen import Screen
from pipeline.cli.location import user_name
from pipeline.cli.options import (
    agent_command_option,
    as_json_option,
    current_settings,
    read_agent_options,
    script_option,
)
from pipeline.cli.output import print_json
from pipeline.errors import ExitCode
from pipeline.findings.walk.report import render_report, report_data


@click.command("fix")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--backend", help="The agent that fixes. [default: the one that a run would use]")
@script_option
@agent_command_option
@local_source_options
@as_json_option
def command(
    ids: tuple[str, ...],
    backend: str | None,
    script: Path | None,
    agent_command: str | None,
    source: FindingsSource,
    *,
    as_json: bool,
) -> int:
    """Let one agent fix what was accepted in a walk-through or is safe to fix, or the named findings.

    It changes files and commits nothing. What it says it fixed is claimed, not verified. The exit code is 1 if a fix
    failed.
    """
    require_person("fix")
    options = read_agent_options(backend or ("command" if agent_command else None), script, agent_command)
    runtime = Runtime(store=source.store, environ=dict(os.environ), settings=current_settings())
    done = asyncio.run(apply_fixes(ids, source.repository, runtime, utc_now(), options, user_name()))
    print_problems(done.problems)
    if as_json:
        print_json(report_data(done.walk))
    elif done.walk.items:
        Screen(sys.stdout).show_markdown(render_report(done.walk))
    else:
        click.echo("Nothing to apply: no open finding is accepted or safe to fix. Decide with: awf findings walk")
    return ExitCode.RUN_FAILED if done.walk.fixes.failed else ExitCode.SUCCESS

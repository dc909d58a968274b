"""`awf verdict`: what all findings come to, for people and for gates."""

import sys
from pathlib import Path

import click

from pipeline.app.findings.standing import VerdictSummary, standing_of
from pipeline.cli.findings.asked import here, look_at, of_no_use, repo_option, run_option, unused_in
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style, best_effort_output, sanitize
from pipeline.errors import ExitCode
from pipeline.findings.verdicts import Verdict


@click.command("verdict")
@click.option(
    "--fail-on",
    type=click.Choice(["warn", "fail"]),
    default="fail",
    show_default=True,
    help="The mildest verdict that makes the exit code 1.",
)
@store_location_options
@run_option
@repo_option
@as_json_option
def command(fail_on: str, where: StoreLocation, run: str, repo: Path | None, *, as_json: bool) -> int:
    """Tell what the findings come to: PASS, WARN, FAIL or ABORT.

    The exit code is 1 for FAIL, ABORT and an incomplete review, and 0 otherwise. A fix that is only claimed does not
    count until somebody has verified it. Dismissed findings that would block otherwise are listed.
    """
    ledger = look_at(where, run, repo).ledger
    standing = standing_of(ledger)
    with best_effort_output():
        if as_json:
            print_json(standing.as_json())
        else:
            _print(standing)
            if unused := unused_in(ledger, here(repo)):
                click.echo(f"note: {of_no_use(len(unused))}", err=True)
    return ExitCode.RUN_FAILED if standing.failing(Verdict(fail_on.upper())) else ExitCode.SUCCESS


def _print(standing: VerdictSummary) -> None:
    style = Style.of(sys.stdout)
    paint = style.error if standing.failing() else style.warning if standing.failing(Verdict.WARN) else style.good
    click.echo(paint(sanitize(standing.told())))
    for gap in standing.gaps:
        click.echo(f"  {sanitize(gap)}")
    if standing.dismissed:
        click.echo("Dismissed, and would block otherwise:")
    for one in standing.dismissed:
        by, note = sanitize(one.by or "unknown"), sanitize(one.note or "no reason given")
        click.echo(f"  #{one.number} {sanitize(one.title)} ({one.severity}, {one.state} by {by}: {note})")
    said = standing.as_json()
    click.echo(f"{said['readiness']}; {'ship' if said['ship'] else 'do not ship'}")

"""`awf findings triage`: a decision about findings, for each of them applied or refused."""

import sys
from pathlib import Path

import click

from pipeline.app.findings.triaging import Decided, decide
from pipeline.cli.findings.asked import here, now, repo_option, warn
from pipeline.cli.looking import say_json
from pipeline.cli.options import as_json_option, store_option
from pipeline.cli.terminal import Style, inert
from pipeline.errors import ExitCode
from pipeline.findings.model import Actor
from pipeline.findings.triage import STATUSES


@click.command("triage")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--as", "status", type=click.Choice(STATUSES), required=True, help="What they are.")
@click.option("--note", default="", metavar="TEXT", help="Why; a dismissal needs it.")
@click.option("--expires", default="", metavar="DATE", help="The last day on which a dismissal holds.")
@click.option("--by", type=click.Choice([str(actor) for actor in Actor]), default=str(Actor.USER), show_default=True)
@store_option
@repo_option
@as_json_option
def command(
    ids: tuple[str, ...],
    status: str,
    note: str,
    expires: str,
    by: str,
    store: Path,
    repo: Path | None,
    *,
    as_json: bool,
) -> int:
    """Decide about findings. What may not be decided is refused with the reason, and the rest is applied.

    A dismissal holds for the code as it is now: when that changes, the finding is shown again.
    """
    done = decide(ids, status, store, here(repo).root, now(), note=note, by=by, expires=expires)
    if as_json:
        say_json(done.as_json())
    else:
        _print(done)
    return ExitCode.RUN_FAILED if done.refused else ExitCode.SUCCESS


def _print(done: Decided) -> None:
    for finding in done.findings:
        click.echo(f"#{finding.number} {finding.id} is {finding.state}: {inert(finding.title)}")
    style = Style.of(sys.stderr)
    for name, reason in done.refused.items():
        click.echo(f"{style.error('refused')}: {inert(name)}: {inert(reason)}", err=True)
    warn(done.problems)

"""`awf findings diff`: what became of findings between two passes."""

import sys
from pathlib import Path

import click

from pipeline.app.findings.comparing import Difference, compare
from pipeline.app.findings.lookup import find_pass
from pipeline.cli.findings.asked import look_at, repo_option, run_option
from pipeline.cli.findings.table import table
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import Style


@click.command("diff")
@click.argument("before")
@click.argument("after")
@store_location_options
@run_option
@repo_option
@as_json_option
def command(before: str, after: str, where: StoreLocation, run: str, repo: Path | None, *, as_json: bool) -> None:
    """Tell what became of findings from the pass BEFORE to the pass AFTER.

    A pass is named by its id, the beginning of one, or "latest".
    """
    ledger = look_at(where, run, repo).ledger
    found = compare(ledger, find_pass(before, ledger), find_pass(after, ledger))
    if as_json:
        print_json(found.as_json())
    else:
        _print(found)


def _print(found: Difference) -> None:
    style = Style.of(sys.stdout)
    lists = found.lists()
    click.echo(", ".join(f"{len(findings)} {word}" for word, findings in lists.items()))
    for word, findings in lists.items():
        if findings:
            click.echo("\n".join((f"\n{style.name(word.capitalize())}", *table(findings))))
    if found.claimed:
        click.echo(f"\n{len(found.claimed)} of the resolved are only claimed; nobody has verified them.")

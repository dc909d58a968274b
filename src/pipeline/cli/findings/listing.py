"""`awf findings list`: findings in a table, or in a format for a program."""

from pathlib import Path
from typing import Any

import click

from pipeline.app.findings.exporting import EXPORTS
from pipeline.app.findings.filters import OUTSTANDING, select
from pipeline.app.findings.records import row
from pipeline.cli.findings.asked import filter_of, filter_options, look, repo_option
from pipeline.cli.findings.table import table
from pipeline.cli.looking import say_json, say_whole
from pipeline.cli.options import as_json_option, store_option
from pipeline.findings.model import Finding
from pipeline.observe.text import counted

_FORMATS = ("table", "json", "sarif", "github", "rdjson", "markdown")


@click.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="table", show_default=True)
@store_option
@repo_option
@as_json_option
def command(limit: int | None, form: str, store: Path, repo: Path | None, *, as_json: bool, **given: Any) -> None:
    """List findings: what must be fixed first, then by severity, confidence and place.

    Without --state it is what is open, and what is said to be fixed and was not verified; "--state all" is everything.
    """
    ledger = look(store, repo).ledger
    found = select(ledger, filter_of(ledger, OUTSTANDING, given))
    shown = found[:limit]
    if as_json or form == "json":
        say_json([row(finding) for finding in shown])
    elif form == "table":
        _print(shown, len(found))
    else:
        say_whole(EXPORTS[form](shown, ledger))


def _print(shown: list[Finding], count: int) -> None:
    if not shown:
        click.echo("No findings.", err=True)
        return
    click.echo("\n".join(table(shown)))
    if count > len(shown):
        click.echo(f"{counted(count - len(shown), 'more finding')} not shown.", err=True)

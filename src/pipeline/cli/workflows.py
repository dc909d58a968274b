"""`awf workflows`: what can be run by name, and from where."""

import json
import sys

import click

from pipeline.app.catalog import CatalogEntry, WorkflowFolder
from pipeline.app.workflow_files import load_file
from pipeline.cli.location import catalog
from pipeline.cli.terminal import Style, sanitize


@click.command("workflows")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def command(*, as_json: bool) -> None:
    """List the workflows that are found by name.

    Of two with the same name the first is meant; the other is listed as shadowed.
    """
    rows = []
    seen: set[str] = set()
    for folder, entry in catalog().entries():
        rows.append(_row(folder, entry, shadowed=entry.name in seen))
        seen.add(entry.name)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        _print(rows)


def _row(folder: WorkflowFolder, entry: CatalogEntry, *, shadowed: bool) -> dict[str, str | bool]:
    workflow = load_file(entry.path, entry.shown).workflow
    description = workflow.description if workflow else 'cannot be read: see "awf validate"'
    return {
        "name": entry.name,
        "from": folder.title,
        "path": str(entry.path),
        "file": entry.shown,
        "description": description,
        "shadowed": shadowed,
    }


def _print(rows: list[dict[str, str | bool]]) -> None:
    style = Style.of(sys.stdout)
    for row in rows:
        note = style.warning("  shadowed by the one above of that name") if row["shadowed"] else ""
        click.echo(f"{style.name(sanitize(str(row['name'])))}  {style.quiet(str(row['from']))}{note}")
        if row["description"]:
            click.echo(f"    {sanitize(str(row['description']))}")
        click.echo(f"    {sanitize(str(row['file']))}")

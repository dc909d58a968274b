"""`awf workflows`: what can be run by name, and where it is."""

import json
import sys

import click

from pipeline.cli.location import catalog
from pipeline.cli.terminal import Style, sanitize


@click.command("workflows")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def command(*, as_json: bool) -> None:
    """List the workflows that can be run by name.

    Of two with the same name, the first is used and the other is listed as shadowed.
    """
    rows: list[dict[str, object]] = []
    for folder, entry in catalog().entries():
        workflow = entry.read().workflow
        row = {
            "name": entry.name,
            "from": folder.title,
            "path": str(entry.path),
            "file": entry.display_path,
            "description": workflow.description if workflow else 'cannot be read: see "awf validate"',
            "shadowed": entry.name in [row["name"] for row in rows],
        }
        rows.append(row)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    style = Style.of(sys.stdout)
    for row in rows:
        name, title, description, file = (sanitize(str(row[key])) for key in ("name", "from", "description", "file"))
        note = style.warning("  shadowed by an earlier one") if row["shadowed"] else ""
        click.echo(f"{style.name(name)}  {style.quiet(title)}{note}")
        if description:
            click.echo(f"    {description}")
        click.echo(f"    {file}")

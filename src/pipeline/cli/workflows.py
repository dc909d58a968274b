"""`awf show` and `awf workflows`: draw a workflow, and list those that can be run by name."""

import contextlib
import json
import sys
from pathlib import Path

import click

from pipeline.app.catalog import is_path
from pipeline.app.check import check
from pipeline.app.runs import FIX_ERRORS_HELP
from pipeline.app.store import load_state
from pipeline.cli.diagnostics import print_diagnostics
from pipeline.cli.location import catalog
from pipeline.cli.options import store_option
from pipeline.cli.terminal import Style
from pipeline.errors import AwfError
from pipeline.graph.export import draw_dot, draw_mermaid
from pipeline.graph.svg import draw_svg
from pipeline.graph.text import draw_text
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import Workflow, WorkflowInput
from pipeline.text import sanitize

_FORMATS = {"text": draw_text, "mermaid": draw_mermaid, "dot": draw_dot, "svg": draw_svg}


@click.command("show")
@click.argument("workflow", metavar="FILE|NAME|RUN")
@click.option(
    "--format", "form", type=click.Choice(list(_FORMATS)), default="text", show_default=True, help="Output format."
)
@store_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def show_command(workflow: str, form: str, store: Path, output: Path | None) -> None:
    """Draw a workflow, or the one that a run recorded.

    `text` is for the terminal, `mermaid` for Markdown, `dot` for Graphviz, `svg` for anything that shows images.
    """
    recorded = None
    if not is_path(workflow):
        with contextlib.closing(SqliteJournal(store)) as journal:
            recorded = load_state(journal, workflow).workflow if workflow in journal.runs() else None
    drawing = _FORMATS[form](recorded or _checked_workflow(workflow))
    if output is None:
        click.echo(drawing, nl=False)
        return
    try:
        output.write_text(drawing, encoding="utf-8")
    except OSError as error:
        message = f'cannot write "{output}": {error.strerror or error}'
        raise AwfError(message, help="choose another file with -o, or omit it to print the drawing") from None


def _checked_workflow(reference: str) -> Workflow:
    checked = check(catalog().find(reference))
    if checked.workflow is None:
        print_diagnostics(checked)
        raise AwfError(f'cannot draw "{checked.source.name}": it has errors', help=FIX_ERRORS_HELP)
    return checked.workflow


@click.command("workflows")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def workflows_command(*, as_json: bool) -> None:
    """List the workflows that can be run by name.

    Of two with the same name, the first is used and the other is listed as shadowed.
    """
    rows: list[dict[str, object]] = []
    inputs: list[tuple[WorkflowInput, ...]] = []
    for folder, entry in catalog().entries():
        workflow = entry.read().workflow
        inputs.append(workflow.inputs if workflow else ())
        row = {
            "name": entry.name,
            "from": folder.title,
            "path": str(entry.path),
            "file": entry.display_path,
            "description": workflow.description if workflow else 'cannot be read: see "awf validate"',
            "inputs": [item.model_dump() for item in inputs[-1]],
            "shadowed": entry.name in [row["name"] for row in rows],
        }
        rows.append(row)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    style = Style.of(sys.stdout)
    for row, declared in zip(rows, inputs, strict=True):
        name, title, description, file = (sanitize(str(row[key])) for key in ("name", "from", "description", "file"))
        note = style.warning("  shadowed by an earlier one") if row["shadowed"] else ""
        click.echo(f"{style.name(name)}  {style.quiet(title)}{note}")
        if description:
            click.echo(f"    {description}")
        for item in declared:
            click.echo(f"    input {sanitize(item.usage)}")
        click.echo(f"    {file}")

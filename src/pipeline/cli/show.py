"""`awf show`: draw a workflow."""

import contextlib
from pathlib import Path

import click

from pipeline.app.catalog import is_path
from pipeline.app.check import check
from pipeline.app.runs import FIX_ERRORS_HELP
from pipeline.app.store import load_state
from pipeline.cli.diagnostics import print_diagnostics
from pipeline.cli.location import catalog
from pipeline.cli.options import store_option
from pipeline.errors import AwfError
from pipeline.graph.export import draw_dot, draw_mermaid
from pipeline.graph.svg import draw_svg
from pipeline.graph.text import draw_text
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import Workflow

_FORMATS = {"text": draw_text, "mermaid": draw_mermaid, "dot": draw_dot, "svg": draw_svg}


@click.command("show")
@click.argument("workflow", metavar="FILE|NAME|RUN")
@click.option(
    "--format", "form", type=click.Choice(list(_FORMATS)), default="text", show_default=True, help="Output format."
)
@store_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def command(workflow: str, form: str, store: Path, output: Path | None) -> None:
    """Draw a workflow, or the one that a run recorded.

    `text` is for the terminal, `mermaid` for Markdown, `dot` for Graphviz, `svg` for anything that shows images.
    """
    drawing = _FORMATS[form](_recorded_workflow(workflow, store) or _checked_workflow(workflow))
    if output is None:
        click.echo(drawing, nl=False)
        return
    try:
        output.write_text(drawing, encoding="utf-8")
    except OSError as error:
        message = f'cannot write "{output}": {error.strerror or error}'
        raise AwfError(message, help="choose another file with -o, or omit it to print the drawing") from None


def _recorded_workflow(run: str, store: Path) -> Workflow | None:
    """Return the workflow of a run, or None if no run has this name."""
    if is_path(run):
        return None
    with contextlib.closing(SqliteJournal(store)) as journal:
        return load_state(journal, run).workflow if run in journal.runs() else None


def _checked_workflow(reference: str) -> Workflow:
    checked = check(catalog().find(reference))
    if checked.workflow is None:
        print_diagnostics(checked)
        raise AwfError(f'cannot draw "{checked.source.name}": it has errors', help=FIX_ERRORS_HELP)
    return checked.workflow

"""`awf show`: a picture of a workflow."""

import contextlib
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import click

from pipeline.app.catalog import is_path
from pipeline.app.check import check
from pipeline.app.runs import FIX_ERRORS_HELP, load_state
from pipeline.cli import diagnostics as formats
from pipeline.cli.location import catalog
from pipeline.cli.options import store_option
from pipeline.cli.terminal import Style
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import Workflow

FORMATS = ("text", "mermaid", "dot", "svg")


@click.command("show")
@click.argument("workflow", metavar="FILE|NAME|RUN")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="What it is drawn as."
)
@store_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
def command(workflow: str, form: str, store: Path, output: Path | None) -> None:
    """Draw a workflow, or the one that a run recorded.

    `text` is for the terminal, `mermaid` for Markdown, `dot` for Graphviz, `svg` for anything that shows pictures.
    """
    found = (None if is_path(workflow) else _recorded(workflow, store)) or _checked(workflow)
    drawing = drawer(form)(found)
    if output is None:
        click.echo(drawing, nl=not drawing.endswith("\n"))
    else:
        _write(output, drawing)


def _recorded(run: str, store: Path) -> Workflow | None:
    """The workflow of a run of this name, when there is one."""
    with contextlib.closing(SqliteJournal(store)) as journal:
        return load_state(journal, run).workflow if run in journal.runs() else None


def _checked(workflow: str) -> Workflow:
    checked = check(catalog().find(workflow))
    if checked.workflow is None:
        click.echo(formats.text([checked], Style.of(sys.stderr)), err=True, nl=False)
        raise AwfError(f'"{checked.source.name}" has errors and cannot be drawn', help=FIX_ERRORS_HELP)
    return checked.workflow


_MODULES = {"text": "text", "svg": "svg", "mermaid": "export", "dot": "export"}


def drawer(form: str) -> Callable[[Workflow], str]:
    """The function that draws in a format."""
    draw: Callable[[Workflow], str] = getattr(import_module(f"pipeline.graph.{_MODULES[form]}"), f"draw_{form}")
    return draw


def _write(output: Path, drawing: str) -> None:
    try:
        output.write_text(drawing, encoding="utf-8")
    except OSError as error:
        words = f'"{output}" cannot be written: {error.strerror or error}'
        raise AwfError(words, help="name another file with -o, or leave it out to print") from None

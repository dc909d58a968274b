"""`awf validate`: every problem of one or more workflows."""

import sys

import click

from pipeline.app.check import check_all
from pipeline.cli.diagnostics import FORMATS
from pipeline.cli.location import catalog
from pipeline.cli.terminal import Style, best_effort_output
from pipeline.errors import ExitCode
from pipeline.language.diagnostics import has_errors


@click.command("validate")
@click.argument("workflows", nargs=-1, required=True, metavar="FILE|NAME|DIRECTORY...")
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True, help="Output format."
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def command(workflows: tuple[str, ...], form: str) -> int:
    """Check workflows and report every problem.

    Exits with 2 if there is an error; warnings alone are not errors. A directory stands for all workflows in it.
    """
    checked = check_all(catalog(), workflows)
    with best_effort_output():
        click.echo(FORMATS[form](checked, Style.of(sys.stdout)), nl=False)
    failed = any(has_errors(workflow.diagnostics) for workflow in checked)
    return ExitCode.USAGE if failed else ExitCode.SUCCESS

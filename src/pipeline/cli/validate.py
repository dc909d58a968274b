"""`awf validate`: everything that is wrong with some workflows, in one go."""

import click

from pipeline.app.check import check_all
from pipeline.cli.diagnostics import FORMATS
from pipeline.cli.location import catalog
from pipeline.cli.terminal import best_effort_output
from pipeline.errors import ExitCode
from pipeline.language.diagnostics import has_errors


@click.command("validate")
@click.argument("workflows", nargs=-1, required=True, metavar="FILE|NAME|DIRECTORY...")
@click.option(
    "--format", "form", type=click.Choice(list(FORMATS)), default="text", show_default=True, help="Who is to read it."
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def command(workflows: tuple[str, ...], form: str) -> int:
    """Check workflows and say everything that is wrong with them.

    Exits with 2 when there is an error; a warning alone is no error. A directory means every workflow in it.
    """
    checked = check_all(catalog(), workflows)
    with best_effort_output():
        click.echo(FORMATS[form](checked), nl=False)
    wrong = any(has_errors(one.diagnostics) for one in checked)
    return ExitCode.USAGE if wrong else ExitCode.SUCCESS

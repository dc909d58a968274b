"""`awf findings export`: findings for other programs, into a file that is whole at any instant or to the output."""

from pathlib import Path
from typing import Any

import click

from pipeline import files
from pipeline.app.findings.exporting import EXPORTS, usual_states
from pipeline.app.findings.filters import select
from pipeline.cli.findings.asked import filter_of, filter_options, look_at, repo_option, run_option
from pipeline.cli.output import print_text
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.errors import AwfError


@click.command("export")
@filter_options
@click.option("--format", "form", type=click.Choice(list(EXPORTS)), required=True, help="Who is to read it.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write to a file.",
)
@store_location_options
@run_option
@repo_option
def command(form: str, output: Path | None, where: StoreLocation, run: str, repo: Path | None, **given: Any) -> None:
    """Write findings in the format of another program.

    SARIF, Markdown and JSON have all findings, with what became of them; the other formats what is outstanding.
    """
    ledger = look_at(where, run, repo).ledger
    text = EXPORTS[form](select(ledger, filter_of(ledger, usual_states(form), given)), ledger)
    if output is None or str(output) == "-":
        print_text(text)
    else:
        _write(output, text)


def _write(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        raise AwfError(f"{path} is no file that could be written anew", help="leave -o out to write to the output")
    with files.lock_directory(path.parent):
        files.write_file(path, text.encode(errors="replace"))

"""`awf report`: what a run did, as a page to hand to people."""

import os
from pathlib import Path

import click

from pipeline.app.report.content import build_report, describe_changes, read_review
from pipeline.app.report.render import render_html, render_markdown
from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_history, print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.errors import AwfError
from pipeline.files import write_files


@click.command("report")
@click.argument("run", default="latest")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write the files. [default: reports in the store]",
)
@store_location_options
@as_json_option
def command(run: str, output: Path | None, where: StoreLocation, *, as_json: bool) -> None:
    """Write a report on a run, as RUN.md and RUN.html: its goal, path, findings and cost.

    RUN is the id of a run, the beginning of one, or "latest", the default. The HTML needs no other file and no network.
    """
    with where.open() as store:
        history = load_history(store, run)
        run_id = history.state.run_id
        review, driven = read_review(store.ledger(run_id), run_id), store.is_driven(run_id)
    report = build_report(history, review, describe_changes(history, os.environ, where.store), driven=driven)
    folder = output or where.store / "reports"
    files = {"markdown": folder / f"{run_id}.md", "html": folder / f"{run_id}.html"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_files(
            {
                files["markdown"]: render_markdown(report).encode(),
                files["html"]: render_html(report).encode(),
            }
        )
    except OSError as error:
        message = f"the report could not be written to {folder}: {error.strerror}"
        raise AwfError(message, help="name another directory with -o DIR") from error
    if as_json:
        counts = {"reports": report.overview.reports, "findings": report.overview.findings}
        print_json({**{format: str(path) for format, path in files.items()}, **counts})
        return
    for path in files.values():
        click.echo(path)

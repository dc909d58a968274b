"""`awf report`: what a run did, as a page to hand to people."""

import asyncio
import os
from pathlib import Path

import click

from pipeline.app.report.diff import diff_of
from pipeline.app.report.gather import head_of, report_of
from pipeline.app.report.html import html
from pipeline.app.report.markdown import markdown
from pipeline.app.report.reviews import reviews_of
from pipeline.cli.options import as_json_option
from pipeline.cli.output import load_run, print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.engine.state import replay
from pipeline.errors import AwfError


@click.command("report")
@click.argument("run", default="latest")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the files go; the store's reports directory by default.",
)
@store_location_options
@as_json_option
def command(run: str, output: Path | None, where: StoreLocation, *, as_json: bool) -> None:
    """Write what a run did as one page, as RUN.md and as RUN.html: its goal, its path, its findings, its cost.

    RUN is a run's id, the beginning of one, or "latest", the default. The HTML needs no other file and no network.
    """
    with where.open() as store:
        run_id, records = load_run(store, run)
        reviews, driven = reviews_of(store.ledger(run_id), run_id), store.is_driven(run_id)
    diff = asyncio.run(diff_of(replay(records), os.environ, head_of(records), where.store))
    report = report_of(records, reviews, diff, driven=driven)
    folder = output or where.store / "reports"
    files = {"markdown": folder / f"{run_id}.md", "html": folder / f"{run_id}.html"}
    _write({files["markdown"]: markdown(report), files["html"]: html(report)})
    if as_json:
        print_json({form: str(path) for form, path in files.items()})
        return
    for path in files.values():
        click.echo(path)


def _write(pages: dict[Path, str]) -> None:
    """Write files, each under another name first: a page that is there is always whole."""
    for path, page in pages.items():
        beside = path.with_name(f".{path.name}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(page, encoding="utf-8", newline="\n")
            beside.replace(path)
        except OSError as error:
            raise AwfError(
                f"{path} could not be written: {error.strerror}", help="name another directory with -o DIR"
            ) from error

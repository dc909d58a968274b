"""Options that several commands share."""

from pathlib import Path

import click

from pipeline.cli.here import default_store

store_option = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_store,
    help="Where runs live. [default: the .awf found upwards from here]",
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
log_option = click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the run's events to a file, one JSON object a line.",
)
wait_option = click.option(
    "--wait", "stay", is_flag=True, help="Wait for `awf answer`, or for a quota to reset, instead of stopping."
)
detach_option = click.option("--detach", is_flag=True, help="On a cluster: hand the run over, and do not watch it.")
visit_option = click.option(
    "--visit", type=click.IntRange(min=1), metavar="N", help="Which visit; the last by default."
)
attempt_option = click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Which attempt at it; the last by default."
)

"""`awf cancel`: stop a run from another terminal."""

import click

from pipeline.app.store import find_run
from pipeline.cli.location import user_name
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import sanitize


@click.command("cancel")
@click.argument("run", default="latest")
@click.option("--reason", default="", help="Why; recorded with the run.")
@store_location_options
@as_json_option
def command(run: str, reason: str, where: StoreLocation, *, as_json: bool) -> None:
    """Cancel RUN, or the newest run.

    Its process stops at once, whatever it is doing. A run without a process is recorded as cancelled. `awf resume`
    continues it and repeats the interrupted stage.
    """
    with where.open() as store:
        run_id = find_run(run, store.journal.runs())
        recorded = store.cancel(run_id, by=user_name(), reason=reason, wait=True)
    if as_json:
        print_json({"run_id": run_id, "status": "cancelled", "reason": recorded})
        return
    click.echo(f"run {run_id}: cancelled ({sanitize(recorded or '')})\nresume with: awf resume {run_id}{where.end}")

"""`awf cancel`: stop a run as Ctrl-C does, from another terminal than its own."""

import time
from pathlib import Path

import click

from pipeline.app.store import CancelReceipt, Desk, cancel, find_run
from pipeline.cli.answer import desk_of
from pipeline.cli.location import user_name
from pipeline.cli.options import as_json_option
from pipeline.cli.output import print_json
from pipeline.cli.store_options import StoreLocation, store_location_options
from pipeline.cli.terminal import sanitize
from pipeline.engine.ports import CancelRequest
from pipeline.errors import AwfError, ExitCode
from pipeline.journal.lock import is_driven

_PATIENCE = 30.0  # seconds; what a stage runs is given five to end by itself
_PAUSE = 0.1


class NotStopped(AwfError):
    """The process at a run does not stop."""

    exit_code = ExitCode.RUN_FAILED


@click.command("cancel")
@click.argument("run", default="latest")
@click.option("--reason", default="", help="Why; it is recorded.")
@store_location_options
@as_json_option
def command(run: str, reason: str, where: StoreLocation, *, as_json: bool) -> None:
    """Stop a run: RUN, or the newest.

    A process at the run stops what it is doing, whatever that is; a run without one is recorded as cancelled.
    `awf resume` takes it up again and repeats the interrupted stage.
    """
    with where.shelf() as shelf:
        desk = desk_of(shelf)
        run_id = find_run(run, desk.journal.runs())
        done = _cancelled(desk, run_id, reason) if not where.on else _elsewhere(where, desk, run_id, reason)
    if as_json:
        print_json({"run_id": run_id, "status": "cancelled", "reason": done.reason})
        return
    click.echo(f"run {run_id}: cancelled ({sanitize(done.reason)})\nresume with: awf resume {run_id}{where.end}")


def _cancelled(desk: Desk, run_id: str, reason: str) -> CancelReceipt:
    """Tell the process at the run, and see to it that the run is cancelled once that process is gone."""
    done = cancel(desk, run_id, by=user_name(), reason=reason)
    if done.recorded:
        return done
    _wait_for_its_end(desk.store, run_id)
    return cancel(desk, run_id, by=user_name(), reason=reason)


def _elsewhere(where: StoreLocation, desk: Desk, run_id: str, reason: str) -> CancelReceipt:
    """Have a cluster stop a run; nothing of it runs any more then."""
    wish = CancelRequest(run_id, desk.redactor.text(reason), user_name(), desk.now())
    with where.remote() as remote:
        state = remote.call(remote.cluster.cancel(run_id, str(wish)))
    return CancelReceipt(run_id, recorded=True, reason=state.reason)


def _wait_for_its_end(store: Path, run_id: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while is_driven(store, run_id):
        if time.monotonic() > deadline:
            raise NotStopped(
                f"the process at run {run_id} was told to stop, and has not in {_PATIENCE:g} seconds",
                help=f"it may still do so; look with: awf status {run_id}",
            )
        time.sleep(_PAUSE)

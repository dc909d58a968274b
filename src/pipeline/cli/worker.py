"""`awf worker`: run stages of a cluster's runs on this machine."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import click

from pipeline.app.wiring import Runtime
from pipeline.cli.options import current_settings, store_option
from pipeline.cli.store_options import cluster_options, find_cluster
from pipeline.errors import AwfError


@click.command("worker")
@store_option
@cluster_options
@click.option(
    "--concurrency", type=click.IntRange(1), metavar="N", default=4, show_default=True, help="Stages at once."
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Time for running stages to finish when the worker is stopped.",
)
def command(
    store: Path, on: str | None, artefacts: str | None, queue: str | None, concurrency: int, grace: float
) -> None:
    """Run stages of a cluster's runs on this machine until stopped.

    After SIGTERM or Ctrl-C the worker starts nothing new, gives running stages time to finish, and hands the rest
    back to other workers.
    """
    location = find_cluster(store, on, artefacts, queue)
    if location is None:
        raise AwfError("a worker needs a cluster", help="name it: awf worker --on temporal://HOST:PORT/NAMESPACE")
    with location.remote() as remote:
        from pipeline.cluster.worker import Duties, own_queue, work  # noqa: PLC0415 - an extra

        runtime = Runtime(location.store.absolute(), dict(os.environ), settings=current_settings())
        cluster = remote.cluster
        duties = Duties(cluster.queue, concurrency, grace)
        click.echo(f"working for {location.on}, queue {duties.queue}, as {own_queue(runtime.store)}", err=True)

        async def work_until_stopped() -> None:
            stop = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, stop.set)
            await work(cluster.client, cluster.store, runtime, duties, stop)

        with suppress(KeyboardInterrupt):
            remote.call(work_until_stopped())
    click.echo("stopped", err=True)

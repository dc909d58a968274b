"""`awf worker`: run the stages of a cluster's runs on this machine."""

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
@click.option("--concurrency", type=click.IntRange(min=1), default=4, show_default=True, help="Stages at once.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds that stages have to end when the worker is told to leave.",
)
def command(
    store: Path, on: str | None, artefacts: str | None, queue: str | None, concurrency: int, grace: float
) -> None:
    """Run the stages of a cluster's runs on this machine, until told to leave.

    SIGTERM or Ctrl-C: nothing new is begun, what runs has some time to end, and the rest is handed back to others.
    """
    where = find_cluster(store, on, artefacts, queue)
    if where is None:
        raise AwfError("a worker needs a cluster", help="name it: awf worker --on temporal://HOST:PORT/NAMESPACE")
    with where.open_cluster() as runs:
        from pipeline.cluster.worker import Duties, own_queue, work  # noqa: PLC0415 - an extra

        runtime = Runtime(where.store.absolute(), dict(os.environ), settings=current_settings())
        cluster = runs.cluster
        duties = Duties(cluster.queue, concurrency, grace)
        click.echo(f"working for {where.on}, queue {duties.queue}, as {own_queue(runtime.store)}", err=True)

        async def until_told() -> None:
            leave = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, leave.set)
            await work(cluster.client, cluster.store, runtime, duties, leave)

        with suppress(KeyboardInterrupt):
            runs.call(until_told())
    click.echo("left", err=True)

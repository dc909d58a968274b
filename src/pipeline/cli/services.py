"""`awf serve` and `awf worker`: the dashboard, and a worker of a cluster. Both run until they are stopped."""

import asyncio
import os
import signal
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import click

from pipeline.app.store import RunStore
from pipeline.app.wiring import Runtime
from pipeline.cli.location import default_store, user_name
from pipeline.cli.options import current_settings, store_option
from pipeline.cli.store_options import cluster_options, find_cluster, needs_cluster_extra
from pipeline.errors import AwfError


@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port; 0 for any free one. [default: 8765, or a free one]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any but the default lets other machines connect.",
)
@click.option("--open", "opens", is_flag=True, help="Open the dashboard in a browser.")
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option(
    "--store",
    "stores",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Directory of runs; repeatable. [default: the nearest .awf, here or in a parent directory, or the cluster]",
)
@cluster_options
def serve_command(
    port: int | None,
    host: str,
    stores: tuple[Path, ...],
    on: str | None,
    artifacts: str | None,
    queue: str | None,
    *,
    opens: bool,
    read_only: bool,
) -> None:
    """Show runs and findings in a browser, as they happen.

    Prints an address that holds a token; anyone who has the address can see the runs. Ctrl-C stops the dashboard,
    not the runs. With --on it shows the runs of a cluster, and those of any stores you name.
    """
    for store in stores:
        if not store.is_dir():
            raise AwfError(f'no store at "{store}"', help="name a directory that awf run has created, such as .awf")
    default = stores[0] if stores else default_store()
    cluster = find_cluster(default, on, artifacts, queue, named="stores")
    try:
        from pipeline.web.app import Server  # noqa: PLC0415 - an extra
        from pipeline.web.security import is_loopback  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        help = "install it with: pip install 'awf-pipeline[web]'"
        raise AwfError(f"awf serve needs a package that is not installed ({error.name})", help=help) from None
    with cluster.open_mirrored() if cluster else nullcontext() as mirror:
        served: Sequence[Path | RunStore] = (*stores, mirror) if mirror else stores or (default,)
        server = Server(served, host, port, read_only=read_only, user=user_name())
        if not is_loopback(host):
            click.echo(
                f"Listening on {host}: anyone who can reach this machine and has the address below can read these "
                "runs, including prompts, answers and logs, and do what you can do here. The connection is not "
                "encrypted: anyone who can watch the network sees the token.",
                err=True,
            )
        click.echo(server.address)
        click.echo("Open this address. Ctrl-C stops the dashboard; runs continue without it.", err=True)
        if opens:
            webbrowser.open(server.address)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as after Ctrl-C
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    click.echo("\nStopped.", err=True)


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
def worker_command(
    store: Path, on: str | None, artifacts: str | None, queue: str | None, concurrency: int, grace: float
) -> None:
    """Run stages of a cluster's runs on this machine until stopped.

    After SIGTERM or Ctrl-C the worker starts nothing new, gives running stages time to finish, and hands the rest
    back to other workers.
    """
    location = find_cluster(store, on, artifacts, queue)
    if location is None:
        raise AwfError("a worker needs a cluster", help="name it: awf worker --on temporal://HOST:PORT/NAMESPACE")
    with needs_cluster_extra():
        from pipeline.cluster.object_store import open_object_store  # noqa: PLC0415 - an extra
        from pipeline.cluster.server import Address, connect  # noqa: PLC0415 - an extra
        from pipeline.cluster.worker import run_worker, worker_queue  # noqa: PLC0415 - an extra
    runtime = Runtime(location.store.absolute(), dict(os.environ), settings=current_settings())

    async def work() -> None:
        objects = open_object_store(location.artifacts)
        client = await connect(Address.read(location.on), os.environ)
        click.echo(f"working for {location.on}, queue {location.queue}, as {worker_queue(runtime.store)}", err=True)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await run_worker(client, objects, runtime, stop, queue=location.queue, slots=concurrency, grace=grace)

    with suppress(KeyboardInterrupt):
        asyncio.run(work())
    click.echo("stopped", err=True)

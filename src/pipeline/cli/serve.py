"""`awf serve`: the dashboard."""

import signal
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.location import default_store, user_name
from pipeline.cli.store_options import cluster_options, find_cluster
from pipeline.errors import AwfError

if TYPE_CHECKING:
    from pipeline.web.place import Place

_EXTRA = "install it with: pip install 'awf-pipeline[web]'"


@click.command("serve")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Where to listen; 0 for any. [default: 8765, or a free one]"
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="What to listen at; others reach it if you say so."
)
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option(
    "--store",
    "stores",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Where runs live; several may be given. [default: the .awf found upwards from here, or the cluster]",
)
@cluster_options
def command(
    port: int | None,
    host: str,
    stores: tuple[Path, ...],
    on: str | None,
    artefacts: str | None,
    queue: str | None,
    *,
    opens: bool,
    read_only: bool,
) -> None:
    """Show runs and findings in a browser, as they happen.

    Prints one address with a token in it: who has it sees the runs. Ctrl-C ends it; no run is touched by that.
    With --on it shows the runs of a cluster, beside those of the stores that are named.
    """
    usual = stores[0] if stores else default_store()
    for missing in (one for one in stores if not one.is_dir()):
        raise AwfError(f'there is no store at "{missing}"', help="name a directory that awf run has made, such as .awf")
    cluster = find_cluster(usual, on, artefacts, queue, named="stores")
    with cluster.open_window() if cluster else nullcontext() as window:
        places = (*(stores or (() if window else (usual,))), *((window,) if window else ()))
        _serve(places, host, port, opens=opens, read_only=read_only)
    click.echo("\nEnded.", err=True)


def _serve(places: "Sequence[Path | Place]", host: str, port: int | None, *, opens: bool, read_only: bool) -> None:
    try:
        from pipeline.web import security, serving  # noqa: PLC0415 - an extra, and only this command needs it
    except ModuleNotFoundError as error:
        raise AwfError(f"awf serve needs a part that is not installed ({error.name})", help=_EXTRA) from None
    site = serving.opened(places, host, port, read_only=read_only, user=user_name())
    if not security.is_loopback(host):
        _warn(host)
    click.echo(site.address)
    click.echo("Open this address. Ctrl-C ends it; runs go on without it.", err=True)
    if opens:
        webbrowser.open(site.address)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left behind then either
    with suppress(KeyboardInterrupt):
        serving.serve(site)


def _warn(host: str) -> None:
    click.echo(
        f"Listening at {host}: everybody who can reach this machine and has the address below can read these runs, "
        "with their prompts, answers and logs, and do here what you can. Nothing is encrypted on the way: whoever "
        "sees the network sees the token.",
        err=True,
    )

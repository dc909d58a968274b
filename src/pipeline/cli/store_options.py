"""Where runs are: in a store of this machine, or on a cluster that `--on`, the environment or the settings name."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from pipeline.app.store import RunStore, open_local_store
from pipeline.cli.location import nearest_store as usual_store
from pipeline.cli.options import settings_or_defaults, store_option
from pipeline.cli.terminal import sanitize
from pipeline.errors import AwfError

if TYPE_CHECKING:
    from pipeline.cluster.remote import ClusterConnection
    from pipeline.cluster.window import Window

F = TypeVar("F", bound=Callable[..., Any])
_EXTRA = "install it with: pip install 'awf-pipeline[cluster]'"
_CLUSTER = (
    click.option("--on", envvar="AWF_ON", metavar="URL", help="A cluster: temporal://HOST:PORT/NAMESPACE."),
    click.option(
        "--artefacts", envvar="AWF_ARTEFACTS", metavar="URL", help="What it shares: a directory, or s3://BUCKET."
    ),
    click.option("--queue", envvar="AWF_QUEUE", metavar="NAME", help="The queue of its workers. [default: awf]"),
)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A place of runs."""

    store: Path
    on: str = ""  # the cluster; none for this machine
    artefacts: str = ""
    queue: str = ""

    @property
    def end(self) -> str:
        """What a suggested command needs to find it again."""
        if self.on:
            given = "AWF_ON" in os.environ or settings_or_defaults().on
            return "" if given else f" --on {self.on} --artefacts {self.artefacts}"
        return "" if self.store == usual_store() else f" --store {sanitize(shlex.quote(str(self.store)))}"

    @contextmanager
    def shelf(self) -> Iterator[RunStore]:
        """The runs there, to be looked at."""
        if not self.on:
            with open_local_store(self.store) as shelf:
                yield shelf
            return
        with self.remote() as found, TemporaryDirectory(prefix="awf-") as files:
            yield found.shelf(self.store, Path(files))

    @contextmanager
    def window(self) -> "Iterator[Window]":
        """The cluster as somebody sees it who goes on looking."""
        with _extra():
            from pipeline.cluster.orders import QUEUE  # noqa: PLC0415 - an extra, and few commands need it
            from pipeline.cluster.window import window  # noqa: PLC0415 - as above
        with window(self.on, self.artefacts, os.environ, self.queue or QUEUE) as found:
            yield found

    @contextmanager
    def remote(self) -> "Iterator[ClusterConnection]":
        """The cluster."""
        with _extra():
            from pipeline.cluster.orders import QUEUE  # noqa: PLC0415 - an extra, and few commands need it
            from pipeline.cluster.remote import remote  # noqa: PLC0415 - as above
        with remote(self.on, self.artefacts, os.environ, self.queue or QUEUE) as found:
            yield found


@contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise AwfError(f"--on needs a part that is not installed ({error.name})", help=_EXTRA) from None


def cluster_options(command: F) -> F:
    """Give a command the options that name a cluster."""
    for option in reversed(_CLUSTER):
        command = option(command)
    return command


def store_location_options(command: F) -> F:
    """Give a command the options about the place of runs; it gets a `where`."""

    @wraps(command)
    def placed(*given: Any, store: Path, on: str | None, artefacts: str | None, queue: str | None, **more: Any) -> Any:
        where = find_cluster(store, on, artefacts, queue, named="store") or StoreLocation(store)
        return command(*given, where=where, **more)

    return store_option(cluster_options(placed))  # type: ignore[return-value]  # click gives it the arguments


def find_cluster(
    store: Path, on: str | None, artefacts: str | None, queue: str | None, *, named: str = ""
) -> StoreLocation | None:
    """The cluster that is meant; none when a store is named by an option, and the cluster is only usual."""
    source = click.get_current_context().get_parameter_source
    if source(named) is ParameterSource.COMMANDLINE and source("on") is not ParameterSource.COMMANDLINE:
        return None
    settings = settings_or_defaults()
    cluster = on or settings.on
    if not cluster:
        return None
    shared = artefacts or settings.artefacts
    if not shared:
        raise AwfError(
            f"the cluster {cluster} has no store that its machines share",
            help="name a directory or a bucket: --artefacts URL, AWF_ARTEFACTS, or artefacts in the settings",
        )
    return StoreLocation(store, cluster, shared, queue or settings.queue or "")

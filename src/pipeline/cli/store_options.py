"""The options that name a run store: a directory of this machine, or a cluster."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from pipeline.cli.location import nearest_store, settings_paths
from pipeline.cli.options import settings_or_defaults, store_option
from pipeline.errors import AwfError
from pipeline.redaction import redactor_of
from pipeline.text import sanitize

if TYPE_CHECKING:
    from pipeline.app.store import RunStore
    from pipeline.cluster.client import ClusterStore
    from pipeline.cluster.mirror import MirroredStore

F = TypeVar("F", bound=Callable[..., Any])


_CLUSTER = (
    click.option("--on", envvar="AWF_ON", metavar="URL", help="Use a cluster: temporal://HOST:PORT/NAMESPACE."),
    click.option(
        "--artifacts",
        envvar="AWF_ARTIFACTS",
        metavar="URL",
        help="Storage the cluster shares: a directory or s3://BUCKET.",
    ),
    click.option("--queue", envvar="AWF_QUEUE", metavar="NAME", help="Queue of the cluster's workers. [default: awf]"),
)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a command finds its runs."""

    store: Path
    on: str = ""  # the address of a cluster; empty for this machine
    artifacts: str = ""
    queue: str = ""

    @property
    def end(self) -> str:
        """The options that a suggested command needs to find the same store."""
        if self.on:
            given = "AWF_ON" in os.environ or settings_or_defaults().on
            return "" if given else f" --on {self.on} --artifacts {self.artifacts}"
        return "" if self.store == nearest_store() else f" --store {sanitize(shlex.quote(str(self.store)))}"

    def open(self) -> "AbstractContextManager[RunStore]":
        """The run store."""
        from pipeline.app.store import open_local_store  # noqa: PLC0415 - what reads runs takes 60 ms to load

        return self.open_cluster() if self.on else open_local_store(self.store, redactor_of(os.environ))

    @contextmanager
    def open_cluster(self) -> "Iterator[ClusterStore]":
        """The cluster, for one command."""
        with needs_cluster_extra():
            from pipeline.cluster.client import ClusterStore, open_cluster  # noqa: PLC0415 - an extra
        with open_cluster(ClusterStore, self.on, self.artifacts, os.environ, self.queue) as store:
            yield store

    @contextmanager
    def open_mirrored(self) -> "Iterator[MirroredStore]":
        """The cluster, mirrored for the dashboard."""
        with needs_cluster_extra():
            from pipeline.cluster.mirror import open_mirrored_store  # noqa: PLC0415 - an extra
        with open_mirrored_store(self.on, self.artifacts, os.environ, self.queue) as store:
            yield store


@contextmanager
def needs_cluster_extra() -> Iterator[None]:
    """Say which extra to install if an import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        help = "install it with: pip install 'awf-pipeline[cluster]'"
        raise AwfError(f"--on needs a package that is not installed: {error.name}", help=help) from None


def cluster_options(command: F) -> F:
    """Give a command the options that name a cluster."""
    for option in reversed(_CLUSTER):
        command = option(command)
    return command


def store_location_options(command: F) -> F:
    """Give a command the options that name a run store; it receives them as `where`."""

    @wraps(command)
    def located(*given: Any, store: Path, on: str | None, artifacts: str | None, queue: str | None, **more: Any) -> Any:
        where = find_cluster(store, on, artifacts, queue, named="store") or StoreLocation(store)
        return command(*given, where=where, **more)

    return store_option(cluster_options(located))  # type: ignore[return-value]  # click gives it the arguments


def find_cluster(
    store: Path, on: str | None, artifacts: str | None, queue: str | None, *, named: str = ""
) -> StoreLocation | None:
    """The cluster to use; None without one, or when option `named` gives a store and only the settings a cluster."""
    source = click.get_current_context().get_parameter_source
    if source(named) is ParameterSource.COMMANDLINE and source("on") is not ParameterSource.COMMANDLINE:
        return None
    if not on and not settings_paths().exist:
        return None  # without the 40 ms that importing the settings takes
    settings = settings_or_defaults()
    cluster = on or settings.on
    if not cluster:
        return None
    shared = artifacts or settings.artifacts
    if not shared:
        raise AwfError(
            f"no shared storage is set for the cluster {cluster}",
            help="name a directory or a bucket: --artifacts URL, AWF_ARTIFACTS, or artifacts in the settings",
        )
    return StoreLocation(store, cluster, shared, queue or settings.queue)

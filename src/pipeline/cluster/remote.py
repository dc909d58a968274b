"""A cluster for somebody who does one thing after the other, as a command does."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from temporalio.service import RPCError

from pipeline.app.store import RunStore, StoredFiles
from pipeline.cluster.artefacts import open_artefacts
from pipeline.cluster.files import FILES, bring
from pipeline.cluster.orders import QUEUE
from pipeline.cluster.runs import Cluster
from pipeline.cluster.server import Address, Unreachable, connected

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """A cluster, and the loop in which it is spoken to."""

    cluster: Cluster
    runner: asyncio.Runner

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """What some work comes to; a server that goes away meanwhile is told of."""
        try:
            return self.runner.run(work)
        except RPCError as error:
            raise Unreachable(f"the Temporal server does not answer: {error.message}") from None

    def shelf(self, store: Path, files: Path) -> RunStore:
        """The runs of the cluster; files of theirs that somebody wants are put into a directory."""
        cluster = self.cluster
        journal = cluster.journal
        return RunStore(
            store=store,
            name=cluster.store.name,
            journal=journal,
            letters=cluster.letters,
            driven=lambda run_id: self.call(cluster.is_driven(run_id)),
            ledger=journal.of,
            attended=lambda run_id: self.call(cluster.attended(run_id)),
            files=StoredFiles(files, f"{cluster.store.name}/{FILES}", partial(bring, cluster.store, files)),
        )


@contextmanager
def remote(on: str, artefacts: str, environ: Mapping[str, str], queue: str = QUEUE) -> Iterator[ClusterConnection]:
    """The cluster at an address, with its store."""
    store = open_artefacts(artefacts)
    address = Address.read(on)
    with asyncio.Runner() as runner:
        client = runner.run(connected(address, environ))
        yield ClusterConnection(Cluster(client, store, queue), runner)

"""The runs of a cluster as a run store: for a command that does one thing after another, and for the dashboard."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from temporalio.service import RPCError

from pipeline.app.history import AttemptArtifacts
from pipeline.app.runs import ResumeRequest, RunResult, resume_records, with_head
from pipeline.app.store import RunStore, StoppedWatching, WorkerInfo, load_state
from pipeline.app.wiring import Runtime
from pipeline.cluster.artefacts import open_artefacts
from pipeline.cluster.files import FILES, bring
from pipeline.cluster.following import RunFollower
from pipeline.cluster.orders import QUEUE
from pipeline.cluster.runs import Cluster
from pipeline.cluster.server import Address, Unreachable, connected
from pipeline.cluster.travel import send_start
from pipeline.engine.ports import CancelRequest, HumanAnswer, Journal
from pipeline.engine.records import RunCreated
from pipeline.engine.state import RunStatus, begin
from pipeline.errors import AwfError
from pipeline.language.model import StageKind, Workflow
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import Redactor, redactor_of

T = TypeVar("T")


class ClusterStore(RunStore):
    """The runs of a cluster. The files of an attempt are copied into `directory` when somebody wants them."""

    def __init__(self, cluster: Cluster, directory: Path, redactor: Redactor) -> None:
        super().__init__(cluster.store.name, directory, cluster.journal, cluster.letters, redactor)
        self.cluster = cluster

    @abstractmethod
    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Talk to the Temporal server and wait; raises Unreachable when it does not answer."""

    def is_driven(self, run_id: str) -> bool:
        return self.call(self.cluster.is_driven(run_id))

    def ledger(self, run_id: str) -> Journal:
        return self.cluster.journal.of(run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        bring(self.cluster.store, self.directory, found)

    def display_path(self, path: Path) -> str:
        inside = path.is_relative_to(self.directory)
        return f"{self.cluster.store.name}/{FILES}/{path.relative_to(self.directory)}" if inside else str(path)

    def worker_info(self, run_id: str) -> WorkerInfo | None:
        return self.call(self.cluster.attended(run_id))

    def start(self, record: RunCreated, runtime: Runtime, workflow: Workflow | None = None) -> RunResult:
        self.call(self._hand_over(record, runtime, workflow))
        return self._watch(record.run_id, 0, runtime)

    async def _hand_over(self, record: RunCreated, runtime: Runtime, workflow: Workflow | None) -> None:
        record = with_head(record, runtime.environ)
        if name := runtime.settings.remote:
            if not any(stage.kind == StageKind.WORKSPACE_CREATE for stage in begin(record, workflow).workflow.stages):
                raise AwfError(
                    "the workflow has no workspace.create stage, so its changes would stay on one worker",
                    help="add one, or leave out --remote and have the directory on every worker",
                )
            sent = await send_start(Path(record.cwd), runtime.environ, name, record.run_id)
            record = record.model_copy(update={"options": {**record.options, "remote": sent.model_dump()}})
        await self.cluster.start(record, runtime.redactor)

    def resume(self, run_id: str, request: ResumeRequest, runtime: Runtime) -> RunResult:
        last = self.journal.last(run_id).seq
        records = resume_records(load_state(self.journal, run_id), request, runtime.redactor)
        self.call(self.cluster.resume(run_id, [record for record in records if record]))
        return self._watch(run_id, last, runtime)

    def _watch(self, run_id: str, after: int, runtime: Runtime) -> RunResult:
        """Tell the listeners what happens to a run after a record, until it stops."""
        if runtime.detach:
            return RunResult(run_id, RunStatus.RUNNING, (), 0, "")
        plugins = PluginManager(time.time, runtime.listeners, runtime.redactor)
        follower = RunFollower(self.cluster, run_id, plugins)
        try:
            return self.call(follower.until_it_stops(after, stay=runtime.wait_for_answer))
        except KeyboardInterrupt:
            raise StoppedWatching(run_id) from None

    def wake(self, answer: HumanAnswer) -> bool:
        self.call(self.cluster.wake(answer.run_id, answer.stage, answer.visit))
        return True  # the workers resume even a run that had stopped

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        del wait  # the server answers when nothing of the run is running
        request = CancelRequest(run_id, self.redactor.text(reason), by, self.now())
        return self.call(self.cluster.cancel(run_id, str(request))).reason


class CommandStore(ClusterStore):
    """A cluster as one command uses it, with an event loop of its own."""

    def __init__(self, cluster: Cluster, directory: Path, redactor: Redactor, runner: asyncio.Runner) -> None:
        super().__init__(cluster, directory, redactor)
        self._runner = runner

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        except RPCError as error:
            raise Unreachable(f"the Temporal server does not answer: {error.message}") from None


@contextmanager
def open_cluster(on: str, artefacts: str, environ: Mapping[str, str], queue: str = QUEUE) -> Iterator[CommandStore]:
    """The cluster at an address, with its object store, while the context lasts."""
    store = open_artefacts(artefacts)
    address = Address.read(on)
    with asyncio.Runner() as runner, TemporaryDirectory(prefix="awf-") as files:
        client = runner.run(connected(address, environ))
        yield CommandStore(Cluster(client, store, queue), Path(files), redactor_of(environ), runner)

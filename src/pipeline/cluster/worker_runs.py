"""The runs that a worker has replayed from the shared journal, with what it needs to run their stages."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline.app.wiring import Runtime, build_services
from pipeline.backends.worktree import GitWorktrees
from pipeline.cluster.journal import FencedJournal, JournalObject, SharedJournal, SharedMailbox
from pipeline.cluster.messages import AttemptRequest, StateSnapshot, compress
from pipeline.cluster.object_store import ObjectStore, send_files
from pipeline.cluster.remote_worktrees import MERGED_COMMIT, RemoteWorktrees, remote_of
from pipeline.engine.driver import Services, StageExecutor
from pipeline.engine.events import Event, EventKind
from pipeline.engine.ports import UnknownRun
from pipeline.engine.records import RunCreated, RunResumed, WorkflowAdopted
from pipeline.engine.state import State, apply, begin
from pipeline.errors import AwfError

_REMEMBERED = 200  # runs
_TAIL = 2000  # characters of output in a heartbeat


@dataclass
class WorkerRun:
    """A run as this worker knows it."""

    state: State
    workflow: tuple[str, str]  # the file name and the text of its workflow
    worktrees: RemoteWorktrees | None  # if its files are shared through a git remote
    seq: int = 1
    services: Services | None = None  # what its stages need; built again when the run is resumed
    restored: tuple[str, str] | None = None  # the commits that its files on this worker are at, if known
    active: int = 0  # stages that this worker is running
    restoring: asyncio.Lock = field(default_factory=asyncio.Lock)
    concluding: asyncio.Lock = field(default_factory=asyncio.Lock)  # branches commit one after the other

    def take(self, found: JournalObject) -> None:
        """Apply the next object of the journal."""
        record, self.seq = found.record, found.seq
        if record is None:
            return
        self.state = apply(self.state, record)
        if isinstance(record, WorkflowAdopted):
            self.workflow = (record.file, record.source)
        if isinstance(record, RunResumed | WorkflowAdopted):
            self.services = None

    def commits(self) -> tuple[str, str]:
        """Return the commits that its worktree and its clone are at, by its records."""
        workspace = self.state.workspace
        return (workspace.commit if workspace else ""), str(self.state.context.get(MERGED_COMMIT) or "")

    def local_state(self) -> State:
        """Return its state with the paths that its directories have on this worker."""
        return self.worktrees.localize(self.state) if self.worktrees else self.state

    def snapshot(self) -> StateSnapshot:
        """Return its state as a message."""
        file, source = self.workflow
        return StateSnapshot.of(self.state, file, compress(source))


class WorkerRuns:
    """The runs that a worker knows: each is replayed once, and then only what is new is read."""

    def __init__(self, store: ObjectStore, runtime: Runtime) -> None:
        self.store = store
        self.journal = SharedJournal(store)
        self.directory = runtime.store
        self.output: dict[tuple[str, str], dict[str, str]] = {}  # the latest of each running stage
        listeners = (*runtime.listeners, self._note_output)
        self._runtime = replace(runtime, mailbox=SharedMailbox(store), listeners=listeners)
        self._runs: dict[str, WorkerRun] = {}  # the one used last at the end

    def get(self, run_id: str) -> WorkerRun:
        """Return a run with all of its records."""
        run = self._runs.pop(run_id, None) or self._load(run_id)
        self._runs[run_id] = run
        for found in self.journal.objects(run_id, run.seq):
            run.take(found)
        return run

    def forget(self, run_id: str) -> None:
        """Drop a run that has ended, or whose state is in doubt."""
        self._runs.pop(run_id, None)

    def fenced_journal(self, run_id: str, after: int, branch: AttemptRequest | None = None) -> FencedJournal:
        """Return a journal for the next records of a run. The files that a record names are stored before it."""
        return FencedJournal(self.store, run_id, after, branch, partial(send_files, self.store, self.directory))

    async def restore_workspace(self, run: WorkerRun) -> None:
        """Bring the files of a run to where its records say they are, unless they are there."""
        async with run.restoring:
            if run.restored == run.commits() or (run.restored and run.active > 1):  # other branches use them
                return
            commits, state, workspace = run.commits(), run.state, run.state.workspace
            directory = workspace.path if workspace else state.cwd
            if run.worktrees:
                await run.worktrees.restore_run(run.local_state())
            elif not directory.is_dir():
                raise AwfError(
                    f"there is no directory {directory} on this worker",
                    help="make it available on every worker, or start runs with --remote",
                )
            elif workspace:
                worktrees = GitWorktrees(directory.parent, dict(self._runtime.environ))
                await worktrees.restore(workspace, f"{state.run_id}/{state.cursor.stage}-{state.cursor.visit}")
            run.restored = commits

    def mark_restored(self, run_id: str) -> None:
        """Note that the files of a run are where its records say, because a stage that ran here has left them there."""
        run = self.get(run_id)
        run.restored = run.commits()

    def executor(self, run: WorkerRun, journal: FencedJournal) -> StageExecutor:
        """Return what carries out the next commands of a run."""
        state = run.local_state()
        if run.services is None:
            runtime = replace(self._runtime, workspaces=run.worktrees)
            run.services = build_services(state, self.journal.of(state.run_id), runtime)
            if state.stages_run:
                run.services.plugins.on_resume(state)  # it may be new to this worker
        return StageExecutor(state, replace(run.services, journal=journal))

    def _load(self, run_id: str) -> WorkerRun:
        while len(self._runs) >= _REMEMBERED:
            del self._runs[next(iter(self._runs))]
        first = next(self.journal.objects(run_id), None)
        if first is None or not isinstance(first.record, RunCreated):
            raise UnknownRun(f"there is no run {run_id} in {self.store.name}")
        state, remote = begin(first.record), remote_of(first.record)
        worktrees = RemoteWorktrees(run_id, remote, self.directory, self._runtime.environ) if remote else None
        return WorkerRun(state, (first.record.file, first.record.source), worktrees)

    def _note_output(self, event: Event) -> None:
        if event.event is EventKind.STAGE_OUTPUT:
            self.output[event.run_id, event.stage] = {key: str(value)[-_TAIL:] for key, value in event.data.items()}

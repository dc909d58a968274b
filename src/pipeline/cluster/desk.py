"""The runs that a worker is at: each rebuilt from the shared journal once, and from then on only what is new."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline.app.wiring import Runtime, build_services
from pipeline.backends.worktree import GitWorktrees
from pipeline.cluster.artefacts import Artefacts
from pipeline.cluster.files import fetch, send, send_part
from pipeline.cluster.journal import JournalObject, SharedJournal
from pipeline.cluster.letters import SharedLetters
from pipeline.cluster.orders import AttemptRequest
from pipeline.cluster.pen import Pen
from pipeline.cluster.travel import MERGED, Travelling, remote_of
from pipeline.engine.driver import Services, StageExecutor
from pipeline.engine.events import Listener
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import UnknownRun
from pipeline.engine.records import RunCreated, RunResumed, WorkflowAdopted
from pipeline.engine.state import State, apply, begin
from pipeline.errors import AwfError

_REMEMBERED = 200  # runs


@dataclass
class WorkerRun:
    """A run as this worker knows it."""

    state: State
    text: tuple[str, str]  # the name and the source of its workflow
    seq: int = 1
    made: Services | None = None  # what its stages need; made anew when the run is taken up anew
    stands: tuple[str, str] | None = None  # the commits that its files here are at; None when nobody knows
    active: int = 0  # stages that run here now
    standing: asyncio.Lock = field(default_factory=asyncio.Lock)
    concluding: asyncio.Lock = field(default_factory=asyncio.Lock)  # branches commit one after the other


class WorkerRuns:
    """What a worker knows of runs, and what it needs for their stages."""

    def __init__(self, store: Artefacts, around: Runtime, hear: Listener) -> None:
        self.store = store
        self.journal = SharedJournal(store)
        self._around = replace(around, mailbox=SharedLetters(store), listeners=(*around.listeners, hear))
        self._runs: OrderedDict[str, WorkerRun] = OrderedDict()

    def run(self, run_id: str) -> WorkerRun:
        """A run as it stands now."""
        run = self._runs.get(run_id) or self._begun(run_id)
        self._runs[run_id] = run
        self._runs.move_to_end(run_id)
        for page in self.journal.pages(run_id, run.seq):
            _take(run, page)
        return run

    def forget(self, run_id: str) -> None:
        """Let go of a run: it is over, or in doubt."""
        self._runs.pop(run_id, None)

    def pen(self, run_id: str, after: int, branch: AttemptRequest | None = None) -> Pen:
        """What writes the next records of a run, each after the files that it names."""
        return Pen(self.store, run_id, after, branch, partial(send, self.store, self._around.store))

    async def stand(self, run: WorkerRun) -> None:
        """Have the files of a run here as its records say, unless they were left so."""
        async with run.standing:
            if run.stands == _commit(run.state) or (run.stands and run.active > 1):  # others are at work there
                return
            state = run.state
            if travelling := self._travelling(state):
                await travelling.stand(travelling.placed(state))
            else:
                await self._stand_here(state)
            run.stands = _commit(state)

    async def _stand_here(self, state: State) -> None:
        """Put a worktree that every worker has back to its last checkpoint."""
        workspace = state.workspace
        place = workspace.path if workspace else state.cwd
        if not place.is_dir():
            raise AwfError(
                f"there is no directory {place} here",
                help="have it on every worker, or start runs with --remote, so that their files travel",
            )
        if workspace:
            worktrees = GitWorktrees(place.parent, dict(self._around.environ))
            await worktrees.restore(workspace, f"{state.run_id}/{state.cursor.stage}-{state.cursor.visit}")

    def steps(self, run: WorkerRun, pen: Pen) -> StageExecutor:
        """The steps of a run from where it stands, written with a pen."""
        state, travelling = self.placed(run), self._travelling(run.state)
        if run.made is None:
            around = replace(self._around, workspaces=travelling)
            run.made = build_services(state, self.journal.of(state.run_id), around)
            if state.stages_run:
                run.made.plugins.on_resume(state)  # here, at least
        return StageExecutor(state, replace(run.made, journal=pen))

    def placed(self, run: WorkerRun) -> State:
        """The state of a run with its directories as they are here."""
        travelling = self._travelling(run.state)
        return travelling.placed(run.state) if travelling else run.state

    def fetched(self, outcome: Outcome) -> None:
        """Have the files here that an outcome names."""
        fetch(self.store, self._around.store, outcome)

    def send_part(self, name: str, sent: int) -> int:
        """Send what a file here has beyond so many bytes; the bytes that are sent then."""
        return send_part(self.store, self._around.store, name, sent)

    def left(self, run: WorkerRun) -> None:
        """A stage is over and on record: the files of the run are as it says."""
        run.stands = _commit(run.state)

    def _travelling(self, state: State) -> Travelling | None:
        remote = remote_of(state)
        return Travelling(state.run_id, remote, self._around.store, self._around.environ) if remote else None

    def _begun(self, run_id: str) -> WorkerRun:
        while len(self._runs) >= _REMEMBERED:
            self._runs.popitem(last=False)
        first = next(self.journal.pages(run_id), None)
        if first is None or not isinstance(first.record, RunCreated):
            raise UnknownRun(f"there is no run {run_id} in {self.store.name}")
        return WorkerRun(begin(first.record), (first.record.file, first.record.source))


def _commit(state: State) -> tuple[str, str]:
    workspace = state.workspace
    return (workspace.commit if workspace else ""), str(state.context.get(MERGED) or "")


def _take(run: WorkerRun, page: JournalObject) -> None:
    record, run.seq = page.record, page.seq
    if record is None:
        return
    run.state = apply(run.state, record)
    if isinstance(record, WorkflowAdopted):
        run.text = (record.file, record.source)
    if isinstance(record, RunResumed | WorkflowAdopted):
        run.made = None

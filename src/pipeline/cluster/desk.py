"""The runs that a worker is at: each rebuilt from the shared journal once, and from then on only what is new."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from pipeline.app.wiring import Surroundings, services
from pipeline.cluster.artefacts import Artefacts
from pipeline.cluster.journal import Page, SharedJournal
from pipeline.cluster.letters import SharedLetters
from pipeline.cluster.pen import Pen
from pipeline.engine.events import EventKind, Listener
from pipeline.engine.fold import apply, begin
from pipeline.engine.ports import UnknownRun
from pipeline.engine.records import RunCreated, RunResumed, WorkflowAdopted
from pipeline.engine.state import State
from pipeline.engine.steps import Services, Steps

_REMEMBERED = 200  # runs


@dataclass
class Run:
    """A run as this worker knows it."""

    state: State
    text: tuple[str, str]  # the name and the source of its workflow
    seq: int = 1
    made: Services | None = None  # what its stages need; made anew when the run is taken up anew
    concluding: asyncio.Lock = field(default_factory=asyncio.Lock)  # branches commit one after the other


class Desk:
    """What a worker knows of runs, and what it needs for their stages."""

    def __init__(self, store: Artefacts, around: Surroundings, hear: Listener) -> None:
        self.store = store
        self.journal = SharedJournal(store)
        self._around = replace(around, letters=SharedLetters(store), listeners=(*around.listeners, hear))
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def run(self, run_id: str) -> Run:
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

    def steps(self, run: Run, pen: Pen) -> Steps:
        """The steps of a run from where it stands, written with a pen."""
        if run.made is None:
            run.made = services(run.state, self.journal.of(run.state.run_id), self._around)
            if run.state.stages_run:
                run.made.plugins.tell(EventKind.RUN_RESUMED, run.state)  # here, at least
        return Steps(run.state, replace(run.made, journal=pen))

    @property
    def around(self) -> Surroundings:
        """What runs stand on here."""
        return self._around

    def _begun(self, run_id: str) -> Run:
        while len(self._runs) >= _REMEMBERED:
            self._runs.popitem(last=False)
        first = next(self.journal.pages(run_id), None)
        if first is None or not isinstance(first.record, RunCreated):
            raise UnknownRun(f"there is no run {run_id} in {self.store.name}")
        return Run(begin(first.record), (first.record.file, first.record.source))


def _take(run: Run, page: Page) -> None:
    record, run.seq = page.record, page.seq
    if record is None:
        return
    run.state = apply(run.state, record)
    if isinstance(record, WorkflowAdopted):
        run.text = (record.file, record.source)
    if isinstance(record, RunResumed | WorkflowAdopted):
        run.made = None

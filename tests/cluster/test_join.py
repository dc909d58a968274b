"""A worker joins the branches of a parallel stage from the records of whichever workers ran them."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.engine.drivers import PARALLEL

from pipeline.app.wiring import Runtime
from pipeline.cluster.journal import SharedJournal
from pipeline.cluster.messages import StepRequest, StepResult
from pipeline.cluster.object_store import open_object_store
from pipeline.cluster.worker import Activities, WorkerRuns
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Concluded, Conclusion, LedgerLine
from pipeline.engine.records import BranchCompleted, RunCreated, VisitCompleted
from pipeline.plugins import hookimpl
from pipeline.plugins.manager import PluginManager

SOURCE = f'workflow "W" {{\nversion 2\nstart "a"\n{PARALLEL % ""}\nstage "end" kind="exit"\n}}\n'


class Counting:
    """A plugin that has a line for every visit it concludes."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    @hookimpl
    def conclude(self, visits: Sequence[Concluded]) -> Conclusion:
        self.asked.append([one.outcome.kept["by"] for one in visits])
        amended = visits[1].outcome.model_copy(update={"status": Status.FAIL})
        return Conclusion({"q": amended}, lines=[LedgerLine(one.stage.id) for one in visits])


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """The only installed plugin."""
    counting = Counting()
    monkeypatch.setattr(PluginManager, "load_installed", lambda plugins: plugins.register(counting, "counting"))
    return counting


def test_the_branches_are_concluded_once(tmp_path: Path, plugin: Counting) -> None:
    """With what was kept by the workers that ran them; a step that Temporal repeats concludes nothing again."""
    store = open_object_store(str(tmp_path / "shared"))
    journal = SharedJournal(store)
    journal.create("r", RunCreated(at=0, run_id="r", file="w", source=SOURCE, cwd=str(tmp_path), version="0"))
    for number, name in enumerate("pqs", start=1):
        outcome = Outcome(status=Status.SUCCESS, kept={"by": f"worker {number}"})
        done = BranchCompleted(at=number, stage="a", visit=1, branch=name, branch_visit=1, outcome=outcome)
        journal.append("r", done)

    def join(worker: str) -> StepResult:
        runtime = Runtime(store=tmp_path / worker, environ=dict(os.environ))
        activities = Activities(WorkerRuns(store, runtime), worker)
        return asyncio.run(activities.join(StepRequest(run_id="r", after=4)))

    first, repeated = join("one"), join("other")
    assert plugin.asked == [["worker 1", "worker 2", "worker 3"]]
    assert first.records == repeated.records
    joined = journal.last("r").record
    assert isinstance(joined, VisitCompleted)
    assert [one.outcome.status for one in joined.branches] == [Status.SUCCESS, Status.FAIL, Status.SUCCESS]
    assert [line for _, line in journal.of("r").ledger()] == ["p", "q", "s"]

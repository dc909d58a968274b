"""The review loop on this engine, begun and taken up again by what `awf run` and `awf resume` call.

The variant `engine` gives its agents no summary of the run; without it they are given one, as usual.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from bench.loop import WORKFLOW
from bench.peers.protocol import REVIEWERS, ROUND, Engine, begun, main, review

from pipeline.app import runs
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.settings import NOTHING_SET
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime, build_services
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.engine.driver import Services
from pipeline.engine.events import Event, EventKind
from pipeline.engine.ports import Journal
from pipeline.engine.records import RunCreated, VisitCompleted
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.handlers.llm import LlmHandler
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import StageKind

RUN = "bench"


def script(rounds: int) -> str:
    """The replies of the reviewers: they fail so many rounds, then pass."""
    fail, passed = "\n[STATUS: fail]\n[FAILURE_REASON: it is not right]", "Fine.\n[STATUS: success]"
    return json.dumps(
        {f"review_{name}": [*(review(name, n, rounds) + fail for n in range(rounds)), passed] for name in REVIEWERS}
    )


def note(event: Event) -> None:
    """Count a stage that begins; the exit is no stage of the other engines."""
    if event.event is EventKind.STAGE_STARTED and event.stage in ("code", *ROUND):
        begun(event.stage, event.visit - 1)


def without_summary(state: State, journal: Journal, around: Runtime) -> Services:
    """The services of a run whose agents are told nothing of it."""
    made = build_services(state, journal, around)
    choose = BackendSelector(state.options, LocalProcesses(RUN), {}, NOTHING_SET, {}).choose
    silent = LlmHandler(choose, lambda _: "", lambda _: {}, time.time)
    return replace(made, handlers={**made.handlers, StageKind.LLM: silent})


def creation(folder: Path, rounds: int) -> RunCreated:
    """The first record of the run."""
    path = folder / "loop.awf.kdl"
    path.write_text(WORKFLOW)
    entry = Catalog(folder, folder, folder).find(path.name)
    options = {"backend": "scripted", "script": script(rounds)}
    return runs.build_record(entry, check(entry), RUN, RUN, options, folder, time.time())


def run(folder: Path, rounds: int, variant: str) -> None:
    """Run the loop."""
    with opened(folder, variant) as (journal, around):
        asyncio.run(runs.start(creation(folder, rounds), journal, around))


def resume(folder: Path, rounds: int, variant: str) -> None:
    """Take the run up where its journal ends; begin it when it was never recorded."""
    with opened(folder, variant) as (journal, around):
        if RUN not in journal.runs():
            asyncio.run(runs.start(creation(folder, rounds), journal, around))
            return
        try:
            asyncio.run(runs.resume(RUN, runs.ResumeRequest(raised={}, options={}), journal, around))
        except AwfError:
            if not load_state(journal, RUN).status.final:  # one that is over is not taken up again
                raise


@contextmanager
def opened(folder: Path, variant: str) -> Iterator[tuple[SqliteJournal, Runtime]]:
    """The journal, and what the run stands on."""
    made = without_summary if variant == "engine" else build_services
    store = folder / ".awf"
    with closing(SqliteJournal(store)) as journal, mock.patch.object(runs, "build_services", made):
        yield journal, Runtime(store=store, environ={}, listeners=(note,))


def final(folder: Path, _rounds: int, _variant: str) -> Any:
    """Status, visits and context, and every answer in the order of the path, without the time of day."""
    with closing(SqliteJournal(folder / ".awf")) as journal:
        state = load_state(journal, RUN)
        done = [entry.record for entry in journal.entries(RUN) if isinstance(entry.record, VisitCompleted)]
        context = {key: state.context.get(key) for key in state.context}
        answers = [[record.stage, record.visit, record.outcome.response] for record in done]
        return json.dumps([state.status, dict(state.visits), context, answers]).replace(str(folder), "")


if __name__ == "__main__":
    main(Engine(run, resume, final))

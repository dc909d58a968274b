"""The review loop on this engine, begun and taken up again by what `awf run` and `awf resume` call.

The stages of the variant `engine` report no findings, and its agents are given no summary of the run. Without it there
are both, as usual: every report goes into the ledger, and from there into files.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bench.loop import without_summary, workflow
from bench.peers.protocol import REVIEWERS, ROUND, Engine, begun, main, review

from pipeline.app import runs
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime
from pipeline.engine.events import Event, EventKind
from pipeline.engine.records import RunCreated, VisitCompleted
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal

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


def creation(folder: Path, rounds: int, variant: str) -> RunCreated:
    """The first record of the run."""
    path = folder / "loop.awf.kdl"
    path.write_text(workflow(rounds, findings=variant != "engine"))
    entry = Catalog(folder, folder, folder).find(path.name)
    options = {"backend": "scripted", "script": script(rounds)}
    return runs.build_record(entry, check(entry), RUN, RUN, options, folder, time.time())


def run(folder: Path, rounds: int, variant: str) -> None:
    """Run the loop."""
    with opened(folder, variant) as (journal, around):
        asyncio.run(runs.start(creation(folder, rounds, variant), journal, around))


def resume(folder: Path, rounds: int, variant: str) -> None:
    """Take the run up where its journal ends; begin it when it was never recorded."""
    with opened(folder, variant) as (journal, around):
        if RUN not in journal.runs():
            asyncio.run(runs.start(creation(folder, rounds, variant), journal, around))
            return
        try:
            asyncio.run(runs.resume(RUN, runs.ResumeRequest(raised={}, options={}), journal, around))
        except AwfError:
            if not load_state(journal, RUN).status.final:  # one that is over is not taken up again
                raise


@contextmanager
def opened(folder: Path, variant: str) -> Iterator[tuple[SqliteJournal, Runtime]]:
    """The journal, and what the run stands on."""
    around, store = without_summary() if variant == "engine" else nullcontext(), folder / ".awf"
    with closing(SqliteJournal(store)) as journal, around:
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

"""What a Temporal workflow knows of a run is enough, small, and spelled as in the first version."""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from tests.cluster.generated import generated

from pipeline.app.runs import start
from pipeline.app.wiring import Runtime
from pipeline.cluster.messages import StateSnapshot, apply_all, compact_record, compact_state, compress
from pipeline.engine.machine import decide
from pipeline.engine.records import AnyRecord, RunCreated, VisitCompleted
from pipeline.engine.state import State, apply, begin
from pipeline.journal.memory import MemoryJournal

SEEDS = (21, 33, 47, 58)
FIRST_VERSION = {  # the fields of a snapshot in the recorded histories, and those added before this version
    *(
        "head",
        "run_id",
        "file",
        "source",
        "cursor",
        "limits",
        "status",
        "reason",
        "context",
        "outcomes",
        "visits",
        "stages_run",
    ),
    *("seconds", "cost_usd", "tokens", "owed", "repeat", "failed", "torn", "begun", "branches", "asked_at", "commit"),
    *("errors", "until", "due"),
}


def run_locally(seed: int, folder: Path) -> tuple[RunCreated, list[AnyRecord]]:
    """Return the first record of a generated workflow's run, and the others."""
    made = generated(seed)
    options = {"backend": "scripted", "script": json.dumps(made.script), "answers": made.answers}
    created = RunCreated(
        at=time.time(), run_id="r", file="w", source=made.text, options=options, cwd=str(folder), version="0"
    )
    journal = MemoryJournal()
    asyncio.run(start(created, journal, Runtime(folder / "store", {"PATH": os.environ["PATH"]})))
    return created, [entry.record for entry in journal.entries("r")][1:]


def snapshot(state: State, created: RunCreated) -> StateSnapshot:
    return StateSnapshot.of(state, created.file, compress(created.source))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_machine_decides_the_same_by_a_compact_state(tmp_path: Path, seed: int) -> None:
    """After every record, and also after the state was sent and received."""
    created, records = run_locally(seed, tmp_path)
    assert records
    whole = begin(created)
    compact = compact_state(whole)
    for record in records:
        whole, compact = apply(whole, record), apply_all(compact, [compact_record(record)])
        assert decide(compact) == decide(whole)
        received = StateSnapshot.model_validate_json(snapshot(whole, created).model_dump_json()).state()
        assert received == compact_state(whole)._replace(cwd=Path("/"))


def test_a_snapshot_has_the_fields_of_the_first_version(tmp_path: Path) -> None:
    """Workers of both versions understand each other; a field that is added must have a default."""
    created, _ = run_locally(SEEDS[-1], tmp_path)
    assert set(snapshot(begin(created), created).model_dump()) == FIRST_VERSION


def test_a_retry_time_of_the_first_version_is_understood(tmp_path: Path) -> None:
    """It was a number, which belonged to the stage at the cursor."""
    created, _ = run_locally(SEEDS[-1], tmp_path)
    state = begin(created)
    sent = snapshot(state, created).model_dump()
    del sent["due"], sent["errors"], sent["until"]
    received = StateSnapshot.model_validate({**sent, "retry_at": 5.0}).state()
    assert received.progress.retry_at == {state.cursor.stage: 5.0}
    assert received.progress.errors == {}


def test_texts_do_not_pass_through_temporal(tmp_path: Path) -> None:
    """A compact record is short, however long the answer was."""
    records = [one for seed in SEEDS[1:] for one in run_locally(seed, tmp_path)[1] if isinstance(one, VisitCompleted)]
    assert max(len(compact_record(one).model_dump_json()) for one in records) < 4000

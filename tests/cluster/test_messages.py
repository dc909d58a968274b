"""What a run's workflow keeps of it is enough: the machine decides the same by a lean state as by the whole one."""

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
from pipeline.engine.state import apply, begin
from pipeline.journal.memory import MemoryJournal


def records(seed: int, folder: Path) -> list[AnyRecord]:
    """What a generated workflow leaves on one machine."""
    made = generated(seed)
    options = {"backend": "scripted", "script": json.dumps(made.script), "answers": made.answers}
    created = RunCreated(
        at=time.time(), run_id="r", file="w", source=made.text, options=options, cwd=str(folder), version="0"
    )
    journal = MemoryJournal()
    around = Runtime(folder / "store", {"PATH": os.environ["PATH"]})
    asyncio.run(start(created, journal, around))
    return [entry.record for entry in journal.entries("r")]


@pytest.mark.parametrize("seed", [21, 33, 47, 58])
def test_the_machine_decides_the_same(tmp_path: Path, seed: int) -> None:
    """After every record, also when the lean state was written down and read again."""
    first, *rest = records(seed, tmp_path)
    assert isinstance(first, RunCreated)
    assert rest
    whole = begin(first)
    small = compact_state(whole)
    for record in rest:
        whole, small = apply(whole, record), apply_all(small, [compact_record(record)])
        assert decide(small) == decide(whole)
        read = StateSnapshot.model_validate_json(
            StateSnapshot.of(small, first.file, compress(first.source)).model_dump_json()
        )
        assert decide(read.state()) == decide(whole)


def test_texts_do_not_go_through_temporal(tmp_path: Path) -> None:
    """A lean record is short, however much the stage said."""
    said = [
        compact_record(one)
        for seed in (21, 33, 47, 58)
        for one in records(seed, tmp_path)
        if isinstance(one, VisitCompleted)
    ]
    assert max(len(one.model_dump_json()) for one in said) < 4000

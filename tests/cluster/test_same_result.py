"""A run on the cluster leaves the records that it leaves on one machine."""

import asyncio
import json
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.generated import generated
from tests.cluster.lab import FAST_RETRIES, Lab

from pipeline.app.runs import start
from pipeline.app.wiring import Runtime
from pipeline.engine.ports import Journal
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, RunCreated, StageErrored
from pipeline.engine.state import replay
from pipeline.journal.sqlite import SqliteJournal

SEEDS = int(os.environ.get("AWF_CLUSTER_WORKFLOWS", "20"))
BATCH = 10
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_VOLATILE = frozenset(
    {"at", "duration", "timestamp", "seconds", "delay", "head", "started_at", "completed_at", "id", "pass_id"}
    | {"until", "retry_after"}
)


def plain(value: Any, folders: Iterable[str]) -> Any:
    """Return a value without times and directories."""
    if isinstance(value, dict):
        return {key: plain(one, folders) for key, one in value.items() if key not in _VOLATILE}
    if isinstance(value, list | tuple):
        return [plain(one, folders) for one in value]
    if isinstance(value, str):
        for folder in folders:
            value = value.replace(folder, "")
        return _TIME.sub("TIME", value)
    return value


def as_data(records: list[AnyRecord], folders: Iterable[str]) -> list[Any]:
    """Return records as data; those of branches, whose order depends on chance, sorted."""
    at_once = (AttemptFailed, StageErrored, BranchCompleted)
    rest = [one for one in records if not isinstance(one, RunCreated | AttemptFailed | StageErrored | BranchCompleted)]
    branches = [plain(one.model_dump(mode="json"), folders) for one in records if isinstance(one, at_once)]
    return [*(plain(one.model_dump(mode="json"), folders) for one in rest), *sorted(branches, key=json.dumps)]


def lines(journal: Journal, folders: Iterable[str]) -> list[Any]:
    """Return the ledger, sorted, because branches may err in any order."""
    return sorted((plain(json.loads(line), folders) for _, line in journal.ledger()), key=json.dumps)


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "app.py").write_text("".join(f"line {number}\n" for number in range(1, 9)))
    return folder


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_generated_workflows_have_the_same_result(lab: Lab, tmp_path: Path, first: int) -> None:
    """The records, the context and the ledger are those of the local driver."""
    made = {seed: generated(seed) for seed in range(first, first + BATCH)}
    for seed, one in made.items():
        lab.start(f"r{seed}", one.text, one.script, cwd=project(tmp_path / f"c{seed}"), answers=one.answers)
    for seed, one in made.items():
        store = tmp_path / f"l{seed}-store"
        record = lab.creation(f"r{seed}", one.text, one.script, cwd=project(tmp_path / f"l{seed}"), answers=one.answers)
        journal = SqliteJournal(store)
        here = asyncio.run(start(record, journal, Runtime(store, lab.environ, settings=FAST_RETRIES)))
        there = lab.stopped(f"r{seed}")
        assert replace(there, until=None) == replace(here, until=None), one.text
        folders = [str(tmp_path / f"c{seed}"), str(tmp_path / f"l{seed}"), str(store), str(tmp_path / "w1")]
        local, shared = [entry.record for entry in journal.entries(here.run_id)], lab.records(f"r{seed}")
        assert as_data(shared, folders) == as_data(local, folders), one.text
        contexts = [plain(dict(replay(records).context.values), folders) for records in (shared, local)]
        assert contexts[0] == contexts[1], one.text
        assert lines(lab.store.journal.of(here.run_id), folders) == lines(journal, folders), one.text
        journal.close()


def test_a_run_continues_by_itself_when_a_quota_resets(lab: Lab, tmp_path: Path) -> None:
    """The pause is recorded, and the resume at the time of the reset."""
    folder = project(tmp_path / "quota")
    agent = folder / "agent.sh"
    agent.write_text(
        "#!/bin/sh\n[ -e used ] && { echo done; exit; }\ntouch used\n"
        'echo "usage limit reached, try again in 1 second" >&2\nexit 1\n'
    )
    agent.chmod(0o755)
    text = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="llm" prompt="x"\ntransition from="a" to="end"\n'
    lab.start("quota", text + 'stage "end" kind="exit"\n}\n', cwd=folder, backend="command", agent_command=[str(agent)])
    assert lab.ended("quota").status == "success"
    kinds = [record.kind for record in lab.records("quota")]
    assert kinds == [
        *("run_created", "stage_errored", "run_paused", "run_resumed", "visit_completed", "visit_completed"),
    ]

"""Journals of every format so far are read by this version."""

import json
from pathlib import Path
from typing import get_args

import pytest

from pipeline.engine.records import AnyRecord, VisitCompleted
from pipeline.engine.state import replay
from pipeline.journal.codec import VERSION, decode

GOLDEN = Path(__file__).parents[2] / "golden"
KINDS = {kind.model_fields["kind"].default for kind in get_args(get_args(AnyRecord)[0])}


def recorded(version: int) -> list[AnyRecord]:
    lines = (GOLDEN / f"v{version}.jsonl").read_bytes().splitlines()
    return [decode(line, f"golden-{version}", seq) for seq, line in enumerate(lines, start=1)]


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_an_old_journal_gives_the_same_state(version: int) -> None:
    """Replaying it gives the path, the counts and the context of the time it was written."""
    records = recorded(version)
    state = replay(records)
    expected = json.loads((GOLDEN / f"v{version}.expected.json").read_text())
    assert expected == {
        "status": state.status,
        "path": [record.stage for record in records if isinstance(record, VisitCompleted)],
        "visits": dict(state.visits),
        "tokens": state.tokens,
        "seconds": state.seconds,
        "max_visits": state.settings.max_visits,
        "context": dict(state.context.values),
    }


def test_the_newest_golden_journal_has_every_kind_of_record() -> None:
    """A new kind of record needs a golden journal."""
    assert {record.kind for record in recorded(VERSION)} == KINDS

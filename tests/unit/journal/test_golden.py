"""Journals of every format there has been, read by this program."""

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
def test_an_old_journal_comes_to_what_it_came_to(version: int) -> None:
    """Replayed, it gives the path, the counts and the context that it gave when it was written."""
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
    """A kind of record that is added to the engine is added to a golden journal as well."""
    assert {record.kind for record in recorded(VERSION)} == KINDS

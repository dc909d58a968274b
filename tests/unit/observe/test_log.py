"""The events of a run in a file."""

import json
from pathlib import Path

import pytest

from pipeline.engine.events import Event, EventKind
from pipeline.errors import AwfError
from pipeline.observe.log import event_log

EVENT = Event(EventKind.STAGE_OUTPUT, "r1", 3, 1_794_000_000.5, "fix", 2, {"text": "half \ud800 of a pair\nand more"})


def test_each_event_is_a_line(tmp_path: Path) -> None:
    """Events are appended to the file, one JSON object per line."""
    path = tmp_path / "log.jsonl"
    for _ in range(2):
        with event_log(path) as listen:
            listen(EVENT)
    first, second = map(json.loads, path.read_text().splitlines())
    assert first == second == {**EVENT.to_dict(), "time": "2026-11-06T21:20:00.500+00:00"}


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    """The run does not start when its log cannot be written."""
    with pytest.raises(AwfError, match="cannot be written"), event_log(tmp_path / "no" / "log"):
        pass


def test_a_full_disk_does_not_stop_the_run() -> None:
    """A log that cannot be written anymore is given up, and the listener does not raise."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no full disk to offer")
    with event_log(full) as listen:
        listen(EVENT)
        listen(EVENT)

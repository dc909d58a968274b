"""Processes that are killed while they append, and processes that append at once."""

from pathlib import Path
from threading import Event, Thread

import pytest
from tests.unit.journal.conftest import Start

from pipeline.engine.ports import JournalEntry
from pipeline.engine.records import VisitStarted
from pipeline.journal.sqlite import SqliteJournal, database_exists

ROUNDS = 40


def check(entries: list[JournalEntry]) -> None:
    """Check that each record is the one written under its number."""
    for entry in entries[1:]:
        seq = entry.seq
        stage = f"stage-{seq}-" + "x" * (seq * 997 % 5000)
        assert entry.record == VisitStarted(at=seq, stage=stage, visit=seq, attempt=1)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_recorded_survives_a_kill(tmp_path: Path, start: Start, seed: int) -> None:
    """After SIGKILL at any moment every append that returned is there, and at most one that had not."""
    output, _ = start("crash", tmp_path, ROUNDS, seed).process.communicate()
    returned = {run_id: int(count) for run_id, count in (line.split() for line in output.splitlines())}
    assert len(returned) == ROUNDS
    journal = SqliteJournal(tmp_path)
    known = journal.runs()
    for run_id, count in returned.items():
        found = list(journal.entries(run_id)) if run_id in known else []
        assert count <= len(found) <= count + 1
        check(found)
    journal.close()


def test_processes_share_a_store(tmp_path: Path, start: Start) -> None:
    """Four processes create the store together and fill several runs each; every run is complete."""
    writers = [start("write", tmp_path / ".awf", f"w{number}", 3, 40) for number in range(4)]
    for writer in writers:
        writer.let_go()
    assert [writer.process.wait() for writer in writers] == [0, 0, 0, 0]
    journal = SqliteJournal(tmp_path / ".awf")
    assert sorted(journal.runs()) == sorted(f"w{number}-{run}" for number in range(4) for run in range(3))
    for run_id in journal.runs():
        found = list(journal.entries(run_id))
        assert [entry.seq for entry in found] == list(range(1, 41))
        check(found)
    journal.close()
    assert sorted(path.name for path in (tmp_path / ".awf").iterdir()) == [".gitignore", "awf.db"]


def test_a_store_that_another_process_creates_is_not_damaged(tmp_path: Path) -> None:
    """While another process creates the database, it exists or it does not."""
    draft, path = tmp_path / "draft", tmp_path / "awf.db"
    draft.write_text("whole")
    over = Event()

    def come_and_go() -> None:
        while not over.is_set():
            path.hardlink_to(draft)
            path.unlink()

    other = Thread(target=come_and_go)
    other.start()
    try:
        assert {database_exists(path) for _ in range(3_000)} <= {True, False}
    finally:
        over.set()
        other.join()

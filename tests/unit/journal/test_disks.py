"""Disks that are full and stores that cannot be written."""

import shutil
from itertools import count
from pathlib import Path

import pytest
from tests.unit.journal.conftest import Mount

from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord, RunCreated, VisitStarted
from pipeline.journal.sqlite import SqliteJournal


def created(run_id: str) -> AnyRecord:
    return RunCreated(at=0, run_id=run_id, file="w.awf.kdl", source="", cwd="/", version="0")


def started(visit: int) -> AnyRecord:
    return VisitStarted(at=visit, stage="x" * 2000, visit=visit, attempt=1)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


def append_until_full(journal: SqliteJournal) -> tuple[int, str]:
    """The number of the last record that found room, and what was said about the next."""
    for visit in count(2):
        try:
            journal.append("a", started(visit))
        except JournalError as error:
            return visit - 1, error.message
    raise AssertionError


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path, mount: Mount) -> None:
    """An append without space fails with a clear error; with space the journal continues."""
    mount("-t", "tmpfs", "-o", "size=2m", "awf-test", tmp_path)
    journal = SqliteJournal(tmp_path / ".awf")
    journal.create("a", created("a"))
    fill(tmp_path / "filler")
    (tmp_path / "filler").write_bytes(b"x" * ((tmp_path / "filler").stat().st_size - 200_000))
    recorded, message = append_until_full(journal)
    assert "the disk that holds" in message
    assert "awf.db is full" in message
    with pytest.raises(JournalError):
        journal.append("a", started(recorded + 1))
    assert [entry.seq for entry in journal.entries("a")] == list(range(1, recorded + 1))
    (tmp_path / "filler").unlink()
    assert journal.append("a", started(recorded + 1)) == recorded + 1
    journal.close()
    assert journal.last("a").record == started(recorded + 1)
    journal.close()


def test_a_disk_without_room_for_a_store(tmp_path: Path, mount: Mount) -> None:
    """A store that cannot be created is an error, and no part of it is left."""
    mount("-t", "tmpfs", "-o", "size=64k", "awf-test", tmp_path)
    fill(tmp_path / "filler")
    journal = SqliteJournal(tmp_path / ".awf")
    with pytest.raises(JournalError):
        journal.create("a", created("a"))
    assert not (tmp_path / ".awf" / "awf.db").exists()


def store_with(records: int, path: Path) -> SqliteJournal:
    journal = SqliteJournal(path)
    journal.create("a", created("a"))
    for visit in range(2, records + 1):
        journal.append("a", started(visit))
    return journal


def check_read_only(path: Path) -> None:
    journal = SqliteJournal(path)
    assert list(journal.runs()) == ["a"]
    assert [entry.seq for entry in journal.entries("a")] == list(range(1, 11))
    with pytest.raises(JournalError, match=r"awf\.db.* cannot be written|Read-only"):
        journal.append("a", started(11))
    with pytest.raises(JournalError, match=r"cannot be written|Read-only"):
        journal.create("b", created("b"))
    with pytest.raises(JournalError, match="cannot be locked"), journal.lock("a"):
        pass
    assert journal.last("a").seq == 10
    journal.close()


@pytest.mark.parametrize("names", [["awf.db"], ["awf.db", "awf.db-wal"], ["awf.db", "awf.db-wal", "awf.db-shm"]])
def test_a_read_only_copy_can_be_read(tmp_path: Path, mount: Mount, names: list[str]) -> None:
    """A copy on a read-only disk shows every record, with whatever of the log's files was copied, and refuses more."""
    journal = store_with(10, tmp_path / "store")
    if len(names) == 1:
        journal.close()
    (tmp_path / "copy").mkdir()
    for name in names:
        shutil.copyfile(tmp_path / "store" / name, tmp_path / "copy" / name)
    journal.close()
    mount("--bind", tmp_path / "copy", tmp_path / "copy")
    mount("-o", "remount,bind,ro", tmp_path / "copy")
    check_read_only(tmp_path / "copy")


def test_a_disk_that_becomes_read_only(tmp_path: Path, mount: Mount) -> None:
    """Recording fails with a clear error, and continues when the disk is writable again."""
    mount("-t", "tmpfs", "-o", "size=8m", "awf-test", tmp_path)
    journal = store_with(3, tmp_path / ".awf")
    journal.close()
    mount("-o", "remount,ro", tmp_path)
    with pytest.raises(JournalError, match="cannot be written"):
        journal.append("a", started(4))
    journal.close()
    mount("-o", "remount,rw", tmp_path)
    assert journal.append("a", started(4)) == 4
    journal.close()

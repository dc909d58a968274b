"""Truncated or overwritten databases and logs give an error or the first records, never anything else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.engine.ports import JournalEntry, JournalError, UnknownRun
from pipeline.engine.records import AnyRecord, RunCreated, VisitStarted
from pipeline.journal.sqlite import SqliteJournal

CREATED = RunCreated(at=0, run_id="a", file="w.awf.kdl", source="", cwd="/", version="0")
RECORDS = 60


def started(seq: int) -> AnyRecord:
    return VisitStarted(at=seq, stage="x" * (seq * 397 % 3000), visit=seq, attempt=1)


EXPECTED = [JournalEntry(1, CREATED), *(JournalEntry(seq, started(seq)) for seq in range(2, RECORDS + 1))]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A store with everything in the database, and the same with half of it in the log."""
    closed, live = tmp_path_factory.mktemp("closed"), tmp_path_factory.mktemp("live")
    journal = SqliteJournal(closed)
    journal.create("a", CREATED)
    for seq in range(2, RECORDS // 2):
        journal.append("a", started(seq))
    journal.close()
    for seq in range(RECORDS // 2, RECORDS + 1):
        journal.append("a", started(seq))
    for name in ("awf.db", "awf.db-wal"):
        shutil.copyfile(closed / name, live / name)
    journal.close()
    yield closed, live
    shutil.rmtree(closed)
    shutil.rmtree(live)


def read(store: Path) -> list[JournalEntry] | None:
    """What can be read before the first error; None when there is no such run or no way to it."""
    journal, seen = SqliteJournal(store), []
    try:
        for entry in journal.entries("a"):
            seen.append(entry)  # noqa: PERF402  # what came before the error counts
    except (JournalError, UnknownRun):
        return seen or None
    finally:
        journal.close()
    return seen


def offsets(size: int) -> list[int]:
    return sorted({*range(0, size, max(1, size // 100)), *range(0, 200, 13), 1023, 1024, 1025, size - 1})


def copy(store: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(store, to))


def test_whole_stores_are_read_whole(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Nothing is missing from a copy, whether its log was moved into the database or not."""
    for number, store in enumerate(stores):
        assert read(copy(store, tmp_path / str(number))) == EXPECTED


@pytest.mark.parametrize(("which", "name"), [(0, "awf.db"), (1, "awf.db"), (1, "awf.db-wal")])
def test_a_file_cut_short(stores: tuple[Path, Path], tmp_path: Path, which: int, name: str) -> None:
    """However much of a file is left, what is read is the start of what was written."""
    whole = (stores[which] / name).read_bytes()
    for offset in offsets(len(whole)):
        store = copy(stores[which], tmp_path / "store")
        (store / name).write_bytes(whole[:offset])
        seen = read(store)
        assert seen is None or seen == EXPECTED[: len(seen)], offset


@pytest.mark.parametrize(("which", "name"), [(0, "awf.db"), (1, "awf.db"), (1, "awf.db-wal")])
def test_a_file_overwritten_somewhere(stores: tuple[Path, Path], tmp_path: Path, which: int, name: str) -> None:
    """Wherever a file is overwritten, what is read is the start of what was written."""
    whole = (stores[which] / name).read_bytes()
    for offset in offsets(len(whole)):
        store = copy(stores[which], tmp_path / "store")
        (store / name).write_bytes(whole[:offset] + b"\xa5" * 16 + whole[offset + 16 :])
        seen = read(store)
        assert seen is None or seen == EXPECTED[: len(seen)], offset


@pytest.mark.parametrize("left", [b"", None])
def test_a_missing_database_is_not_created_again(stores: tuple[Path, Path], tmp_path: Path, left: bytes | None) -> None:
    """If only the log is left, or an empty file, no database is created and the log is kept."""
    store = copy(stores[1], tmp_path / "store")
    (store / "awf.db").unlink()
    if left is not None:
        (store / "awf.db").write_bytes(left)
    log = (store / "awf.db-wal").read_bytes()
    journal = SqliteJournal(store)
    for use in (journal.runs, lambda: journal.create("b", CREATED), lambda: journal.append("a", CREATED)):
        with pytest.raises(JournalError, match=r"awf\.db is (missing|empty)"):
            use()
    assert (store / "awf.db-wal").read_bytes() == log


def test_a_file_that_is_not_a_database_is_left_alone(tmp_path: Path) -> None:
    """It is named and not touched."""
    (tmp_path / "awf.db").write_text("dear diary " * 500)
    with pytest.raises(JournalError, match=r"awf\.db is not a database"):
        SqliteJournal(tmp_path).create("a", CREATED)
    assert (tmp_path / "awf.db").read_text() == "dear diary " * 500


def test_a_schema_that_cannot_even_be_quoted(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """SQLite's complaint need not be text: the file is reported as damaged all the same."""
    store = copy(stores[0], tmp_path / "store")
    whole = (store / "awf.db").read_bytes()
    (store / "awf.db").write_bytes(whole.replace(b"CREATE TABLE records (run", b"CREATE TABLE records (\xceun"))
    with pytest.raises(JournalError, match=r"awf\.db is damaged"):
        SqliteJournal(store).runs()

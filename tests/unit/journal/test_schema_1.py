"""Stores of the first schema are converted on first use, or read as they are where they cannot be written."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.journal.conftest import Mount, Start

from pipeline.engine.ports import CancelRequest, HumanAnswer, JournalError
from pipeline.engine.records import AnyRecord, VisitStarted
from pipeline.journal.codec import decode
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import DATABASE, LEDGER, SqliteJournal, StoreHeads

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDS = [
    decode(line, "golden", seq) for seq, line in enumerate((GOLDEN / "v2.jsonl").read_bytes().splitlines(), start=1)
]
STARTED: AnyRecord = VisitStarted(at=2, stage="build", visit=1, attempt=1)
LONG_PROMPT = "A long prompt – é, 日本. " * 40


def store_of_schema_1(folder: Path, change: str = "") -> Path:
    database = sqlite3.connect(folder / DATABASE)
    database.execute("PRAGMA journal_mode=WAL")
    database.executescript((GOLDEN / "schema1.sql").read_text() + change)
    database.close()
    return folder


def schema_of(store: Path) -> int:
    database = sqlite3.connect(store / DATABASE)
    schema: int = database.execute("PRAGMA user_version").fetchone()[0]
    database.close()
    return schema


def check_content(store: Path) -> None:
    """Every record, attachment, line, answer and request is there as it was written."""
    journal, mailbox, heads = SqliteJournal(store), SqliteMailbox(store), StoreHeads(store)
    assert list(journal.runs()) == ["golden", "other"]
    assert [entry.record for entry in journal.entries("golden")] == RECORDS
    assert (journal.last("other").seq, journal.last("other").record) == (2, STARTED)
    attached = {seq: text for seq in range(1, 28) if (text := journal.attached("golden", seq))}
    assert attached == {3: "A short prompt.", 5: LONG_PROMPT}
    assert [line for _, line in journal.ledger()] == ['{"line": 3}', '{"line": 7}', "last – é"]
    assert mailbox.answer("golden", "approve", 1) == HumanAnswer(
        "golden", "approve", 1, "yes", "Good – é.", "anna", 5.0
    )
    assert mailbox.cancel_request("other", 0) == CancelRequest("other", "wrong goal", "ben", 6.0)
    assert heads.read() == {LEDGER: 3, "golden": len(RECORDS), "other": 2}
    heads.close()
    journal.close()


def test_a_store_is_converted_on_first_use(tmp_path: Path) -> None:
    """Nothing is lost, and it is written like any other from then on."""
    store = store_of_schema_1(tmp_path)
    check_content(store)
    assert schema_of(store) == 2
    check_content(store)
    journal = SqliteJournal(store)
    assert journal.append("other", STARTED, attached="more", lines=["new"]) == 3
    assert (journal.attached("other", 3), list(journal.ledger(3))) == ("more", [(4, "new")])
    journal.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda store: SqliteJournal(store).runs(),
        lambda store: SqliteMailbox(store).cancel_requests("other"),
        lambda store: StoreHeads(store).read(),
    ],
)
def test_whoever_comes_first_converts_it(tmp_path: Path, use: Callable[[Path], object]) -> None:
    """The journal, the mailbox or whoever polls; the others find it converted."""
    use(store_of_schema_1(tmp_path))
    check_content(tmp_path)
    assert schema_of(tmp_path) == 2


def test_a_store_without_a_mailbox_gets_one(tmp_path: Path) -> None:
    """The tables of the mailbox used to be created with its first use."""
    store = store_of_schema_1(tmp_path, "DROP TABLE answers; DROP TABLE cancellations;")
    assert SqliteMailbox(store).cancel_requests("other") == 0
    SqliteMailbox(store).put_cancel_request(CancelRequest("other", "", "ben", 6.0))
    assert SqliteMailbox(store).cancel_requests("other") == 1


def test_a_damaged_record_stays_damaged(tmp_path: Path) -> None:
    """Conversion hides no damage that the checksums of schema 1 would have found; the bytes are kept."""
    change = "UPDATE records SET body = replace(body, 'build', 'guild') WHERE id IN ((1 << 32) + 3, (2 << 32) + 2, 2);"
    store = store_of_schema_1(tmp_path, change)
    journal = SqliteJournal(store)
    with pytest.raises(JournalError, match="record 3 of run golden is damaged"):
        list(journal.entries("golden"))
    with pytest.raises(JournalError, match="record 2 of run other is damaged"):
        journal.last("other")
    journal.close()
    database = sqlite3.connect(store / DATABASE)
    (body,) = database.execute("SELECT body FROM records WHERE run = 2 AND seq = 2").fetchone()
    database.close()
    assert (schema_of(store), b'"guild"' in body) == (2, True)


@pytest.mark.parametrize("mailbox", ["", "DROP TABLE answers; DROP TABLE cancellations;"], ids=["whole", "no mailbox"])
def test_a_store_on_a_read_only_disk_is_read_as_it_is(tmp_path: Path, mount: Mount, mailbox: str) -> None:
    """It cannot be converted, and nothing of it is refused."""
    store = store_of_schema_1(tmp_path, mailbox)
    before = (store / DATABASE).read_bytes()
    mount("--bind", store, store)
    mount("-o", "remount,bind,ro", store)
    if mailbox:
        assert SqliteMailbox(store).answer("golden", "approve", 1) is None
        assert list(SqliteJournal(store).runs()) == ["golden", "other"]
    else:
        check_content(store)
    assert (store / DATABASE).read_bytes() == before


def test_a_read_only_copy_with_a_log_is_read_as_it_is(tmp_path: Path, mount: Mount) -> None:
    """What was not yet moved from the log into the database is there too, and writing to it is an error."""
    (tmp_path / "live").mkdir()
    (tmp_path / "copy").mkdir()
    store = store_of_schema_1(tmp_path / "live")
    writer = sqlite3.connect(store / DATABASE)
    writer.execute("DELETE FROM runs WHERE name = 'other'")
    writer.commit()
    for name in (DATABASE, f"{DATABASE}-wal"):
        shutil.copyfile(store / name, tmp_path / "copy" / name)
    writer.close()
    mount("--bind", tmp_path / "copy", tmp_path / "copy")
    mount("-o", "remount,bind,ro", tmp_path / "copy")
    journal = SqliteJournal(tmp_path / "copy")
    assert list(journal.runs()) == ["golden"]
    assert [entry.record for entry in journal.entries("golden")] == RECORDS
    with pytest.raises(JournalError, match="cannot be written"):
        journal.append("golden", STARTED)
    journal.close()


def test_a_store_on_a_full_disk_is_read_as_it_is(tmp_path: Path, mount: Mount) -> None:
    """There is no room to convert it, but there is all that was recorded."""
    source = store_of_schema_1(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount("-t", "tmpfs", "-o", "size=160k", "awf-test", disk)
    shutil.copyfile(source / DATABASE, disk / DATABASE)
    with (disk / "filler").open("wb", buffering=0) as filler:
        free = os.statvfs(disk)
        filler.write(b"x" * (free.f_bavail * free.f_frsize - 3 * 4096 - 32768))
    check_content(disk)
    with pytest.raises(JournalError):
        SqliteJournal(disk).append("other", STARTED)


def test_processes_that_convert_at_once_convert_it_once(tmp_path: Path, start: Start) -> None:
    """Each of them records its runs, and nothing old is missing."""
    store = store_of_schema_1(tmp_path)
    writers = [start("write", store, f"w{number}", 2, 5) for number in range(4)]
    for writer in writers:
        writer.let_go()
    assert [writer.process.wait() for writer in writers] == [0, 0, 0, 0]
    journal = SqliteJournal(store)
    assert [entry.record for entry in journal.entries("golden")] == RECORDS
    assert {len(list(journal.entries(run_id))) for run_id in journal.runs() if run_id.startswith("w")} == {5}
    journal.close()

"""The store in a directory: created on demand, kept out of version control, and missed if it vanishes."""

import sqlite3
import subprocess
from pathlib import Path

import pytest

from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord, RunCreated, VisitStarted
from pipeline.journal.sqlite import DATABASE, SCHEMA, SqliteJournal


def created(run_id: str) -> AnyRecord:
    return RunCreated(at=0, run_id=run_id, file="w.awf.kdl", source="", cwd="/", version="0")


def started(visit: int) -> AnyRecord:
    return VisitStarted(at=visit, stage="build", visit=visit, attempt=1)


def filled(store: Path, records: int) -> SqliteJournal:
    journal = SqliteJournal(store)
    journal.create("a", created("a"))
    for visit in range(2, records + 1):
        journal.append("a", started(visit))
    return journal


def test_reading_creates_no_store(tmp_path: Path) -> None:
    """Reading where nothing has run leaves nothing behind."""
    journal = SqliteJournal(tmp_path / ".awf")
    assert not journal.runs()
    assert not list(tmp_path.iterdir())


def test_a_commit_is_on_the_disk(tmp_path: Path) -> None:
    """It is written to a log and synced before it counts, so a power cut loses nothing."""
    filled(tmp_path, 2).close()
    journal = SqliteJournal(tmp_path)
    journal.append("a", started(3))
    asked = [journal._open().execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert asked == ["wal", 2]  # 2 is FULL
    journal.close()


def test_a_store_is_read_by_the_next_process(tmp_path: Path) -> None:
    """What was recorded is there for every process that opens the directory, later or meanwhile."""
    journal = filled(tmp_path / ".awf", 5)
    meanwhile = SqliteJournal(tmp_path / ".awf")
    assert meanwhile.last("a").seq == 5
    journal.append("a", started(6))
    assert meanwhile.last("a").seq == 6
    meanwhile.close()
    journal.close()
    later = SqliteJournal(tmp_path / ".awf")
    assert [entry.seq for entry in later.entries("a")] == [1, 2, 3, 4, 5, 6]
    later.close()


def test_a_closed_journal_opens_again(tmp_path: Path) -> None:
    """Closing only releases the files."""
    journal = filled(tmp_path / ".awf", 2)
    journal.close()
    assert journal.append("a", started(3)) == 3
    journal.close()


def test_a_store_in_an_odd_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters with a meaning in URIs are allowed, and a relative path stays where it was."""
    monkeypatch.chdir(tmp_path)
    odd = Path("50% off?#1 é&mode=ro") / ".awf"
    journal = filled(odd, 2)
    monkeypatch.chdir("/")
    assert journal.append("a", started(3)) == 3
    journal.close()
    assert (tmp_path / odd / "awf.db").exists()


def test_version_control_sees_the_configuration_only(tmp_path: Path) -> None:
    """Git ignores runs and the ignore file itself, and sees the configuration, workflows and check."""
    store = tmp_path / ".awf"
    filled(store, 2).close()
    kept = ["config.kdl", "self-check", "workflows/w.awf.kdl", "workflows/prompts/p.md"]
    ignored = ["awf.db-wal", "locks/a", "runs/a/build/1/response.md", "runs/a/config.kdl", "runs/workflows/w"]
    for name in [*kept, *ignored]:
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).touch()
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    listed = ["git", "-C", str(tmp_path), "ls-files", "--others", "--exclude-standard"]
    seen = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(seen) == sorted(f".awf/{name}" for name in kept)


def test_an_existing_ignore_file_is_kept(tmp_path: Path) -> None:
    """The user's `.gitignore` in the store stays."""
    (tmp_path / ".gitignore").write_text("mine\n")
    filled(tmp_path, 2).close()
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_only_the_store_is_left_in_its_directory(tmp_path: Path) -> None:
    """Creating the database leaves no draft, and closing it no log."""
    filled(tmp_path, 2).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitignore", "awf.db"]


def test_a_store_that_is_a_file(tmp_path: Path) -> None:
    """The error names the file that is in the way."""
    (tmp_path / ".awf").touch()
    with pytest.raises(JournalError, match=r"\.awf.*(exists|directory)"):
        SqliteJournal(tmp_path / ".awf").create("a", created("a"))


@pytest.mark.parametrize(("schema", "version"), [(SCHEMA - 1, "an older"), (SCHEMA + 1, "a newer")])
def test_a_store_of_another_version_is_refused(tmp_path: Path, schema: int, version: str) -> None:
    """It is neither read nor written."""
    filled(tmp_path, 2).close()
    with sqlite3.connect(tmp_path / "awf.db") as database:
        database.execute(f"PRAGMA user_version = {schema}")
    database.close()
    before = (tmp_path / "awf.db").read_bytes()
    journal = SqliteJournal(tmp_path)
    for use in (journal.runs, lambda: journal.last("a"), lambda: journal.create("b", created("b"))):
        with pytest.raises(JournalError, match=f"written by {version} awf"):
            use()
    assert (tmp_path / "awf.db").read_bytes() == before


def test_a_newer_record_is_refused_by_its_number(tmp_path: Path) -> None:
    """The records before it can still be read."""
    journal = filled(tmp_path, 3)
    change(tmp_path, "UPDATE records SET body = CAST('{\"v\":9}' AS BLOB) WHERE seq = 3")
    reading = journal.entries("a")
    assert [next(reading).seq, next(reading).seq] == [1, 2]
    with pytest.raises(JournalError, match="record 3 of run a was written by a newer awf"):
        next(reading)
    journal.close()


def test_another_database_is_refused(tmp_path: Path) -> None:
    """A database that is not a journal is left as it is."""
    with sqlite3.connect(tmp_path / "awf.db") as database:
        database.execute("CREATE TABLE customers (name TEXT)")
    database.close()
    with pytest.raises(JournalError, match="not a journal of awf"):
        SqliteJournal(tmp_path).create("a", created("a"))


def change(store: Path, statement: str) -> None:
    database = sqlite3.connect(store / "awf.db")
    database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE records SET body = replace(body, 'build', 'guild') WHERE seq = 3", "changed by hand"),
        ("UPDATE records SET body = substr(body, 1, length(body) - 1) WHERE seq = 3", "not JSON"),
        ("UPDATE records SET body = x'ff' WHERE seq = 3", "not JSON"),
        ("UPDATE records SET seq = seq + 50 WHERE seq = 3", "missing"),
        ("DELETE FROM records WHERE seq = 3", "missing"),
    ],
)
def test_a_changed_record_is_found(tmp_path: Path, statement: str, problem: str) -> None:
    """What was changed, moved or removed is named by its number; the records before it can be read."""
    journal = filled(tmp_path, 5)
    change(tmp_path, statement)
    seen: list[int] = []
    with pytest.raises(JournalError, match=rf"record 3 of run a is damaged: .*({problem})"):
        seen.extend(entry.seq for entry in journal.entries("a"))
    assert seen == [1, 2]
    journal.close()


@pytest.mark.parametrize("words", [1, 100], ids=["short", "long"])
@pytest.mark.parametrize("body", ["x''", "x'00'", "'text'", "substr(body, 1, length(body) - 1)"])
def test_a_damaged_attachment_is_found(tmp_path: Path, body: str, words: int) -> None:
    """The error names its record, which can still be read."""
    journal = filled(tmp_path, 2)
    journal.append("a", started(3), attached="a prompt " * words)
    change(tmp_path, f"UPDATE attachments SET body = {body}")  # noqa: S608  # the cases above
    with pytest.raises(JournalError, match="record 3 of run a is damaged: the text attached"):
        journal.attached("a", 3)
    assert journal.last("a").record == started(3)
    journal.close()


def test_a_store_removed_under_a_run_is_missed(tmp_path: Path) -> None:
    """An append to a store that was moved away fails, and works again when it is back."""
    store = tmp_path / ".awf"
    journal = filled(store, 2)
    store.rename(tmp_path / "away")
    with pytest.raises(JournalError, match="removed or replaced"):
        journal.append("a", started(3))
    with pytest.raises(JournalError, match="removed or replaced"):
        journal.create("b", created("b"))
    assert not store.exists()
    (tmp_path / "away").rename(store)
    assert journal.append("a", started(3)) == 3
    journal.close()


def test_a_store_replaced_under_a_run_is_left_alone(tmp_path: Path) -> None:
    """Another store in the same place gets none of the first one's records."""
    store = tmp_path / ".awf"
    journal = filled(store, 2)
    store.rename(tmp_path / "away")
    other = filled(store, 7)
    with pytest.raises(JournalError, match="removed or replaced"):
        journal.append("a", started(3))
    assert other.last("a").seq == 7
    journal.close()
    other.close()


@pytest.mark.parametrize("name", ["awf.db", "awf.db-wal", "awf.db-shm"])
def test_a_part_removed_under_a_run_is_missed(tmp_path: Path, name: str) -> None:
    """No record is written to a log that the next process would not find."""
    journal = filled(tmp_path, 2)
    (tmp_path / name).unlink()
    with pytest.raises(JournalError, match="removed or replaced"):
        journal.append("a", started(3))
    journal.close()


def test_the_log_stays_small(tmp_path: Path) -> None:
    """The write-ahead log is checkpointed regularly."""
    journal = SqliteJournal(tmp_path)
    journal.create("a", created("a"))
    big = VisitStarted(at=1, stage="x" * 100_000, visit=1, attempt=1)
    for _ in range(200):
        journal.append("a", big)
    assert (tmp_path / "awf.db-wal").stat().st_size < 8_000_000
    journal.close()


def test_an_append_costs_the_same_after_many(tmp_path: Path) -> None:
    """What an append writes does not depend on how long the run is."""
    journal = filled(tmp_path, 2)

    def written() -> int:
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(fields["wchar"])

    def cost() -> int:
        before = written()
        for visit in range(300):
            journal.append("a", started(visit))
        return written() - before

    first = cost()
    for _ in range(4):
        cost()
    assert cost() < 1.5 * first
    journal.close()


def test_a_record_that_fails_leaves_no_lines(tmp_path: Path) -> None:
    """When the commit is refused, neither the record nor its lines are there."""
    journal = SqliteJournal(tmp_path)
    journal.create("a", created("a"))
    with sqlite3.connect(tmp_path / DATABASE) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON ledger WHEN NEW.seq = 2 BEGIN SELECT * FROM nowhere; END")
    with pytest.raises(JournalError, match="no such table"):
        journal.append("a", started(1), lines=["one", "two"])
    with sqlite3.connect(tmp_path / DATABASE) as other:
        other.execute("DROP TRIGGER full")
    assert list(journal.ledger()) == []
    assert len(list(journal.entries("a"))) == 1


def test_two_processes_write_one_ledger(tmp_path: Path) -> None:
    """Lines of two journals at one store are numbered one after the other."""
    one, other = SqliteJournal(tmp_path), SqliteJournal(tmp_path)
    one.append_ledger(["a", "b"])
    other.append_ledger(["c"])
    one.append_ledger(["d"])
    assert [line for _, line in other.ledger()] == ["a", "b", "c", "d"]


def test_a_damaged_line_is_reported(tmp_path: Path) -> None:
    """A line that is not text is named, and none after it is read."""
    journal = SqliteJournal(tmp_path)
    journal.append_ledger(["a", "b", "c"])
    with sqlite3.connect(tmp_path / DATABASE) as other:
        other.execute("UPDATE ledger SET line = x'ff' WHERE seq = 2")
    with pytest.raises(JournalError, match="record 2 of the ledger is damaged: it is not text"):
        list(journal.ledger())

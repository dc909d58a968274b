"""The reader of a store: only what was added is read, and another store in its place is read from the start."""

import os
import shutil
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.unit.web.conftest import RunWriter
from tests.unit.web.findings import item, project, review

from pipeline.app.findings.ledger import LedgerSnapshot, with_view_edits
from pipeline.app.store import open_local_store
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import JournalError
from pipeline.engine.records import RunResumed
from pipeline.findings.events import FindingChanged
from pipeline.findings.ledger import Ledger, LedgerStore, apply_line
from pipeline.findings.model import Actor, Change, FindingState, What
from pipeline.journal.sqlite import SqliteJournal, StoreHeads
from pipeline.web import store as web_store
from pipeline.web.store import StoreReader


def new_reader(store: Path) -> StoreReader:
    """A reader that has read nothing yet."""
    return StoreReader(partial(open_local_store, store))


@pytest.fixture
def reader(store: Path) -> StoreReader:
    """A reader of the store."""
    return new_reader(store)


@pytest.fixture
def entries_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """From which record on the records of which run were read."""
    read, entries = list[tuple[str, int]](), SqliteJournal.entries

    def counted(journal: SqliteJournal, run: str, after: int = 0) -> object:
        read.append((run, after))
        return entries(journal, run, after)

    monkeypatch.setattr(SqliteJournal, "entries", counted)
    return read


@pytest.fixture
def lines_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the ledger's lines that were folded."""
    numbers = list[int]()

    def counted(ledger: Ledger, number: int, line: str) -> None:
        numbers.append(number)
        apply_line(ledger, number, line)

    monkeypatch.setattr(web_store, "apply_line", counted)
    return numbers


@pytest.fixture
def root(store: Path) -> Path:
    """A project with three findings."""
    project(store.parent)
    review(store.parent, *map(item, range(1, 4)))
    return store.parent


def replace_store(store: Path) -> None:
    """Delete the store; whatever is written next is another one in its place."""
    for file in store.iterdir():
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def test_a_run_read_in_steps_equals_a_run_read_at_once(store: Path, writer: RunWriter, reader: StoreReader) -> None:
    """Reading only new records gives the same history, whenever it is read."""
    writer.begin("r1")
    for number in range(1, 6):
        writer.visit("r1", number)
        if number == 3:
            writer.journal.append("r1", RunResumed(at=3))
        assert reader.run("r1") == new_reader(store).run("r1") == reader.run("r1", at=99)


def test_only_new_records_are_read(
    store: Path, writer: RunWriter, reader: StoreReader, entries_read: list[tuple[str, int]]
) -> None:
    """The list and the page of a run share what was read of it."""
    writer.begin("r1")
    writer.visit("r1", 1)
    assert [run.visits for run, _ in reader.runs()] == [1]
    assert list(reader.runs())
    assert entries_read == [("r1", 0)]
    writer.visit("r1", 2)
    assert reader.run("r1").history.position == 3
    rows = list(reader.runs())
    assert entries_read == [("r1", 0), ("r1", 2), ("r1", 3)]
    assert rows == list(new_reader(store).runs())
    assert rows[0][0].visits == 2


def test_few_histories_are_kept(
    store: Path, writer: RunWriter, reader: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose history was dropped is read again from the start, with the same result."""
    monkeypatch.setattr(web_store, "_MAX_HISTORIES", 1)
    for run in ("r1", "r2", "r3"):
        writer.begin(run)
    assert len(list(reader.runs())) == 3
    for run in ("r1", "r2", "r3"):
        writer.visit(run)
    assert list(reader.runs()) == list(new_reader(store).runs())


def test_a_record_written_while_a_run_is_read_counts_once(
    writer: RunWriter, reader: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is committed after the heads were read and before the run is read is not added twice."""
    writer.begin("r1")
    writer.visit("r1")
    with monkeypatch.context() as patch:
        patch.setattr(StoreHeads, "read", lambda _: {"r1": 1})
        ((run, _),) = reader.runs()
        assert (run.visits, run.cost_usd) == (1, 0.5)
    writer.visit("r1", 2)
    ((run, _),) = reader.runs()
    assert (run.visits, run.cost_usd) == (2, 1.0)


def test_answers_are_not_kept_in_memory(writer: RunWriter, reader: StoreReader) -> None:
    """What stages answered is read only when it is shown."""
    writer.begin("r1")
    writer.visit("r1", outcome=Outcome(status=Status.SUCCESS, response="much " * 1000))
    outcome = reader.run("r1").history.visits[0].outcome
    assert outcome
    assert outcome.response == ""


def test_rounds_are_counted_from_the_ledger(writer: RunWriter, reader: StoreReader) -> None:
    """Each round of a run counts once, however many passes it had."""
    writer.begin("r1")
    writer.journal.append_ledger(['{"kind":"assessed","assessment":{"run":"r1"}}', '{"kind":"raised","of":"assessed"}'])
    assert [rounds for _, rounds in reader.runs()] == [1]
    more = '{"kind":"assessed","assessment":{"run":"r1","round":%d}}'
    writer.journal.append_ledger([more % 2, more % 2])
    assert [rounds for _, rounds in reader.runs()] == [2]


@pytest.mark.usefixtures("root")
def test_a_damaged_ledger_hides_no_run(writer: RunWriter, reader: StoreReader) -> None:
    """It is an error of the findings alone, which are then unknown and not none."""
    writer.begin("r1")
    assert len(reader.findings().ledger.findings) == 3
    assert not reader.run("r1").ledger_unread
    writer.journal._open().execute("UPDATE ledger SET line = x'00'")
    assert [run.run_id for run, _ in reader.runs()] == ["r1"]
    assert reader.run("r1").history.position == 1
    assert reader.run("r1").ledger_unread
    with pytest.raises(JournalError):
        reader.findings()


def test_only_new_lines_of_the_ledger_are_folded(
    store: Path, root: Path, reader: StoreReader, lines_read: list[int]
) -> None:
    """An unchanged ledger gives the same view; a longer one is read on from its last line."""
    first = reader.findings()
    assert reader.findings() is first
    before = len(lines_read)
    review(root, item(9))
    again = reader.findings()
    assert len(lines_read) > before
    assert lines_read == list(range(1, len(lines_read) + 1))
    assert again.ledger.findings == new_reader(store).findings().ledger.findings
    assert (len(first.ledger.findings), len(again.ledger.findings)) == (3, 4)


def test_unedited_view_files_are_not_read_again(
    store: Path, root: Path, reader: StoreReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new line of the ledger does not make the view files to be read; a write to one of them does."""
    reads = list[Path]()

    def counted(ledger: Ledger, root: Path, store: Path, at: str) -> LedgerSnapshot:
        reads.append(root)
        return with_view_edits(ledger, root, store, at)

    monkeypatch.setattr(web_store, "with_view_edits", counted)
    (first, *_) = reader.findings().ledger.findings.values()
    with closing(SqliteJournal(store)) as journal:
        change = Change(
            at="2026-03-02T10:00:00Z",
            what=What.CLAIM,
            who="fix",
            by=Actor.FINISH_TASK,
            word="fixed",
            state=FindingState.FIX_CLAIMED,
        )
        LedgerStore(journal).append([FindingChanged(id=first.id, change=change)])
    assert reader.findings().ledger.findings[first.id].state is FindingState.FIX_CLAIMED
    assert len(reads) == 1
    os.utime(root / ".code-review/review-latest.json", (1, 1))
    reader.findings()
    assert len(reads) == 2


def test_another_store_in_its_place_is_read_from_the_start(store: Path, writer: RunWriter, reader: StoreReader) -> None:
    """Nothing of a deleted store is mixed with a new one, even where runs have the same names."""
    writer.begin("r1")
    writer.visit("r1")
    writer.begin("r2")
    assert (reader.run("r1").history.position, len(list(reader.runs()))) == (2, 2)
    writer.journal.close()
    replace_store(store)
    writer.begin("r1")
    assert [(run.run_id, run.visits) for run, _ in reader.runs()] == [("r1", 0)]
    assert reader.run("r1").history.position == 1
    assert reader.generation == 1


def test_another_ledger_in_its_place_is_read_from_the_start(store: Path, root: Path, reader: StoreReader) -> None:
    """A new ledger is noticed even if it is longer than the old one."""
    assert len(reader.findings().ledger.findings) == 3
    replace_store(store)
    shutil.rmtree(root / ".code-review")
    review(root, *map(item, range(4, 12)))
    assert {line.title for line in reader.findings().lines} == {f"Line {n} is wrong" for n in range(4, 12)}

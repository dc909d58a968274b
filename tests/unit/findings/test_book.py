"""The ledger where it is kept: read as far as it is new, written whole or not at all, and never guessed."""

import threading
from pathlib import Path

import pytest

from pipeline.engine.ports import JournalError
from pipeline.findings.events import Pass, PassRecorded
from pipeline.findings.ledger import LedgerStore, lock_ledger
from pipeline.findings.model import PassId
from pipeline.journal.memory import MemoryJournal
from pipeline.journal.sqlite import SqliteJournal


def assessed(name: str) -> PassRecorded:
    return PassRecorded(at="t", assessment=Pass(id=PassId(name), started_at="t"))


def test_a_book_reads_what_others_wrote_since() -> None:
    """Two books on one store have the same ledger, whoever writes; what was read is not read again."""
    journal = MemoryJournal()
    mine, theirs = LedgerStore(journal), LedgerStore(journal)
    mine.append([assessed("one")])
    assert list(mine.ledger().passes) == ["one"]
    theirs.append([assessed("two"), assessed("three")])
    assert list(mine.ledger().passes) == list(theirs.ledger().passes) == ["one", "two", "three"]
    assert mine.ledger() is mine.ledger()


def test_nothing_to_enter_touches_no_store(tmp_path: Path) -> None:
    """A command that changes nothing leaves nothing behind."""
    store = tmp_path / "store"
    LedgerStore(SqliteJournal(store)).append([])
    assert not store.exists()


@pytest.mark.parametrize("line", ['{"kind":"unheard of","at":"t"}', "no JSON"])
def test_a_line_that_cannot_be_read_is_told_with_its_number(line: str) -> None:
    """A newer program's ledger is not half read: the finding would be lost without a word."""
    journal = MemoryJournal()
    LedgerStore(journal).append([assessed("one")])
    journal.append_ledger([line])
    with pytest.raises(JournalError, match="line 2 of the ledger cannot be read"):
        LedgerStore(journal).ledger()


def test_one_command_at_a_time_takes_findings_in(tmp_path: Path) -> None:
    """Two at once would raise the same defect twice."""
    inside, order = threading.Event(), list[str]()

    def second() -> None:
        inside.wait(10)
        with lock_ledger(tmp_path / "store"):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with lock_ledger(tmp_path / "store"):
        inside.set()
        other.join(0.05)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]

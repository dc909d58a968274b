"""What every letter-box does, and what the one in the database leaves alone."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cluster.artefacts import Directory
from pipeline.cluster.letters import SharedLetters
from pipeline.engine.ports import CancelRequest, HumanAnswer, JournalError, Mailbox
from pipeline.engine.records import RunCreated
from pipeline.journal.mailbox import MemoryMailbox, SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal

YES = HumanAnswer("r", "ask", 1, "yes", "", "anna", 12.5)
NO = HumanAnswer("r", "ask", 1, "no", "Not yet.", "ben", 13.25)
CREATED = RunCreated(at=0, run_id="r", file="w.awf.kdl", source="", cwd="/", version="0")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with closing(SqliteJournal(tmp_path / ".awf")) as journal:
        journal.create("r", CREATED)
    return tmp_path / ".awf"


@pytest.fixture(params=["memory", "sqlite", "shared"])
def letters(request: pytest.FixtureRequest, store: Path, tmp_path: Path) -> Mailbox:
    if request.param == "shared":
        return SharedLetters(Directory(tmp_path / "shared"))
    return MemoryMailbox() if request.param == "memory" else SqliteMailbox(store)


def tables(store: Path) -> set[str]:
    with closing(sqlite3.connect(store / "awf.db")) as database:
        return {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_an_answer_is_for_its_visit_only(letters: Mailbox) -> None:
    """It is found under its run, stage and visit, whole, as often as it is looked for."""
    assert letters.answer("r", "ask", 1) is None
    assert letters.put_answer(NO) == NO
    assert [letters.answer("r", "ask", 1) for _ in range(2)] == [NO, NO]
    others = [("q", "ask", 1), ("r", "other", 1), ("r", "ask", 2)]
    assert [letters.answer(*other) for other in others] == [None, None, None]


def test_the_first_answer_stays(letters: Mailbox) -> None:
    """A second one to the same visit is given the first, and changes nothing."""
    assert letters.put_answer(YES) == YES
    assert letters.put_answer(NO) == YES
    assert letters.answer("r", "ask", 1) == YES
    again = replace(NO, visit=2)
    assert letters.put_answer(again) == again


def test_wishes_are_read_from_where_one_began_to_listen(letters: Mailbox) -> None:
    """What was there before is not meant for a process that comes later; other runs are not touched."""
    first, second = (CancelRequest("r", reason, "anna", at) for at, reason in enumerate(("wrong goal", "")))
    assert (letters.cancel_requests("r"), letters.cancel_request("r", 0)) == (0, None)
    letters.put_cancel_request(first)
    assert (letters.cancel_requests("r"), letters.cancel_request("r", 0), letters.cancel_request("r", 1)) == (
        1,
        first,
        None,
    )
    letters.put_cancel_request(second)
    assert (letters.cancel_requests("r"), letters.cancel_request("r", 0), letters.cancel_request("r", 1)) == (
        2,
        first,
        second,
    )
    assert (letters.cancel_requests("q"), letters.cancel_request("q", 0)) == (0, None)
    assert [str(first), str(second)] == ["by anna: wrong goal", "by anna"]


def test_text_that_is_no_text_is_kept_as_far_as_it_can_be(letters: Mailbox) -> None:
    """Half of a surrogate pair, as a terminal may hand it over, does not lose the answer."""
    assert letters.put_answer(replace(NO, feedback="a\udcffb")).option == "no"
    letters.put_cancel_request(CancelRequest("r", "\ud83d", "anna", 1.0))
    assert letters.cancel_requests("r") == 1


def test_of_many_answers_at_once_one_is_kept(store: Path) -> None:
    """Everybody is given the same one, on connections of their own."""
    given = [replace(YES, by=f"person {number}") for number in range(8)]
    together, kept = threading.Barrier(len(given)), []

    def put(answer: HumanAnswer) -> None:
        together.wait()
        kept.append(SqliteMailbox(store).put_answer(answer))

    threads = [threading.Thread(target=put, args=(answer,)) for answer in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) == len(given)
    assert set(kept) == {SqliteMailbox(store).answer("r", "ask", 1)}


def test_nothing_is_made_before_the_first_letter(store: Path, tmp_path: Path) -> None:
    """Looking makes neither a table nor a store; the schema of the journal stays as it was."""
    before = tables(store)
    assert SqliteMailbox(store).answer("r", "ask", 1) is None
    assert tables(store) == before == {"runs", "records"}
    assert SqliteMailbox(tmp_path / "none").cancel_requests("r") == 0
    assert not (tmp_path / "none").exists()


def test_the_journal_goes_on_beside_it(store: Path) -> None:
    """A journal that is open when the first letter comes reads and appends as before."""
    with closing(SqliteJournal(store)) as journal:
        assert journal.append("r", CREATED) == 2
        SqliteMailbox(store).put_answer(YES)
        assert journal.append("r", CREATED) == 3
        assert [entry.seq for entry in journal.entries("r")] == [1, 2, 3]
    assert tables(store) == {"runs", "records", "answers", "cancellations"}


def test_a_letter_for_no_store_is_refused(tmp_path: Path) -> None:
    """Nothing is made for it."""
    with pytest.raises(JournalError, match="cannot be opened"):
        SqliteMailbox(tmp_path).put_answer(YES)
    assert not list(tmp_path.iterdir())

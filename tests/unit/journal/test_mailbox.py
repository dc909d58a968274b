"""What every mailbox does, wherever it keeps its answers and requests."""

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cluster.journal import SharedMailbox
from pipeline.cluster.object_store import DirectoryStore
from pipeline.engine.ports import CancelRequest, HumanAnswer, JournalError, Mailbox
from pipeline.engine.records import RunCreated
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.memory import MemoryMailbox
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
def mailbox(request: pytest.FixtureRequest, store: Path, tmp_path: Path) -> Mailbox:
    if request.param == "shared":
        return SharedMailbox(DirectoryStore(tmp_path / "shared"))
    return MemoryMailbox() if request.param == "memory" else SqliteMailbox(store)


def test_an_answer_is_for_its_visit_only(mailbox: Mailbox) -> None:
    """It is found under its run, stage and visit, whole, as often as it is looked for."""
    assert mailbox.answer("r", "ask", 1) is None
    assert mailbox.put_answer(NO) == NO
    assert [mailbox.answer("r", "ask", 1) for _ in range(2)] == [NO, NO]
    others = [("q", "ask", 1), ("r", "other", 1), ("r", "ask", 2)]
    assert [mailbox.answer(*other) for other in others] == [None, None, None]


def test_the_first_answer_stays(mailbox: Mailbox) -> None:
    """A second one to the same visit is given the first, and changes nothing."""
    assert mailbox.put_answer(YES) == YES
    assert mailbox.put_answer(NO) == YES
    assert mailbox.answer("r", "ask", 1) == YES
    again = replace(NO, visit=2)
    assert mailbox.put_answer(again) == again


def test_wishes_are_read_from_where_one_began_to_listen(mailbox: Mailbox) -> None:
    """What was there before is not meant for a process that comes later; other runs are not touched."""
    first, second = (CancelRequest("r", reason, "anna", at) for at, reason in enumerate(("wrong goal", "")))
    assert (mailbox.cancel_requests("r"), mailbox.cancel_request("r", 0)) == (0, None)
    mailbox.put_cancel_request(first)
    assert (mailbox.cancel_requests("r"), mailbox.cancel_request("r", 0), mailbox.cancel_request("r", 1)) == (
        1,
        first,
        None,
    )
    mailbox.put_cancel_request(second)
    assert (mailbox.cancel_requests("r"), mailbox.cancel_request("r", 0), mailbox.cancel_request("r", 1)) == (
        2,
        first,
        second,
    )
    assert (mailbox.cancel_requests("q"), mailbox.cancel_request("q", 0)) == (0, None)
    assert [str(first), str(second)] == ["by anna: wrong goal", "by anna"]


def test_text_that_is_no_text_is_kept_as_far_as_it_can_be(mailbox: Mailbox) -> None:
    """Half of a surrogate pair, as a terminal may hand it over, does not lose the answer."""
    assert mailbox.put_answer(replace(NO, feedback="a\udcffb")).option == "no"
    mailbox.put_cancel_request(CancelRequest("r", "\ud83d", "anna", 1.0))
    assert mailbox.cancel_requests("r") == 1


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


def test_reading_creates_no_store(tmp_path: Path) -> None:
    """Where there is no store, there is no answer and no request."""
    assert SqliteMailbox(tmp_path / "none").answer("r", "ask", 1) is None
    assert SqliteMailbox(tmp_path / "none").cancel_requests("r") == 0
    assert not (tmp_path / "none").exists()


def test_the_journal_continues_beside_it(store: Path) -> None:
    """A journal that is open when the first answer comes reads and appends as before."""
    with closing(SqliteJournal(store)) as journal:
        assert journal.append("r", CREATED) == 2
        SqliteMailbox(store).put_answer(YES)
        assert journal.append("r", CREATED) == 3
        assert [entry.seq for entry in journal.entries("r")] == [1, 2, 3]


def test_a_letter_for_no_store_is_refused(tmp_path: Path) -> None:
    """Nothing is made for it."""
    with pytest.raises(JournalError, match="cannot be opened"):
        SqliteMailbox(tmp_path).put_answer(YES)
    assert not list(tmp_path.iterdir())

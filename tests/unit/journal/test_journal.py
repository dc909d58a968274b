"""What every journal does, wherever it stores its records."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from pipeline.cluster.journal import SharedJournal
from pipeline.cluster.object_store import DirectoryStore
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Journal, JournalEntry, JournalError, RunExists, RunIsOwned, UnknownRun
from pipeline.engine.records import AnyRecord, RunCreated, VisitCompleted, VisitStarted
from pipeline.engine.routing import Selection
from pipeline.errors import AwfError
from pipeline.journal.memory import MemoryJournal
from pipeline.journal.sqlite import SqliteJournal


@pytest.fixture(params=["memory", "sqlite"])
def local(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    """A journal of one machine: its runs have owners, and its ledger belongs to no run."""
    made: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / ".awf")
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite", "shared"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    made: dict[str, Callable[[], Journal]] = {
        "memory": MemoryJournal,
        "sqlite": lambda: SqliteJournal(tmp_path / ".awf"),
        "shared": lambda: SharedJournal(DirectoryStore(tmp_path / "shared"), "a"),
    }
    opened = made[request.param]()
    yield opened
    opened.close()


def created(run_id: str) -> AnyRecord:
    return RunCreated(at=0, run_id=run_id, file="w.awf.kdl", source="", cwd="/", version="0")


def started(visit: int) -> AnyRecord:
    return VisitStarted(at=visit, stage="build", visit=visit, attempt=1)


def test_records_come_back_in_order(journal: Journal) -> None:
    """Numbers count from one, and nothing is left out."""
    journal.create("a", created("a"))
    numbers = [journal.append("a", started(visit)) for visit in range(2, 251)]
    assert numbers == list(range(2, 251))
    assert list(journal.entries("a")) == [
        JournalEntry(1, created("a")),
        *(JournalEntry(n, started(n)) for n in range(2, 251)),
    ]


def test_reading_begins_after_a_record(journal: Journal) -> None:
    """`after` leaves out what is known already, and may be at or beyond the end."""
    journal.create("a", created("a"))
    for visit in (2, 3):
        journal.append("a", started(visit))
    assert [entry.seq for entry in journal.entries("a", after=2)] == [3]
    assert not list(journal.entries("a", after=3))
    assert not list(journal.entries("a", after=9))


def test_the_last_record(journal: Journal) -> None:
    """`last` is the newest, from the first on."""
    journal.create("a", created("a"))
    assert journal.last("a") == JournalEntry(1, created("a"))
    journal.append("a", started(1))
    assert journal.last("a") == JournalEntry(2, started(1))


def test_runs_do_not_mix(journal: Journal) -> None:
    """Each run has its own numbers and records, and runs are listed from the oldest."""
    names = ["b", "a", "C", "a.1"]
    for name in names:
        journal.create(name, created(name))
    for visit in (2, 3):
        for name in names:
            assert journal.append(name, started(visit)) == visit
    assert list(journal.runs()) == names
    for name in names:
        assert [entry.record for entry in journal.entries(name)] == [created(name), started(2), started(3)]


def test_a_run_is_created_once(journal: Journal) -> None:
    """A second creation is refused and changes nothing."""
    journal.create("a", created("a"))
    journal.append("a", started(1))
    with pytest.raises(RunExists, match="run a already exists"):
        journal.create("a", created("a"))
    assert [entry.seq for entry in journal.entries("a")] == [1, 2]
    assert journal.append("a", started(2)) == 3


def test_an_unknown_run_is_named(journal: Journal) -> None:
    """Nothing can be read from or added to a run that was never created, in a new store or an old one."""
    for _ in ("new", "old"):
        asked = (journal.entries, journal.last, lambda name: journal.attached(name, 1))
        for use in (*asked, lambda name: journal.append(name, started(1))):
            with pytest.raises(UnknownRun, match="no run nobody"):
                use("nobody")
        journal.create(f"run-{len(journal.runs())}", created("a"))


def test_a_new_journal_has_no_runs(journal: Journal) -> None:
    """There is nothing before the first creation."""
    assert not journal.runs()


@pytest.mark.parametrize("name", ["../a", "a/b", "", "a.lock"])
def test_an_unsafe_name_is_refused(journal: Journal, name: str) -> None:
    """Neither a run nor a lock is made under a name that leaves the store."""
    with pytest.raises(AwfError, match="is not a valid run name"):
        journal.create(name, created(name))
    with pytest.raises(AwfError, match="is not a valid run name"), journal.lock(name):
        pass
    assert not journal.runs()


@pytest.mark.parametrize("text", ["a prompt", "é\0日本 \U0001f600\n" * 20_000, "half \ud83d"])
def test_a_text_is_attached_to_its_record(journal: Journal, text: str) -> None:
    """It comes back whole, from this record only, and is no part of it."""
    journal.create("a", created("a"))
    journal.create("b", created("b"))
    assert journal.append("a", started(2), attached=text) == 2
    assert journal.append("a", started(3)) == 3
    assert journal.append("b", started(2)) == 2
    assert [journal.attached("a", seq) for seq in (1, 2, 3, 4)] == ["", text, "", ""]
    assert journal.attached("b", 2) == ""
    assert journal.last("b").record == started(2)


def test_what_cannot_be_written_is_not_recorded(journal: Journal) -> None:
    """A value that is not JSON fails the append and leaves the run as it was."""
    outcome = Outcome(status=Status.SUCCESS)
    chosen = Selection(target=None, reason="")
    bad = VisitCompleted(
        at=1, stage="s", visit=1, attempt=1, outcome=outcome, operations=(("set", "a", {1, 2}),), chosen=chosen
    )
    journal.create("a", created("a"))
    with pytest.raises(JournalError, match="cannot be stored"):
        journal.append("a", bad)
    assert journal.append("a", started(1)) == 2


def test_reading_and_appending_may_alternate(journal: Journal) -> None:
    """A reader that is half way through neither blocks an append nor loses its place."""
    journal.create("a", created("a"))
    for visit in range(2, 301):
        journal.append("a", started(visit))
    reading = journal.entries("a")
    begun = [entry.seq for entry in islice(reading, 150)]
    journal.append("a", started(301))
    rest = [entry.seq for entry in reading]
    assert (begun + rest)[:300] == list(range(1, 301))


def test_a_run_has_one_owner(local: Journal) -> None:
    """A second owner is refused, even in the same process, until the first is done; other runs are free."""
    with local.lock("a"):
        with local.lock("b"), pytest.raises(RunIsOwned, match="run a is being driven by"), local.lock("a"):
            pass
        with pytest.raises(RunIsOwned, match="wait for it or stop it"), local.lock("a"):
            pass
    with local.lock("a"):
        pass


def test_ownership_ends_with_an_error(local: Journal) -> None:
    """A run whose owner failed can be owned again."""
    with pytest.raises(ZeroDivisionError), local.lock("a"):
        raise ZeroDivisionError
    with local.lock("a"):
        pass


def test_lines_of_the_ledger_come_back_in_order(local: Journal) -> None:
    """They belong to no run, count from one, and are read from where one left off."""
    assert list(local.ledger()) == []
    local.append_ledger([f"line {number} \udcff" for number in range(1, 251)])
    assert [number for number, _ in local.ledger()] == list(range(1, 251))
    assert list(local.ledger(after=248)) == [(249, "line 249 \udcff"), (250, "line 250 \udcff")]
    assert not local.runs()


def test_a_record_and_its_lines_are_one(journal: Journal) -> None:
    """Lines given with a record are in the ledger when it is in its run, and beside it in no other way."""
    journal.create("a", created("a"))
    assert journal.append("a", started(1), lines=["one", "two"]) == 2
    assert journal.append("a", started(2)) == 3
    assert list(journal.ledger()) == [(1, "one"), (2, "two")]
    assert [entry.record for entry in journal.entries("a")] == [created("a"), started(1), started(2)]
    assert journal.attached("a", 2) == ""

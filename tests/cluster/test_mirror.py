"""The copy of a cluster's runs: what is new comes, once and in its order, and what is over is not read again."""

from contextlib import closing
from pathlib import Path

import pytest

from pipeline.cluster.journal import SharedJournal
from pipeline.cluster.mirror import LONGEST_RUNNING, LONGEST_STOPPED, Mirror
from pipeline.cluster.object_store import DirectoryStore, StoreUnavailable
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import (
    AnyRecord,
    RunCancelled,
    RunCreated,
    RunResumed,
    RunWaiting,
    VisitCompleted,
)
from pipeline.engine.routing import Selection
from pipeline.engine.state import RunStatus
from pipeline.journal.sqlite import SqliteJournal

SOURCE = 'workflow "W" { version 2; start "end"; stage "end" kind="exit"; }'


class Counting(DirectoryStore):
    """A shared directory that counts what it is asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: list[str] = []

    def find(self, key: str) -> bytes | None:
        self.asked.append(key)
        return super().find(key)


class Team:
    """A cluster without Temporal: what writes records, and the copy of them."""

    def __init__(self, folder: Path) -> None:
        self.time = 1e6
        self.store = Counting(folder / "shared")
        self.journal = SharedJournal(self.store, now=lambda: self.time)
        self.mirror = Mirror(self.store, folder / "mirror", now=lambda: self.time)

    def create(self, run: str) -> None:
        created = RunCreated(at=1, run_id=run, file="w.awf.kdl", source=SOURCE, goal="g", cwd="/", version="0")
        self.journal.create(run, created)

    def looked(self, later: float = 0.0) -> list[str]:
        """What is asked for at a look, some time later."""
        self.time += later
        self.store.asked.clear()
        self.mirror.update()
        return sorted({key.split("/")[1] for key in self.store.asked})

    def copied(self, run: str) -> list[AnyRecord]:
        with closing(SqliteJournal(self.mirror.directory)) as journal:
            return [entry.record for entry in journal.entries(run)]

    def runs(self) -> list[str]:
        with closing(SqliteJournal(self.mirror.directory)) as journal:
            return list(journal.runs())

    def same(self, run: str) -> bool:
        return self.copied(run) == [entry.record for entry in self.journal.entries(run)]


def done(visit: int, ends: Status | None = None) -> VisitCompleted:
    return VisitCompleted(
        at=2,
        stage="end",
        visit=visit,
        attempt=1,
        outcome=Outcome(status=Status.SUCCESS),
        operations=(),
        chosen=Selection(target=None if ends else "end", reason="r"),
        ends=ends,
    )


@pytest.fixture
def team(tmp_path: Path) -> Team:
    """A cluster and its mirror."""
    return Team(tmp_path)


def test_what_is_new_is_copied_once(team: Team) -> None:
    """Looking again adds nothing; a record that came is there after the next look, with its attached text."""
    team.create("a")
    for _ in range(3):
        team.mirror.update()
    assert len(team.copied("a")) == 1
    seq = team.journal.append("a", done(1), attached="the prompt")
    team.looked(later=LONGEST_STOPPED)
    assert team.same("a")
    with closing(SqliteJournal(team.mirror.directory)) as journal:
        assert journal.attached("a", seq) == "the prompt"


def test_runs_are_in_the_order_in_which_they_began(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are copied first when there are many, and the list is in order all the same."""
    monkeypatch.setattr("pipeline.cluster.mirror._FIRST_RUNS", 2)
    for number in range(5):
        team.time += 1
        team.create(f"r{number}")
    team.mirror.update()
    assert team.runs() == ["r3", "r4"]
    assert team.mirror.behind
    while team.mirror.behind:
        team.mirror.update()
    assert team.runs() == ["r0", "r1", "r2", "r3", "r4"]


def test_a_run_that_is_over_is_not_read_again(team: Team) -> None:
    """A finished run costs nothing; one that has been quiet for long little, and least when it waits for somebody."""
    for run, record in (
        ("over", done(1, Status.SUCCESS)),
        ("waits", RunWaiting(at=2, stage="end", visit=1)),
        ("cancelled", RunCancelled(at=2, stage="end", visit=1, reason="")),
        ("runs", done(1)),
    ):
        team.create(run)
        team.journal.append(run, record)
    team.looked(later=10_000)
    assert team.looked() == []
    assert team.looked(later=LONGEST_RUNNING) == ["runs"]
    assert team.looked(later=LONGEST_STOPPED) == ["cancelled", "runs", "waits"]
    assert team.looked() == []
    team.mirror.expect("waits")
    for _ in range(3):
        assert team.looked(later=1.0)[-1] == "waits"
    team.journal.append("cancelled", RunResumed(at=3))
    assert team.mirror.status("cancelled") is RunStatus.CANCELLED
    team.mirror.update(["cancelled"])
    assert team.mirror.status("cancelled") is RunStatus.RUNNING
    assert sorted(team.mirror.active()) == ["cancelled", "runs", "waits"]


def test_new_runs_are_found_whosever_clock_was_behind(team: Team) -> None:
    """The index is read from some minutes before its last entry."""
    team.create("first")
    team.mirror.update()
    team.time -= 300
    team.create("behind")
    team.time += 300
    team.mirror.update()
    assert set(team.runs()) == {"first", "behind"}


def test_a_run_without_records_is_none_yet(team: Team) -> None:
    """Somebody who died between the index and the first record leaves nothing, and is seldom asked for."""
    team.store.create("index/00000000000000000001-half", b"")
    team.store.create("index/README", b"by hand")
    team.mirror.update()
    assert team.runs() == []
    assert team.looked() == []
    team.create("whole")
    team.mirror.update()
    assert team.runs() == ["whole"]


def test_the_ledger_of_each_run_is_its_own(team: Team) -> None:
    """Lines come with their records or alone, runs side by side; a run's ledger has its lines in their order."""
    for run in ("a", "b"):
        team.create(run)
    for number in range(1, 4):
        for run in ("a", "b"):
            team.journal.append(run, done(number), lines=[f"{run}{number}x", f"{run}{number}y"])
        team.looked(later=LONGEST_STOPPED)
    team.journal.of("a").append_ledger(["a4"])
    team.journal.append("a", done(4))
    team.looked(later=LONGEST_STOPPED)
    for run in ("a", "b"):
        whole = list(team.journal.of(run).ledger())
        assert list(team.mirror.ledger(run).ledger()) == whole
        for after in range(len(whole) + 1):
            assert list(team.mirror.ledger(run).ledger(after)) == whole[after:]
        assert team.same(run)
    assert team.mirror.runs_with_findings() == ["b", "a"]
    with closing(SqliteJournal(team.mirror.directory)) as journal:
        assert [entry.seq for entry in journal.entries("a")] == [1, 2, 3, 4, 5]


def test_a_damaged_record_stops_its_run_alone(team: Team) -> None:
    """What comes before it is copied, the others go on, and it is told which one it is."""
    for run in ("bad", "good"):
        team.create(run)
        team.journal.append(run, done(1))
    team.store.put("runs/bad/records/00000003", b"nonsense")
    team.journal.append("good", done(2))
    team.mirror.update()
    assert (len(team.copied("bad")), len(team.copied("good"))) == (2, 3)
    assert team.mirror.status("bad") is None
    assert ["record 3 of run bad is damaged" in one for one in team.mirror.problems()] == [True]


def test_a_store_that_is_gone_is_not_an_empty_one(team: Team, tmp_path: Path) -> None:
    """Nothing is forgotten, the next look says what is wrong, and the one after it comes back goes on."""
    team.create("a")
    team.mirror.update()
    (tmp_path / "shared").rename(tmp_path / "away")
    with pytest.raises(StoreUnavailable):
        team.mirror.update()
    assert team.runs() == ["a"]
    (tmp_path / "away").rename(tmp_path / "shared")
    team.journal.append("a", done(1))
    team.looked(later=LONGEST_STOPPED)
    assert team.same("a")


def test_a_long_run_comes_in_parts(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a run is held at once than is read at one look."""
    monkeypatch.setattr("pipeline.cluster.mirror._MOST_OBJECTS", 3)
    team.create("a")
    for number in range(1, 8):
        team.journal.append("a", done(number))
    for wanted in (3, 6, 8, 8):
        team.mirror.update()
        assert len(team.copied("a")) == wanted

"""The copy of a cluster's runs: what is new is copied once and in order, and ended runs are not read again."""

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


class CountingStore(DirectoryStore):
    """A store that notes which objects are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []

    def find(self, key: str) -> bytes | None:
        self.read.append(key)
        return super().find(key)


class MirrorLab:
    """A shared journal, and its copy."""

    def __init__(self, folder: Path) -> None:
        self.time = 1e6
        self.store = CountingStore(folder / "shared")
        self.journal = SharedJournal(self.store, now=lambda: self.time)
        self.mirror = Mirror(self.store, folder / "mirror", now=lambda: self.time)

    def create(self, run: str) -> None:
        created = RunCreated(at=1, run_id=run, file="w.awf.kdl", source=SOURCE, goal="g", cwd="/", version="0")
        self.journal.create(run, created)

    def update(self, later: float = 0.0) -> list[str]:
        """Update the mirror some time later; return the runs that were read."""
        self.time += later
        self.store.read.clear()
        self.mirror.update()
        return sorted({key.split("/")[1] for key in self.store.read})

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
def lab(tmp_path: Path) -> MirrorLab:
    """A shared journal and its mirror."""
    return MirrorLab(tmp_path)


def test_a_record_is_copied_once(lab: MirrorLab) -> None:
    """With its attached text; another update adds nothing."""
    lab.create("a")
    for _ in range(3):
        lab.mirror.update()
    assert len(lab.copied("a")) == 1
    seq = lab.journal.append("a", done(1), attached="the prompt")
    lab.update(later=LONGEST_STOPPED)
    assert lab.same("a")
    with closing(SqliteJournal(lab.mirror.directory)) as journal:
        assert journal.attached("a", seq) == "the prompt"


def test_runs_are_listed_in_the_order_they_were_created(lab: MirrorLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the newest of many are copied first."""
    monkeypatch.setattr("pipeline.cluster.mirror._FIRST_RUNS", 2)
    for number in range(5):
        lab.time += 1
        lab.create(f"r{number}")
    lab.mirror.update()
    assert lab.runs() == ["r3", "r4"]
    assert lab.mirror.behind
    while lab.mirror.behind:
        lab.mirror.update()
    assert lab.runs() == ["r0", "r1", "r2", "r3", "r4"]


def test_a_run_is_read_less_often_the_longer_it_is_quiet(lab: MirrorLab) -> None:
    """An ended run is not read at all, a stopped one seldom, unless something is expected to happen."""
    for run, record in (
        ("over", done(1, Status.SUCCESS)),
        ("waits", RunWaiting(at=2, stage="end", visit=1)),
        ("cancelled", RunCancelled(at=2, stage="end", visit=1, reason="")),
        ("runs", done(1)),
    ):
        lab.create(run)
        lab.journal.append(run, record)
    lab.update(later=10_000)
    assert lab.update() == []
    assert lab.update(later=LONGEST_RUNNING) == ["runs"]
    assert lab.update(later=LONGEST_STOPPED) == ["cancelled", "runs", "waits"]
    assert lab.update() == []
    lab.mirror.expect("waits")
    for _ in range(3):
        assert lab.update(later=1.0)[-1] == "waits"
    lab.journal.append("cancelled", RunResumed(at=3))
    assert lab.mirror.status("cancelled") is RunStatus.CANCELLED
    lab.mirror.update(["cancelled"])
    assert lab.mirror.status("cancelled") is RunStatus.RUNNING
    assert sorted(lab.mirror.active()) == ["cancelled", "runs", "waits"]


def test_a_run_from_a_machine_with_a_slow_clock_is_found(lab: MirrorLab) -> None:
    """The index is read from some minutes before its newest entry."""
    lab.create("first")
    lab.mirror.update()
    lab.time -= 300
    lab.create("behind")
    lab.time += 300
    lab.mirror.update()
    assert set(lab.runs()) == {"first", "behind"}


def test_an_index_entry_without_records_is_not_a_run(lab: MirrorLab) -> None:
    """A process that died between both writes leaves no run behind; neither does a foreign file."""
    lab.store.create("index/00000000000000000001-half", b"")
    lab.store.create("index/README", b"by hand")
    lab.mirror.update()
    assert lab.runs() == []
    assert lab.update() == []
    lab.create("whole")
    lab.mirror.update()
    assert lab.runs() == ["whole"]


def test_each_run_has_its_own_ledger(lab: MirrorLab) -> None:
    """With its lines in order, although those of all runs are stored in one."""
    for run in ("a", "b"):
        lab.create(run)
    for number in range(1, 4):
        for run in ("a", "b"):
            lab.journal.append(run, done(number), lines=[f"{run}{number}x", f"{run}{number}y"])
        lab.update(later=LONGEST_STOPPED)
    lab.journal.of("a").append_ledger(["a4"])
    lab.journal.append("a", done(4))
    lab.update(later=LONGEST_STOPPED)
    for run in ("a", "b"):
        whole = list(lab.journal.of(run).ledger())
        assert list(lab.mirror.ledger(run).ledger()) == whole
        for after in range(len(whole) + 1):
            assert list(lab.mirror.ledger(run).ledger(after)) == whole[after:]
        assert lab.same(run)
    assert lab.mirror.runs_with_findings() == ["b", "a"]
    with closing(SqliteJournal(lab.mirror.directory)) as journal:
        assert [entry.seq for entry in journal.entries("a")] == [1, 2, 3, 4, 5]


def test_a_damaged_record_affects_only_its_run(lab: MirrorLab) -> None:
    """What comes before it is copied, its status is unknown, and it is reported."""
    for run in ("bad", "good"):
        lab.create(run)
        lab.journal.append(run, done(1))
    lab.store.put("runs/bad/records/00000003", b"nonsense")
    lab.journal.append("good", done(2))
    lab.mirror.update()
    assert (len(lab.copied("bad")), len(lab.copied("good"))) == (2, 3)
    assert lab.mirror.status("bad") is None
    assert len(lab.mirror.problems()) == 1


def test_an_unmounted_store_is_not_an_empty_one(lab: MirrorLab, tmp_path: Path) -> None:
    """Updates fail and forget nothing until it is back."""
    lab.create("a")
    lab.mirror.update()
    (tmp_path / "shared").rename(tmp_path / "away")
    with pytest.raises(StoreUnavailable):
        lab.mirror.update()
    assert lab.runs() == ["a"]
    (tmp_path / "away").rename(tmp_path / "shared")
    lab.journal.append("a", done(1))
    lab.update(later=LONGEST_STOPPED)
    assert lab.same("a")


def test_a_long_run_is_copied_in_parts(lab: MirrorLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """One update holds a bounded number of records in memory."""
    monkeypatch.setattr("pipeline.cluster.mirror._MOST_OBJECTS", 3)
    lab.create("a")
    for number in range(1, 8):
        lab.journal.append("a", done(number))
    for wanted in (3, 6, 8, 8):
        lab.mirror.update()
        assert len(lab.copied("a")) == wanted

"""The bars of visits."""

from pathlib import Path

from tests.unit.web.conftest import RunWriter
from tests.unit.web.test_store import new_reader
from tests.unit.web.workflows import GATE

from pipeline.app.history import RunNote, VisitRecord
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import RunCreated, RunWaiting, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.web.run import BAR_UNITS, build_timeline
from pipeline.web.store import RunSnapshot

HOUR = 3600.0


def done(stage: str, at: float, took: float, to: str, visit: int = 1, option: str = "") -> VisitCompleted:
    """A visit that ended then."""
    return VisitCompleted(
        at=at,
        stage=stage,
        visit=visit,
        attempt=1,
        outcome=Outcome(status=Status.SUCCESS, duration=took),
        operations=(),
        chosen=Selection(target=to, reason="because"),
        option=option,
    )


def snapshot_after(writer: RunWriter, store: Path, *records: VisitCompleted | RunWaiting) -> RunSnapshot:
    """The run after these records."""
    writer.journal.create("r1", RunCreated(at=0, run_id="r1", file="x", source=GATE, cwd="/", version="1"))
    for record in records:
        writer.journal.append("r1", record)
    return new_reader(store).run("r1")


def test_waiting_leaves_no_gap(writer: RunWriter, store: Path) -> None:
    """Hours of waiting for a person take no room from what ran before and after."""
    answered = done("approve", 10 * HOUR, 10 * HOUR - 10, "release", option="approve")
    run = snapshot_after(
        writer, store, done("build", 10, 10, "approve"), answered, done("release", 10 * HOUR + 10, 10, "exit")
    )
    *_, release, approve, build = build_timeline(run, 10 * HOUR + 10).rows
    assert build[2:] == (0, BAR_UNITS / 2)
    assert release[2:] == (BAR_UNITS / 2, BAR_UNITS / 2)
    assert approve[3] < BAR_UNITS / 50


def test_the_stage_that_waits_is_a_row(writer: RunWriter, store: Path) -> None:
    """A visit that is recorded only when it is answered is the newest row until then."""
    run = snapshot_after(writer, store, done("build", 10, 10, "approve"), RunWaiting(at=11, stage="approve", visit=1))
    (visit, status, *_), (note, *_), _ = build_timeline(run, 100).rows
    assert isinstance(visit, VisitRecord)
    assert (visit.stage, status) == ("approve", "waiting")
    assert isinstance(note, RunNote)


def test_bars_stay_within_the_axis(writer: RunWriter, store: Path) -> None:
    """No bar is outside the axis, and the shortest is still visible."""
    rounds = [done("build" if n % 2 else "approve", n + n / 7, 0.001, "approve", n) for n in range(1, 40)]
    for _, _, left, width in build_timeline(snapshot_after(writer, store, *rounds), 50).rows:
        assert left >= 0
        assert left + width <= BAR_UNITS + 0.2
        assert width >= 1

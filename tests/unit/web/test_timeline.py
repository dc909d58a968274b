"""The visits of a run on a line of time."""

from pathlib import Path

from tests.unit.web.conftest import Book
from tests.unit.web.running import GATE

from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import RunCreated, RunWaiting, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.web.following import FollowedRuns, RunSnapshot
from pipeline.web.timeline import WIDE, timeline

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


def seen_after(book: Book, store: Path, *records: VisitCompleted | RunWaiting) -> RunSnapshot:
    """The run after these records."""
    book.journal.create("r1", RunCreated(at=0, run_id="r1", file="x", source=GATE, cwd="/", version="1"))
    for record in records:
        book.journal.append("r1", record)
    return FollowedRuns(store).now(book.journal, "r1")


def test_waiting_leaves_no_gap(book: Book, store: Path) -> None:
    """Hours in which a person was waited for take no room from what ran before and after."""
    answered = done("approve", 10 * HOUR, 10 * HOUR - 10, "release", option="approve")
    seen = seen_after(
        book, store, done("build", 10, 10, "approve"), answered, done("release", 10 * HOUR + 10, 10, "exit")
    )
    *_, release, approve, build = timeline(seen, 10 * HOUR + 10).rows
    assert (build.left, build.width) == (0, WIDE / 2)
    assert (release.left, release.width) == (WIDE / 2, WIDE / 2)
    assert approve.width < WIDE / 50


def test_the_stage_that_waits_is_a_row(book: Book, store: Path) -> None:
    """A visit is recorded when it is answered; until then it is the newest row all the same."""
    seen = seen_after(book, store, done("build", 10, 10, "approve"), RunWaiting(at=11, stage="approve", visit=1))
    first, note, _ = timeline(seen, 100).rows
    assert first.seen
    assert (first.seen.stage, first.status) == ("approve", "waiting")
    assert note.note == 'waiting: stage "approve" asks a person'


def test_no_bar_leaves_the_line(book: Book, store: Path) -> None:
    """Bars lie within the line, and the shortest can still be seen."""
    rounds = [done("build" if n % 2 else "approve", n + n / 7, 0.001, "approve", n) for n in range(1, 40)]
    for row in timeline(seen_after(book, store, *rounds), 50).rows:
        assert row.left >= 0
        assert row.left + row.width <= WIDE + 0.2
        assert row.width >= 1

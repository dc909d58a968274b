"""The files of attempts in the store that machines share: whole, in parts while they grow, and of lost attempts."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.app.history import AttemptArtifacts
from pipeline.cluster.object_store import ObjectStore, fetch_attempt_files, open_object_store, send_files, send_output
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.records import VisitCompleted
from pipeline.engine.routing import Selection

NAME = "runs/r/build/1/stdout.log"


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """A shared directory."""
    return open_object_store(str(tmp_path / "shared"))


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """The directory of a worker whose stage prints something."""
    (tmp_path / "worker" / NAME).parent.mkdir(parents=True)
    return tmp_path / "worker"


def running(here: Path) -> AttemptArtifacts:
    """An attempt that has not ended."""
    return AttemptArtifacts("r", "build", "tool", 1, 1, (here / NAME).parent, None, None)


def ended() -> Outcome:
    """What it comes to."""
    return Outcome(status=Status.SUCCESS, logs={"stdout": NAME})


def test_a_growing_file_is_brought_part_by_part(store: ObjectStore, worker: Path, tmp_path: Path) -> None:
    """A reader who looks seldom and one who looks often have the same bytes, and the end comes with the whole file."""
    here, file, sent = tmp_path / "here", worker / NAME, 0
    for line in (b"one\n", b"", b"tw", b"o\n"):
        file.write_bytes((file.read_bytes() if file.exists() else b"") + line)
        sent = send_output(store, worker, NAME, sent)
        fetch_attempt_files(store, here, running(here))
        assert (here / NAME).read_bytes() == file.read_bytes()
    file.write_bytes(file.read_bytes() + b"end")
    record = VisitCompleted(
        at=1,
        stage="build",
        visit=1,
        attempt=1,
        outcome=ended(),
        operations=(),
        chosen=Selection(target=None, reason=""),
        ends=Status.SUCCESS,
    )
    send_files(store, worker, record)
    for _ in range(2):
        fetch_attempt_files(store, here, replace(running(here), outcome=ended()))
        assert (here / NAME).read_bytes() == b"one\ntwo\nend"
    late = tmp_path / "late"
    fetch_attempt_files(store, late, running(late))
    assert (late / NAME).read_bytes() == b"one\ntwo\n"


def test_a_part_that_was_sent_twice_counts_once(store: ObjectStore, worker: Path, tmp_path: Path) -> None:
    """When a try arrived though its sender heard nothing, the next part begins where that one ended."""
    (worker / NAME).write_bytes(b"one\n")
    assert send_output(store, worker, NAME, 0) == 4
    (worker / NAME).write_bytes(b"one\ntwo\n")
    assert send_output(store, worker, NAME, 0) == 4
    assert send_output(store, worker, NAME, 4) == 8
    fetch_attempt_files(store, tmp_path / "here", running(tmp_path / "here"))
    assert (tmp_path / "here" / NAME).read_bytes() == b"one\ntwo\n"


def test_nothing_is_made_of_nothing(store: ObjectStore, worker: Path, tmp_path: Path) -> None:
    """A stage that has printed nothing sends no part, and leaves no file with those who look."""
    assert send_output(store, worker, NAME, 0) == 0
    fetch_attempt_files(store, tmp_path / "here", running(tmp_path / "here"))
    assert not (tmp_path / "here" / NAME).exists()
    assert store.names("parts/") == []

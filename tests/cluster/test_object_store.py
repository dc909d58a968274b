"""What every object store does, in a directory and in a bucket, and the files of attempts in it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from tests.cluster.conftest import free_port
from tests.cluster.lab import wait_until

from pipeline.app.history import AttemptArtifacts
from pipeline.cluster.journal import SharedJournal
from pipeline.cluster.mirror import Mirror
from pipeline.cluster.object_store import (
    ObjectStore,
    StoreUnavailable,
    fetch_attempt_files,
    open_object_store,
    send_files,
    send_output,
)
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import JournalError
from pipeline.engine.records import RunCreated, VisitCompleted, VisitStarted
from pipeline.engine.routing import Selection
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal

CREATED = RunCreated(at=0, run_id="r", file="w", source="", cwd="/", version="0")


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[str]:
    """The address of a server with the protocol of S3."""
    pytest.importorskip("moto", reason="make test-cluster installs it")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]

    def responds() -> bool:
        try:
            return httpx.get(address).is_success
        except httpx.TransportError:
            return False

    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(responds)
            yield address
        finally:
            server.kill()


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "directory":
        return open_object_store(str(tmp_path / "store"))
    address = request.getfixturevalue("bucket_server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bucket = f"b{abs(hash(tmp_path)):x}"
    httpx.put(f"{address}/{bucket}").raise_for_status()
    return open_object_store(f"s3://{bucket}/awf?endpoint_url={address}")


@pytest.fixture
def directory_store(tmp_path: Path) -> ObjectStore:
    return open_object_store(str(tmp_path / "store"))


def test_an_object_is_created_once(store: ObjectStore) -> None:
    """The second creation is refused and changes nothing."""
    assert store.create("runs/r/records/1", b"first")
    assert not store.create("runs/r/records/1", b"second")
    assert store.get("runs/r/records/1") == b"first"


def test_of_concurrent_creations_one_wins(store: ObjectStore) -> None:
    """Eight threads create the same object; its body is that of the one that succeeded."""
    bodies = [bytes([65 + number]) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda body: store.create("runs/r/one", body), bodies))
    assert sum(won) == 1
    assert store.get("runs/r/one") == bodies[won.index(True)]


def test_put_replaces_an_object(store: ObjectStore) -> None:
    store.put("runs/r/log", b"one")
    store.put("runs/r/log", b"two")
    assert store.find("runs/r/log") == b"two"


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    """The error names the object and the store; `find` returns None instead."""
    key = "runs/r7/build/1/stdout.log"
    assert store.find(key) is None
    for read in (lambda: store.get(key), lambda: store.get_many([key])):
        with pytest.raises(JournalError) as raised:
            read()
        assert key in raised.value.message
        assert store.name in raised.value.message


def test_names_are_listed_below_a_prefix(store: ObjectStore) -> None:
    """Only the next part of each key, in order; `after` skips names, whether or not it is one of them."""
    for key in ("runs/a/records/1", "runs/a/records/2", "runs/ab/records/1", "index/a", "index/c", "index/d"):
        store.create(key, b"x")
    assert store.names("runs/") == ["a", "ab"]
    assert store.names("runs/a/records/") == ["1", "2"]
    assert store.names("nothing/") == []
    assert store.names("index/") == ["a", "c", "d"]
    assert store.names("index/", "a") == store.names("index/", "b") == ["c", "d"]
    assert store.names("index/", "d") == []


def test_large_and_empty_objects_come_back_whole(store: ObjectStore) -> None:
    body = bytes(range(256)) * 40_000
    assert store.create("runs/r/large", body)
    assert store.create("runs/r/empty", b"")
    assert store.get_many(["runs/r/large", "runs/r/empty"]) == [body, b""]


def test_a_journal_is_kept_in_it(store: ObjectStore) -> None:
    """Another reader gets all records, their attached texts, and the runs in the order of their creation."""
    journal = SharedJournal(store)
    for name in ("b", "a"):
        journal.create(name, CREATED.model_copy(update={"run_id": name}))
    for visit in range(2, 131):
        journal.write("b", visit, VisitStarted(at=visit, stage="s", visit=visit, attempt=1), "a prompt")
    other = SharedJournal(store)
    assert [entry.seq for entry in other.entries("b")] == [*range(1, 131)]
    assert other.attached("b", 130) == "a prompt"
    assert not other.write("b", 130, VisitStarted(at=0, stage="late", visit=1, attempt=1))
    assert list(other.runs()) == ["b", "a"]


def test_a_damaged_or_missing_record_is_an_error(directory_store: ObjectStore, tmp_path: Path) -> None:
    """The error has its number."""
    journal = SharedJournal(directory_store)
    journal.create("r", CREATED)
    for seq in (2, 3, 4):
        journal.write("r", seq, VisitStarted(at=0, stage="s", visit=seq, attempt=1))
    (tmp_path / "store/runs/r/records/00000003").unlink()
    with pytest.raises(JournalError, match="record 3 "):
        list(journal.entries("r"))
    changed = directory_store.get("runs/r/records/00000004").replace(b'"s"', b'"t"')
    directory_store.put("runs/r/records/00000003", changed)
    with pytest.raises(JournalError, match="record 3 "):
        list(journal.entries("r"))


@pytest.mark.parametrize("url", ["http://x/y", "s3://", "ftp://host/path"])
def test_other_kinds_of_stores_are_refused(url: str) -> None:
    with pytest.raises(AwfError):
        open_object_store(url)


def test_no_key_leads_out_of_a_directory(directory_store: ObjectStore) -> None:
    with pytest.raises(AwfError):
        directory_store.put("../x", b"")


def test_an_unmounted_directory_does_not_become_an_empty_store(directory_store: ObjectStore, tmp_path: Path) -> None:
    """A directory that existed is not made again, so that no record is written to the wrong disk."""
    directory_store.create("runs/r/records/1", b"x")
    (tmp_path / "store").rename(tmp_path / "unmounted")
    with pytest.raises(StoreUnavailable):
        directory_store.create("runs/r/records/2", b"y")


def test_a_bucket_that_is_missing_or_unreachable_is_unavailable(
    bucket_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not mistaken for one without the object."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    for address in (bucket_server, f"http://127.0.0.1:{free_port()}"):
        store = open_object_store(f"s3://no-such-bucket/awf?endpoint_url={address}")
        for use in (lambda: store.find("x"), lambda: store.names("x/"), lambda: store.create("x", b"")):  # noqa: B023
            with pytest.raises(StoreUnavailable):
                use()


def test_runs_are_mirrored_from_any_store(store: ObjectStore, tmp_path: Path) -> None:
    """An update copies the records of all runs, and later ones what is new."""
    journal, mirror = SharedJournal(store), Mirror(store, tmp_path / "mirror")
    for run in ("a", "b"):
        journal.create(run, CREATED.model_copy(update={"at": time.time(), "run_id": run}))
    for number in range(3):
        mirror.update()
        with closing(SqliteJournal(tmp_path / "mirror")) as copy:
            assert list(copy.runs()) == ["a", "b"]
            assert list(copy.entries("a")) == list(journal.entries("a"))
        journal.append("a", VisitStarted(at=time.time(), stage="s", visit=1, attempt=1 + number))
        mirror.expect("a")


LOG = "runs/r/build/1/stdout.log"
ENDED = Outcome(status=Status.SUCCESS, logs={"stdout": LOG})


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """The directory of a worker whose stage prints something."""
    (tmp_path / "worker" / LOG).parent.mkdir(parents=True)
    return tmp_path / "worker"


def attempt_in(directory: Path) -> AttemptArtifacts:
    """An attempt that is still running."""
    return AttemptArtifacts("r", "build", "tool", 1, 1, (directory / LOG).parent, None, None)


def test_a_growing_file_is_fetched_part_by_part(directory_store: ObjectStore, worker: Path, tmp_path: Path) -> None:
    """However often a reader looks, it gets the same bytes; the end comes with the whole file."""
    store, here, file, sent = directory_store, tmp_path / "here", worker / LOG, 0
    for line in (b"one\n", b"", b"tw", b"o\n"):
        file.write_bytes((file.read_bytes() if file.exists() else b"") + line)
        sent = send_output(store, worker, LOG, sent)
        fetch_attempt_files(store, here, attempt_in(here))
        assert (here / LOG).read_bytes() == file.read_bytes()
    file.write_bytes(file.read_bytes() + b"end")
    record = VisitCompleted(
        at=1,
        stage="build",
        visit=1,
        attempt=1,
        outcome=ENDED,
        operations=(),
        chosen=Selection(target=None, reason=""),
        ends=Status.SUCCESS,
    )
    send_files(store, worker, record)
    for _ in range(2):
        fetch_attempt_files(store, here, replace(attempt_in(here), outcome=ENDED))
        assert (here / LOG).read_bytes() == b"one\ntwo\nend"
    late = tmp_path / "late"
    fetch_attempt_files(store, late, attempt_in(late))
    assert (late / LOG).read_bytes() == b"one\ntwo\n"


def test_a_part_that_is_sent_twice_is_stored_once(directory_store: ObjectStore, worker: Path, tmp_path: Path) -> None:
    """If a request succeeded without its sender knowing, the next part starts where that one ended."""
    store = directory_store
    (worker / LOG).write_bytes(b"one\n")
    assert send_output(store, worker, LOG, 0) == 4
    (worker / LOG).write_bytes(b"one\ntwo\n")
    assert send_output(store, worker, LOG, 0) == 4
    assert send_output(store, worker, LOG, 4) == 8
    fetch_attempt_files(store, tmp_path / "here", attempt_in(tmp_path / "here"))
    assert (tmp_path / "here" / LOG).read_bytes() == b"one\ntwo\n"


def test_a_stage_without_output_has_no_file(directory_store: ObjectStore, worker: Path, tmp_path: Path) -> None:
    assert send_output(directory_store, worker, LOG, 0) == 0
    fetch_attempt_files(directory_store, tmp_path / "here", attempt_in(tmp_path / "here"))
    assert not (tmp_path / "here" / LOG).exists()
    assert directory_store.names("parts/") == []

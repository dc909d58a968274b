"""What every store of a cluster does: a directory, and a bucket on a server of this machine."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from pipeline.cluster.journal import SharedJournal
from pipeline.cluster.mirror import Mirror
from pipeline.cluster.object_store import MissingObject, ObjectStore, open_object_store
from pipeline.engine.ports import JournalError
from pipeline.engine.records import RunCreated, VisitStarted
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[str]:
    """The address of a server that speaks the protocol of S3."""
    pytest.importorskip("moto", reason="the bucket's server comes with: pip install 'moto[server]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _await(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _await(port: int, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise AssertionError("the server of the bucket did not start")


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    if request.param == "directory":
        return open_object_store(str(tmp_path / "store"))
    address = request.getfixturevalue("bucket_server")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    name = f"b{abs(hash(tmp_path)):x}"
    httpx.put(f"{address}/{name}").raise_for_status()
    return open_object_store(f"s3://{name}/awf?endpoint_url={address}")


def test_an_object_is_created_once(store: ObjectStore) -> None:
    """Whoever is second is told so, and changes nothing."""
    assert store.create("runs/r/records/1", b"first")
    assert not store.create("runs/r/records/1", b"second")
    assert store.get("runs/r/records/1") == b"first"


def test_of_many_at_once_one_is_first(store: ObjectStore) -> None:
    """Eight create the same object: one has, and it is his."""
    bodies = [bytes([65 + number]) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda body: store.create("runs/r/one", body), bodies))
    assert sum(won) == 1
    assert store.get("runs/r/one") == bodies[won.index(True)]


def test_what_is_put_replaces_what_was_there(store: ObjectStore) -> None:
    """It is for what may be written again, such as a log."""
    store.put("runs/r/log", b"one")
    store.put("runs/r/log", b"two")
    assert store.find("runs/r/log") == b"two"


def test_what_is_missing_is_named(store: ObjectStore) -> None:
    """The error says which object of which run, and in which store; asking whether it is there is no error."""
    assert store.find("runs/r7/build/1/stdout.log") is None
    for ask in (
        lambda: store.get("runs/r7/build/1/stdout.log"),
        lambda: store.get_many(["runs/r7/build/1/stdout.log"]),
    ):
        with pytest.raises(MissingObject, match=r'"runs/r7/build/1/stdout\.log" of run r7 is not in') as raised:
            ask()
        assert store.name in raised.value.message


def test_keys_are_listed_below_a_prefix(store: ObjectStore) -> None:
    """All keys, or only their next parts; a prefix of nothing lists nothing."""
    for key in ("runs/a/records/1", "runs/a/records/2", "runs/ab/records/1", "index/1"):
        store.create(key, b"x")
    assert store.names("runs/") == ["a", "ab"]
    assert store.names("runs/a/records/") == ["1", "2"]
    assert store.names("nothing/") == []


def test_a_large_object_comes_back_whole(store: ObjectStore) -> None:
    """Ten megabytes, and nothing at all."""
    body = bytes(range(256)) * 40_000
    assert store.create("runs/r/large", body)
    assert store.create("runs/r/empty", b"")
    assert store.get_many(["runs/r/large", "runs/r/empty"]) == [body, b""]


def test_a_run_is_kept_in_it(store: ObjectStore) -> None:
    """The journal over it gives back the records, also to somebody else, and the runs in their order."""
    journal = SharedJournal(store)
    for name in ("b", "a"):
        journal.create(name, RunCreated(at=0, run_id=name, file="w", source="", cwd="/", version="0"))
    for visit in range(2, 131):
        journal.write("b", visit, VisitStarted(at=visit, stage="s", visit=visit, attempt=1), "a prompt")
    other = SharedJournal(store)
    assert [entry.seq for entry in other.entries("b")] == [*range(1, 131)]
    assert other.attached("b", 130) == "a prompt"
    assert not other.write("b", 130, VisitStarted(at=0, stage="late", visit=1, attempt=1))
    assert list(other.runs()) == ["b", "a"]


def test_a_damaged_record_is_located(tmp_path: Path) -> None:
    """One whose bytes changed is named with its number, and one that is gone too."""
    store = open_object_store(str(tmp_path))
    journal = SharedJournal(store)
    journal.create("r", RunCreated(at=0, run_id="r", file="w", source="", cwd="/", version="0"))
    for seq in (2, 3, 4):
        journal.write("r", seq, VisitStarted(at=0, stage="s", visit=seq, attempt=1))
    (tmp_path / "runs/r/records/00000003").unlink()
    with pytest.raises(JournalError, match="record 3 of run r is damaged: it is missing"):
        list(journal.entries("r"))
    store.put("runs/r/records/00000003", store.get("runs/r/records/00000004").replace(b'"s"', b'"t"'))
    with pytest.raises(JournalError, match="record 3 of run r is damaged: its checksum"):
        list(journal.entries("r"))


@pytest.mark.parametrize("url", ["http://x/y", "s3://", "ftp://host/path"])
def test_another_kind_of_store_is_refused(url: str) -> None:
    """The error says what can be named."""
    with pytest.raises(AwfError):
        open_object_store(url)


def test_no_key_leads_out_of_a_directory(tmp_path: Path) -> None:
    """A stage that is called like a way up is refused."""
    with pytest.raises(AwfError):
        open_object_store(str(tmp_path / "store")).put("../x", b"")


def test_names_are_listed_from_one_on(store: ObjectStore) -> None:
    """Those after a name are listed, in order, also when there is no such name."""
    for name in ("a", "c", "d"):
        store.create(f"index/{name}", b"")
    store.create("other/e", b"")
    assert store.names("index/") == ["a", "c", "d"]
    assert store.names("index/", "a") == store.names("index/", "b") == ["c", "d"]
    assert store.names("index/", "d") == []


def test_runs_are_mirrored_from_any_store(store: ObjectStore, tmp_path: Path) -> None:
    """What a journal in the store has is in the copy after a look, and what came since after the next."""
    journal, mirror = SharedJournal(store), Mirror(store, tmp_path / "mirror")
    for run in ("a", "b"):
        journal.create(run, RunCreated(at=time.time(), run_id=run, file="w", source="", goal="", cwd="/", version="0"))
    for number in range(3):
        mirror.update()
        with closing(SqliteJournal(tmp_path / "mirror")) as copy:
            assert list(copy.runs()) == ["a", "b"]
            assert list(copy.entries("a")) == list(journal.entries("a"))
        record = VisitStarted(at=time.time(), stage="s", visit=1, attempt=1 + number)
        journal.append("a", record)
        mirror.expect("a")

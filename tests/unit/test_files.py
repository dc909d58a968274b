"""A file has its old content or its new one, whoever is killed when, and one writer works at a time."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import files
from pipeline.errors import AwfError

KILLED = Path(__file__).with_name("killed.py")


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    """The old content is gone, the new one is there, and that is all there is."""
    path = tmp_path / "a.json"
    files.write_file(path, b"old")
    files.write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", [1, 63, 64, 200])
def test_many_files_are_replaced(tmp_path: Path, count: int) -> None:
    """Few or many, each has its content."""
    contents = {tmp_path / f"{number}.json": str(number).encode() for number in range(count)}
    files.write_files(contents)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == contents


def test_a_file_is_created_once(tmp_path: Path) -> None:
    """000-14: what is there is not written over."""
    path = tmp_path / "a.json"
    assert files.create_file(path, b"first")
    assert not files.create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_dead_writer_left_is_written_over(tmp_path: Path) -> None:
    """A half-written file beside the name is nobody's."""
    (tmp_path / ".a.json.tmp").write_bytes(b"half")
    files.write_file(tmp_path / "a.json", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "file"])
def test_what_lies_beside_the_name_is_neither_followed_nor_waited_for(tmp_path: Path, kind: str) -> None:
    """Somebody who may write here can neither make us write elsewhere nor keep us from writing."""
    (tmp_path / "victim").write_bytes(b"mine")
    trap = tmp_path / ".a.json.tmp"
    made: dict[str, Callable[[], object]] = {
        "link": lambda: trap.symlink_to(tmp_path / "victim"),
        "fifo": lambda: os.mkfifo(trap),
        "directory": trap.mkdir,
        "file": trap.touch,
    }
    made[kind]()
    files.write_file(tmp_path / "a.json", b"theirs")
    assert (tmp_path / "a.json").read_bytes() == b"theirs"
    assert (tmp_path / "victim").read_bytes() == b"mine"


def test_a_directory_in_the_place_of_a_file_is_moved_aside(tmp_path: Path) -> None:
    """It is kept under another name, each time under the next."""
    for number in (1, 2):
        (tmp_path / "a.json").unlink(missing_ok=True)
        (tmp_path / "a.json").mkdir()
        files.write_file(tmp_path / "a.json", b"ours")
        assert (tmp_path / f"a.json.unreadable-{number}").is_dir()
        assert (tmp_path / "a.json").read_bytes() == b"ours"


def test_only_a_file_of_a_sane_size_is_read(tmp_path: Path) -> None:
    """A link, a pipe, a device, a directory and a huge file are each refused at once."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(files.LARGEST + 1)
    for name in ("fifo", "zero", "loop", "folder", "huge"):
        with pytest.raises(files.NotAFile):
            files.read_file(tmp_path / name)
    assert files.read_file(tmp_path / "none") is None


def test_a_lock_that_nobody_gives_back_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds the lock of a directory keeps nobody waiting for ever."""
    monkeypatch.setattr(files, "_LOCK_TIMEOUT", 0.1)
    with (
        files.lock_directory(tmp_path),
        pytest.raises(AwfError, match="locked"),
        files.lock_directory(tmp_path),
    ):
        pass


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be made durable does not get the name; the message names the place."""
    files.write_file(tmp_path / "a.json", b"old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AwfError, match="No space left"), files.lock_directory(tmp_path):
        files.write_file(tmp_path / "a.json", b"new")
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_the_content_is_durable_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written, made durable, named, and the naming made durable, in that order."""
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def told_fsync(descriptor: int) -> None:
        calls.append("fsync")
        fsync(descriptor)

    def told_rename(old: Path, new: Path) -> None:
        calls.append("name")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", told_fsync)
    monkeypatch.setattr(os, "replace", told_rename)
    files.write_file(tmp_path / "a.json", b"new")
    assert calls == ["fsync", "name", "fsync"]


def test_what_can_be_computed_again_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `sync` a file is replaced whole, and nobody waits for the disk."""
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    files.write_file(path, b"new", sync=False)
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
    assert not calls


def test_a_path_is_inside_when_its_links_are_followed(tmp_path: Path) -> None:
    """000-37: a link that leads out is seen."""
    root = tmp_path / "repo"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    assert files.is_inside(root, root / "a" / "b")
    assert not files.is_inside(root, root / "link" / "b")


def test_what_is_read_is_a_file(tmp_path: Path) -> None:
    """000-37: a link, a directory and a pipe with the name of a file are told, and keep nobody waiting."""
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert files.read_file(tmp_path / "file") == b"content"
    assert files.read_file(tmp_path / "none") is None
    for name in ("link", "directory", "pipe"):
        with pytest.raises(files.NotAFile):
            files.read_file(tmp_path / name)


def test_the_lock_waits_and_dies_with_its_holder(tmp_path: Path) -> None:
    """Two writers at once: the second waits; one that was killed keeps nobody waiting."""
    holder = _program(tmp_path, "print('held', flush=True); sys.stdin.read()")
    assert _line(holder) == "held"
    waiter = _program(tmp_path, "print('next', flush=True)")
    with pytest.raises(subprocess.TimeoutExpired):
        waiter.wait(0.3)
    holder.send_signal(signal.SIGKILL)
    assert _line(waiter) == "next"
    for program in (holder, waiter):
        program.communicate()


def _program(directory: Path, body: str) -> "subprocess.Popen[str]":
    code = (
        "import sys; from pathlib import Path; from pipeline import files\n"
        f"with files.lock_directory(Path({str(directory)!r})):\n    {body}"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(program: "subprocess.Popen[str]") -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


@pytest.mark.parametrize("what", ["workspace", "verdict"])
def test_killed_between_any_two_writes_no_file_is_torn(tmp_path: Path, what: str) -> None:
    """000-14, 001-13, 001-24: killed at each call to the system in turn, what is there is whole, and one can go on."""
    result = subprocess.run(
        [sys.executable, str(KILLED), what, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 10  # deaths

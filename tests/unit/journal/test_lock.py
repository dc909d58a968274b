"""Ownership of a run across processes."""

import fcntl
import os
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from tests.unit.journal.conftest import Start

from pipeline.engine.ports import JournalError, RunIsOwned
from pipeline.journal.lock import is_driven, lock_run

MOMENT = 1_794_817_812.0


def own(directory: Path, now: float = MOMENT) -> None:
    with lock_run(directory, "a", lambda: now):
        pass


def test_a_live_owner_is_named(tmp_path: Path, start: Start) -> None:
    """The refusal says which process on which machine has the run, since when, and what to do."""
    owner = start("own", tmp_path, "a")
    assert owner.line() == "owned"
    with pytest.raises(RunIsOwned) as refused:
        own(tmp_path / "locks")
    words = str(refused.value)
    assert words.startswith(f"run a is being driven by process {owner.process.pid} on {socket.gethostname()} since ")
    assert words.endswith("; wait for it or stop it")


def test_the_run_of_a_killed_owner_is_free(tmp_path: Path, start: Start) -> None:
    """A lock is taken over as soon as its process is dead."""
    owner = start("own", tmp_path, "a")
    assert owner.line() == "owned"
    owner.process.kill()
    owner.process.wait()
    own(tmp_path / "locks")


def test_a_finished_owner_lets_go(tmp_path: Path, start: Start) -> None:
    """The run is free when its owner is done."""
    owner = start("own", tmp_path, "a")
    assert owner.line() == "owned"
    owner.let_go()
    assert owner.process.wait() == 0
    own(tmp_path / "locks")


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path, start: Start) -> None:
    """A child that outlives a killed owner does not own the run."""
    owner = start("own_and_fork", tmp_path, "a")
    assert owner.line() == "forked"
    owner.process.wait()
    own(tmp_path / "locks")


def test_a_started_program_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The lock is closed in the programs that a stage starts, even where they inherit everything."""
    with lock_run(tmp_path, "a", lambda: MOMENT):
        command = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
        tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        with tool:
            assert tool.stdout is not None
            assert tool.stdout.readline() == b"up\n"
            held = {link.readlink() for link in Path(f"/proc/{tool.pid}/fd").iterdir()}
    assert tmp_path / "a" not in held


def test_an_owner_of_another_day_has_a_date(tmp_path: Path) -> None:
    """The time of day is enough for today only."""
    told = datetime.fromtimestamp(MOMENT).astimezone()
    with lock_run(tmp_path, "a", lambda: MOMENT):
        with pytest.raises(RunIsOwned, match=rf"since {told:%H:%M};"):
            own(tmp_path)
        with pytest.raises(RunIsOwned, match=rf"since {told:%Y-%m-%d %H:%M};"):
            own(tmp_path, MOMENT + 3 * 86_400)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": 1, "host": "h", "since": 1e300}'])
def test_an_owner_that_has_not_signed(tmp_path: Path, text: str) -> None:
    """Whatever the lock's file says or fails to say, the run is refused while it is locked."""
    with lock_run(tmp_path, "a", lambda: MOMENT):
        (tmp_path / "a").write_text(text)
        with pytest.raises(RunIsOwned, match="another process"):
            own(tmp_path)


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    """The error names the run and the place."""
    (tmp_path / "locks").touch()
    with pytest.raises(JournalError, match="run a cannot be locked in"):
        own(tmp_path / "locks")


def test_whether_a_run_is_driven(tmp_path: Path, start: Start) -> None:
    """Only while its owner lives; a run that was never locked is not, and looking makes no lock."""
    assert not is_driven(tmp_path, "a")
    assert not (tmp_path / "locks").exists()
    owner = start("own", tmp_path, "a")
    assert owner.line() == "owned"
    signed = (tmp_path / "locks" / "a").read_text()
    assert is_driven(tmp_path, "a")
    assert (tmp_path / "locks" / "a").read_text() == signed
    owner.process.kill()
    owner.process.wait()
    assert not is_driven(tmp_path, "a")


def test_a_look_at_the_lock_is_no_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes while somebody looks gets the run: the look is over in a moment."""
    own(tmp_path)
    looking = os.open(tmp_path / "a", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    flock, tried = fcntl.flock, []

    def locked(descriptor: int, how: int) -> None:
        tried.append(how)
        flock(descriptor, how)
        if how == fcntl.LOCK_SH | fcntl.LOCK_NB:  # it was not an owner that was in the way
            os.close(looking)

    monkeypatch.setattr(fcntl, "flock", locked)
    own(tmp_path)
    exclusive, shared = fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_SH | fcntl.LOCK_NB
    assert tried == [exclusive, shared, exclusive]

"""What the tests run in processes of their own: `program.py COMMAND STORE ...`, with what was done on stdout."""

import contextlib
import os
import random
import signal
import sys
from pathlib import Path

from pipeline.engine.records import AnyRecord, RunCreated, VisitStarted
from pipeline.journal.sqlite import SqliteJournal


def created(run_id: str) -> AnyRecord:
    return RunCreated(at=0, run_id=run_id, file="w.awf.kdl", source="", cwd="/", version="0")


def record(seq: int) -> AnyRecord:
    """The record that stands at this number of every run, its size depending on the number."""
    return VisitStarted(at=seq, stage=f"stage-{seq}-" + "x" * (seq * 997 % 5000), visit=seq, attempt=1)


def say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def write(store: Path, name: str, runs: int, records: int) -> None:
    """Fill some runs in turn, once stdin is closed."""
    sys.stdin.read()
    journal = SqliteJournal(store)
    names = [f"{name}-{number}" for number in range(runs)]
    for run_id in names:
        journal.create(run_id, created(run_id))
    for seq in range(2, records + 1):
        for run_id in names:
            journal.append(run_id, record(seq))
    journal.close()


def crash(store: Path, rounds: int, seed: int) -> None:
    """Let child after child append to a run of its own and kill it at some moment; say what had returned by then."""
    chance = random.Random(seed)  # noqa: S311  # chosen moments, not secrets
    for number in range(rounds):
        inlet, outlet = os.pipe()
        child = os.fork()
        if child == 0:
            append_for_ever(store, f"run-{number}", outlet)
        os.close(outlet)
        say(f"run-{number} {kill_at_some_moment(child, inlet, chance)}")
        os.close(inlet)


def append_for_ever(store: Path, run_id: str, outlet: int) -> None:
    journal = SqliteJournal(store)
    journal.create(run_id, created(run_id))
    os.write(outlet, b".")
    seq = 1
    while True:
        seq = journal.append(run_id, record(seq + 1))
        os.write(outlet, b".")


def kill_at_some_moment(child: int, inlet: int, chance: random.Random) -> int:
    returned = 0
    for _ in range(chance.randrange(40)):
        returned += len(os.read(inlet, 1))
    for _ in range(chance.randrange(20_000)):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(inlet, 4096):
        returned += len(more)
    return returned


def own(store: Path, run_id: str) -> None:
    """Own a run until stdin is closed."""
    with SqliteJournal(store).lock(run_id):
        say("owned")
        sys.stdin.read()


def own_and_fork(store: Path, run_id: str) -> None:
    """Own a run, leave a child behind that lives until stdin is closed, and be killed."""
    with SqliteJournal(store).lock(run_id):
        if os.fork() == 0:
            say("forked")
            sys.stdin.read()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    command, store, *arguments = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt):
        globals()[command](Path(store), *(int(word) if word.isdigit() else word for word in arguments))

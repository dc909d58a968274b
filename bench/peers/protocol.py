"""What every engine's loop shares: the texts, the count of what ran, the measuring, and the command line.

    python -m bench.peers.on_NAME [--variant NAME] run|resume|report FOLDER ROUNDS [--die-at N] [--cap SECONDS]

Nothing here knows an engine, and nothing but the standard library is imported: each engine lives in an environment of
its own. Every stage calls `begun` first, so all engines are counted, capped and killed in the same way.
"""

import argparse
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

REVIEWERS = ("a", "b", "c")
ANSWER = 2_000
ROUND = ("review_a", "review_b", "review_c", "gate", "fix")
SIDE_FILE = "ran"  # beside the engine's store: a line for each execution of a stage
LIFE = "life"  # the line that a process begins with


def stages(rounds: int) -> int:
    """How many stages a loop has: code, rounds that fail, and one that passes and needs no fix."""
    return 1 + len(ROUND) * rounds + len(ROUND) - 1


def number(stage: str, round_: int) -> int:
    """Which stage of the loop this is, counted from 1; rounds are counted from 0."""
    return 1 if stage == "code" else 2 + len(ROUND) * round_ + ROUND.index(stage)


def review(reviewer: str, round_: int, rounds: int) -> str:
    """What a reviewer says in a round: 2 KB of its own, or nothing in the round that passes."""
    if round_ >= rounds:
        return ""
    line = f"{reviewer}{round_}: src/module_{round_ % 17}.py:{round_ % 400} does not close its file. "
    return (line * (ANSWER // len(line) + 1))[:ANSWER]


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of this process at one moment."""

    seconds: float
    cpu: float
    handed: int  # bytes given to the kernel (wchar)
    written: int  # bytes given to the disk (write_bytes)

    @classmethod
    def now(cls) -> "Reading":
        """The counters now."""
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return cls(time.perf_counter(), time.process_time(), int(fields["wchar"]), int(fields["write_bytes"]))

    def since(self, other: "Reading") -> "Reading":
        """What was counted between two moments."""
        return Reading(
            self.seconds - other.seconds, self.cpu - other.cpu, self.handed - other.handed, self.written - other.written
        )


class Life:
    """One process that works on a loop: notes what runs, and dies where it is told to."""

    def __init__(self) -> None:
        self._file = -1
        self._called = self._first = Reading.now()
        self._ran = self._die_at = 0
        self._cap = float("inf")

    def begin(self, folder: Path, die_at: int, cap: float) -> None:
        """From here on the engine works."""
        self._file = os.open(folder / SIDE_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, f"{LIFE}\n".encode())
        self._die_at, self._cap = die_at, cap
        self._called = Reading.now()

    def begun(self, stage: str, round_: int) -> None:
        """Note that a stage runs, on the first that what came before was getting ready, and die where it is due."""
        if not self._ran:
            self._first = Reading.now()
        self._ran += 1
        which = number(stage, round_)
        os.write(self._file, f"{which} {stage}\n".encode())
        if which >= self._die_at > 0 or time.perf_counter() - self._first.seconds > self._cap:
            self.tell(done=False)
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, *, done: bool) -> None:
        """Print what was measured: the way to the first stage, and from there to here."""
        finished = self._ran if done else self._ran - 1
        measured = {
            "done": done,
            "stages": finished,
            "ready": asdict(self._first.since(self._called)),
            "work": asdict(Reading.now().since(self._first)),
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(measured), flush=True)


LIFE_HERE = Life()
begun = LIFE_HERE.begun


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's loop; each takes the folder of its store, the rounds, and the variant."""

    run: Callable[[Path, int, str], None]
    resume: Callable[[Path, int, str], None]  # or begin, when nothing is recorded yet
    final: Callable[[Path, int, str], Any]  # the state that the finished loop left, read back from the store


def main(engine: Engine) -> None:
    """The command line of an engine's loop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--variant", default="")
    parser.add_argument("verb", choices=("run", "resume", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--die-at", type=int, default=0, help="SIGKILL at the begin of this stage, or a later one")
    parser.add_argument("--cap", type=float, default=float("inf"), help="SIGKILL at the first stage after so long")
    given = parser.parse_args()
    if given.verb == "report":
        text = json.dumps(engine.final(given.folder, given.rounds, given.variant), sort_keys=True)
        print(json.dumps({"state": sha256(text.encode()).hexdigest(), "size": len(text)}))
    else:
        LIFE_HERE.begin(given.folder, given.die_at, given.cap)
        work = engine.run if given.verb == "run" else engine.resume
        work(given.folder, given.rounds, given.variant)
        LIFE_HERE.tell(done=True)
    sys.stdout.flush()
    os._exit(0)  # as a process that is done: no engine's threads are waited for

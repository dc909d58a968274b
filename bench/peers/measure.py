"""What a stage costs on each engine, what getting ready costs, and how that grows with the length of the run.

The runs of all engines are interleaved, so that they see the same machine. A run of the greatest length dies at its
last stage, and what it leaves is resumed; one that takes longer than the cap dies there, and its figures are of the
stages it came to.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bench.peers.field import PATIENCE, ROOT, Contestant, Failed, answer, surroundings
from bench.peers.protocol import stages

SYNCED = (5, 15)  # rounds of two runs: the difference is of stages alone
FRESH = 5

Run = Mapping[str, Any]  # what a process told of itself, see `protocol`


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    rounds: Sequence[int]
    repeat: int
    cap: float  # seconds of one run
    budget: float  # seconds after which a length is not run again
    fresh: int = FRESH  # processes that import, and that resume
    synced: Sequence[int] = SYNCED  # rounds of the runs whose syncs are counted; none to count nothing


@dataclass(slots=True)
class Measured:
    """What was measured of one engine."""

    runs: dict[int, list[Run]] = field(default_factory=dict)  # by rounds
    imported: float = 0.0
    syncs: float | None = None  # per stage
    resumed: float | None = None  # seconds to the first stage
    resumed_after: int = 0  # stages on record

    def capped(self, rounds: int) -> bool:
        """Whether a run of this length, or of a lesser one, did not come to its end."""
        shorter = [(length, run) for length, runs in self.runs.items() if length <= rounds for run in runs]
        return any(run["stages"] < stages(length) - 1 for length, run in shorter)


@contextmanager
def folder(base: Path) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    made = Path(tempfile.mkdtemp(dir=base))
    try:
        yield made
    finally:
        shutil.rmtree(made)
        os.sync()  # what one run leaves to the disk is not the next one's business


def measure(
    field_: Sequence[Contestant], effort: Effort, base: Path, say: Callable[[str], None]
) -> dict[str, Measured]:
    """Measure all engines."""
    found = {one.title: Measured() for one in field_}
    for one in field_:
        say(f"{one.title}: imports and syncs")
        found[one.title].imported = import_time(one.python, one.module, effort.fresh)
        found[one.title].syncs = syncs_per_stage(one, effort.synced, base)
    for rounds in effort.rounds:
        for turn in range(effort.repeat):
            for one in field_:
                if worth_running(found[one.title], rounds, effort):
                    say(f"{one.title}: {rounds} rounds, run {turn + 1}")
                    run_once(one, found[one.title], rounds, effort, base)
    return found


def worth_running(known: Measured, rounds: int, effort: Effort) -> bool:
    """Whether another run of this length would tell more than it costs."""
    spent = sum(run["work"]["seconds"] for run in known.runs.get(rounds, []))
    return spent < effort.budget and not known.capped(rounds)


def run_once(one: Contestant, known: Measured, rounds: int, effort: Effort, base: Path) -> None:
    """One run; what the first of the longest leaves is resumed."""
    longest = rounds == effort.rounds[-1]
    limits = {"cap": effort.cap, **({"die_at": stages(rounds)} if longest else {})}
    with folder(base) as made:
        run = answer(one.command("run", made, rounds, **limits), may_die=True)
        known.runs.setdefault(rounds, []).append(run)
        if not run["done"] and not known.resumed_after:
            known.resumed_after = run["stages"]
            known.resumed = resume_time(one, made, rounds, effort.fresh)


def resume_time(one: Contestant, made: Path, rounds: int, fresh: int) -> float | None:
    """Seconds from the call to the next stage; None when the engine's own way does not lead there."""
    try:
        lives = [answer(one.command("resume", made, rounds, die_at=1), may_die=True) for _ in range(fresh)]
    except Failed:
        return None
    return statistics.median(float(life["ready"]["seconds"]) for life in lives)


@cache
def import_time(python: str, module: str, fresh: int) -> float:
    """Seconds to import the loop and all it needs, in a fresh process."""
    code = f"import time; t = time.perf_counter(); import bench.peers.{module}; print(time.perf_counter() - t)"
    return statistics.median(float(answer([python, "-c", code])) for _ in range(fresh))


def syncs_per_stage(one: Contestant, synced: Sequence[int], base: Path) -> float | None:
    """Calls of fsync and fdatasync, as strace counts them; None without strace."""
    if not synced or shutil.which("strace") is None:
        return None
    few, many = (count_syncs(one, rounds, base) for rounds in synced)
    return (many - few) / (stages(synced[1]) - stages(synced[0]))


def count_syncs(one: Contestant, rounds: int, base: Path) -> int:
    """All syncs of one run."""
    with folder(base) as made:
        log = made / "strace"
        watched = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(log)]
        command = [*watched, *one.command("run", made, rounds)]
        subprocess.run(command, cwd=ROOT, env=surroundings(), check=True, capture_output=True, timeout=PATIENCE)
        return sum("sync(" in line for line in log.read_text().splitlines())

"""SIGKILL at random moments, then the engine's own way of resuming, and what came of it.

Stages follow each other and each notes that it begins, so the notes alone tell: when stage n had begun, those before it
were done and recorded. What the resuming process begins with says the rest.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.peers.field import PATIENCE, ROOT, Contestant, Failed, answer, surroundings
from bench.peers.measure import folder
from bench.peers.protocol import LIFE, SIDE_FILE

SEED = 20
LABS = 2  # killed at once: what is counted here is no time


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one death."""

    completed: bool
    correct: bool
    lost: int  # stages that were done and that nothing can be gone on from, or that were left out
    again: int  # stages that were recorded and ran once more
    repeated: bool  # the interrupted stage ran once more, as it may


def trials(one: Contestant, deaths: int, base: Path) -> list[Trial]:
    """Kill and resume so many runs."""
    expected, took = calm(one, base)
    chance = random.Random(SEED)  # noqa: S311 - moments of death
    found: list[Trial] = []
    with ThreadPoolExecutor(LABS) as labs:
        while len(found) < deaths:
            moments = [chance.uniform(0, took) for _ in range(deaths - len(found))]
            found += [trial for trial in labs.map(lambda at: kill(one, at, expected, base), moments) if trial]
    return found


def calm(one: Contestant, base: Path) -> tuple[str, float]:
    """What a run that nobody disturbs leaves, and how long its stages take."""
    with folder(base) as made:
        run = answer(one.command("run", made, one.kill_rounds))
        return state_of(one, made), run["work"]["seconds"]


def state_of(one: Contestant, made: Path) -> str:
    """The state in the store."""
    return str(answer(one.command("report", made, one.kill_rounds))["state"])


def kill(one: Contestant, moment: float, expected: str, base: Path) -> Trial | None:
    """Kill a run so long after its first stage began, and resume it; None when it was over before."""
    with folder(base) as made:
        command = one.command("run", made, one.kill_rounds)
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            command, cwd=ROOT, env=surroundings(), stdout=quiet, stderr=quiet, start_new_session=True
        )
        wait_for_a_stage(process, made)
        time.sleep(moment)
        os.killpg(process.pid, signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            return None
        return outcome(one, made, expected)


def wait_for_a_stage(process: subprocess.Popen[bytes], made: Path) -> None:
    """Return when the first stage has begun."""
    until = time.monotonic() + PATIENCE
    while not any(lives(made)):
        if process.poll() is not None or time.monotonic() > until:
            raise Failed(f"{process.args!r} began no stage")
        time.sleep(0.001)


def lives(made: Path) -> list[list[int]]:
    """The stages that each process began, by their numbers."""
    return list(_lives(made / SIDE_FILE))


def _lives(path: Path) -> Iterator[list[int]]:
    text = path.read_text() if path.exists() else ""
    for life in text.split(f"{LIFE}\n")[1:]:
        yield [int(line.split()[0]) for line in life.splitlines()]


def outcome(one: Contestant, made: Path, expected: str) -> Trial:
    """Resume a run whose process is dead, and compare."""
    last = lives(made)[0][-1]
    try:
        answer(one.command("resume", made, one.kill_rounds))
        left = state_of(one, made)
    except Failed:
        return Trial(completed=False, correct=False, lost=last - 1, again=0, repeated=False)
    first = next(iter(lives(made)[1]), last + 1)
    return Trial(
        completed=True,
        correct=left == expected,
        lost=max(0, first - last - 1),
        again=max(0, last - first),
        repeated=first <= last,
    )

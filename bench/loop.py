"""What a stage of the review loop costs, and whether that stays the same however long the run is.

The loop of `bench/README.md`: code, three reviews that fail K rounds with answers of 2 KB, gate, fix. It is run as
usual, with ledger, files and the summary that agents get, and as `engine`: the same stages report nothing. Beside it a
floor: the same number of bare SQLite commits in the same run. Both are measured in turn, since a disk is not equally
quick at all times. Prints the medians per stage: time, CPU, bytes written.
"""

import argparse
import asyncio
import gc
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from unittest import mock

from pipeline.app import wiring
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.runs import build_record, result_of
from pipeline.app.store import load_state
from pipeline.app.wiring import Runtime, build_services
from pipeline.engine.driver import Driver
from pipeline.engine.records import VisitCompleted
from pipeline.engine.state import begin
from pipeline.journal.sqlite import SqliteJournal

ROUNDS = (10, 100, 1000)
TURNS = 9
SMALLEST_ROUNDS, SMALLEST_TURNS = (1, 2), 1
ANSWER = 2_000
WORKFLOW = """workflow "Review loop" {
  version 2
  start "code"
  settings {
    max_visits 100000
    max_stages 1000000
  }
  stage "code" kind="llm" prompt="Write it"
  stage "review_a" kind="llm" auto_status=true prompt="Review it"
  stage "review_b" kind="llm" auto_status=true prompt="Review it"
  stage "review_c" kind="llm" auto_status=true prompt="Review it"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Fix all outstanding findings"
  stage "exit" kind="exit"
  transition from="code" to="review_a"
  transition from="review_a" to="review_b"
  transition from="review_b" to="review_c"
  transition from="review_c" to="gate"
  transition from="fix" to="review_a"
}
"""


def workflow(rounds: int, *, findings: bool) -> str:
    """Return the loop; without findings its reviewers are agents like any other, and the gate counts the rounds."""
    if findings:
        return WORKFLOW
    plain = WORKFLOW.replace(" auto_status=true", "")
    return plain.replace("findings() > 0", f'visits(\\"fix\\") < {rounds}')


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took."""

    seconds: float
    cpu: float
    written: int

    def per(self, count: int) -> "Cost":
        """The cost of one of so many."""
        return Cost(self.seconds / count, self.cpu / count, self.written // count)


def measured(work: Callable[[], object]) -> Cost:
    """Time, CPU and bytes handed to the kernel by a call."""
    began, cpu, written = time.perf_counter(), time.process_time(), _written()
    work()
    return Cost(time.perf_counter() - began, time.process_time() - cpu, _written() - written)


def _written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def script(rounds: int) -> str:
    """Return replies: each review fails `rounds` times with 2 KB of its own, then passes."""

    def replies(reviewer: str) -> list[str]:
        marker = "[STATUS: fail]\n[FAILURE_REASON: it is not right]"
        return [*(f"{_words(reviewer, number)}\n{marker}" for number in range(rounds)), "Fine.\n[STATUS: success]"]

    return json.dumps({f"review_{name}": replies(name) for name in "abc"})


def _words(reviewer: str, number: int) -> str:
    line = f"{reviewer}{number}: src/module_{number % 17}.py:{number % 400} does not close its file. "
    return (line * (ANSWER // len(line) + 1))[:ANSWER]


@contextmanager
def without_summary() -> Iterator[None]:
    """Give agents no summary of the run; everything else is as in any run."""
    with mock.patch.object(wiring, "_summary", return_value=lambda _job: ""):
        yield


def run_loop(folder: Path, rounds: int, *, findings: bool) -> tuple[Cost, int]:
    """Run the loop once, with findings and summary or without both; return its cost and the number of stages."""
    path = folder / "loop.awf.kdl"
    path.write_text(workflow(rounds, findings=findings))
    entry = Catalog(folder, folder, folder).find(path.name)
    options = {"backend": "scripted", "script": script(rounds)}
    record = build_record(entry, check(entry), "bench", "bench", options, folder, time.time())
    store = folder / ".awf"
    journal = SqliteJournal(store)
    journal.create("bench", record)
    state = begin(record)
    with nullcontext() if findings else without_summary():
        made = build_services(state, journal, Runtime(store=store, environ=dict(os.environ)))
    cost = measured(lambda: asyncio.run(Driver(state, made).drive()))
    result = result_of(load_state(journal, "bench"), journal)
    if result.status != "success":
        sys.exit(f"the loop did not succeed: {result}")
    return cost, len(result.path)


def floor(folder: Path, stages: int, payloads: list[bytes]) -> Cost:
    """Return the cost of as many bare commits of the same operations."""
    database = sqlite3.connect(folder / "floor.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, body BLOB)")

    def commits() -> None:
        for number in range(stages):
            database.execute("INSERT INTO records VALUES (?, ?)", (number + 1, payloads[number]))

    cost = measured(commits)
    database.close()
    return cost


def operations(store: Path) -> list[bytes]:
    """Return the operations of each stage, as JSON."""
    journal = SqliteJournal(store)
    records = [entry.record for entry in journal.entries("bench")]
    return [json.dumps(r.operations).encode() for r in records if isinstance(r, VisitCompleted)]


def row(base: Path, rounds: int, turns: int, *, findings: bool) -> float:
    """Measure one length of the loop in turn with its floor, print it, and return the seconds per stage.

    Each turn is compared with the floors before and after it, and the middle one counts: a disk is now quick, now slow.
    """
    costs, floors = [], []
    for turn in range(turns + 1):
        folder = base / f"{rounds}-{findings}-{turn}"
        folder.mkdir()
        cost, stages = run_loop(folder, rounds, findings=findings)
        made = operations(folder / ".awf")
        costs.append(cost.per(stages))
        floors.append(floor(folder, stages, made).per(stages))
    costs.pop(0)  # it has no floor before it
    each, bare, own = middle(costs), middle(floors), sum(map(len, made)) // stages
    around = [(before.seconds + after.seconds) / 2 for before, after in pairwise(floors)]
    ratio = median(cost.seconds / commit for cost, commit in zip(costs, around, strict=True))
    print(
        f"{'findings' if findings else 'engine':<8} {rounds:>5} {stages:>7} {each.seconds * 1e3:>7.2f}"
        f" {bare.seconds * 1e3:>7.2f} {ratio:>6.2f} {each.cpu * 1e3:>7.2f}"
        f" {each.written:>7} {own:>6} {each.written / own:>6.2f}"
    )
    return each.seconds


def middle(costs: list[Cost]) -> Cost:
    """Return the medians of some costs."""
    return Cost(
        seconds=median(cost.seconds for cost in costs),
        cpu=median(cost.cpu for cost in costs),
        written=int(median(cost.written for cost in costs)),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="where the runs are written; a temporary folder is made in it")
    parser.add_argument("--smallest", action="store_true", help="a few stages, to see that it works")
    given = parser.parse_args()
    lengths, turns = (SMALLEST_ROUNDS, SMALLEST_TURNS) if given.smallest else (ROUNDS, TURNS)
    base = Path(tempfile.mkdtemp(prefix="awf-bench-", dir=given.folder))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # to be moved between cores costs now this side, now that
    print("per stage: of the engine alone, and with findings, their files and the summary that each agent is given")
    names = ("K", "stages", "ms", "floor", "ratio", "cpu ms", "bytes", "ops", "ratio")
    widths = (5, 7, 7, 7, 6, 7, 7, 6, 6)
    print(" " * 8, *(f"{name:>{width}}" for name, width in zip(names, widths, strict=True)))
    try:
        for findings in (False, True):
            times = [row(base, rounds, turns, findings=findings) for rounds in lengths]
            print(f"{'':8} K = {lengths[-1]} against K = {lengths[0]}: {times[-1] / times[0]:.2f} times")
        store = base / f"{lengths[-1]}-True-0" / ".awf"
        gc.collect()  # what the runs left is no part of it
        gc.freeze()
        resumed = measured(lambda: load_state(SqliteJournal(store), "bench"))
        print(f"the state of that run from its journal: {resumed.cpu:.2f} s CPU")
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()

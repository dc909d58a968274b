"""Deaths: many runs over several workers, of which some are killed, and a server that goes away and comes back."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cluster.conftest import Server, served
from tests.cluster.lab import Lab

from pipeline.app.store import store_label
from pipeline.backends.process_tree import list_processes, read_marker
from pipeline.cluster.client import LoopThread
from pipeline.engine.records import BranchCompleted, VisitCompleted
from pipeline.engine.state import RunStatus

RUNS = int(os.environ.get("AWF_CLUSTER_RUNS", "12"))
WORKERS = ("one", "two", "three", "four")
PATH = ("build", "lint", "review", "checks", "gate", "fix", "lint", "review", "checks", "gate", "ok", "last", "end")
SCRIPT = {"review": ["Bad.\n[STATUS: fail]\n[FAILURE_REASON: no tests]", "Fine.\n[STATUS: success]"]}


def workflow(ran: Path) -> str:
    """A run with a parallel stage, a fix loop and a human gate; its tools write down when they run."""
    note = f'echo \\"$AWF_RUN_ID $AWF_STAGE $AWF_VISIT $(date +%s.%N)\\" >> {ran}'
    return f"""workflow "Deaths" {{
version 2
start "build"
settings {{ max_visits 9; }}
stage "build" kind="tool" command="{note}; sleep 0.2"
stage "checks" kind="parallel" {{ branch "lint"; branch "review"; }}
stage "lint" kind="tool" command="{note}; sleep 0.3"
stage "review" kind="llm" auto_status=true prompt="Review"
stage "gate" kind="decision" {{ route when="findings() > 0" to="fix"; route when="true" to="ok"; }}
stage "fix" kind="llm" prompt="Fix"
stage "ok" kind="human" prompt="Good?" {{
  option "yes" label="Yes" to="last" approves=true; option "no" label="No" to="fix"; }}
stage "last" kind="tool" command="{note}"
stage "end" kind="exit"
transition from="build" to="checks"
transition from="checks" to="gate"
transition from="fix" to="checks"
transition from="last" to="end"
}}
"""


@pytest.fixture
def alone(loop: LoopThread, tmp_path: Path) -> Iterator[Lab]:
    """A cluster with a server of its own, and no worker yet."""
    with served(tmp_path) as server, ExitStack() as stack:
        made = Lab(server, loop, tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
        made.connect()
        stack.callback(made.close)
        yield made


def restarted(server: Server) -> None:
    server.stop()
    server.start()


def test_all_runs_end_right_whoever_dies(alone: Lab, tmp_path: Path) -> None:
    """Two of four workers are killed and the server is restarted: no committed stage runs again, nothing is left."""
    lab, ran = alone, tmp_path / "ran"
    runs = [f"d{number}" for number in range(RUNS)]
    with ExitStack() as stack:
        workers = {name: stack.enter_context(lab.process(name, "--concurrency", "4")) for name in WORKERS}
        for run in runs:
            lab.start(run, workflow(ran), SCRIPT)
        until(lambda: len(lines(ran)) >= RUNS // 2)
        workers["one"].send_signal(signal.SIGKILL)
        until(lambda: len(lines(ran)) >= RUNS)
        restarted(lab.server)
        workers["two"].send_signal(signal.SIGKILL)
        for name in ("one", "two"):
            workers[name].wait()
            stack.enter_context(lab.process(name, "--concurrency", "4"))  # as whatever keeps workers alive does
        for run in runs:
            lab.until(run, lambda state: state.status is RunStatus.WAITING, timeout=30 + 3 * RUNS)
            lab.answer(run, "yes")
        for run in runs:
            result = lab.over(run, timeout=30 + 3 * RUNS)
            assert (result.status, result.path) == (RunStatus.SUCCESS, PATH), run
    for run in runs:
        assert repeated(lab, run, ran) == []
    assert left_running(tmp_path) == []


def repeated(lab: Lab, run: str, ran: Path) -> list[str]:
    """What is on record twice, and what ran when it was on record already."""
    done: dict[tuple[str, int], float] = {}
    times: Counter[tuple[str, int]] = Counter()
    for record in lab.records(run):
        if isinstance(record, BranchCompleted):
            visit = (record.branch, record.branch_visit)
        elif isinstance(record, VisitCompleted):
            visit = (record.stage, record.visit)
        else:
            continue
        times[visit] += 1
        done[visit] = record.at
    wrong = [f"{visit} is on record {count} times" for visit, count in times.items() if count > 1]
    for name, stage, number, at in (line.split() for line in lines(ran)):
        if name == lab.id(run) and float(at) > done[stage, int(number)]:
            wrong.append(f"{stage} {number} ran when it was on record")
    return wrong


def left_running(folder: Path) -> list[int]:
    labels = tuple(store_label(folder / name) for name in WORKERS)
    carried = [(process.pid, read_marker(process.pid) or "") for process in list_processes() if process.alive]
    return [pid for pid, mark in carried if any(f"@{label}:" in mark for label in labels)]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)

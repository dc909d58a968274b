"""What survives when the network, the object store, the server, its database or one worker after the other fails."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cluster.conftest import Server
from tests.cluster.lab import Lab, read_lines, tools, wait_until
from tests.cluster.relay import Relay

from pipeline.app.store import store_label
from pipeline.backends.process_tree import is_alive, list_processes, read_marker
from pipeline.cluster.journal import FencedJournal, RunTakenOver, SharedJournal
from pipeline.cluster.messages import Timeouts
from pipeline.cluster.object_store import StoreUnavailable, open_object_store
from pipeline.cluster.server import LoopThread
from pipeline.engine.records import (
    BranchCompleted,
    RunCreated,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
    VisitStarted,
)
from pipeline.engine.state import RunStatus

RUNS = int(os.environ.get("AWF_CLUSTER_RUNS", "12"))  # in the test with many deaths


def until_exists(path: Path) -> str:
    """A command that ends when a file exists."""
    return f"until test -e {path}; do sleep 0.1; done"


def first_time(ran: Path, command: str) -> str:
    """A command that does something else when it runs again."""
    return f"echo x >> {ran}; test $(wc -l < {ran}) -ge 2 || {command}"


@pytest.fixture
def relay(server: Server, loop: LoopThread) -> Iterator[Relay]:
    """A connection to the server that can be cut."""
    with Relay(loop, server.port) as made:
        yield made


@pytest.fixture
def relayed(relay: Relay, lab: Lab) -> Lab:
    """A cluster whose only worker uses the relay, while the test does not."""
    lab.stop_worker("w1")
    lab.url = relay.url
    lab.worker("w1")
    lab.url = lab.server.url
    return lab


def test_a_short_disconnection_repeats_no_stage(relayed: Lab, relay: Relay, tmp_path: Path) -> None:
    """A stage that ends while the server cannot be reached is recorded; the run continues afterwards."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    relayed.timeouts = Timeouts()
    note = f"echo $AWF_STAGE >> {ran}"
    relayed.start("r", tools(("a", note), ("b", f"{note}; {until_exists(go)}"), ("c", note)))
    wait_until(lambda: read_lines(ran) == ["a", "b"])
    relay.cut()
    go.touch()
    relayed.until("r", lambda state: state.cursor.stage == "c")
    relay.repair()
    assert relayed.ended().path == ("a", "b", "c", "end")
    assert read_lines(ran) == ["a", "b", "c"]
    assert [relayed.completed(stage)[0].attempt for stage in "abc"] == [1, 1, 1]


def test_after_a_long_disconnection_another_worker_takes_over(relayed: Lab, relay: Relay, tmp_path: Path) -> None:
    """The first worker stops the stage, so it never runs in two places, and works again once it is connected."""
    ran, never = tmp_path / "ran", tmp_path / "never"
    relayed.start("r", tools(("a", first_time(ran, until_exists(never)))))
    wait_until(lambda: len(read_lines(ran)) == 1)
    relay.cut()
    relayed.worker("w2")
    assert relayed.ended(timeout=120).path == ("a", "end")
    assert relayed.completed("a")[0].attempt == 2
    wait_until(lambda: not relayed.processes())
    relay.repair()
    relayed.stop_worker("w2")
    relayed.start("next", tools(("a", "true")))
    assert relayed.ended("next").status is RunStatus.SUCCESS
    assert relayed.kinds() == [RunResumed, VisitCompleted, VisitCompleted]


def test_the_result_of_a_worker_that_slept_too_long_is_not_recorded(lab: Lab, tmp_path: Path) -> None:
    """When it wakes, the stage has run elsewhere."""
    ran, go, late = tmp_path / "ran", tmp_path / "go", tmp_path / "late"
    lab.stop_worker("w1")
    with lab.worker_process("one") as worker:
        lab.start("r", tools(("a", first_time(ran, f"({until_exists(go)}; touch {late})"))))
        wait_until(lambda: len(read_lines(ran)) == 1)
        worker.send_signal(signal.SIGSTOP)
        try:
            lab.worker("w2")
            assert lab.ended(timeout=120).path == ("a", "end")
            go.touch()
            wait_until(late.exists)
        finally:
            worker.send_signal(signal.SIGCONT)
    assert lab.kinds() == [RunResumed, VisitCompleted, VisitCompleted]
    assert lab.completed("a")[0].attempt == 2


def test_of_two_workers_with_one_stage_the_first_to_write_wins(tmp_path: Path) -> None:
    """The other learns that the run was taken over, and nothing of its work is recorded."""
    store = open_object_store(str(tmp_path))
    SharedJournal(store).create("r", RunCreated(at=0, run_id="r", file="w", source="", cwd="/", version="0"))
    first, second = FencedJournal(store, "r", after=1), FencedJournal(store, "r", after=1)
    first.append("r", VisitStarted(at=1, stage="a", visit=1, attempt=2))
    with pytest.raises(RunTakenOver):
        second.append("r", VisitStarted(at=2, stage="a", visit=1, attempt=1))
    assert [entry.record.at for entry in SharedJournal(store).entries("r")] == [0, 1]


def test_while_the_store_is_unavailable_nothing_starts_and_ended_stages_wait(lab: Lab, tmp_path: Path) -> None:
    """When it is back, the end of the stage is recorded and the run continues; nothing ran twice."""
    ran, go, away = tmp_path / "ran", tmp_path / "go", tmp_path / "away"
    note = f"echo $AWF_STAGE >> {ran}"
    lab.start("r", tools(("a", f"{note}; {until_exists(go)}; echo ended >> {ran}"), ("b", note)))
    wait_until(lambda: read_lines(ran) == ["a"])
    lab.shared.rename(away)
    lab.shared.touch()  # nothing can be created below a file
    go.touch()
    wait_until(lambda: read_lines(ran) == ["a", "ended"])
    described = lab.loop.call(lab.handle().describe())
    assert [one.activity_type.name for one in described.raw_description.pending_activities] == ["visit"]
    with pytest.raises(StoreUnavailable):
        lab.start("other", tools(("a", "true")))
    lab.shared.unlink()
    away.rename(lab.shared)
    assert lab.ended().path == ("a", "b", "end")
    assert read_lines(ran) == ["a", "ended", "b"]
    assert [lab.completed(stage)[0].attempt for stage in "ab"] == [1, 1]


GATE = """workflow "W" {
version 2
start "a"
stage "a" kind="tool" command="echo a >> RAN"
stage "ok" kind="human" prompt="Good?" {
  option "yes" label="Yes" to="b" approves=true; option "no" label="No" to="a"; }
stage "b" kind="tool" command="echo b >> RAN"
stage "end" kind="exit"
transition from="a" to="ok"
transition from="b" to="end"
}
"""


def test_runs_survive_the_loss_of_the_server_s_database(lab_with_own_server: Lab, tmp_path: Path) -> None:
    """The object store has all records: one run continues by an answer, one by being resumed."""
    lab = lab_with_own_server
    lab.worker("w1")
    ran = {run: tmp_path / f"ran-{run}" for run in ("answered", "resumed")}
    for run, path in ran.items():
        lab.start(run, GATE.replace("RAN", str(path)))
        assert lab.stopped(run).status is RunStatus.WAITING
    lab.server.stop()
    for file in lab.server.database.parent.glob("temporal.db*"):
        file.unlink()
    lab.server.start()
    lab.connect()
    lab.answer("answered", "yes")
    lab.resume("resumed")
    wait_until(lambda: lab.kinds("resumed").count(RunWaiting) == 2)
    lab.answer("resumed", "yes")
    for run, path in ran.items():
        assert lab.ended(run).path == ("a", "ok", "b", "end")
        assert read_lines(path) == ["a", "b"]


def test_a_stage_that_outlasts_the_loss_of_the_server_runs_again(lab_with_own_server: Lab, tmp_path: Path) -> None:
    """Its worker stops it when the server has not responded for too long."""
    lab, ran = lab_with_own_server, tmp_path / "ran"
    lab.worker("w1")
    never = until_exists(tmp_path / "never")
    lab.start("r", tools(("a", first_time(ran, never)), ("b", "true")))
    wait_until(lambda: len(read_lines(ran)) == 1)
    lab.server.stop()
    wait_until(lambda: not lab.processes())
    lab.server.start()
    assert lab.ended().path == ("a", "b", "end")
    assert [lab.completed(stage)[0].attempt for stage in "ab"] == [2, 1]


def test_a_stage_that_loses_its_worker_five_times_pauses_the_run(lab: Lab, tmp_path: Path) -> None:
    """No other worker gets it until somebody resumes the run."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    lab.stop_worker("w1")
    lab.start("r", tools(("a", f"echo x >> {ran}; {until_exists(go)}")))
    for number in range(1, 6):
        lab.worker(f"w{number}", grace=0.1)
        wait_until(lambda: len(read_lines(ran)) == number)  # noqa: B023 - called before the next
        lab.stop_worker(f"w{number}")
    lab.worker("w6")
    assert lab.stopped().status is RunStatus.PAUSED
    last = lab.records()[-1]
    assert isinstance(last, RunPaused)
    assert (last.limit, last.stage, last.count) == ("lost", "a", 5)
    go.touch()
    lab.resume("r")
    assert lab.ended().path == ("a", "end")
    assert len(read_lines(ran)) == 6


def test_a_directory_has_one_worker(lab: Lab) -> None:
    """A second one is refused, since it would kill the processes of the first."""
    with lab.worker_process("w1") as second:
        assert second.wait(60) == 2


WORKERS = ("one", "two", "three", "four")
PATH = ("build", "lint", "review", "checks", "gate", "fix", "lint", "review", "checks", "gate", "ok", "last", "end")
SCRIPT = {"review": ["Bad.\n[STATUS: fail]\n[FAILURE_REASON: no tests]", "Fine.\n[STATUS: success]"]}


def loop_workflow(ran: Path) -> str:
    """A parallel stage, a fix loop and a human gate; its tools write down when they run."""
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


def test_all_runs_end_correctly_although_workers_and_the_server_die(lab_with_own_server: Lab, tmp_path: Path) -> None:
    """Two of four workers are killed and the server restarts: no recorded stage runs again, no process is left."""
    lab, ran = lab_with_own_server, tmp_path / "ran"
    runs = [f"d{number}" for number in range(RUNS)]
    with ExitStack() as stack:
        workers = {name: stack.enter_context(lab.worker_process(name, "--concurrency", "4")) for name in WORKERS}
        for run in runs:
            lab.start(run, loop_workflow(ran), SCRIPT)
        wait_until(lambda: len(read_lines(ran)) >= RUNS // 2, 120)
        workers["one"].send_signal(signal.SIGKILL)
        wait_until(lambda: len(read_lines(ran)) >= RUNS, 120)
        lab.server.stop()
        lab.server.start()
        workers["two"].send_signal(signal.SIGKILL)
        for name in ("one", "two"):
            workers[name].wait()
            stack.enter_context(lab.worker_process(name, "--concurrency", "4"))  # as a supervisor would
        for run in runs:
            lab.until(run, lambda state: state.status is RunStatus.WAITING, timeout=30 + 3 * RUNS)
            lab.answer(run, "yes")
        for run in runs:
            result = lab.ended(run, timeout=30 + 3 * RUNS)
            assert (result.status, result.path) == (RunStatus.SUCCESS, PATH), run
    for run in runs:
        _assert_nothing_repeated(lab, run, ran)
    labels = [f"@{store_label(tmp_path / name)}:" for name in WORKERS]
    marks = [read_marker(process) or "" for process in list_processes() if is_alive(process)]
    assert not [mark for mark in marks if any(label in mark for label in labels)]


def _assert_nothing_repeated(lab: Lab, run: str, ran: Path) -> None:
    """No visit is recorded twice, and none ran after it was recorded."""
    recorded: dict[tuple[str, int], float] = {}
    times: Counter[tuple[str, int]] = Counter()
    for record in lab.records(run):
        if isinstance(record, BranchCompleted):
            visit = (record.branch, record.branch_visit)
        elif isinstance(record, VisitCompleted):
            visit = (record.stage, record.visit)
        else:
            continue
        times[visit] += 1
        recorded[visit] = record.at
    assert max(times.values()) == 1
    for name, stage, number, at in (line.split() for line in read_lines(ran)):
        assert name != lab.id(run) or float(at) <= recorded[stage, int(number)], (run, stage, number)

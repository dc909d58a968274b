"""What is promised when the network, the store, the server's database or one worker after the other goes away."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cluster.conftest import Server, served
from tests.cluster.lab import Lab
from tests.cluster.relay import Relay

from pipeline.backends.process_tree import list_processes, read_marker
from pipeline.cluster.client import LoopThread
from pipeline.cluster.journal import FencedJournal, RunTakenOver, SharedJournal
from pipeline.cluster.messages import Timeouts
from pipeline.cluster.object_store import StoreUnavailable, open_object_store
from pipeline.engine.records import RunCreated, RunPaused, RunResumed, RunWaiting, VisitCompleted, VisitStarted
from pipeline.engine.state import RunStatus


def workflow(*stages: tuple[str, str]) -> str:
    """Tools one after the other."""
    names = [name for name, _ in stages]
    tools = "\n".join(f'stage "{name}" kind="tool" command="{command}"' for name, command in stages)
    ways = "\n".join(
        f'transition from="{name}" to="{after}"' for name, after in zip(names, [*names[1:], "end"], strict=True)
    )
    return f'workflow "W" {{\nversion 2\nstart "{names[0]}"\n{tools}\nstage "end" kind="exit"\n{ways}\n}}\n'


def until_there(path: Path) -> str:
    """A command that ends when a file is there."""
    return f"until test -e {path}; do sleep 0.1; done"


@pytest.fixture
def line(server: Server, loop: LoopThread) -> Iterator[Relay]:
    """What lies between a worker and the server."""
    with Relay(loop, server.port) as made:
        yield made


@pytest.fixture
def apart(line: Relay, lab: Lab) -> Lab:  # in this order: the worker leaves while there is a line
    """A cluster whose one worker calls over the line, while the test does not."""
    lab.leave("w1")
    lab.url = line.url
    lab.worker("w1")
    lab.url = lab.server.url
    return lab


def test_a_cut_line_repeats_no_stage(apart: Lab, line: Relay, tmp_path: Path) -> None:
    """A stage that ends while the server is out of reach is on record; the run goes on when it is back."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    apart.terms = Timeouts()
    note = f"echo $AWF_STAGE >> {ran}"
    apart.start("r", workflow(("a", note), ("b", f"{note}; {until_there(go)}"), ("c", note)))
    _await(lambda: _lines(ran) == ["a", "b"])
    line.cut()
    go.touch()
    apart.until("r", lambda state: state.cursor.stage == "c")
    line.mend()
    assert apart.over("r").path == ("a", "b", "c", "end")
    assert _lines(ran) == ["a", "b", "c"]
    assert all(record.attempt == 1 for record in _completed(apart))


def test_who_was_cut_off_too_long_stops_and_another_takes_over(apart: Lab, line: Relay, tmp_path: Path) -> None:
    """The stage runs again elsewhere, and not in two places; the worker works on when the line is back."""
    ran, never = tmp_path / "ran", tmp_path / "never"
    apart.start("r", workflow(("a", f"echo x >> {ran}; test $(wc -l < {ran}) -ge 2 || {until_there(never)}")))
    _await(lambda: len(_lines(ran)) == 1)
    line.cut()
    apart.worker("w2")
    assert apart.over("r", timeout=120).path == ("a", "end")
    assert _completed(apart)[0].attempt == 2
    _await(lambda: not _processes(apart))
    line.mend()
    apart.leave("w2")
    apart.start("next", workflow(("a", "true")))
    assert apart.over("next").status is RunStatus.SUCCESS
    assert _kinds(apart) == [RunCreated, RunResumed, VisitCompleted, VisitCompleted]


def test_who_slept_too_long_is_not_believed(lab: Lab, tmp_path: Path) -> None:
    """The stage has run again elsewhere when its first worker wakes: what that one did leaves no record."""
    ran, go, late = tmp_path / "ran", tmp_path / "go", tmp_path / "late"
    first = f"({until_there(go)}; touch {late})"
    lab.leave("w1")
    with lab.process("one") as worker:
        lab.start("r", workflow(("a", f"echo x >> {ran}; test $(wc -l < {ran}) -ge 2 || {first}")))
        _await(lambda: len(_lines(ran)) == 1)
        worker.send_signal(signal.SIGSTOP)
        try:
            lab.worker("w2")
            assert lab.over("r", timeout=120).path == ("a", "end")
            go.touch()
            _await(late.exists)
        finally:
            worker.send_signal(signal.SIGCONT)
    assert _kinds(lab) == [RunCreated, RunResumed, VisitCompleted, VisitCompleted]
    assert _completed(lab)[0].attempt == 2


def test_of_two_who_were_given_a_stage_one_is_recorded(tmp_path: Path) -> None:
    """Whoever writes the next record first has decided; the other is told, and nothing of his is kept."""
    store = open_object_store(str(tmp_path))
    SharedJournal(store).create("r", RunCreated(at=0, run_id="r", file="w", source="", cwd="/", version="0"))
    first, second = FencedJournal(store, "r", after=1), FencedJournal(store, "r", after=1)
    first.append("r", VisitStarted(at=1, stage="a", visit=1, attempt=2))
    with pytest.raises(RunTakenOver):
        second.append("r", VisitStarted(at=2, stage="a", visit=1, attempt=1))
    assert [entry.record.at for entry in SharedJournal(store).entries("r")] == [0, 1]


def test_without_the_store_nothing_is_begun_and_what_ends_waits_for_it(lab: Lab, tmp_path: Path) -> None:
    """When it is back, the end of the stage is recorded, and the run goes on; nothing was done twice."""
    ran, go, shared = tmp_path / "ran", tmp_path / "go", Path(lab.shared)
    note = f"echo $AWF_STAGE >> {ran}"
    lab.start("r", workflow(("a", f"{note}; {until_there(go)}; echo ended >> {ran}"), ("b", note)))
    _await(lambda: _lines(ran) == ["a"])
    away = shared.rename(tmp_path / "away")
    shared.touch()  # nothing can be made below it
    go.touch()
    _await(lambda: _lines(ran) == ["a", "ended"])
    assert lab.loop.call(_pending(lab)) == ["visit"]
    with pytest.raises(StoreUnavailable):
        lab.start("other", workflow(("a", "true")))
    shared.unlink()
    away.rename(shared)
    assert lab.over("r").path == ("a", "b", "end")
    assert _lines(ran) == ["a", "ended", "b"]
    assert [record.attempt for record in _completed(lab)] == [1, 1, 1]


@pytest.fixture
def alone(loop: LoopThread, tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """A cluster with a server of its own, and that server's database."""
    folder = tmp_path / "server"
    folder.mkdir()
    with served(folder) as server, ExitStack() as stack:
        made = Lab(server, loop, tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
        stack.callback(made.close)
        made.begin()
        yield made, folder / "temporal.db"


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


def test_runs_outlive_the_server_s_database(alone: tuple[Lab, Path], tmp_path: Path) -> None:
    """A server that knows nothing any more is told by the store: one run by an answer, one by being resumed."""
    lab, database = alone
    ran = {run: tmp_path / f"ran-{run}" for run in ("answered", "resumed")}
    for run, path in ran.items():
        lab.start(run, GATE.replace("RAN", str(path)))
        assert lab.stopped(run).status is RunStatus.WAITING
    lab.server.stop()
    for file in database.parent.glob("temporal.db*"):
        file.unlink()
    lab.server.start()
    lab.connect()
    lab.answer("answered", "yes")
    assert lab.over("answered").path == ("a", "ok", "b", "end")
    lab.resume("resumed")
    lab.until("resumed", lambda state: state.status is RunStatus.WAITING and _waits(lab, "resumed") == 2)
    lab.answer("resumed", "yes")
    assert lab.over("resumed").path == ("a", "ok", "b", "end")
    assert [_lines(path) for path in ran.values()] == [["a", "b"], ["a", "b"]]


def test_what_outlasts_the_absence_of_the_server_runs_again(alone: tuple[Lab, Path], tmp_path: Path) -> None:
    """Its worker stops it when it has heard nothing for too long, and takes it up again when the server is back."""
    lab, ran = alone[0], tmp_path / "ran"
    never = until_there(tmp_path / "never")
    lab.start("r", workflow(("a", f"echo x >> {ran}; test $(wc -l < {ran}) -ge 2 || {never}"), ("b", "true")))
    _await(lambda: len(_lines(ran)) == 1)
    lab.server.stop()
    _await(lambda: not _processes(lab))
    lab.server.start()
    assert lab.over("r").path == ("a", "b", "end")
    assert [record.attempt for record in _completed(lab)] == [2, 1, 1]


def test_a_stage_that_loses_its_worker_again_and_again_pauses_the_run(lab: Lab, tmp_path: Path) -> None:
    """After the fifth time nobody else is given it, until somebody has looked."""
    ran, go = tmp_path / "ran", tmp_path / "go"
    lab.leave("w1")
    lab.start("r", workflow(("a", f"echo x >> {ran}; {until_there(go)}")))
    for number in range(1, 6):
        lab.worker(f"w{number}", grace=0.1)
        _await(lambda: len(_lines(ran)) == number)  # noqa: B023 - called before the next
        lab.leave(f"w{number}")
    lab.worker("w6")
    assert lab.stopped("r").status is RunStatus.PAUSED
    last = lab.records("r")[-1]
    assert isinstance(last, RunPaused)
    assert (last.limit, last.stage, last.count) == ("lost", "a", 5)
    go.touch()
    lab.resume("r")
    assert lab.over("r").path == ("a", "end")
    assert len(_lines(ran)) == 6


def test_a_directory_has_one_worker(lab: Lab) -> None:
    """A second one is refused, since it would take the first one's processes for leftovers."""
    with lab.process("w1") as second:
        assert second.wait(60) == 2


async def _pending(lab: Lab) -> list[str]:
    """What the server waits for."""
    described = await lab.handle("r").describe()
    return [one.activity_type.name for one in described.raw_description.pending_activities]


def _kinds(lab: Lab) -> list[type]:
    return [type(record) for record in lab.records("r")]


def _processes(lab: Lab) -> list[int]:
    carried = [(process.pid, read_marker(process.pid) or "") for process in list_processes() if process.alive]
    return [pid for pid, mark in carried if mark.startswith(f"{lab.id('r')}@")]


def _completed(lab: Lab) -> list[VisitCompleted]:
    return [record for record in lab.records("r") if isinstance(record, VisitCompleted)]


def _waits(lab: Lab, run: str) -> int:
    return sum(isinstance(record, RunWaiting) for record in lab.records(run))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)

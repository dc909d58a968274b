"""Runs of a cluster: people, limits, retries, cancelling, going on, and workers that come and go."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cluster.lab import Lab

from pipeline.app.store import AlreadyAnswered
from pipeline.backends.process_tree import list_processes, read_marker
from pipeline.cluster.messages import Timeouts
from pipeline.engine.outcome import StatusSource
from pipeline.engine.ports import RunIsOwned
from pipeline.engine.records import (
    AttemptFailed,
    RunCancelled,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
)
from pipeline.engine.state import RunStatus


def workflow(body: str, start: str = "a", settings: str = "") -> str:
    return f'workflow "W" {{\nversion 2\nstart "{start}"\n{settings}\n{body}\nstage "end" kind="exit"\n}}\n'


GATE = workflow(
    'stage "a" kind="human" prompt="Good?" {more} {\n'
    '  option "yes" label="Yes" to="end" approves=true; option "no" label="No" to="b"; }\n'
    'stage "b" kind="llm" prompt="Change it"\ntransition from="b" to="a"'
)


def tool(command: str, more: str = "") -> str:
    return workflow(f'stage "a" kind="tool" command="{command}" {more}\ntransition from="a" to="end"')


def test_a_person_is_waited_for_and_the_first_answer_counts(lab: Lab) -> None:
    """A run that waits costs nothing but its record; the answer wakes it, and a second one is told of the first."""
    lab.start("r", GATE.replace("{more}", ""))
    assert lab.stopped("r").status is RunStatus.WAITING
    lab.answer("r", "no", feedback="Rename it.")
    lab.until("r", lambda state: state.status is RunStatus.WAITING and state.cursor.visit == 2)
    with pytest.raises(AlreadyAnswered, match='anna has already answered "a" #1'):
        lab.answer("r", "yes", by="ben", stage="a", visit=1)
    lab.answer("r", "yes", by="ben")
    assert lab.over("r").path == ("a", "b", "a", "end")
    kinds = [type(record) for record in lab.records("r")][1:]
    around = [RunWaiting, RunResumed, VisitCompleted]
    assert kinds == [*around, VisitCompleted, *around, VisitCompleted]


def test_a_gate_that_nobody_answers_in_time_takes_its_default(lab: Lab) -> None:
    """The time is kept by the server: no worker has to be there while it passes."""
    lab.start("r", GATE.replace("{more}", 'timeout="2s" default="yes"'))
    assert lab.stopped("r").status is RunStatus.WAITING
    lab.leave("w1")
    lab.worker("w2")
    assert lab.over("r").path == ("a", "end")
    assert _completed(lab, "a").outcome.source is StatusSource.DEFAULT


def test_a_cancelled_run_leaves_nothing_running_and_goes_on_when_resumed(lab: Lab, tmp_path: Path) -> None:
    """The stage's processes are gone before the run is on record as cancelled; a resumed run repeats the stage."""
    mark = tmp_path / "go"
    lab.start("r", tool(f"test -e {mark} || sleep 1000 & wait; test -e {mark} || sleep 1000"))
    _await(lambda: bool(_processes(lab)))
    lab.cancel("r", "by anna: enough")
    assert not _processes(lab)
    last = lab.records("r")[-1]
    assert isinstance(last, RunCancelled)
    assert (last.stage, last.reason) == ("a", "by anna: enough")
    mark.touch()
    lab.resume("r")
    assert lab.over("r").path == ("a", "end")
    assert _completed(lab, "a").attempt == 2


def test_a_limit_pauses_and_is_raised(lab: Lab) -> None:
    """A paused run waits for somebody to raise the limit; one that is running cannot be resumed."""
    loop = workflow(
        'stage "a" kind="tool" command="test $AWF_VISIT -ge 4" retry_target="a"\ntransition from="a" to="end"',
        settings="settings { max_visits 2; }",
    )
    lab.start("r", loop)
    assert lab.stopped("r").status is RunStatus.PAUSED
    lab.resume("r", raised={"max_visits": 9})
    assert lab.over("r").path == ("a", "a", "a", "a", "end")
    lab.start("long", tool("sleep 5"))
    lab.until("long", lambda state: state.status is RunStatus.RUNNING)
    with pytest.raises(RunIsOwned, match="is being run by the workers"):
        lab.resume("long")
    lab.cancel("long", "")


def test_retries_are_the_machine_s(lab: Lab, tmp_path: Path) -> None:
    """A failed attempt is on record, the wait is the server's, and the next attempt has its own number."""
    counted = tmp_path / "tries"
    command = f"echo x >> {counted}; test $(wc -l < {counted}) -ge 3"
    lab.start("r", tool(command, '{ retry max_attempts=3 backoff="constant" delay="200ms"; }'))
    assert lab.over("r").path == ("a", "end")
    assert [record.attempt for record in lab.records("r") if isinstance(record, AttemptFailed)] == [1, 2]
    assert _completed(lab, "a").attempt == 3


def test_a_worker_without_what_a_run_needs_pauses_it(lab: Lab) -> None:
    """It says what is missing, and the run goes on when somebody has seen to it."""
    lab.start("r", workflow('stage "a" kind="llm" prompt="x"\ntransition from="a" to="end"'), backend="command")
    assert lab.stopped("r").status is RunStatus.PAUSED
    last = lab.records("r")[-1]
    assert isinstance(last, RunPaused)
    assert last.reason.startswith("the worker awf@")
    lab.resume("r", options={"backend": "scripted"})
    assert lab.over("r").path == ("a", "end")


def test_a_paused_run_goes_on_with_a_changed_workflow(lab: Lab) -> None:
    """The new text is taken with the resumption, by the workers and by the run's workflow."""
    loop = 'stage "a" kind="tool" command="false" retry_target="a"\ntransition from="a" to="end"'
    lab.start("r", workflow(loop, settings="settings { max_visits 2; }"))
    assert lab.stopped("r").status is RunStatus.PAUSED
    body = 'stage "a" kind="tool" command="true"\nstage "b" kind="tool" command="true"\n'
    ways = 'transition from="a" to="b"\ntransition from="b" to="end"'
    adopted = WorkflowAdopted(at=0.0, file="w.awf.kdl", source=workflow(body + ways))
    lab.loop.call(lab.cluster.resume(lab.id("r"), [adopted, RunResumed(at=0.0)]))
    assert lab.over("r").path == ("a", "a", "a", "b", "end")


def test_the_history_begins_anew_and_nothing_is_lost(lab: Lab) -> None:
    """A loop that is longer than a history may be goes on in the next one: the same visits, counted on."""
    lab.terms = Timeouts(longest_history=40)
    body = (
        'stage "a" kind="tool" command="true"\n'
        'stage "d" kind="decision" { route when="visits(\\"a\\") < 25" to="a"; route when="true" to="end"; }\n'
        'transition from="a" to="d"'
    )
    lab.start("r", workflow(body, settings="settings { max_visits 100; }"))
    assert lab.over("r").path == ("a", "d") * 25 + ("end",)
    chain = lab.loop.call(_executions(lab, "r"))
    assert len(chain) > 3
    assert max(chain) < 100


def test_a_stage_whose_worker_dies_runs_again_elsewhere(lab: Lab, tmp_path: Path) -> None:
    """The death is found by the missing signs of life; the attempt is on record as torn."""
    lab.leave("w1")
    pids = tmp_path / "pids"
    command = f"echo $PPID >> {pids}; test $(wc -l < {pids}) -ge 2 || sleep 1000"
    with lab.process("one") as worker:
        lab.start("r", tool(command))
        _await(lambda: pids.exists() and bool(pids.read_text()))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    lab.worker("w2")
    assert lab.over("r").path == ("a", "end")
    assert [type(record) for record in lab.records("r")][1:] == [RunResumed, VisitCompleted, VisitCompleted]
    assert _completed(lab, "a").attempt == 2
    with lab.process("one"):  # what its predecessor left is swept away
        _await(lambda: not _processes(lab))


def test_what_acts_outside_is_not_repeated_unasked(lab: Lab, tmp_path: Path) -> None:
    """A worker that dies in a stage with effects outside pauses the run, until somebody says to repeat it."""
    lab.leave("w1")
    begun = tmp_path / "begun"
    command = f"echo x >> {begun}; test $(wc -l < {begun}) -ge 2 || sleep 1000"
    with lab.process("one") as worker:
        lab.start("r", tool(command, 'effects="external"'))
        _await(begun.exists)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    lab.worker("w2")
    assert lab.stopped("r").status is RunStatus.PAUSED
    assert [type(record) for record in lab.records("r")][1:] == [VisitStarted, RunResumed, RunPaused]
    lab.resume("r", repeat=True)
    assert lab.over("r").path == ("a", "end")
    with lab.process("one"):
        _await(lambda: not _processes(lab))


def test_a_worker_that_leaves_finishes_or_hands_back(lab: Lab, tmp_path: Path) -> None:
    """What ends in time is recorded by it; what does not is taken up by another, at once and as a torn attempt."""
    lab.leave("w1")
    lab.worker("w2", grace=3.0)
    short, long = tmp_path / "short", tmp_path / "long"
    lab.start("short", tool(f"touch {short}; sleep 1"))
    lab.start("long", tool(f"echo x >> {long}; test $(wc -l < {long}) -ge 2 || sleep 1000"))
    _await(lambda: short.exists() and long.exists())
    lab.leave("w2")
    assert _completed(lab, "a", "short").attempt == 1
    lab.worker("w3")
    assert lab.over("long").status is RunStatus.SUCCESS
    assert _completed(lab, "a", "long").attempt == 2


def _processes(lab: Lab) -> list[int]:
    """Those that the run's stages started, wherever."""
    carried = [(process.pid, read_marker(process.pid) or "") for process in list_processes() if process.alive]
    return [pid for pid, mark in carried if mark.startswith(f"{lab.id('r')}@")]


def _completed(lab: Lab, stage: str, run: str = "r") -> VisitCompleted:
    return next(one for one in lab.records(run) if isinstance(one, VisitCompleted) and one.stage == stage)


async def _executions(lab: Lab, run: str) -> list[int]:
    """How long each history of a run is."""
    found = lab.client.list_workflows(f"WorkflowId = 'awf-{lab.id(run)}'")
    return [one.history_length async for one in found]


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)

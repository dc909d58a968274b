"""Runs on a cluster: people, limits, retries, cancelling, resuming, long histories, and workers that come and go."""

import os
import signal
from pathlib import Path

import pytest
from tests.cluster.lab import Lab, read_lines, wait_until, workflow

from pipeline.app.catalog import CatalogEntry
from pipeline.app.check import check
from pipeline.app.store import AlreadyAnswered
from pipeline.cluster.messages import Timeouts
from pipeline.cluster.workflow import RunWorkflow
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
)
from pipeline.engine.state import RunStatus

ROUNDS = int(os.environ.get("AWF_CLUSTER_ROUNDS", "40"))  # of the long run
GATE = workflow(
    'stage "a" kind="human" prompt="Good?" {more} {\n'
    '  option "yes" label="Yes" to="end" approves=true; option "no" label="No" to="b"; }\n'
    'stage "b" kind="llm" prompt="Change it"\ntransition from="b" to="a"'
)


def tool(command: str, more: str = "") -> str:
    return workflow(f'stage "a" kind="tool" command="{command}" {more}\ntransition from="a" to="end"')


def first_time_blocks(path: Path) -> str:
    """A command that hangs when it runs for the first time."""
    return f"echo x >> {path}; test $(wc -l < {path}) -ge 2 || sleep 1000"


def test_the_first_answer_counts(lab: Lab) -> None:
    """A waiting run continues with the first answer to a visit; a later answer to it is refused."""
    lab.start("r", GATE.replace("{more}", ""))
    assert lab.stopped().status is RunStatus.WAITING
    lab.answer("r", "no", feedback="Rename it.")
    lab.until("r", lambda state: state.status is RunStatus.WAITING and state.cursor.visit == 2)
    with pytest.raises(AlreadyAnswered) as raised:
        lab.answer("r", "yes", by="ben", stage="a", visit=1)
    assert (raised.value.kept.by, raised.value.kept.option) == ("anna", "no")
    lab.answer("r", "yes", by="ben")
    assert lab.ended().path == ("a", "b", "a", "end")
    asked = [RunWaiting, RunResumed, VisitCompleted]
    assert lab.kinds() == [*asked, VisitCompleted, *asked, VisitCompleted]


def test_a_gate_that_nobody_answers_in_time_takes_its_default(lab: Lab) -> None:
    """The server keeps the time, so no worker needs to run meanwhile."""
    lab.start("r", GATE.replace("{more}", 'timeout="2s" default="yes"'))
    assert lab.stopped().status is RunStatus.WAITING
    lab.stop_worker("w1")
    lab.worker("w2")
    assert lab.ended().path == ("a", "end")
    assert lab.completed("a")[0].outcome.source is StatusSource.DEFAULT


def test_a_cancelled_run_leaves_nothing_running_and_can_be_resumed(lab: Lab, tmp_path: Path) -> None:
    """The processes of a stage are gone before the run is recorded as cancelled; resuming repeats the stage."""
    go = tmp_path / "go"
    lab.start("r", tool(f"test -e {go} || sleep 1000 & wait; test -e {go} || sleep 1000"))
    wait_until(lambda: bool(lab.processes()))
    lab.cancel("r", "enough")
    assert not lab.processes()
    last = lab.records()[-1]
    assert isinstance(last, RunCancelled)
    assert (last.stage, last.reason) == ("a", "by anna: enough")
    go.touch()
    lab.resume("r")
    assert lab.ended().path == ("a", "end")
    assert lab.completed("a")[0].attempt == 2


def test_a_run_paused_by_a_limit_continues_when_it_is_raised(lab: Lab) -> None:
    """A run that is running cannot be resumed."""
    source = workflow(
        'stage "a" kind="tool" command="test $AWF_VISIT -ge 4" retry_target="a"\ntransition from="a" to="end"',
        settings="settings { max_visits 2; }",
    )
    lab.start("r", source)
    assert lab.stopped().status is RunStatus.PAUSED
    lab.resume("r", raised={"max_visits": "9"})
    assert lab.ended().path == ("a", "a", "a", "a", "end")
    lab.start("long", tool("sleep 5"))
    lab.until("long", lambda state: state.status is RunStatus.RUNNING)
    with pytest.raises(RunIsOwned):
        lab.resume("long")
    lab.cancel("long", "")


def test_failed_attempts_are_recorded_and_retried(lab: Lab, tmp_path: Path) -> None:
    """The server waits between attempts, and each attempt has its own number."""
    ran = tmp_path / "ran"
    command = f"echo x >> {ran}; test $(wc -l < {ran}) -ge 3"
    lab.start("r", tool(command, '{ retry max_attempts=3 backoff="constant" delay="200ms"; }'))
    assert lab.ended().path == ("a", "end")
    assert [record.attempt for record in lab.records() if isinstance(record, AttemptFailed)] == [1, 2]
    assert lab.completed("a")[0].attempt == 3


def test_a_worker_that_lacks_what_a_run_needs_pauses_it(lab: Lab) -> None:
    """The run names the worker, and continues once the cause is fixed."""
    lab.start("r", workflow('stage "a" kind="llm" prompt="x"\ntransition from="a" to="end"'), backend="command")
    assert lab.stopped().status is RunStatus.PAUSED
    last = lab.records()[-1]
    assert isinstance(last, RunPaused)
    assert (last.limit, "awf@" in last.reason) == ("worker", True)
    lab.resume("r", options={"backend": "scripted"})
    assert lab.ended().path == ("a", "end")


def test_a_paused_run_continues_with_a_changed_workflow(lab: Lab, tmp_path: Path) -> None:
    """Both the workers and the Temporal workflow use the new text."""
    source = 'stage "a" kind="tool" command="false" retry_target="a"\ntransition from="a" to="end"'
    lab.start("r", workflow(source, settings="settings { max_visits 2; }"))
    assert lab.stopped().status is RunStatus.PAUSED
    stages = 'stage "a" kind="tool" command="true"\nstage "b" kind="tool" command="true"\n'
    transitions = 'transition from="a" to="b"\ntransition from="b" to="end"'
    file = tmp_path / "w.awf.kdl"
    file.write_text(workflow(stages + transitions))
    changed = CatalogEntry("w", file, str(file), ())
    lab.resume("r", adopt=(changed, check(changed)))
    assert lab.ended().path == ("a", "a", "a", "b", "end")


def test_a_long_run_starts_new_histories_and_loses_no_round(lab: Lab) -> None:
    """Half way it is paused by a limit, asked for its position, and resumed."""
    longest = 4000 if ROUNDS > 100 else 60
    lab.timeouts = Timeouts(longest_history=longest)
    route = f'route when="visits(\\"review\\") < {ROUNDS}" to="fix"; route when="true" to="end"'
    body = f"""stage "review" kind="llm" auto_status=true prompt="Review"
stage "gate" kind="decision" {{ {route}; }}
stage "fix" kind="llm" prompt="Fix"
transition from="review" to="gate"
transition from="fix" to="review"
"""
    settings = f"settings {{ max_visits {ROUNDS // 2}; max_stages 100000; }}"
    script = {"review": ["Bad.\n[STATUS: fail]\n[FAILURE_REASON: no]"]}
    lab.start("r", workflow(body, "review", settings), script)
    half = lab.until("r", lambda state: state.status is RunStatus.PAUSED, timeout=600)
    assert half.visits["review"] == ROUNDS // 2
    position = lab.loop.call(lab.handle().query(RunWorkflow.position))
    assert (position.status, position.stage, position.visit) == (RunStatus.PAUSED, "review", ROUNDS // 2 + 1)
    assert position.seq == lab.store.journal.last(lab.id("r")).seq
    lab.resume("r", raised={"max_visits": str(2 * ROUNDS)})
    ended = lab.until("r", lambda state: state.status.final, timeout=600)
    assert ended.visits == {"review": ROUNDS, "gate": ROUNDS, "fix": ROUNDS - 1, "end": 1}
    lengths = lab.loop.call(_history_lengths(lab))
    assert len(lengths) > 1
    assert max(lengths) < longest + 100


async def _history_lengths(lab: Lab) -> list[int]:
    found = lab.client.list_workflows(f"WorkflowId = '{lab.handle().id}'")
    return [one.history_length async for one in found]


def test_a_stage_whose_worker_is_killed_runs_again_elsewhere(lab: Lab, tmp_path: Path) -> None:
    """The interrupted attempt is recorded; a worker that returns to the directory kills what was left running."""
    lab.stop_worker("w1")
    ran = tmp_path / "ran"
    with lab.worker_process("one") as worker:
        lab.start("r", tool(first_time_blocks(ran)))
        wait_until(lambda: bool(read_lines(ran)))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    lab.worker("w2")
    assert lab.ended().path == ("a", "end")
    assert lab.kinds() == [RunResumed, VisitCompleted, VisitCompleted]
    assert lab.completed("a")[0].attempt == 2
    with lab.worker_process("one"):
        wait_until(lambda: not lab.processes())


def test_a_stage_with_external_effects_is_not_repeated_unasked(lab: Lab, tmp_path: Path) -> None:
    """If its worker is killed, the run pauses until somebody says to repeat the stage."""
    lab.stop_worker("w1")
    ran = tmp_path / "ran"
    with lab.worker_process("one") as worker:
        lab.start("r", tool(first_time_blocks(ran), 'effects="external"'))
        wait_until(ran.exists)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    lab.worker("w2")
    assert lab.stopped().status is RunStatus.PAUSED
    assert lab.kinds() == [VisitStarted, RunResumed, RunPaused]
    lab.resume("r", repeat=True)
    assert lab.ended().path == ("a", "end")
    with lab.worker_process("one"):
        wait_until(lambda: not lab.processes())


def test_a_worker_that_stops_finishes_a_stage_or_hands_it_back(lab: Lab, tmp_path: Path) -> None:
    """A stage that ends in time is recorded by it; any other runs again on another worker."""
    lab.stop_worker("w1")
    lab.worker("w2", grace=3.0)
    short, long = tmp_path / "short", tmp_path / "long"
    lab.start("short", tool(f"touch {short}; sleep 1"))
    lab.start("long", tool(first_time_blocks(long)))
    wait_until(lambda: short.exists() and long.exists())
    lab.stop_worker("w2")
    assert lab.completed("a", "short")[0].attempt == 1
    lab.worker("w3")
    assert lab.ended("long").status is RunStatus.SUCCESS
    assert lab.completed("a", "long")[0].attempt == 2

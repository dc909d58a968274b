"""A new version does not break running workflows: recorded histories of every released format are replayed.

`AWF_RECORD=NAME` records new ones from the runs below as `histories/NAME-*.json`. Recorded ones are never changed.
"""

import asyncio
import os
from pathlib import Path

import pytest
from tests.cluster.lab import Lab

from pipeline.cluster.server import LoopThread
from pipeline.engine.state import RunStatus

HISTORIES = sorted(Path(__file__).with_name("histories").glob("*.json"))
BODY = """workflow "Recorded" {
version 2
start "build"
settings { max_visits 3; }
stage "build" kind="tool" command="test $AWF_VISIT -ge 2" retry_target="build" {
  retry max_attempts=2 backoff="constant" delay="100ms"; }
stage "checks" kind="parallel" { branch "lint"; branch "review"; }
stage "lint" kind="tool" command="true"
stage "review" kind="llm" auto_status=true prompt="Review"
stage "gate" kind="decision" { route when="findings() > 0" to="fix"; route when="true" to="ok"; }
stage "fix" kind="llm" prompt="Fix"
stage "ok" kind="human" prompt="Good?" {
  option "yes" label="Yes" to="end" approves=true; option "no" label="No" to="fix"; }
stage "end" kind="exit"
transition from="build" to="checks"
transition from="checks" to="gate"
transition from="fix" to="checks"
}
"""
SCRIPT = {"review": ["Bad.\n[STATUS: fail]\n[FAILURE_REASON: no]"] * 3 + ["Fine.\n[STATUS: success]"]}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_recorded_history_is_replayed(path: Path) -> None:
    """This version issues the same commands as the one that recorded it."""
    pytest.importorskip("temporalio", reason="it comes with the extra [cluster]")
    from temporalio.client import WorkflowHistory  # noqa: PLC0415 - an extra
    from temporalio.contrib.pydantic import pydantic_data_converter  # noqa: PLC0415 - an extra
    from temporalio.worker import Replayer  # noqa: PLC0415 - an extra

    from pipeline.cluster.worker import sandbox  # noqa: PLC0415 - an extra
    from pipeline.cluster.workflow import RunWorkflow  # noqa: PLC0415 - an extra

    replayer = Replayer(workflows=[RunWorkflow], data_converter=pydantic_data_converter, workflow_runner=sandbox())
    history = WorkflowHistory.from_json(path.stem, path.read_text())
    asyncio.run(replayer.replay_workflow(history))


def test_histories_exist() -> None:
    """Without histories every replay would succeed."""
    assert {path.stem.rpartition("-")[2] for path in HISTORIES} >= {"finished", "cancelled", "anew"}


@pytest.mark.skipif("AWF_RECORD" not in os.environ, reason="histories are recorded when a format is released")
def test_histories_are_recorded(lab: Lab, loop: LoopThread) -> None:
    """One finished, with a retry, a pause, a parallel stage and an answer; one cancelled; one with a second history."""
    name = os.environ["AWF_RECORD"]
    lab.start("finished", BODY, SCRIPT)
    assert lab.stopped("finished").status is RunStatus.PAUSED
    lab.resume("finished", raised={"max_visits": "9"})
    lab.until("finished", lambda state: state.status is RunStatus.WAITING)
    lab.answer("finished", "yes")
    lab.ended("finished")
    lab.start("cancelled", BODY.replace("test $AWF_VISIT -ge 2", "sleep 100"))
    lab.until("cancelled", lambda state: state.status is RunStatus.RUNNING)
    loop.call(asyncio.sleep(2))
    lab.cancel("cancelled", "enough")
    lab.timeouts = lab.timeouts.model_copy(update={"longest_history": 20})
    lab.start("anew", BODY, SCRIPT)
    lab.stopped("anew")
    for run in ("finished", "cancelled", "anew"):
        handle = lab.client.get_workflow_handle(f"awf-{lab.id(run)}")
        text = loop.call(handle.fetch_history()).to_json()
        place = Path(__file__).with_name("histories")
        place.mkdir(exist_ok=True)
        (place / f"{name}-{run}.json").write_text(text.replace(str(lab.folder), "/work"))

"""A long run: its history begins anew before it grows large; it can be looked at, stopped and resumed at any time."""

import os

from tests.cluster.lab import Lab

from pipeline.cluster.messages import RunPosition, Timeouts
from pipeline.cluster.workflow import RunWorkflow
from pipeline.engine.state import RunStatus

ROUNDS = int(os.environ.get("AWF_CLUSTER_ROUNDS", "40"))
LONGEST = 4000 if ROUNDS > 100 else 60
LIMIT = 51_200  # events, after which Temporal ends a workflow
BODY = f"""workflow "Long" {{
version 2
start "review"
settings {{ max_visits {ROUNDS // 2}; max_stages 100000; }}
stage "review" kind="llm" auto_status=true prompt="Review"
stage "gate" kind="decision" {{ route when="visits(\\"review\\") < {ROUNDS}" to="fix"; route when="true" to="end"; }}
stage "fix" kind="llm" prompt="Fix"
stage "end" kind="exit"
transition from="review" to="gate"
transition from="fix" to="review"
}}
"""
SCRIPT = {"review": ["Bad.\n[STATUS: fail]\n[FAILURE_REASON: no]"]}


async def standing(lab: Lab) -> RunPosition:
    """What the run says of itself."""
    return await lab.handle("r").query(RunWorkflow.position)


async def histories(lab: Lab) -> list[int]:
    """How long each of the run's histories is."""
    found = lab.client.list_workflows(f"WorkflowId = '{lab.handle('r').id}'")
    return [one.history_length async for one in found]


def test_a_long_loop_stays_within_the_limits(lab: Lab) -> None:
    """Half way it is paused by a limit, asked where it stands, and resumed: no round is lost or done twice."""
    lab.terms = Timeouts(longest_history=LONGEST)
    lab.start("r", BODY, SCRIPT)
    half = lab.until("r", lambda state: state.status is RunStatus.PAUSED, timeout=600)
    assert half.visits["review"] == ROUNDS // 2
    said = lab.loop.call(standing(lab))
    assert (said.status, said.stage, said.visit) == (RunStatus.PAUSED, "review", ROUNDS // 2 + 1)
    assert said.seq == lab.cluster.journal.last(lab.id("r")).seq
    lab.resume("r", raised={"max_visits": 2 * ROUNDS})
    ended = lab.until("r", lambda state: state.status.final, timeout=600)
    assert ended.visits == {"review": ROUNDS, "gate": ROUNDS, "fix": ROUNDS - 1, "end": 1}
    lengths = lab.loop.call(histories(lab))
    assert len(lengths) > 1
    assert max(lengths) < LONGEST + 100 < LIMIT

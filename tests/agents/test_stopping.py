"""Stopping a real agent, by a timeout or a cancellation: neither it nor what its tools started is left."""

import asyncio

import pytest
from tests.agents.conftest import Make
from tests.agents.harness import LONGEST, PAUSE, AgentHarness, endless
from tests.agents.programs import PROGRAMS, Program
from tests.agents.server.script import Hang, Say, Shell

from pipeline.engine.ports import AgentStatus

pytestmark = pytest.mark.real_agent

CODEX = [program for program in PROGRAMS if program.name in ("codex", "codex-acp")]


def test_a_tool_that_never_ends_is_stopped_with_its_agent(make: Make, program: Program, label: str) -> None:
    """Even if the command has left the agent's session, where signals to the agent do not reach it."""
    agent, _ = make({"ZZaskedZZ": (Shell(endless(label)), Hang())})
    assert agent.ask("Do what ZZaskedZZ says.", timeout=program.patience).status is AgentStatus.TIMEOUT
    assert agent.running.exists(), "it never ran the command"
    assert agent.left() == []


@pytest.mark.parametrize("program", CODEX, indirect=True, ids=lambda program: program.name)
def test_a_tool_that_its_agent_left_in_the_background_is_stopped(make: Make, label: str) -> None:
    """Codex continues without a command that takes longer than ten seconds; after its answer the command is gone."""
    agent, _ = make({"ZZaskedZZ": (Shell(endless(label)), Say("done"))})
    assert agent.ask("Do what ZZaskedZZ says.").status is AgentStatus.OK
    assert agent.running.exists(), "it never ran the command"
    assert agent.left() == []


def test_a_cancelled_request_leaves_nothing_behind(make: Make, label: str) -> None:
    """The cancellation comes while a tool runs."""
    agent, _ = make({"ZZaskedZZ": (Shell(endless(label)), Say("done"))})
    asyncio.run(_cancelled_at_work(agent))
    assert agent.left() == []


async def _cancelled_at_work(agent: AgentHarness) -> None:
    async with asyncio.timeout(LONGEST):
        asked = asyncio.ensure_future(agent.run(agent.request("Do what ZZaskedZZ says.")))
        while not agent.running.exists():
            assert not asked.done(), asked.result()
            await asyncio.sleep(PAUSE)
        assert agent.left(), "nothing that runs was found, so that finding nothing afterwards would mean nothing"
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

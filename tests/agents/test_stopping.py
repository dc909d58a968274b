"""Stopping a real agent: by its time or by a cancellation. Nothing of it runs on, nor of what its tools started."""

import asyncio

import pytest
from tests.agents.conftest import Make
from tests.agents.desk import LONGEST, PAUSE, Desk, endless
from tests.agents.programs import PROGRAMS, Program
from tests.agents.server.script import Hang, Say, Shell

from pipeline.engine.ports import AgentStatus

pytestmark = pytest.mark.real_agent

CODEX = [program for program in PROGRAMS if program.name == "codex"]


def test_a_model_that_never_answers_costs_the_time_and_no_more(make: Make, program: Program) -> None:
    """The request ends as a timeout, whatever exit code the program gives when it is stopped."""
    desk, server = make({"ZZaskedZZ": (Hang(),)})
    assert desk.ask("Do what ZZaskedZZ says.", timeout=program.patience).status is AgentStatus.TIMEOUT
    assert server.bodies, "it never asked the model"
    assert desk.left() == []


def test_a_tool_that_never_ends_is_stopped_with_its_agent(make: Make, program: Program, label: str) -> None:
    """Also when the command has left the agent's session, where signals to the agent do not reach it."""
    desk, _ = make({"ZZaskedZZ": (Shell(endless(label)), Hang())})
    assert desk.ask("Do what ZZaskedZZ says.", timeout=program.patience).status is AgentStatus.TIMEOUT
    assert desk.running.exists(), "it never ran the command"
    assert desk.left() == []


@pytest.mark.parametrize("program", CODEX, indirect=True, ids=["codex"])
def test_a_tool_that_its_agent_left_in_the_background_is_stopped(make: Make, label: str) -> None:
    """Codex goes on without a command that takes longer than ten seconds; after its answer the command is gone."""
    desk, _ = make({"ZZaskedZZ": (Shell(endless(label)), Say("done"))})
    assert desk.ask("Do what ZZaskedZZ says.").status is AgentStatus.OK
    assert desk.running.exists(), "it never ran the command"
    assert desk.left() == []


def test_a_cancelled_request_leaves_nothing_behind(make: Make, label: str) -> None:
    """The cancellation comes while a tool runs."""
    desk, _ = make({"ZZaskedZZ": (Shell(endless(label)), Say("done"))})
    asyncio.run(_cancelled_at_work(desk))
    assert desk.left() == []


async def _cancelled_at_work(desk: Desk) -> None:
    async with asyncio.timeout(LONGEST):
        asked = asyncio.ensure_future(desk.run(desk.request("Do what ZZaskedZZ says.")))
        while not desk.running.exists():
            assert not asked.done(), asked.result()
            await asyncio.sleep(PAUSE)
        assert desk.left(), "nothing that runs was found, so that finding nothing afterwards would mean nothing"
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

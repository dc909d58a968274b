"""The result of a request to a real agent, for everything that a model can do to it."""

import asyncio
import re
import subprocess

import pytest
from tests.agents.conftest import Make, are_older
from tests.agents.harness import LONGEST
from tests.agents.programs import COMMAND_LINE, Ability, Program
from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS
from tests.agents.server.script import Say, Shell, WriteFile
from tests.agents.situations import NO_RESET, RESET, SITUATIONS, Situation

from pipeline.backends.select import AGENTS
from pipeline.engine.ports import AgentStatus, ErrorKind
from pipeline.language.model import Access

pytestmark = pytest.mark.real_agent

LIMITS = {AgentStatus.TIMEOUT: ErrorKind.TIMEOUT, AgentStatus.IDLE: ErrorKind.SILENT}
PLANTED = "planted-9f1c0a7e55d24b"


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_every_situation_has_its_result(make: Make, program: Program, situation: Situation) -> None:
    """A good answer is complete; whatever else happens is an error of its kind."""
    agent, server = make({"ZZaskedZZ": situation.steps})
    agent.environ = situation.environment(agent.environ)
    request = agent.request("Do what ZZaskedZZ says.", program.patience if situation.endless else LONGEST)
    if situation.model:
        request = request._replace(model=situation.model)
    result = asyncio.run(agent.run(request, situation.extra))
    expected = situation.but.get(program.name, situation.expected)
    if are_older():
        expected = situation.older.get(program.name, expected)
    if isinstance(expected, ErrorKind):
        assert result.status is not AgentStatus.OK, result
        assert (result.error.kind if result.error else LIMITS[result.status]) is expected, result
    else:
        assert result.status is AgentStatus.OK, result
        assert result.text.endswith(expected)
    if expected is ErrorKind.QUOTA and program.name not in NO_RESET:
        assert result.error
        assert result.error.retry_after == pytest.approx(RESET, abs=LONGEST), result
    if expected is ErrorKind.TIMEOUT:
        assert server.bodies, "it never asked the model"
    assert ("made.txt" in agent.files()) == (situation.name == "tool")
    assert agent.left() == []


def test_usage_is_reported(make: Make, program: Program) -> None:
    """A tool and an answer are two requests to the model."""
    agent, _ = make({"ZZaskedZZ": (Shell("true"), Say("done"))})
    result = agent.ask("Do what ZZaskedZZ says.")
    assert result.usage is not None, result
    assert (result.usage.input_tokens, result.usage.output_tokens) == _of_two_requests(program)


def _of_two_requests(program: Program) -> tuple[int | None, int | None]:
    return (None, None) if Ability.TOKENS in program.lacks else (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS)


def test_read_only_access_writes_nothing(make: Make, program: Program) -> None:
    """Neither by a tool that writes nor by a command, even when the model asks for what it was not offered.

    A program that cannot be kept from it is at least reported.
    """
    write = WriteFile("written.txt", "no", tool=program.writer)
    agent, server = make({"ZZaskedZZ": (write, Shell("echo no > shell.txt", tool=program.shell), Say("tried"))})
    result = agent.ask("Do what ZZaskedZZ says.", access=Access.READ_ONLY)
    assert server.bodies, "it never asked the model"
    assert result.status is AgentStatus.OK or (result.error and result.error.kind is ErrorKind.EMPTY), result
    reported = sum("without permission" in event.text for event in agent.events if event.kind == "warning")
    free = Ability.PERMISSION in program.lacks
    assert (agent.files(), reported) == (({"written.txt", "shell.txt"}, 2) if free else (set(), 0))


def test_a_continued_session_counts_only_what_is_new(make: Make, program: Program) -> None:
    """The second request follows the first in the same session; its usage and cost are its own."""
    agent, server = make({"ZZfirstZZ": (Say("first"),), "ZZsecondZZ": (Shell("true"), Say("second"))})
    first = agent.ask("Do what ZZfirstZZ says.")
    if Ability.SESSION in program.lacks:
        assert first.session is None
        return
    assert first.session, first
    second = agent.ask("Do what ZZsecondZZ says.", session=first.session)
    assert (second.status, second.text) == (AgentStatus.OK, "second"), second
    assert second.session
    assert second.session.id == first.session.id
    assert any("ZZfirstZZ" in body and "ZZsecondZZ" in body for body in server.bodies)
    assert first.usage
    assert second.usage
    assert (second.usage.input_tokens, second.usage.output_tokens) == _of_two_requests(program)
    if first.usage.cost_usd and Ability.OWN_COST not in program.lacks:
        assert second.usage.cost_usd == pytest.approx(2 * first.usage.cost_usd)


def test_an_agent_s_tools_do_not_see_other_secrets(make: Make) -> None:
    """The environment that its shell tool prints reaches the model, without the planted values."""
    planted = {"GITHUB_TOKEN": PLANTED, "DATABASE_URL": PLANTED, "OTHER_API_KEY": PLANTED, "SOMETHING": PLANTED}
    agent, server = make({"ZZaskedZZ": (Shell("env"), Say("done"))}, **planted)
    assert agent.ask("Do what ZZaskedZZ says.").status is AgentStatus.OK
    assert any("PATH=" in body for body in server.bodies), "the tool did not print its environment"
    assert not any(PLANTED in body for body in server.bodies)
    assert not any(PLANTED in path.read_text(errors="replace") for path in agent.artifacts.rglob("*") if path.is_file())


@pytest.mark.parametrize("program", COMMAND_LINE, indirect=True, ids=lambda program: program.name)
def test_the_program_still_supports_its_flags(program: Program, make: Make) -> None:
    """Each of them is in its help."""
    used = AGENTS[program.name]
    agent, _ = make({})
    said = subprocess.run(
        [used.name, *used.help],
        env=agent.environ,
        cwd=agent.cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    named = said.stdout + said.stderr
    assert [flag for flag in used.flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", named)] == []

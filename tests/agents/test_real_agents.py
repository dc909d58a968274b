"""What becomes of a request to a real agent, for everything that a model can do to it."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import pytest
from tests.agents.conftest import Make
from tests.agents.desk import LONGEST
from tests.agents.programs import Program
from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS
from tests.agents.server.script import Drop, Once, Refuse, Say, Shell, Step, WriteFile

from pipeline.backends.select import AGENTS
from pipeline.engine.ports import AgentStatus, ErrorKind
from pipeline.language.model import Access

pytestmark = pytest.mark.real_agent

VERDICT = "looks right\n[STATUS: success]"
HUGE = "\n".join(f"{number}: {sha256(str(number).encode()).hexdigest()}" for number in range(1_700))  # no line twice
PLANTED = "planted-9f1c0a7e55d24b"


@dataclass(frozen=True, slots=True)
class Situation:
    """What the model does, and the answer or the kind of error that comes of it; `but` names who is different."""

    name: str
    steps: tuple[Step, ...]
    comes: str | ErrorKind
    but: Mapping[str, str | ErrorKind] = field(default_factory=dict)


SITUATIONS = (
    Situation("verdict", (Say(VERDICT),), VERDICT),
    Situation("tool", (Shell("echo hello > made.txt"), Say("made it")), "made it"),
    Situation("401", (Refuse(401),), ErrorKind.AUTH),
    Situation("400", (Refuse(400),), ErrorKind.INVALID),
    Situation("429-once", (Once(Refuse(429, retry_after=1), Say("in the end")),), "in the end"),
    Situation("stream-ends-once", (Once(Drop(torn=False), Say("whole")),), "whole"),
    Situation("torn-once", (Once(Drop(torn=True), Say("whole")),), "whole", {"gemini": ErrorKind.SERVER}),
    Situation("empty", (Say(""),), ErrorKind.EMPTY),
    Situation("huge", (Shell("head -c 400000 /dev/zero | tr '\\0' x"), Say(HUGE)), HUGE),
)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_request_ends_as_the_model_made_it_end(make: Make, program: Program, situation: Situation) -> None:
    """A good answer is ok and whole; a refusal or an empty answer is an error that names its kind."""
    desk, _ = make({"ZZaskedZZ": situation.steps})
    result = desk.ask("Do what ZZaskedZZ says.")
    comes = situation.but.get(program.name, situation.comes)
    if isinstance(comes, ErrorKind):
        assert (result.status, result.error and result.error.kind) == (AgentStatus.ERROR, comes), result
    else:
        assert result.status is AgentStatus.OK, result
        assert result.text.endswith(comes)
    assert ("made.txt" in desk.files()) == (situation.name == "tool")
    assert desk.left() == []


def test_errors_of_the_server_never_pass_for_an_answer(make: Make, program: Program) -> None:
    """An agent that tries again for ever is stopped by its time; one that gives up says why."""
    desk, server = make({"ZZaskedZZ": (Refuse(500),)})
    result = desk.ask("Do what ZZaskedZZ says.", timeout=program.patience)
    assert server.bodies, "it never asked the model"
    if result.status is not AgentStatus.TIMEOUT:
        assert (result.status, result.error and result.error.kind) == (AgentStatus.ERROR, ErrorKind.SERVER), result
    assert desk.left() == []


def test_what_a_request_used_is_told(make: Make) -> None:
    """A tool and an answer are two requests to the model."""
    desk, _ = make({"ZZaskedZZ": (Shell("true"), Say("done"))})
    result = desk.ask("Do what ZZaskedZZ says.")
    assert result.usage is not None, result
    assert (result.usage.input_tokens, result.usage.output_tokens) == (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS)


def test_read_only_access_writes_nothing(make: Make, program: Program) -> None:
    """Neither by a tool that writes nor by a command, even when the model asks for what it was not offered."""
    write = WriteFile("written.txt", "no", tool=program.writer)
    desk, server = make({"ZZaskedZZ": (write, Shell("echo no > shell.txt", tool=program.shell), Say("tried"))})
    result = desk.ask("Do what ZZaskedZZ says.", access=Access.READ_ONLY)
    assert server.bodies, "it never asked the model"
    assert result.status is AgentStatus.OK or (result.error and result.error.kind is ErrorKind.EMPTY), result
    assert desk.files() == set()


def test_a_session_goes_on_and_counts_only_what_is_new(make: Make) -> None:
    """The second request has the first one before it, in the same session; its usage and cost are its own."""
    desk, server = make({"ZZfirstZZ": (Say("first"),), "ZZsecondZZ": (Shell("true"), Say("second"))})
    first = desk.ask("Do what ZZfirstZZ says.")
    assert first.session, first
    second = desk.ask("Do what ZZsecondZZ says.", session=first.session)
    assert (second.status, second.text) == (AgentStatus.OK, "second"), second
    assert second.session
    assert second.session.id == first.session.id
    assert any("ZZfirstZZ" in body and "ZZsecondZZ" in body for body in server.bodies)
    assert first.usage
    assert second.usage
    assert (second.usage.input_tokens, second.usage.output_tokens) == (2 * INPUT_TOKENS, 2 * OUTPUT_TOKENS)
    if first.usage.cost_usd:
        assert second.usage.cost_usd == pytest.approx(2 * first.usage.cost_usd)


def test_a_secret_that_is_not_the_providers_is_not_seen_by_the_agents_tools(make: Make) -> None:
    """What the shell tool prints of its environment reaches the model, and the planted values are not in it."""
    planted = {"GITHUB_TOKEN": PLANTED, "DATABASE_URL": PLANTED, "OTHER_API_KEY": PLANTED, "SOMETHING": PLANTED}
    desk, server = make({"ZZaskedZZ": (Shell("env"), Say("done"))}, **planted)
    assert desk.ask("Do what ZZaskedZZ says.").status is AgentStatus.OK
    assert any("PATH=" in body for body in server.bodies), "the tool did not print its environment"
    assert not any(PLANTED in body for body in server.bodies)
    assert not any(PLANTED in path.read_text(errors="replace") for path in desk.artifacts.rglob("*") if path.is_file())


def test_the_program_still_takes_the_flags_it_is_used_with(program: Program, make: Make) -> None:
    """Each of them is in its help."""
    used = AGENTS[program.name]
    desk, _ = make({})
    said = subprocess.run(
        [used.name, *used.help],
        env=desk.environ,
        cwd=desk.cwd,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    named = said.stdout + said.stderr
    assert [flag for flag in used.flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", named)] == []

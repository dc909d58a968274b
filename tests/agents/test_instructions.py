"""What the real agents are given of a project's own instructions, and what of a project they do not run."""

import json
from pathlib import Path

import pytest
from tests.agents.conftest import Make
from tests.agents.harness import commit_all
from tests.agents.programs import PROGRAMS, Program
from tests.agents.server.script import Say, Shell

from pipeline.engine.ports import AgentStatus
from pipeline.language.model import Access

pytestmark = pytest.mark.real_agent

FILES = {
    "claude": ("CLAUDE.md", ".claude/CLAUDE.md"),
    "codex": ("AGENTS.md",),
    "gemini": ("GEMINI.md",),
    "opencode": ("AGENTS.md",),
    "pi": ("AGENTS.md",),
}
READERS = [program for program in PROGRAMS if program.name in FILES]
CLAUDE = [program for program in PROGRAMS if program.name == "claude"]


def word(file: str) -> str:
    """A word that is in this file alone."""
    return f"word-of-{''.join(letter for letter in file if letter.isalpha())}-71d0"


@pytest.mark.parametrize("access", list(Access), ids=str)
@pytest.mark.parametrize("program", READERS, indirect=True, ids=lambda program: program.name)
def test_the_project_s_instructions_reach_the_model(make: Make, program: Program, access: Access) -> None:
    """Whatever the access, every file that is documented for the agent is in a request."""
    agent, server = make({"ZZaskedZZ": (Say("done"),)})
    for file in FILES[program.name]:
        path = agent.cwd / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"Always say {word(file)}.\n")
    commit_all(agent.cwd)
    assert agent.ask("Do what ZZaskedZZ says.", access=access).status is AgentStatus.OK
    assert [file for file in FILES[program.name] if not any(word(file) in body for body in server.bodies)] == []


@pytest.mark.parametrize("program", CLAUDE, indirect=True, ids=lambda program: program.name)
def test_the_project_s_hooks_do_not_run(make: Make) -> None:
    """The user's own do, which shows that these would."""
    agent, _ = make({"ZZaskedZZ": (Shell("true"), Say("done"))})
    _hook(agent.cwd / ".claude" / "settings.json", agent.cwd / "of-the-project")
    _hook(Path(agent.environ["CLAUDE_CONFIG_DIR"]) / "settings.json", agent.cwd / "of-the-user")
    assert agent.ask("Do what ZZaskedZZ says.").status is AgentStatus.OK
    assert {path.name for path in agent.cwd.glob("of-the-*")} == {"of-the-user"}


def _hook(settings: Path, made: Path) -> None:
    settings.parent.mkdir(parents=True, exist_ok=True)
    command = {"hooks": [{"type": "command", "command": f"touch {made}"}]}
    hooks = {"SessionStart": [command], "UserPromptSubmit": [command], "PreToolUse": [{"matcher": "*", **command}]}
    settings.write_text(json.dumps({"hooks": hooks}))

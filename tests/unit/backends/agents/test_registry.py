"""The command-line agents by name."""

import subprocess
import sys

import pytest

from pipeline.backends.agents.registry import AGENT_OF_PROVIDER, AGENTS, agent


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_found_by_its_name(name: str) -> None:
    """It is the name of its program too, and it says what it needs and how to get it."""
    found = agent(name)
    assert found.name == name
    assert found.flags
    assert found.help
    assert found.install


def test_a_provider_s_agent_is_an_agent() -> None:
    """Each provider leads to one that is there."""
    assert set(AGENT_OF_PROVIDER.values()) <= set(AGENTS)


def test_only_the_wanted_module_is_imported() -> None:
    """An agent that is not used costs nothing."""
    code = (
        "import sys; from pipeline.backends.agents.registry import AGENTS, agent; agent('pi');"
        "print([name for name in AGENTS if f'pipeline.backends.agents.{name}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['pi']\n"

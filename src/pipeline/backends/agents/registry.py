"""The command-line agents by name. A module is imported when its agent is wanted, and not before."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from pipeline.backends.agents.base import AgentProgram

AGENTS = ("claude", "codex", "gemini", "opencode", "pi")  # the order in which they are looked for
AGENT_OF_PROVIDER: Mapping[str, str] = MappingProxyType(
    {"anthropic": "claude", "openai": "codex", "google": "gemini", "gemini": "gemini"}
)


def agent(name: str) -> AgentProgram:
    """One of AGENTS. Its program has the same name, so that looking for it imports nothing."""
    module = import_module(f"pipeline.backends.agents.{name}")
    made: AgentProgram = getattr(module, name.capitalize())()
    return made

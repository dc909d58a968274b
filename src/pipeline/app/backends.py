"""Which agent a stage gets."""

from collections.abc import Mapping
from typing import Any

from pipeline.backends.agents.command import CommandBackend
from pipeline.backends.agents.script import load_script
from pipeline.backends.agents.scripted import ScriptedBackend
from pipeline.engine.agent import Backend
from pipeline.engine.process import Processes
from pipeline.errors import AwfError
from pipeline.language.model import LlmStage


class Backends:
    """The backends of a run: what it was started with, and what plugins add. None is ever chosen silently."""

    def __init__(self, options: Mapping[str, Any], processes: Processes, added: Mapping[str, Backend]) -> None:
        self._options = options
        self._processes = processes
        self._made: dict[str, Backend] = dict(added)

    def choose(self, stage: LlmStage, provider: str | None) -> Backend:
        """The backend of a stage: its own, else the run's."""
        del provider
        name = stage.backend or self._options.get("backend")
        if not name:
            raise AwfError(
                f'no agent is chosen for stage "{stage.id}"',
                help='start the run with --backend, or give the stage backend="..."',
            )
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Backend:
        if name == "scripted":
            return ScriptedBackend(load_script(self._options.get("script") or "{}"))
        if name == "command":
            return CommandBackend(tuple(self._options.get("agent_command") or ()), self._processes)
        known = ", ".join(sorted({"scripted", "command", *self._made}))
        raise AwfError(f'there is no backend "{name}"', help=f"the backends are {known}")

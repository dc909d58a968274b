"""An agent that works on findings outside of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.app.store import process_label
from pipeline.app.wiring import Runtime, SystemClock
from pipeline.backends.environment import child_environment
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.engine.ports import AgentRequest, AgentStatus, Backend, RequestLimits
from pipeline.language.model import Access
from pipeline.plugins.manager import PluginManager

_SECONDS = 1800.0
_IDLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What an agent answered, or why it did not."""

    text: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class FindingsAgent:
    """Answers one question after another, each in a new session. Questions and answers are kept in `folder`."""

    stage: str  # its name in a script
    backend: Backend
    root: Path
    folder: Path
    runtime: Runtime

    async def ask(self, prompt: str, name: str, visit: int, access: Access = Access.READ_ONLY) -> AgentReply:
        """Ask the agent. `name` is the directory of the question."""
        folder, redact, settings = self.folder / name, self.runtime.redactor.text, self.runtime.settings
        choice, limits = settings.model_choice, settings.limits
        names = (*self.backend.variables(choice.provider), *settings.environment)
        request = AgentRequest(
            stage=self.stage,
            visit=visit,
            attempt=1,
            prompt=prompt,
            cwd=self.root,
            artifacts=folder.absolute(),
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=access,
            limits=RequestLimits(timeout=limits.timeout or _SECONDS, idle=limits.idle or _IDLE_SECONDS),
            env=child_environment(self.runtime.environ, extra_names=names),
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "question.md").write_text(redact(prompt), encoding="utf-8", errors="replace")
        result = await self.backend.run(request, lambda _event: None)
        answer = redact(result.text)
        (folder / "answer.md").write_text(answer, encoding="utf-8", errors="replace")
        if result.status is AgentStatus.OK:
            return AgentReply(answer)
        error = f"{result.error.kind}: {result.error.message}" if result.error else f"it ended with {result.status}"
        return AgentReply(error=redact(error))


def open_agent(
    stage: str, folder: str, root: Path, runtime: Runtime, now: datetime, options: Mapping[str, Any]
) -> FindingsAgent:
    """The agent that the options name, else the one that a run would use. Raises AwfError if it cannot be used.

    What it is asked and answers is kept in `folder` of the store.
    """
    plugins = PluginManager(SystemClock().now, redactor=runtime.redactor)
    plugins.load_installed()
    label = process_label(runtime.store, stage)
    processes = LocalProcesses(label, redactor=runtime.redactor)
    backends = BackendSelector(options, processes, plugins.agent_backends(), runtime.settings, runtime.environ, label)
    backend = backends.get(backends.default_name(runtime.settings.model_choice.provider))
    return FindingsAgent(stage, backend, root, runtime.store / folder / now.strftime("%Y%m%dT%H%M%S.%fZ"), runtime)

"""An agent that works on findings outside of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.app.reading import Readers, checkout_of
from pipeline.app.store import process_label
from pipeline.app.wiring import Runtime, SystemClock
from pipeline.backends.environment import child_environment
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import STAGE_VARIABLE, AgentRequest, Backend, RequestLimits
from pipeline.findings.git import TreeSnapshots
from pipeline.handlers.llm import judge_results
from pipeline.language.model import Access, LlmStage, ModelChoice
from pipeline.plugins.manager import PluginManager

_SECONDS = 1800.0
_IDLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class FindingsAgent:
    """Answers one question after another, each in a new session. Questions and answers are kept in `folder`."""

    stage: str  # its name in a script
    backend: Backend
    root: Path
    folder: Path
    runtime: Runtime
    choice: ModelChoice
    readers: Readers

    async def ask(
        self, prompt: str, name: str, visit: int, access: Access = Access.READ_ONLY, passing: str = ""
    ) -> Outcome:
        """Ask the agent. `name` is the directory of the question, `passing` the answer of a script without an entry."""
        folder, redact, settings = self.folder / name, self.runtime.redactor.text, self.runtime.settings
        choice, limits = self.choice, settings.limits
        names = (*self.backend.variables(choice.provider), *settings.environment)
        request = AgentRequest(
            stage=self.stage,
            visit=visit,
            attempt=1,
            prompt=prompt,
            cwd=self.root,
            artifacts=folder.absolute(),
            passing=passing,
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=access,
            limits=RequestLimits(timeout=limits.timeout or _SECONDS, idle=limits.idle or _IDLE_SECONDS),
            env={**child_environment(self.runtime.environ, extra_names=names), STAGE_VARIABLE: self.stage},
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "question.md").write_text(redact(prompt), encoding="utf-8", errors="replace")
        place = None
        if access is Access.CODING:
            result = await self.backend.run(request, lambda _event: None)
        else:
            name = f"{self.stage}-{self.folder.name}"
            try:
                async with self.readers.place(name, self.root) as place:
                    cwd = place.directory if place else self.root
                    result = await self.backend.run(request._replace(cwd=cwd), lambda _event: None)
            finally:
                checkout_of(self.runtime.store, name, self.runtime.environ).remove()
        (folder / "answer.md").write_text(redact(result.text), encoding="utf-8", errors="replace")
        outcome = judge_results(LlmStage(id=self.stage, access=access), [result], self.backend.name)
        outcome = place.judge(outcome) if place else outcome
        return outcome.model_copy(update={"response": redact(outcome.response), "reason": redact(outcome.reason)})


def open_agent(
    stage: str,
    folder: str,
    root: Path,
    runtime: Runtime,
    now: datetime,
    options: Mapping[str, Any],
    choice: ModelChoice | None = None,
) -> FindingsAgent:
    """The agent that the options name, else the one that a run would use. Raises AwfError if it cannot be used.

    Its model is that of the settings unless one is chosen. What it is asked and answers is kept in `folder` of the
    store.
    """
    choice = choice or runtime.settings.model_choice
    plugins = PluginManager(SystemClock().now, redactor=runtime.redactor)
    plugins.load_installed()
    label = process_label(runtime.store, stage)
    processes = LocalProcesses(label, redactor=runtime.redactor)
    added = plugins.collect("agent_backends")
    backends = BackendSelector(options, processes, added, runtime.settings, runtime.environ, label)
    backend = backends.get(backends.default_name(choice.provider))
    readers = Readers(runtime.store, runtime.environ, TreeSnapshots(runtime.environ, runtime.store))
    logs = runtime.store / folder / now.strftime("%Y%m%dT%H%M%S.%fZ")
    return FindingsAgent(stage, backend, root, logs, runtime, choice, readers)

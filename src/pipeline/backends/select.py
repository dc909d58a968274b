"""Which agent a stage gets. The scripted one, which only pretends, is never chosen unless it is asked for."""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from pipeline.backends.agents.acp import AcpBackend
from pipeline.backends.agents.api import ApiBackend
from pipeline.backends.agents.base import AgentProgram, ProgramBackend
from pipeline.backends.agents.claude import Claude
from pipeline.backends.agents.codex import Codex
from pipeline.backends.agents.command import CommandBackend
from pipeline.backends.agents.gemini import Gemini
from pipeline.backends.agents.opencode import Opencode
from pipeline.backends.agents.override import AgentOverride
from pipeline.backends.agents.pi import Pi
from pipeline.backends.agents.scripted import ScriptedBackend, load_script
from pipeline.backends.probe import forget_probe, probe, probe_cache_path
from pipeline.engine.outcome import TokenPrice
from pipeline.engine.ports import Backend, Processes
from pipeline.errors import AwfError
from pipeline.language.model import LlmStage, ModelChoice, Workflow, agent_stages, choose_model
from pipeline.redaction import redactor_of
from pipeline.text import did_you_mean, listing

AGENTS: Mapping[str, AgentProgram] = MappingProxyType(  # in the order in which they are looked for on PATH
    {agent.name: agent for agent in (Claude(), Codex(), Gemini(), Opencode(), Pi())}
)
AGENT_OF_PROVIDER: Mapping[str, str] = MappingProxyType(
    {"anthropic": "claude", "openai": "codex", "google": "gemini", "gemini": "gemini"}
)
_REPORTING_COST = ("claude", "opencode", "pi", "api", "scripted")
_NAMED_ONLY = ("acp", "api", "command", "scripted")  # backends that are used only if they are named


class BackendSettings(Protocol):
    """The user's settings for agents."""

    @property
    def backend(self) -> str | None: ...
    @property
    def model_choice(self) -> ModelChoice: ...
    @property
    def profiles(self) -> Mapping[str, ModelChoice]: ...
    @property
    def prices(self) -> Mapping[str, TokenPrice]: ...
    @property
    def acp_command(self) -> tuple[str, ...]: ...
    @property
    def acp_variables(self) -> tuple[str, ...]: ...
    def override(self, agent: str) -> AgentOverride: ...


def format_stages(stages: Sequence[str]) -> str:
    """Stages as error messages name them: `stages "a", "b" and "c"`."""
    names = listing([f'"{stage}"' for stage in stages])
    return f"stage {names}" if len(stages) == 1 else f"stages {names}"


@dataclass(frozen=True, slots=True)
class _CachedFlags:
    """The flags of a program, by what it says about itself."""

    agent: AgentProgram
    path: Path
    arguments: tuple[str, ...]  # that precede our own
    processes: Processes
    cache: Path | None

    async def missing(self, env: Mapping[str, str]) -> Collection[str]:
        """A program that cannot be asked is trusted to have its flags."""
        return (await probe(self.agent, self.path, self.processes, env, self.cache, self.arguments)).missing

    def forget(self) -> None:
        """Have it asked again."""
        forget_probe(self.path, self.cache)


class BackendSelector:
    """The backends of a run. What a stage gets is decided once, and stays so until the run ends."""

    def __init__(
        self,
        options: Mapping[str, Any],
        processes: Processes,
        plugins: Iterable[Backend],  # they precede built-in backends of the same name
        settings: BackendSettings,
        environ: Mapping[str, str],
        label: str = "awf",  # of processes that a backend starts by itself
    ) -> None:
        self._options = options
        self._processes = processes
        self._settings = settings
        self._environ = environ
        self._label = label
        self._backends: dict[str, Backend] = {backend.name: backend for backend in plugins}
        self._chosen: dict[tuple[str | None, str | None], Backend] = {}

    def choose(self, stage: LlmStage, provider: str | None) -> Backend:
        """The stage's own backend, else the run's, its provider's, the settings', or the first agent on PATH."""
        key = (stage.backend, provider)
        if key not in self._chosen:
            self._chosen[key] = self.get(stage.backend or self.default_name(provider))
        return self._chosen[key]

    def problems(self, workflow: Workflow) -> list[AwfError]:
        """One error for each agent that is missing, with the stages that need it."""
        stages = dict[tuple[str, str | None], list[str]]()
        for stage in agent_stages(workflow):
            choice = choose_model(stage, workflow.models, self._settings.model_choice, self._settings.profiles)
            try:
                self.choose(stage, choice.provider)
            except AwfError as error:
                stages.setdefault((error.message, error.help), []).append(stage.id)
        return [
            AwfError(f"{format_stages(names)} cannot run: {message}", help=help)
            for (message, help), names in stages.items()
        ]

    def unpriced(self, workflow: Workflow) -> list[str]:
        """The agents of a workflow whose cost stays unknown: they report none, and the settings have no price.

        A program that is run as the backend `command` reports no tokens either, so that a price does not help.
        """
        names = dict[str, None]()
        for stage in agent_stages(workflow):
            choice = choose_model(stage, workflow.models, self._settings.model_choice, self._settings.profiles)
            name = self.choose(stage, choice.provider).name
            is_priced = (choice.model or name) in self._settings.prices and name != "command"
            if name not in _REPORTING_COST and not is_priced:
                names[name] = None
        return list(names)

    def check(self, workflow: Workflow) -> None:
        """Raise the first of the workflow's problems."""
        for error in self.problems(workflow):
            raise error

    def default_name(self, provider: str | None) -> str:
        """The name of the backend for a stage that names none; an AwfError if there is none."""
        if option := self._options.get("backend"):
            return str(option)
        agent = AGENT_OF_PROVIDER.get((provider or "").lower())
        if agent and self.program_path(agent):
            return agent
        if self._settings.backend:
            return self._settings.backend
        found = next((name for name in AGENTS if self.program_path(name)), None)
        if found is None:
            raise AwfError(
                f"no agent found: looked for {', '.join(AGENTS)} on PATH",
                help='install one ("awf doctor" says how), or use your own: --backend command --agent-command "..."',
            )
        return found

    def program_path(self, name: str) -> str | None:
        """The path of a backend's program; None if it is not installed, or the backend has none."""
        argv = self._argv(name)
        return shutil.which(argv[0], path=self._environ.get("PATH", "")) if argv else None

    def get(self, name: str) -> Backend:
        """The backend of that name; an AwfError if it is unknown or cannot be used."""
        if name not in self._backends:
            self._backends[name] = self._make(name)
        return self._backends[name]

    def _make(self, name: str) -> Backend:
        match name:
            case "scripted":
                return ScriptedBackend(load_script(self._options.get("script") or "{}"))
            case "command":
                argv = self._require_program("command", 'agent "command" { program "..."; }')
                return CommandBackend(argv, self._processes, self._settings.override("command").variables)
            case "acp":
                argv = self._require_program("acp", 'acp { command "..."; }')
                redactor = redactor_of(self._environ)
                return AcpBackend(argv, self._label, self._settings.acp_variables, redactor=redactor)
            case "api":
                if find_spec("pydantic_ai") is None:
                    raise AwfError('the backend "api" is not installed', help='pip install "awf-pipeline[api]"')
                return ApiBackend(self._processes)
            case _ if name in AGENTS:
                return self._make_agent(AGENTS[name])
        known = sorted({*AGENTS, *_NAMED_ONLY, *self._backends})
        help = did_you_mean(name, known) or f"the backends are {', '.join(known)}"
        raise AwfError(f'unknown backend "{name}"', help=help)

    def _make_agent(self, agent: AgentProgram) -> Backend:
        argv, path = self._argv(agent.name), self.program_path(agent.name)
        if path is None:
            raise AwfError(f'the agent "{argv[0]}" was not found', help=f"install {agent.name}: {agent.install}")
        home = self._environ.get("HOME")
        cache = probe_cache_path(self._environ, Path(home)) if home else None
        flags = _CachedFlags(agent, Path(path), argv[1:], self._processes, cache)
        return ProgramBackend(agent, self._processes, self._settings.override(agent.name), flags)

    def _argv(self, name: str) -> tuple[str, ...]:
        """The program of a backend, with the arguments that always follow it."""
        override = self._settings.override(name)
        match name:
            case "command":
                own = (*override.program, *override.arguments, *override.extra) if override.program else ()
                return tuple(self._options.get("agent_command") or own)
            case "acp":
                return tuple(self._options.get("agent_command") or self._settings.acp_command)
        return (override.program or (name,)) if name in AGENTS else ()

    def _require_program(self, name: str, setting: str) -> tuple[str, ...]:
        """The program that a user names for a backend. A relative path is resolved by the process that starts it."""
        argv = self._argv(name)
        if not argv:
            help = f'name it with --agent-command "...", or in the settings: {setting}'
            raise AwfError(f'the backend "{name}" needs a program', help=help)
        program = f'the program "{argv[0]}" of the backend "{name}"'
        if "/" not in argv[0] and self.program_path(name) is None:
            raise AwfError(f"{program} was not found on PATH", help="install it, or give its path, such as ./my-agent")
        if argv[0].startswith("/") and not os.access(argv[0], os.X_OK):
            raise AwfError(f"{program} does not exist or is not executable", help="check its path and permissions")
        return argv

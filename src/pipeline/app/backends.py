"""Which agent a stage gets. An agent that only pretends, the scripted one, is never chosen unless it is asked for."""

import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.app.settings import NOTHING_SET, Settings
from pipeline.backends.agents.base import AgentProgram, Missing, ProgramBackend
from pipeline.backends.agents.registry import AGENT_OF_PROVIDER, AGENTS, agent
from pipeline.backends.probe import ProbeResult, probe, probe_cache_path
from pipeline.engine.ports import Backend, Processes
from pipeline.errors import AwfError
from pipeline.language.model import LlmStage, Workflow, choose_model
from pipeline.redaction import redactor_of
from pipeline.text import did_you_mean

OTHERS = ("acp", "api", "command", "scripted")  # backends that are used when they are named, and never else
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def format_stages(stages: Sequence[str]) -> str:
    """Some stages, as errors name them."""
    names = [f'"{stage}"' for stage in stages]
    return f"stage {names[0]}" if len(names) == 1 else f"stages {', '.join(names[:-1])} and {names[-1]}"


class BackendSelector:
    """The backends of a run. Whatever a stage asks for is decided once; after that it is looked up."""

    def __init__(
        self,
        options: Mapping[str, Any],
        processes: Processes,
        added: Mapping[str, Backend],
        settings: Settings = NOTHING_SET,
        environ: Mapping[str, str] = _NO_VARIABLES,
        label: str = "awf",
    ) -> None:
        self._options = options
        self._processes = processes
        self._settings = settings
        self._environ = environ
        self._label = label  # of processes that a backend starts by itself
        self._made: dict[str, Backend] = dict(added)  # what plugins bring goes before what has the same name here
        self._probes: dict[str, ProbeResult] = {}
        self._chosen: dict[tuple[str | None, str | None], Backend] = {}

    def choose(self, stage: LlmStage, provider: str | None) -> Backend:
        """The backend of a stage: its own, the run's, its provider's, the settings', the first agent there is."""
        key = (stage.backend, provider)
        if key not in self._chosen:
            self._chosen[key] = self.named(stage.backend or self.default(provider))
        return self._chosen[key]

    def missing(self, workflow: Workflow) -> list[AwfError]:
        """An error for each agent that is missing, with the stages that need it."""
        stages = dict[tuple[str, str | None], list[str]]()
        for stage in workflow.stages:
            if isinstance(stage, LlmStage):
                provider = choose_model(stage, workflow.models, self._settings.model_choice).provider
                try:
                    self.choose(stage, provider)
                except AwfError as error:
                    stages.setdefault((error.message, error.help), []).append(stage.id)
        return [
            AwfError(f"{format_stages(found)} cannot run: {message}", help=help)
            for (message, help), found in stages.items()
        ]

    def check(self, workflow: Workflow) -> None:
        """Refuse a workflow for which an agent is missing, before any of it runs."""
        for error in self.missing(workflow):
            raise error

    def default(self, provider: str | None) -> str:
        """The name of the backend of a stage that names none."""
        if asked := self._options.get("backend"):
            return str(asked)
        of_provider = AGENT_OF_PROVIDER.get((provider or "").lower())
        if of_provider and self.path_of(of_provider):
            return of_provider
        if self._settings.backend:
            return self._settings.backend
        found = next((name for name in AGENTS if self.path_of(name)), None)
        if found is None:
            raise AwfError(
                f"no agent was found: {', '.join(AGENTS)} were looked for on PATH",
                help='install one ("awf doctor" says how), or name your own: --backend command --agent-command "..."',
            )
        return found

    def path_of(self, name: str) -> str | None:
        """Where the program of a backend is; None when it is not there, or the backend has none."""
        argv = self._argv(name)
        return shutil.which(argv[0], path=self._environ.get("PATH", "")) if argv else None

    def named(self, name: str) -> Backend:
        """A backend by its name, made when it is first asked for."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Backend:
        match name:
            case "scripted":
                return self._scripted()
            case "command":
                return self._command()
            case "acp":
                return self._acp()
            case "api":
                return self._api()
            case _ if name in AGENTS:
                return self._agent(name)
        known = sorted({*AGENTS, *OTHERS, *self._made})
        help = did_you_mean(name, known) or f"the backends are {', '.join(known)}"
        raise AwfError(f'there is no backend "{name}"', help=help)

    def _argv(self, name: str) -> tuple[str, ...]:
        """The program that is started for a backend, with what always follows it."""
        override = self._settings.override(name)
        match name:
            case "command":
                own = (*override.program, *override.arguments, *override.extra) if override.program else ()
                return tuple(self._options.get("agent_command") or own)
            case "acp":
                return tuple(self._options.get("agent_command") or self._settings.acp_command)
        return (override.program or (name,)) if name in AGENTS else ()

    def _found(self, name: str, in_settings: str) -> tuple[str, ...]:
        """The program of a backend that has none of its own; a path is left to whoever starts it."""
        argv = self._argv(name)
        if not argv:
            help = f'name it with --agent-command "...", or in the settings: {in_settings}'
            raise AwfError(f'the backend "{name}" needs a program', help=help)
        if "/" not in argv[0] and self.path_of(name) is None:
            words = f'the program "{argv[0]}" of the backend "{name}" was not found on PATH'
            raise AwfError(words, help="install it, or give its path, such as ./my-agent")
        if argv[0].startswith("/") and not os.access(argv[0], os.X_OK):
            words = f'the program "{argv[0]}" of the backend "{name}" does not exist, or cannot be executed'
            raise AwfError(words, help="check its path, and that it is executable")
        return argv

    def _agent(self, name: str) -> Backend:
        made = agent(name)
        if self.path_of(name) is None:
            program = self._argv(name)[0]
            raise AwfError(f'the program "{program}" of the agent {name} was not found', help=f"get it: {made.install}")
        return ProgramBackend(made, self._processes, self._settings.override(name), self._missing(made))

    def _missing(self, made: AgentProgram) -> Missing:
        """Ask a program once what flags it has, and remember it. One that cannot be asked is taken on trust."""

        async def missing(env: Mapping[str, str]) -> tuple[str, ...]:
            if made.name not in self._probes:
                words = self._argv(made.name)[1:]
                path = Path(self.path_of(made.name) or made.name)
                home = self._environ.get("HOME")
                cache = probe_cache_path(self._environ, Path(home)) if home else None
                self._probes[made.name] = await probe(made, path, self._processes, env, cache, words)
            return self._probes[made.name].missing

        return missing

    # Each backend is imported when it is asked for: some bring a library that takes a second to load.

    def _scripted(self) -> Backend:
        from pipeline.backends.agents.scripted import ScriptedBackend, load_script  # noqa: PLC0415

        return ScriptedBackend(load_script(self._options.get("script") or "{}"))

    def _command(self) -> Backend:
        from pipeline.backends.agents.command import CommandBackend  # noqa: PLC0415 - see above

        argv = self._found("command", 'agent "command" { program "..."; }')
        return CommandBackend(argv, self._processes, self._settings.override("command").variables)

    def _acp(self) -> Backend:
        from pipeline.backends.agents.acp import AcpBackend  # noqa: PLC0415 - see above

        argv = self._found("acp", 'acp { command "..."; }')
        redactor = redactor_of(self._environ)
        return AcpBackend(argv, self._label, self._settings.acp_variables, redactor=redactor)

    def _api(self) -> Backend:
        from pipeline.backends.agents.api import ApiBackend  # noqa: PLC0415 - see above

        if find_spec("pydantic_ai") is None:
            raise AwfError('the backend "api" is not installed', help='pip install "awf-pipeline[api]"')
        return ApiBackend(self._processes)

"""Whether a machine is ready for a run: its agents, git, the store. Nothing here changes anything or shows a key."""

import asyncio
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from pipeline.app.settings import Settings
from pipeline.backends.environment import child_environment, withheld_keys
from pipeline.backends.probe import probe
from pipeline.backends.select import AGENTS, BackendSelector
from pipeline.engine.ports import (
    AgentRequest,
    AgentStatus,
    Backend,
    ExitReason,
    ProcessCommand,
    Processes,
    RequestLimits,
)
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import UNCHOSEN, Access, LlmStage, ModelChoice, Models, Profile, choose_model
from pipeline.redaction import SECRET_NAMES, matches_any, redactor_of
from pipeline.text import plural

PROMPT = "Answer with the word OK and nothing else.\n"
CALL_TIMEOUT = 120.0  # seconds for a tiny request
_NOT_LOADED = {  # what an agent does not get of a project's own instructions
    "claude": "files that CLAUDE.md imports with @, and the project's settings and hooks",
    "acp": "AGENTS.md and the like, unless the program reads them by itself",
    "api": "AGENTS.md and the like",
    "command": "AGENTS.md and the like, unless the program reads them by itself",
}
EXTRAS = {  # optional dependencies, and the modules that come with them
    "api": ("pydantic_ai",),
    "cluster": ("obstore", "temporalio"),
    "web": ("sse_starlette", "starlette", "uvicorn"),
}


@dataclass(frozen=True, slots=True)
class AgentCall:
    """The result of asking an agent for one word."""

    seconds: float
    text: str = ""
    cost_usd: float | None = None
    error: str = ""  # its kind, or the limit that was reached
    message: str = ""


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """What was found out about one agent."""

    name: str
    path: str = ""  # of its program
    version: str = ""
    missing: tuple[str, ...] = ()  # flags that it does not support
    keys: tuple[str, ...] = ()  # the names of the variables with a key for it
    problem: str = ""
    advice: str = ""  # how to install it, or how to give it a key
    instructions: tuple[str, ...] = ()  # the files with a project's instructions that it is given
    not_loaded: str = ""  # what it does not get of them
    withheld: tuple[str, ...] = ()  # variables that look like keys, if it is given none
    call: AgentCall | None = None

    @property
    def works(self) -> bool:
        """Whether it is installed and nothing is known to be wrong with it."""
        return bool(self.path) and not self.problem and not self.missing and not (self.call and self.call.error)


@dataclass(frozen=True, slots=True)
class ProfileCheck:
    """What was found out about one model profile of the settings."""

    name: str
    model: str
    agent: str = ""  # that stages with this profile get, unless they name one
    problem: str = ""
    call: AgentCall | None = None

    @property
    def works(self) -> bool:
        """Whether nothing is known to be wrong with it."""
        return not self.problem and not (self.call and self.call.error)


@dataclass(frozen=True, slots=True)
class SystemCheck:
    """What was found out about another part of the machine."""

    name: str
    state: str
    ok: bool = True
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was checked."""

    agents: tuple[AgentCheck, ...]
    parts: tuple[SystemCheck, ...]
    default: str  # the backend of a stage that names none; empty if there is none
    profiles: tuple[ProfileCheck, ...] = ()

    @property
    def working(self) -> tuple[str, ...]:
        """The names of the agents that work."""
        return tuple(agent.name for agent in self.agents if agent.works)

    @property
    def default_works(self) -> bool:
        """Whether a stage that names no agent can run."""
        return self.default in (*self.working, "scripted")

    @property
    def healthy(self) -> bool:
        """Whether a run can start: the default agent works, and so do every profile and part that is needed."""
        needed = [part.ok for part in self.parts if part.needed] + [profile.works for profile in self.profiles]
        return bool(self.working) and self.default_works and all(needed)


class Doctor:
    """Checks a machine."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        store: Path,
        processes: Processes,
        cache: Path | None,  # of what programs say about themselves
        plugins: Sequence[Backend],
    ) -> None:
        self.settings = settings
        self._environ = environ
        self._store = store
        self._processes = processes
        self._cache = cache
        self._plugins = {backend.name for backend in plugins}
        self._redactor = redactor_of(environ)
        self._selector = BackendSelector({}, processes, plugins, settings, environ)
        try:
            self._default = self._selector.default_name(settings.model_choice.provider)
        except AwfError:
            self._default = ""  # the agents' own lines say what is missing

    async def examine(self, *, call: bool) -> Diagnosis:
        """Check everything; with `call`, ask every agent that works for one word."""
        configured = {"acp": self.settings.acp_command, "command": self.settings.override("command").program}
        others = [*(name for name, command in configured.items() if command), "api", *sorted(self._plugins)]
        agents = [*await asyncio.gather(*map(self._check_agent, AGENTS)), *map(self._check_other, others)]
        if call:
            names = [agent.name for agent in agents if agent.works]
            calls = await asyncio.gather(*(self.ask(self._selector.get(name), self._choice(name)) for name in names))
            answers = dict(zip(names, calls, strict=True))
            agents = [replace(agent, call=answers.get(agent.name)) for agent in agents]
        profiles = await asyncio.gather(*(self._check_profile(name, call=call) for name in self.settings.profiles))
        parts = [await self._check_git(), _check_store(self._store)]
        parts += [SystemCheck("python", platform.python_version()), SystemCheck("sqlite", sqlite3.sqlite_version)]
        for name, modules in EXTRAS.items():
            installed = all(map(find_spec, modules))
            state = "installed" if installed else f'not installed (optional): pip install "awf-pipeline[{name}]"'
            parts.append(SystemCheck(f"extra {name}", state, ok=installed, needed=False))
        return Diagnosis(tuple(agents), tuple(parts), self._default, tuple(profiles))

    async def ask(self, backend: Backend, choice: ModelChoice) -> AgentCall:
        """Ask an agent for one word."""
        with tempfile.TemporaryDirectory(prefix="awf-doctor-") as folder:
            request = AgentRequest(
                stage="doctor",
                visit=1,
                attempt=1,
                prompt=PROMPT,
                cwd=Path(folder),
                artifacts=Path(folder, "artifacts"),
                model=choice.model,
                provider=choice.provider,
                reasoning_effort=choice.reasoning_effort,
                access=Access.NONE,
                limits=RequestLimits(timeout=CALL_TIMEOUT),
                env=self._child_environment(backend.variables(choice.provider)),
            )
            started = time.monotonic()
            result = await backend.run(request, lambda _: None)
            seconds = time.monotonic() - started
        cost = result.usage.cost_usd if result.usage else None
        if result.status is AgentStatus.OK:
            return AgentCall(seconds, self._redactor.text(result.text), cost)
        if result.error is None:
            return AgentCall(seconds, cost_usd=cost, error=result.status)
        message = self._redactor.text(result.error.message)
        return AgentCall(seconds, cost_usd=cost, error=result.error.kind, message=message)

    async def _check_agent(self, name: str) -> AgentCheck:
        agent, override, provider = AGENTS[name], self.settings.override(name), self._choice(name).provider
        path = self._selector.program_path(name)
        found = self._keys((*agent.variables(provider), *override.variables))
        keys = tuple(key for key in found if key not in agent.ignored_keys)
        if path is None:
            return AgentCheck(name, keys=keys, advice=agent.install)
        env, arguments = self._child_environment(()), override.program[1:]
        probed = await probe(agent, Path(path), self._processes, env, self._cache, arguments, refresh=True)
        problem = self._redactor.text(probed.problem)
        # An agent for many providers is given the key of the one that is named, and no other.
        needs_provider = not provider and not any(matches_any(key, SECRET_NAMES) for key in agent.variables(None))
        advice = "it gets a key if a stage or the settings name a provider" if needs_provider else ""
        if found and not keys:
            advice = agent.ignored_keys[found[0]]
        instructions = (agent.instructions, _NOT_LOADED.get(name, ""))
        withheld = () if keys else self._withheld((*agent.variables(provider), *override.variables))
        return AgentCheck(name, path, probed.version, probed.missing, keys, problem, advice, *instructions, withheld)

    def _check_other(self, name: str) -> AgentCheck:
        try:
            backend = self._selector.get(name)
        except AwfError as error:
            return AgentCheck(name, advice=error.help or "", problem=error.message)
        variables = backend.variables(self._choice(name).provider)
        keys = self._keys(variables)
        withheld = () if keys else self._withheld(variables)
        if name in self._plugins:
            return AgentCheck(name, "a plugin", keys=keys, withheld=withheld)
        if name == "api":
            found = AgentCheck(name, "a library", keys=keys, not_loaded=_NOT_LOADED[name], withheld=withheld)
            advice = "name a provider in the settings, and put its key into the environment"
            return found if keys else replace(found, problem="it needs a provider and its key", advice=advice)
        path = self._selector.program_path(name) or ""
        problem = "" if path else "its program was not found"
        return AgentCheck(name, path, keys=keys, problem=problem, not_loaded=_NOT_LOADED[name], withheld=withheld)

    async def _check_profile(self, name: str, *, call: bool) -> ProfileCheck:
        stage = LlmStage(id="doctor", model_profile=name)
        models = Models(profiles=(Profile(name=name),))
        choice = choose_model(stage, models, self.settings.model_choice, self.settings.profiles)
        try:
            backend = self._selector.choose(stage, choice.provider)
        except AwfError as error:
            return ProfileCheck(name, choice.model or "", problem=error.message)
        answer = await self.ask(backend, choice) if call else None
        return ProfileCheck(name, choice.model or "", backend.name, call=answer)

    async def _check_git(self) -> SystemCheck:
        with tempfile.TemporaryDirectory(prefix="awf-doctor-") as name:
            folder, env = Path(name), self._child_environment(())
            finished = await self._processes.run(
                ProcessCommand(("git", "--version"), folder, env, folder, timeout=30.0)
            )
        if finished.ending is not ExitReason.EXITED or finished.exit_code:
            return SystemCheck("git", finished.message or "does not run", ok=False)
        return SystemCheck("git", finished.stdout_tail.strip().removeprefix("git version "))

    def _choice(self, name: str) -> ModelChoice:
        """The model of the settings, which is meant for the agent they choose and no other."""
        return self.settings.model_choice if name == self._default else UNCHOSEN

    def _child_environment(self, names: Collection[str]) -> Mapping[str, str]:
        return child_environment(self._environ, extra_names=(*names, *self.settings.environment))

    def _withheld(self, names: Collection[str]) -> tuple[str, ...]:
        return withheld_keys(self._environ, self._child_environment(names))

    def _keys(self, names: Collection[str]) -> tuple[str, ...]:
        """The names of the variables that hold a key."""
        return tuple(
            name for name in dict.fromkeys(names) if matches_any(name, SECRET_NAMES) and self._environ.get(name)
        )


def _check_store(store: Path) -> SystemCheck:
    """Write a file, and read the runs that exist."""
    nearest = next(folder for folder in (store.absolute(), *store.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"awf")
            file.flush()
            os.fsync(file.fileno())
        with closing(SqliteJournal(store)) as journal:
            runs = len(journal.runs())
    except OSError as error:
        return SystemCheck("store", f"{store} cannot be written: {error.strerror or error}", ok=False)
    except AwfError as error:
        return SystemCheck("store", error.message, ok=False)
    return SystemCheck("store", f"{store}, {plural(runs, 'run')}")

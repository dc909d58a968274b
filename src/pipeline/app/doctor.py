"""What of a machine is ready for a run: its agents, git, the store. Nothing here changes anything or shows a key."""

import asyncio
import os
import platform
import sqlite3
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from pipeline.app.backends import BackendSelector
from pipeline.app.settings import Settings
from pipeline.backends.agents.base import AgentProgram
from pipeline.backends.agents.registry import AGENTS, agent
from pipeline.backends.environment import child_environment
from pipeline.backends.probe import probe
from pipeline.engine.ports import (
    AgentRequest,
    AgentResult,
    AgentStatus,
    Backend,
    ExitReason,
    ProcessCommand,
    Processes,
    RequestLimits,
)
from pipeline.errors import AwfError
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import UNCHOSEN, Access, ModelChoice
from pipeline.redaction import SECRET_NAMES, Redactor, matches_any, redactor_of
from pipeline.text import plural

PROMPT = "Answer with the word OK and nothing else.\n"
CALL_TIMEOUT = 120.0  # seconds for a tiny request
# What can be installed besides, and the modules that come with it.
EXTRAS = {
    "api": ("pydantic_ai",),
    "cluster": ("s3fs", "temporalio"),
    "web": ("jinja2", "sse_starlette", "starlette", "uvicorn"),
}


@dataclass(frozen=True, slots=True)
class AgentCall:
    """What came of a tiny request."""

    seconds: float
    text: str = ""
    cost_usd: float | None = None
    error: str = ""  # its kind, or how the agent was stopped
    message: str = ""


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """How one agent stands."""

    name: str
    path: str = ""  # of its program
    version: str = ""
    missing: tuple[str, ...] = ()  # flags that it does not take
    keys: tuple[str, ...] = ()  # the names of the variables with a key for it
    problem: str = ""
    advice: str = ""  # how to get it, or how it gets its key
    call: AgentCall | None = None

    @property
    def works(self) -> bool:
        """Whether it is there and nothing speaks against it."""
        return bool(self.path) and not self.problem and not self.missing and not (self.call and self.call.error)


@dataclass(frozen=True, slots=True)
class SystemCheck:
    """How something else of the machine stands."""

    name: str
    state: str
    ok: bool = True
    needed: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was looked at."""

    agents: tuple[AgentCheck, ...]
    parts: tuple[SystemCheck, ...]
    default: str  # the backend of a stage that asks for none; empty when there is none

    @property
    def healthy(self) -> bool:
        """Whether a run can be worked on: by one agent at least, and with everything that it needs."""
        return any(one.works for one in self.agents) and all(part.ok for part in self.parts if part.needed)


@dataclass(frozen=True, slots=True)
class Doctor:
    """Looks at a machine."""

    settings: Settings
    environ: Mapping[str, str]
    store: Path
    processes: Processes
    cache: Path | None  # where probes are remembered
    added: Mapping[str, Backend]  # the backends that plugins bring

    async def examine(self, *, call: bool) -> Diagnosis:
        """Look at everything; with `call`, every agent that is there is asked for a word."""
        agents = await asyncio.gather(
            *(self._agent(name) for name in AGENTS), *(self._other(name) for name in self._others())
        )
        if call:
            agents = await asyncio.gather(*(self._called(one) for one in agents))
        parts = (await self._git(), _store(self.store), *_python(), *map(_extra, EXTRAS))
        return Diagnosis(tuple(agents), parts, self._default())

    @property
    def _redactor(self) -> Redactor:
        return redactor_of(self.environ)

    def _backends(self) -> BackendSelector:
        return BackendSelector({}, self.processes, self.added, self.settings, self.environ)

    def _default(self) -> str:
        try:
            return self._backends().default(self.settings.model_choice.provider)
        except AwfError:
            return ""  # the agents' own lines say what is missing

    async def _agent(self, name: str) -> AgentCheck:
        known, override = agent(name), self.settings.override(name)
        path = self._backends().path_of(name)
        keys = self._keys((*known.variables(self._choice(name).provider), *override.variables))
        if path is None:
            return AgentCheck(name, keys=keys, advice=known.install)
        probed = await probe(known, Path(path), self.processes, self._environment(()), self.cache, override.program[1:])
        problem = self._redactor.text(probed.problem)
        return AgentCheck(name, path, probed.version, probed.missing, keys, problem, self._advice(name, known))

    def _others(self) -> list[str]:
        """The backends that have no program of a known name, where they are set up or a plugin brings them."""
        own = {"acp": self.settings.acp_command, "command": self.settings.override("command").program}
        return [*(name for name, command in own.items() if command), "api", *sorted(self.added)]

    async def _other(self, name: str) -> AgentCheck:
        try:
            backend = self._backends().named(name)
        except AwfError as error:
            return AgentCheck(name, advice=error.help or "", problem=error.message)
        keys = self._keys(backend.variables(self._choice(name).provider))
        if name in self.added:
            return AgentCheck(name, "a plugin", keys=keys)
        if name == "api":
            return AgentCheck(name, "a library", keys=keys, problem="" if keys else "it needs a provider and its key")
        path = self._backends().path_of(name) or ""
        return AgentCheck(name, path, keys=keys, problem="" if path else "its program was not found")

    def _advice(self, name: str, known: AgentProgram) -> str:
        """An agent with many providers is given the key of the one that is named, and no other."""
        if self._choice(name).provider or any(
            matches_any(variable, SECRET_NAMES) for variable in known.variables(None)
        ):
            return ""
        return "it is given a key when a stage or the settings name a provider"

    async def _called(self, one: AgentCheck) -> AgentCheck:
        if not one.works:
            return one
        return replace(one, call=await self.ask(self._backends().named(one.name), self._choice(one.name)))

    async def ask(self, backend: Backend, choice: ModelChoice) -> AgentCall:
        """Ask an agent for one word."""
        with tempfile.TemporaryDirectory(prefix="awf-doctor-") as folder:
            began = time.monotonic()
            result = await backend.run(self._request(backend, choice, Path(folder)), lambda _: None)
            return self._call(result, time.monotonic() - began)

    def _request(self, backend: Backend, choice: ModelChoice, folder: Path) -> AgentRequest:
        return AgentRequest(
            stage="doctor",
            visit=1,
            attempt=1,
            review=False,
            prompt=PROMPT,
            cwd=folder,
            artifacts=folder / "artifacts",
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=Access.NONE,
            limits=RequestLimits(timeout=CALL_TIMEOUT),
            env=self._environment(backend.variables(choice.provider)),
        )

    def _choice(self, name: str) -> ModelChoice:
        """The model of the settings: it is meant for the agent they choose, and for no other."""
        return self.settings.model_choice if name == self._default() else UNCHOSEN

    def _call(self, result: AgentResult, seconds: float) -> AgentCall:
        cost = result.usage.cost_usd if result.usage else None
        if result.status is AgentStatus.OK:
            return AgentCall(seconds, self._redactor.text(result.text), cost)
        kind = result.error.kind if result.error else result.status
        return AgentCall(seconds, "", cost, kind, self._redactor.text(result.error.message if result.error else ""))

    def _environment(self, names: Collection[str]) -> Mapping[str, str]:
        return child_environment(self.environ, extra_names=(*names, *self.settings.environment))

    def _keys(self, names: Collection[str]) -> tuple[str, ...]:
        """The variables with a key: by their names, never their values."""
        return tuple(
            name for name in dict.fromkeys(names) if matches_any(name, SECRET_NAMES) and self.environ.get(name)
        )

    async def _git(self) -> SystemCheck:
        with tempfile.TemporaryDirectory(prefix="awf-doctor-") as folder:
            command = ProcessCommand(
                ("git", "--version"), Path(folder), self._environment(()), Path(folder), timeout=30.0
            )
            finished = await self.processes.run(command)
        if finished.ending is not ExitReason.EXITED or finished.exit_code:
            return SystemCheck("git", finished.message or "does not run", ok=False)
        return SystemCheck("git", finished.stdout_tail.strip().removeprefix("git version "))


def _store(store: Path) -> SystemCheck:
    """Whether runs can be kept: a file is really written, and the runs that are there are really read."""
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


def _python() -> tuple[SystemCheck, SystemCheck]:
    return SystemCheck("python", platform.python_version()), SystemCheck("sqlite", sqlite3.sqlite_version)


def _extra(name: str) -> SystemCheck:
    there = all(find_spec(module) for module in EXTRAS[name])
    state = "installed" if there else f'not installed (optional): pip install "awf-pipeline[{name}]"'
    return SystemCheck(f"extra {name}", state, ok=there, needed=False)

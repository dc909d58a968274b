"""Command-line agents: one way to run them; each has a module that knows its arguments and its protocol."""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from pipeline.backends.agents.judgement import Now, Reading, judge, local_now
from pipeline.backends.agents.telling import excerpt
from pipeline.engine.agent import AgentError, AgentEvent, AgentStatus, Emit, ErrorKind, Request, Result
from pipeline.engine.process import Command, Processes

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a program is started for one request; the prompt is on its standard input."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the request's


class Reader(Protocol):
    """Reads one run of a program, a JSON object of its standard output at a time."""

    def read(self, message: Message) -> Iterable[AgentEvent]:
        """Take the next object; what of it is worth showing."""
        ...

    def conclude(self, stderr: str) -> Reading:
        """What came of it all; `stderr` is the end of what it wrote there."""
        ...


class Agent(Protocol):
    """What is particular to one command-line agent. `flags` are those it cannot be used without."""

    name: str  # also of its program
    flags: tuple[str, ...]
    help: tuple[str, ...]  # the arguments that print the flags
    install: str  # how to get it, in a few words

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The names of the variables it needs: the provider's key, and where it keeps its own files."""
        ...

    def invocation(self, request: Request, extra: tuple[str, ...]) -> Invocation:
        """Its arguments; `extra` are more of them that the user wants."""
        ...

    def reader(self, request: Request) -> Reader:
        """A reader for one run of it."""
        ...


@dataclass(frozen=True, slots=True)
class Override:
    """What a user changes of how a program is started."""

    program: tuple[str, ...] = ()  # instead of its name: a path, or a program that runs it
    arguments: tuple[str, ...] = ()  # instead of ours
    extra: tuple[str, ...] = ()  # besides ours
    variables: tuple[str, ...] = ()  # more names of variables that it gets


AS_IT_IS = Override()
Missing = Callable[[Mapping[str, str]], Awaitable[Collection[str]]]


async def _nothing_missing(env: Mapping[str, str]) -> Collection[str]:
    """Take it on trust that a program has its flags."""
    del env
    return ()


class ProgramBackend:
    """Runs a command-line agent. `missing` tells which of its flags the installed program does not have."""

    def __init__(
        self,
        agent: Agent,
        processes: Processes,
        override: Override = AS_IT_IS,
        missing: Missing = _nothing_missing,
        now: Now = local_now,
    ) -> None:
        self.name = agent.name
        self._agent = agent
        self._processes = processes
        self._override = override
        self._missing = missing
        self._now = now

    def variables(self, provider: str | None) -> Collection[str]:
        """Its own, and those the user adds."""
        return (*self._agent.variables(provider), *self._override.variables)

    async def run(self, request: Request, emit: Emit) -> Result:
        """Run the program and read what it prints."""
        emit(AgentEvent("started"))
        started = self._agent.invocation(request, self._override.extra)
        argv = (*(self._override.program or (self.name,)), *(self._override.arguments or started.arguments))
        if lacking := [flag for flag in await self._missing(request.env) if flag in argv]:
            return Result(AgentStatus.ERROR, error=_outdated(argv[0], lacking), argv=argv)
        reading = _Lines(self._agent.reader(request), emit)
        finished = await self._processes.run(command_for(argv, request, started.env), reading.take)
        if reading.broken:
            return Result(AgentStatus.ERROR, error=reading.broken, exit_code=finished.exit_code, argv=argv)
        return judge(argv, finished, reading.reader.conclude(finished.stderr_tail), self._now())


def _outdated(program: str, flags: list[str]) -> AgentError:
    words = (
        f'the installed "{program}" does not know {", ".join(flags)}; update it, or give its arguments in the settings'
    )
    return AgentError(ErrorKind.CONFIG, words)


class _Lines:
    """Hands the JSON objects of a stream to a reader; what is no JSON is passed over: programs print warnings too."""

    def __init__(self, reader: Reader, emit: Emit) -> None:
        self.reader = reader
        self.broken: AgentError | None = None
        self._emit = emit

    def take(self, line: bytes) -> None:
        """Read one line."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict) or self.broken:
            return
        try:
            for event in self.reader.read(message):
                self._emit(event)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            words = f"it printed what is not its protocol ({error!r}): {excerpt(line)}"
            self.broken = AgentError(ErrorKind.PROTOCOL, words)


def command_for(argv: tuple[str, ...], request: Request, env: Mapping[str, str] = MappingProxyType({})) -> Command:
    """A program to run for a request, with variables on top of the request's."""
    return Command(
        argv=argv,
        cwd=request.cwd,
        env={**request.env, **env},
        artifacts=request.artifacts,
        stdin=request.prompt,
        timeout=request.limits.timeout,
        idle=request.limits.idle,
        output_bytes=request.limits.output_bytes,
    )

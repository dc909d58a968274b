"""What command-line agents share: starting the program, reading its messages, and judging how the run ended.

Each agent's own module knows its arguments and its messages. An exit code alone proves nothing: some programs exit
with 0 after they were refused, cut off or killed.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from pipeline.backends.environment import provider_variables
from pipeline.backends.provider_errors import error_kind, with_retry_after
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentSession,
    AgentStatus,
    Emit,
    ErrorKind,
    ExitReason,
    ProcessCommand,
    Processes,
    ProcessResult,
)

Message = Mapping[str, Any]
MissingFlags = Callable[[Mapping[str, str]], Awaitable[Collection[str]]]

MALFORMED = (AttributeError, KeyError, TypeError, ValueError)  # what reading a message of an unexpected form raises
_SIGNALS = MappingProxyType(  # exit codes by which a shell or a program reports the signal that ended it
    {129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
)
_NOT_STARTED = (126, 127)  # a shell's exit codes for a command that cannot be run or found
_LAST_LINES = 5  # of an answer, in which a failed program may have printed its error
_LONGEST_LINE = 2000
_LONGEST_LABEL = 120
_LONGEST_EXCERPT = 300
_TELLING_ARGUMENTS = (  # what best describes a tool call, in this order
    *("command", "file_path", "filePath", "notebook_path", "dir_path", "path", "pattern", "query", "url"),
    *("description", "skill"),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a program is started for one request. The prompt goes to its standard input."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the request's


@dataclass
class AgentTranscript:
    """What an agent has reported about one run so far. Each agent's subclass reads that agent's messages."""

    used_before: Usage | None = None  # by the session, before this run; None if unknown
    text: str = ""
    ended: bool = False  # whether it reported a successful end
    error: AgentError | None = None
    retry_hints: tuple[str, ...] = ()  # texts besides the error that may say when to retry, the surest first
    usage: Usage | None = None
    session: AgentSession | None = None
    denied: list[str] = field(default_factory=list)  # the tools it was refused
    version: str = ""
    _unfinished_line: str = ""

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the agent's next message and yield the events to show; messages of unknown types are ignored."""
        raise NotImplementedError

    def finish(self, stderr: str) -> None:
        """Settle the final state; `stderr` is the end of the program's standard error."""

    def add_text(self, piece: str) -> Iterator[AgentEvent]:
        """Add a piece of the answer, and yield the lines that it completes."""
        self.text += piece
        *lines, self._unfinished_line = (self._unfinished_line + piece).split("\n")
        yield from (AgentEvent("text", line) for line in lines if line.strip())

    def end_text(self) -> Iterator[AgentEvent]:
        """Yield the last line of what was added."""
        line, self._unfinished_line = self._unfinished_line, ""
        if line.strip():
            yield AgentEvent("text", line)


class MessageModel(BaseModel):
    """A part of a program's message, with names in snake_case or camelCase."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class AgentProgram(ABC):
    """What is particular to one command-line agent."""

    name: ClassVar[str]  # of the agent and of its program
    flags: ClassVar[tuple[str, ...]]  # that it cannot be used without
    help: ClassVar[tuple[str, ...]] = ("--help",)  # the arguments that print its flags
    install: ClassVar[str]  # the command that installs it
    provider: ClassVar[str | None] = None  # whose key it needs if the stage names no provider
    own_variables: ClassVar[tuple[str, ...]] = ()  # where it keeps its files, and how it logs in
    instructions: ClassVar[tuple[str, ...]]  # the files of a project that tell it what to observe there

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The names of the environment variables it needs."""
        return (*provider_variables(provider or self.provider), *self.own_variables)

    @abstractmethod
    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """How to start it for a request; `extra` are arguments added by the user."""

    @abstractmethod
    def transcript(self, used_before: Usage | None) -> AgentTranscript:
        """An empty transcript for one run in a session that has used so much before; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class AgentOverride:
    """What a user changes about how a program is started."""

    program: tuple[str, ...] = ()  # instead of its name: a path, or a program that runs it
    arguments: tuple[str, ...] = ()  # instead of ours
    extra: tuple[str, ...] = ()  # besides ours
    variables: tuple[str, ...] = ()  # names of more variables to pass on


_NO_OVERRIDE = AgentOverride()
_NOTHING_USED = Usage(input_tokens=0, output_tokens=0, cost_usd=0)


def local_now() -> datetime:
    """The current time on this machine, with its zone."""
    return datetime.now().astimezone()


class ProgramBackend:
    """Runs a command-line agent. `missing_flags` says which of its flags the installed program lacks."""

    def __init__(
        self,
        agent: AgentProgram,
        processes: Processes,
        override: AgentOverride = _NO_OVERRIDE,
        missing_flags: MissingFlags | None = None,
    ) -> None:
        self.name = agent.name
        self._agent = agent
        self._processes = processes
        self._override = override
        self._missing_flags = missing_flags
        self._missing: Collection[str] | None = None

    def variables(self, provider: str | None) -> Collection[str]:
        """The agent's own, and those the user adds."""
        return (*self._agent.variables(provider), *self._override.variables)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Run the program, read what it prints and judge how it ended."""
        emit(AgentEvent("started"))
        invocation = self._agent.invocation(request, self._override.extra)
        argv = (*(self._override.program or (self.name,)), *(self._override.arguments or invocation.arguments))
        if self._missing is None:
            self._missing = await self._missing_flags(request.env) if self._missing_flags else ()
        if missing := [flag for flag in self._missing if flag in argv]:
            problem = f'the installed "{argv[0]}" does not support {", ".join(missing)}'
            help = "install a newer version, or set its arguments in the settings"
            return AgentResult(AgentStatus.ERROR, error=AgentError(ErrorKind.CONFIG, f"{problem}; {help}"), argv=argv)
        transcript = self._agent.transcript(request.session.used if request.session else _NOTHING_USED)
        unreadable: list[AgentError] = []

        def read_line(line: bytes) -> None:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                return  # programs print warnings, too
            if not isinstance(message, dict):
                return
            try:
                events = tuple(transcript.read(message))
            except MALFORMED as error:
                excerpt = line.decode(errors="replace").strip()[:_LONGEST_EXCERPT]
                problem = f'"{self.name}" printed a malformed message ({type(error).__name__}): {excerpt}'
                unreadable.append(AgentError(ErrorKind.PROTOCOL, problem))
                return
            for event in events:
                emit(event)

        finished = await self._processes.run(command_for(argv, request, invocation.env), read_line)
        transcript.finish(finished.stderr_tail)
        if unreadable:  # the lost message could be the one that mattered
            transcript.error = unreadable[0]
        return agent_result(argv, finished, transcript)


def command_for(
    argv: tuple[str, ...], request: AgentRequest, env: Mapping[str, str] = MappingProxyType({})
) -> ProcessCommand:
    """The program to run for a request, with `env` on top of the request's variables."""
    return ProcessCommand(
        argv=argv,
        cwd=request.cwd,
        env={**request.env, **env},
        artifacts=request.artifacts,
        stdin=request.prompt,
        timeout=request.limits.timeout,
        idle=request.limits.idle,
        output_bytes=request.limits.output_bytes,
    )


def agent_result(argv: tuple[str, ...], finished: ProcessResult, transcript: AgentTranscript) -> AgentResult:
    """Judge a run: by our own limits, then by what the agent reported, its exit code, and whether it answered."""
    status, error = AgentStatus.OK, None
    match finished.ending:
        case ExitReason.TIMEOUT:
            status = AgentStatus.TIMEOUT
        case ExitReason.IDLE:
            status = AgentStatus.IDLE
        case ExitReason.SPAWN_ERROR:
            error = AgentError(ErrorKind.SPAWN, finished.message)
        case _:
            error = transcript.error or _unreported_error(argv[0], finished, transcript)
    if error:
        status = AgentStatus.ERROR
        error = error if error.message else replace(error, message=f'"{argv[0]}" failed without an error message')
        error = with_retry_after(error, (*transcript.retry_hints, error.message, finished.stderr_tail), local_now())
    return AgentResult(
        status=status,
        text=transcript.text,
        error=error,
        usage=transcript.usage,
        session=transcript.session,
        exit_code=finished.exit_code,
        argv=argv,
        version=transcript.version,
        denied=tuple(transcript.denied),
    )


def _unreported_error(program: str, finished: ProcessResult, transcript: AgentTranscript) -> AgentError | None:
    """What is wrong with a run whose program reported no error itself."""
    code = finished.exit_code
    kind, said = _last_words(finished.stderr_tail, transcript.text)
    if finished.ending is ExitReason.SIGNAL or code in _SIGNALS:
        signal = _SIGNALS.get(code or 0) or finished.message
        return AgentError(ErrorKind.KILLED, f'"{program}" was killed by {signal}{said}')
    if code:
        kind = ErrorKind.SPAWN if code in _NOT_STARTED else kind
        return AgentError(kind, f'"{program}" exited with code {code}{said or " and printed no error"}')
    refused = kind if kind in (ErrorKind.AUTH, ErrorKind.QUOTA, ErrorKind.RATE_LIMIT) else None
    if not transcript.ended:
        return AgentError(refused or ErrorKind.PROTOCOL, f'"{program}" exited without reporting how it ended{said}')
    if not transcript.text.strip():
        denied = f"; it was denied {', '.join(transcript.denied)}" if transcript.denied else ""
        return AgentError(refused or ErrorKind.EMPTY, f'"{program}" returned an empty answer{denied}{said}')
    return None


def _last_words(stderr: str, answer: str) -> tuple[ErrorKind, str]:
    """The last line that names a kind of error, else the last line; some programs print errors as their answer."""
    complaint = [line.strip()[:_LONGEST_LINE] for line in stderr.split("\n") if line.strip()]
    ending = answer[-_LAST_LINES * _LONGEST_LINE :].split("\n")
    ending = [line.strip()[:_LONGEST_LINE] for line in ending if line.strip()][-_LAST_LINES:]
    for line in (*reversed(complaint), *reversed(ending)):
        if (kind := error_kind(line)) is not ErrorKind.UNKNOWN:
            return kind, f": {line}"
    last = (complaint or ending)[-1:]
    return ErrorKind.UNKNOWN, f": {last[0]}" if last else ""


def find_error(stderr: str, pattern: str, kind: ErrorKind) -> AgentError | None:
    """The error that matches the pattern, of the given kind unless its words name another."""
    found = re.search(pattern, stderr, re.MULTILINE)
    return AgentError(error_kind(found[0], default=kind), found[0]) if found else None


def option(flag: str, value: str | None) -> tuple[str, ...]:
    """A flag with its value, or nothing if there is no value."""
    return (flag, value) if value else ()


def qualified_model(request: AgentRequest) -> str:
    """The model as `provider/model`, which agents for several providers expect; empty if none is named."""
    model = request.model or ""
    return f"{request.provider}/{model}" if request.provider and model and "/" not in model else model


def tool_label(name: str, purpose: str) -> str:
    """A tool and what it is used for, on one short line: `Bash: pytest -q`."""
    line = " ".join(purpose.split())
    short = line if len(line) <= _LONGEST_LABEL else f"{line[:_LONGEST_LABEL]}…"
    return f"{name}: {short}" if short else name


def tool_call_label(name: str, arguments: object) -> str:
    """A tool and the most telling of its arguments."""
    given = arguments if isinstance(arguments, dict) else {}
    return tool_label(name, next((given[key] for key in _TELLING_ARGUMENTS if isinstance(given.get(key), str)), ""))


def find_instructions(cwd: Path, names: Collection[str]) -> list[Path]:
    """The files of these names from the top of the repository down to `cwd`; links out of the project are left out."""
    places = [cwd, *cwd.parents]
    depth = next((number for number, place in enumerate(places) if (place / ".git").exists()), 0)
    top = places[depth]
    found = []
    for path in (place / name for place in reversed(places[: depth + 1]) for name in names):
        with suppress(PathNotAllowed):
            if resolve_inside(top, str(path)).is_file():
                found.append(path)
    return found


class PathNotAllowed(Exception):
    """A path that leads out of the agent's directory."""


def resolve_inside(root: Path, name: str) -> Path:
    """The real path of what an agent names; raises PathNotAllowed if it is not in `root`, by name or by a link.

    This guards tools that take a path. It does not hold an agent that may run commands.
    """
    try:
        home, target = root.resolve(), (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # resolve() raises RuntimeError for a loop of links
        raise PathNotAllowed(f'"{name}" cannot be resolved: {error}') from error
    if not target.is_relative_to(home):
        raise PathNotAllowed(f'"{name}" is outside "{root}"')
    return target

"""What command-line agents share: starting the program, reading its messages, and judging how the run ended.

Each agent's own module knows its arguments and its messages. An exit code alone proves nothing: some programs exit
with 0 after they were refused, cut off or killed.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from pipeline.backends.agents.override import AgentOverride
from pipeline.backends.environment import provider_variables
from pipeline.backends.provider_errors import LONGEST_RATE_LIMIT, error_kind, with_retry_after
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
    FindPiece,
    ProcessCommand,
    Processes,
    ProcessResult,
)
from pipeline.text import truncate_length

Message = Mapping[str, Any]

MALFORMED = (AttributeError, KeyError, TypeError, ValueError)  # what reading a message of an unexpected form raises
_SIGNALS = MappingProxyType(  # exit codes by which a shell or a program reports the signal that ended it
    {129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
)
_NOT_STARTED = (126, 127)  # a shell's exit codes for a command that cannot be run or found
_LAST_LINES = 5  # of an answer, in which a failed program may have printed its error
_HELP = re.compile(r"^ +(?:-\w, )?--[\w-]+ .*\[(?:string|boolean|array|number)\]", re.MULTILINE)
_LONGEST_LINE = 2000
_LONGEST_LABEL = 120
_LONGEST_EXCERPT = 300
MAX_FAILED_REQUESTS = 50  # in a row, after which a program that shows them is stopped
_TELLING_ARGUMENTS = (  # what best describes a tool call, in this order
    *("command", "file_path", "filePath", "notebook_path", "dir_path", "path", "pattern", "query", "url"),
    *("description", "skill"),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a program is started for one request. The prompt goes to its standard input."""

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)  # on top of the request's


class TooManyFailures(Exception):
    """A program whose requests fail again and again, or that waits for a limit to reset, and does not give up."""


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
    exit_kinds: ClassVar[Mapping[int, ErrorKind]] = MappingProxyType({})  # exit codes with a meaning of their own
    last_failure: AgentError | None = None  # of the request that failed last, unless something succeeded since
    failed_requests: int = 0  # in a row
    retried_kind: ClassVar[ErrorKind] = ErrorKind.UNKNOWN  # of a failed request whose words name no kind
    _unfinished_line: str = ""

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the agent's next message and yield the events to show; messages of unknown types are ignored."""
        raise NotImplementedError

    def read_stderr(self, line: str) -> Iterator[AgentEvent]:  # noqa: ARG002 - for those that report there
        """Take the next line of standard error and yield the events to show."""
        return iter(())

    def follow(self, events: Iterable[AgentEvent], emit: Emit) -> None:
        """Show events, and remember why requests fail; raises TooManyFailures if only that stops the program soon."""
        for event in events:
            emit(event)
            if event.kind == "retry":
                self.failed_requests += 1
                error = AgentError(error_kind(event.text, default=self.retried_kind), event.text)
                self.last_failure = with_retry_after(error, (event.text,), local_now())
            elif event.kind in ("text", "tool_start", "tool_end"):
                self.failed_requests, self.last_failure = 0, None
        wait = self.last_failure.retry_after if self.last_failure else None
        if self.failed_requests > MAX_FAILED_REQUESTS or (wait or 0) > LONGEST_RATE_LIMIT:
            raise TooManyFailures

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


@dataclass
class Reservation:
    """What one run of a program has for itself."""

    env: Mapping[str, str] = field(default_factory=dict)
    session: AgentSession | None = None  # that the run left, once it has ended


class AgentProgram(ABC):
    """What is particular to one command-line agent."""

    name: ClassVar[str]  # of the agent and of its program
    flags: ClassVar[tuple[str, ...]]  # that it cannot be used without
    help: ClassVar[tuple[str, ...]] = ("--help",)  # the arguments that print its flags
    install: ClassVar[str]  # the command that installs it
    provider: ClassVar[str | None] = None  # whose key it needs if the stage names no provider
    own_variables: ClassVar[tuple[str, ...]] = ()  # where it keeps its files, and how it logs in
    ignored_keys: ClassVar[Mapping[str, str]] = MappingProxyType({})  # of its provider, and what to do instead
    instructions: ClassVar[tuple[str, ...]]  # the files of a project that tell it what to observe there

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The names of the environment variables it needs."""
        return (*provider_variables(provider or self.provider), *self.own_variables)

    @abstractmethod
    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """How to start it for a request; `extra` are arguments added by the user."""

    @property
    def find_piece(self) -> FindPiece | None:
        """Where its messages hold pieces of texts, if they do."""
        return None

    @contextmanager
    def reserve(self, request: AgentRequest) -> Iterator[Reservation]:  # noqa: ARG002 - for those that need it
        """Hold what runs of this program cannot share while one of them runs."""
        yield Reservation()

    @abstractmethod
    def transcript(self, used_before: Usage | None) -> AgentTranscript:
        """An empty transcript for one run in a session that has used so much before; None if that is unknown."""


_NO_OVERRIDE = AgentOverride()
_NOTHING_USED = Usage(input_tokens=0, output_tokens=0, cost_usd=0)


def local_now() -> datetime:
    """The current time on this machine, with its zone."""
    return datetime.now().astimezone()


class ProgramFlags(Protocol):
    """What is known of the flags of an installed program."""

    async def missing(self, env: Mapping[str, str]) -> Collection[str]:
        """The flags that the program lacks."""

    def forget(self) -> None:
        """Drop what is known: the program is asked again."""


class ProgramBackend:
    """Runs a command-line agent. `flags` knows which of its flags the installed program lacks."""

    def __init__(
        self,
        agent: AgentProgram,
        processes: Processes,
        override: AgentOverride = _NO_OVERRIDE,
        flags: ProgramFlags | None = None,
    ) -> None:
        self.name = agent.name
        self._agent = agent
        self._processes = processes
        self._override = override
        self._flags = flags
        self._missing: Collection[str] | None = None

    def variables(self, provider: str | None) -> Collection[str]:
        """The agent's own, and those the user adds."""
        return (*self._agent.variables(provider), *self._override.variables)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Run the program, read what it prints and judge how it ended."""
        emit(AgentEvent("started"))
        with self._agent.reserve(request) as held:
            result = await self._run(request, held.env, emit)
            held.session = result.session
        if result.error and result.error.kind is ErrorKind.BAD_FLAG:  # what it said about its flags is out of date
            self._missing = None
            if self._flags:
                self._flags.forget()
        return result

    async def _run(self, request: AgentRequest, env: Mapping[str, str], emit: Emit) -> AgentResult:
        invocation = self._agent.invocation(request, self._override.extra)
        argv = (*(self._override.program or (self.name,)), *(self._override.arguments or invocation.arguments))
        if self._missing is None:
            self._missing = await self._flags.missing(request.env) if self._flags else ()
        if missing := [flag for flag in self._missing if flag in argv]:
            problem = f'the installed "{argv[0]}" does not support {", ".join(missing)}'
            help = "install a newer version, or set its arguments in the settings"
            return AgentResult(AgentStatus.ERROR, error=AgentError(ErrorKind.BAD_FLAG, f"{problem}; {help}"), argv=argv)
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
            transcript.follow(events, emit)

        def read_error_line(line: bytes) -> None:
            transcript.follow(transcript.read_stderr(line.decode(errors="replace")), emit)

        command = command_for(argv, request, {**invocation.env, **env}, self._agent.find_piece)
        try:
            finished = await self._processes.run(command, read_line, read_error_line)
        except TooManyFailures:
            return stopped_result(argv, request, transcript)
        transcript.finish(finished.stderr_tail)
        if unreadable:  # the lost message could be the one that mattered
            transcript.error = unreadable[0]
        return agent_result(argv, request, finished, transcript)


def command_for(
    argv: tuple[str, ...],
    request: AgentRequest,
    env: Mapping[str, str] = MappingProxyType({}),
    find_piece: FindPiece | None = None,
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
        find_piece=find_piece,
    )


def agent_result(
    argv: tuple[str, ...], request: AgentRequest, finished: ProcessResult, transcript: AgentTranscript
) -> AgentResult:
    """Judge a run: by our own limits, then by what the agent reported, its exit code, and whether it answered."""
    status, error = AgentStatus.OK, None
    match finished.ending:
        case ExitReason.TIMEOUT:
            status = AgentStatus.TIMEOUT
            error = _slow_error(transcript, ErrorKind.TIMEOUT)
        case ExitReason.IDLE:
            status = AgentStatus.IDLE
            error = _slow_error(transcript, ErrorKind.SILENT)
        case ExitReason.SPAWN_ERROR:
            error = AgentError(ErrorKind.SPAWN, finished.message)
        case _:
            error = transcript.error or _unreported_error(argv[0], finished, transcript)
    if error:
        status = AgentStatus.ERROR
        error = error if error.message else replace(error, message=f'"{argv[0]}" failed without an error message')
        if error.kind is ErrorKind.NOT_FOUND and request.model and request.model not in error.message:
            error = replace(error, message=f'the model "{request.model}": {error.message}')
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


def stopped_result(argv: tuple[str, ...], request: AgentRequest, transcript: AgentTranscript) -> AgentResult:
    """The result of a program that was stopped because its requests kept failing."""
    nowhere = request.artifacts
    finished = ProcessResult(ExitReason.EXITED, None, 0.0, nowhere, nowhere, "", "")
    last = transcript.last_failure or AgentError(ErrorKind.UNKNOWN, "")
    message = f"stopped after {transcript.failed_requests} failed requests in a row: {last.message}"
    transcript.error = replace(last, message=message)
    return agent_result(argv, request, finished, transcript)


def _slow_error(transcript: AgentTranscript, limit: ErrorKind) -> AgentError | None:
    """Why a run reached a limit, if its last request failed; `limit` is the kind if that failure names none."""
    last = transcript.last_failure
    if last is None:
        return None
    kind = limit if last.kind is ErrorKind.UNKNOWN else last.kind
    words = "it ran out of time" if limit is ErrorKind.TIMEOUT else "it fell silent"
    return AgentError(kind, f"{words} after {transcript.failed_requests} failed requests: {last.message}")


def _unreported_error(program: str, finished: ProcessResult, transcript: AgentTranscript) -> AgentError | None:
    """What is wrong with a run whose program reported no error itself."""
    code = finished.exit_code
    kind, said = _last_words(finished.stderr_tail, transcript.text)
    if kind is ErrorKind.UNKNOWN and transcript.last_failure:
        kind, said = transcript.last_failure.kind, f": {transcript.last_failure.message}"
    if finished.ending is ExitReason.SIGNAL or code in _SIGNALS:
        signal = _SIGNALS.get(code or 0) or finished.message
        return AgentError(ErrorKind.KILLED, f'"{program}" was killed by {signal}{said}')
    if code:
        kind = transcript.exit_kinds.get(code) or (ErrorKind.SPAWN if code in _NOT_STARTED else kind)
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


def find_rejected_flag(program: str, stderr: str) -> AgentError | None:
    """The error of a program that printed its help, in the form of yargs, instead of doing anything."""
    if not _HELP.search(stderr):
        return None
    return AgentError(ErrorKind.BAD_FLAG, f'"{program}" printed its help: it lacks one of its flags')


def option(flag: str, value: str | None) -> tuple[str, ...]:
    """A flag with its value, or nothing if there is no value."""
    return (flag, value) if value else ()


def qualified_model(request: AgentRequest) -> str:
    """The model as `provider/model`, which agents for several providers expect; empty if none is named."""
    model = request.model or ""
    return f"{request.provider}/{model}" if request.provider and model and "/" not in model else model


def tool_label(name: str, purpose: str) -> str:
    """A tool and what it is used for, on one short line: `Bash: pytest -q`."""
    short = truncate_length(" ".join(purpose.split()), _LONGEST_LABEL)
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

"""What agents have in common to tell: which tool they use on what, and which model they are asked for."""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from pipeline.backends.agents.provider_errors import read_retry_after
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

_QUOTED = 300  # characters of a line that could not be read
_SHORT = 120  # characters of what a tool is used for
_TELLING = (
    *("command", "file_path", "filePath", "notebook_path", "dir_path", "path", "pattern", "query", "url"),
    *("description", "skill"),
)


def tool_label(name: str, what: str) -> str:
    """A tool and what it is used for, on one short line: `Bash: pytest -q`."""
    line = " ".join(what.split())
    short = line if len(line) <= _SHORT else f"{line[:_SHORT]}…"
    return f"{name}: {short}" if short else name


def excerpt(line: bytes | object) -> str:
    """The beginning of something that an agent printed and that could not be read."""
    text = line.decode(errors="replace") if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False)
    return text.strip()[:_QUOTED]


def tool_used(name: str, arguments: object) -> str:
    """A tool and the one of its arguments that tells most."""
    given = arguments if isinstance(arguments, dict) else {}
    return tool_label(name, next((given[key] for key in _TELLING if isinstance(given.get(key), str)), ""))


def model_path(request: AgentRequest) -> str:
    """The model with its provider before it, as agents for many providers want it."""
    model = request.model or ""
    return f"{request.provider}/{model}" if request.provider and model and "/" not in model else model


class PathNotAllowed(Exception):
    """A path that is not an agent's to use."""


def resolve_inside(root: Path, name: str) -> Path:
    """The real path of what an agent names; raises OutOfBounds when that is not within `root`."""
    try:
        home, target = root.resolve(), (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # resolve() calls a loop of links a RuntimeError
        raise PathNotAllowed(f'"{name}" is no path that can be followed: {error}') from error
    if not target.is_relative_to(home):
        raise PathNotAllowed(f'"{name}" is outside of "{root}": only what is within may be used')
    return target


Now = Callable[[], datetime]
SHORT = 300.0  # seconds; who must wait longer has used up a quota, whatever the provider calls it
_SCANNED = 16 * 1024  # characters of a message that are looked at
_LAST_LINES = 5  # of an answer in which a program that failed may have said why
_LONGEST_LINE = 2000
_SIGNALS = MappingProxyType(  # exit codes by which a shell or a program tells of the signal that ended it
    {129: "SIGHUP", 130: "SIGINT", 131: "SIGQUIT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
)
_NOT_STARTED = (126, 127)  # a shell's codes for a command that cannot be run or found
_WAITS = (ErrorKind.QUOTA, ErrorKind.RATE_LIMIT, ErrorKind.SERVER)
_BY_STATUS = MappingProxyType(
    {400: ErrorKind.INVALID, 401: ErrorKind.AUTH, 403: ErrorKind.AUTH, 404: ErrorKind.INVALID, 422: ErrorKind.INVALID}
    | {402: ErrorKind.QUOTA, 408: ErrorKind.SERVER, 413: ErrorKind.INVALID, 429: ErrorKind.RATE_LIMIT}
)


def _any(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


_CUT_OFF = _any(
    r"incomplete response.{0,40}max_output_tokens",
    r"exceeded the \d{1,9} output token maximum",
    r"(finish|stop).?reason\W{1,5}(length|max.?tokens)",
    r"response truncated|truncated due to token limit|ended without a .?finish_reason",
)
_NO_CAPACITY = _any(r"no capacity available|MODEL_CAPACITY_EXHAUSTED")  # Google's word for "busy", not a quota
_QUOTA = _any(
    r"usage.?limit|hit your (\w+ )?limit|(hour|weekly|daily|monthly|session|opus|sonnet) (usage )?limit reached",
    r"insufficient.?(quota|credits|balance|funds)|credit balance is too low|requires more credits|out of credits",
    r"exceeded (your|the) ([\w-]+ ){0,3}quota|quota.?(is |has been )?(exceeded|exhausted|used up)",
    r"quota will reset|have no quota|exhausted your (capacity|\w+ quota)|usage (exceeded|exhausted)|spending.?limit",
    r"billing.{0,20}limit|payment required",
    r"RESOURCE_EXHAUSTED[\s\S]{0,2000}?retryDelay",
)
_BY_WORDS = (
    (ErrorKind.PROTOCOL, _CUT_OFF),
    (ErrorKind.RATE_LIMIT, _NO_CAPACITY),
    (ErrorKind.QUOTA, _QUOTA),
    (
        ErrorKind.AUTH,
        _any(
            r"\b(401|403)\b|unauthori[sz]ed|unauthenticated|forbidden|PERMISSION_DENIED",
            r"(?<![a-z])(invalid|incorrect|no|missing|bad)(?![a-z]).{0,20}(api.?key|credentials|auth token)",
            r"(api.?key|credentials|(auth|access|bearer|session).?token).{0,30}(missing|invalid|required|expired|revoked)",
            r"(api.?key|credentials).{0,30}not (found|set|provided)",
            r"not logged in|please (run )?/?login|(log ?in|sign in) again|authentication|missing environment variable",
        ),
    ),
    (
        ErrorKind.CONFIG,
        _any(
            r"(unknown|unrecogni[sz]ed|unexpected|invalid|no such) (option|flag|arguments?)\b",
            r"invalid value .{0,80} for '?--",
        ),
    ),
    (ErrorKind.RATE_LIMIT, _any(r"\b429\b|rate.?limit|too many requests|RESOURCE_EXHAUSTED|throttl")),
    (
        ErrorKind.INVALID,
        _any(
            r"model.{0,60}(not found|does not exist|not supported|is not available)|unknown model|invalid model",
            r"issue with the selected model|not_found_error|context (window|length)|prompt is too long",
            r"invalid.?request|bad request",
        ),
    ),
    (
        ErrorKind.SERVER,
        _any(
            r"\b(500|502|503|504|520|522|524|529)\b|overloaded|internal server error|bad gateway|service unavailable",
            r"(connection|socket|stream).{0,20}(reset|refused|closed|failed|disconnected|timed? ?out|aborted|error)",
            r"request timed out|\blost (the )?connection",
            r"disconnected|\bterminated\b|stream ended|fetch failed|socket hang up|\b(ECONN|ENOTFOUND|ETIMEDOUT|EPIPE)",
            r"EAI_AGAIN|getaddrinfo|network (error|is unreachable)|could not connect|unable to connect|connect error",
            r"error sending request|premature close|unexpected EOF|connection error|gateway time-?out",
            r"high demand|at capacity|temporarily unavailable",
        ),
    ),
    (ErrorKind.INVALID, _any(r"\b(400|404|422)\b")),
)


def local_now() -> datetime:
    """The time by this machine's clock, in its zone."""
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class AgentTranscript:
    """What a program's protocol told. `ended` is its last event, saying that all went well."""

    text: str = ""
    ended: bool = False
    error: AgentError | None = None
    limits: tuple[str, ...] = ()  # what besides the error's message says when to try again, the surest first
    usage: Usage | None = None
    session: AgentSession | None = None
    denied: tuple[str, ...] = ()  # the tools it was refused
    version: str = ""


def judge(argv: tuple[str, ...], finished: ProcessResult, reading: AgentTranscript, now: datetime) -> AgentResult:
    """The result of a request, from how its program ended and what it told."""
    status, error = _verdict(argv[0] if argv else "", finished, reading)
    if error:
        error = with_retry_after(error, (*reading.limits, error.message, finished.stderr_tail), now)
    return AgentResult(
        status=status,
        text=reading.text,
        error=error,
        usage=reading.usage,
        session=reading.session,
        exit_code=finished.exit_code,
        argv=argv,
        version=reading.version,
        denied=reading.denied,
    )


def with_retry_after(error: AgentError, said: Iterable[str], now: datetime) -> AgentError:
    """The error with the time until trying again can help, from the first text that says it."""
    if error.kind not in _WAITS:
        return error
    after = error.retry_after
    if after is None:
        after = next((found for text in said if (found := read_retry_after(text, now)) is not None), None)
    long = error.kind is ErrorKind.RATE_LIMIT and after is not None and after > SHORT
    return replace(error, kind=ErrorKind.QUOTA if long else error.kind, retry_after=after)


def _verdict(program: str, finished: ProcessResult, reading: AgentTranscript) -> tuple[AgentStatus, AgentError | None]:
    match finished.ending:
        case ExitReason.TIMEOUT:
            return AgentStatus.TIMEOUT, None
        case ExitReason.IDLE:
            return AgentStatus.IDLE, None
        case ExitReason.SPAWN_ERROR:
            return AgentStatus.ERROR, AgentError(ErrorKind.SPAWN, finished.message)
    error = reading.error or _failure(program, finished, reading)
    return (AgentStatus.ERROR, error) if error else (AgentStatus.OK, None)


def _failure(program: str, finished: ProcessResult, reading: AgentTranscript) -> AgentError | None:
    """What is wrong with a run of which the program itself reported no error."""
    code = finished.exit_code
    kind, words = _last_words(finished, reading)
    known = kind if kind in (ErrorKind.AUTH, ErrorKind.QUOTA, ErrorKind.RATE_LIMIT) else None
    if finished.ending is ExitReason.SIGNAL or code in _SIGNALS:
        name = _SIGNALS.get(code or 0) or finished.message
        return AgentError(ErrorKind.KILLED, f'"{program}" was killed by {name}{words}')
    if code:
        kind = ErrorKind.SPAWN if code in _NOT_STARTED else kind
        return AgentError(
            kind, f'"{program}" exited with code {code}{words or ": it said nothing on its standard error"}'
        )
    if not reading.ended:
        return AgentError(known or ErrorKind.PROTOCOL, f'"{program}" stopped before it told how it ended{words}')
    if not reading.text.strip():
        refused = f"; it was refused {', '.join(reading.denied)}" if reading.denied else ""
        return AgentError(known or ErrorKind.EMPTY, f'"{program}" answered nothing{refused}{words}')
    return None


def _last_words(finished: ProcessResult, reading: AgentTranscript) -> tuple[ErrorKind, str]:
    """What a program said of its failure, and its kind: the last line that tells one, else its last line.

    Its standard error is asked first; a program that has none to say may have printed it in place of its answer.
    """
    complaint = [line.strip()[:_LONGEST_LINE] for line in finished.stderr_tail.split("\n") if line.strip()]
    answer = reading.text[-_LAST_LINES * _LONGEST_LINE :].split("\n")
    answer = [line.strip()[:_LONGEST_LINE] for line in answer if line.strip()][-_LAST_LINES:]
    for line in (*reversed(complaint), *reversed(answer)):
        if (kind := kind_of(None, line)) is not ErrorKind.UNKNOWN:
            return kind, f": {line}"
    last = (complaint or answer)[-1:]
    return ErrorKind.UNKNOWN, f": {last[0]}" if last else ""


def named_or(kind: ErrorKind, message: str) -> ErrorKind:
    """The kind that a message names, else the given one."""
    named = kind_of(None, message)
    return kind if named is ErrorKind.UNKNOWN else named


def cut_off(reason: str) -> AgentError:
    """The error of an answer that ended at the token limit, by the reason that the agent gave."""
    return AgentError(ErrorKind.PROTOCOL, f'the answer was cut off at the model\'s token limit ("{reason}")')


def kind_of(status: int | None, message: str) -> ErrorKind:
    """What kind of error a provider gave, by its HTTP status, else by its words; a quota by its words in any case."""
    words = message[:_SCANNED]
    if status is None:
        return next((kind for kind, known in _BY_WORDS if known.search(words)), ErrorKind.UNKNOWN)
    if status in (400, 403, 429) and _QUOTA.search(words) and not _NO_CAPACITY.search(words):
        return ErrorKind.QUOTA
    return _BY_STATUS.get(status, ErrorKind.SERVER if status >= 500 else ErrorKind.UNKNOWN)


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

    def conclude(self, stderr: str) -> AgentTranscript:
        """What came of it all; `stderr` is the end of what it wrote there."""
        ...


class AgentProgram(Protocol):
    """What is particular to one command-line agent. `flags` are those it cannot be used without."""

    name: str  # also of its program
    flags: tuple[str, ...]
    help: tuple[str, ...]  # the arguments that print the flags
    install: str  # how to get it, in a few words

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The names of the variables it needs: the provider's key, and where it keeps its own files."""
        ...

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """Its arguments; `extra` are more of them that the user wants."""
        ...

    def reader(self, request: AgentRequest) -> Reader:
        """A reader for one run of it."""
        ...


@dataclass(frozen=True, slots=True)
class AgentOverride:
    """What a user changes of how a program is started."""

    program: tuple[str, ...] = ()  # instead of its name: a path, or a program that runs it
    arguments: tuple[str, ...] = ()  # instead of ours
    extra: tuple[str, ...] = ()  # besides ours
    variables: tuple[str, ...] = ()  # more names of variables that it gets


AS_IT_IS = AgentOverride()
Missing = Callable[[Mapping[str, str]], Awaitable[Collection[str]]]


async def _nothing_missing(env: Mapping[str, str]) -> Collection[str]:
    """Take it on trust that a program has its flags."""
    del env
    return ()


class ProgramBackend:
    """Runs a command-line agent. `missing` tells which of its flags the installed program does not have."""

    def __init__(
        self,
        agent: AgentProgram,
        processes: Processes,
        override: AgentOverride = AS_IT_IS,
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

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Run the program and read what it prints."""
        emit(AgentEvent("started"))
        started = self._agent.invocation(request, self._override.extra)
        argv = (*(self._override.program or (self.name,)), *(self._override.arguments or started.arguments))
        if lacking := [flag for flag in await self._missing(request.env) if flag in argv]:
            return AgentResult(AgentStatus.ERROR, error=_outdated(argv[0], lacking), argv=argv)
        reading = _Lines(self._agent.reader(request), emit)
        finished = await self._processes.run(command_for(argv, request, started.env), reading.take)
        if reading.broken:
            return AgentResult(AgentStatus.ERROR, error=reading.broken, exit_code=finished.exit_code, argv=argv)
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


def command_for(
    argv: tuple[str, ...], request: AgentRequest, env: Mapping[str, str] = MappingProxyType({})
) -> ProcessCommand:
    """A program to run for a request, with variables on top of the request's."""
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

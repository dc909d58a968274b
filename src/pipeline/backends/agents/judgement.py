"""How an agent's run ended: killed by us, then what its protocol said last, then its exit code, then emptiness.

An exit code alone proves nothing: some programs end with 0 when they were refused, cut off or killed.
"""

import re
from dataclasses import dataclass
from types import MappingProxyType

from pipeline.engine.agent import AgentError, AgentStatus, ErrorKind, Result, Session
from pipeline.engine.outcome import Usage
from pipeline.engine.process import Ending, Finished

_BY_STATUS = MappingProxyType(
    {400: ErrorKind.INVALID, 401: ErrorKind.AUTH, 403: ErrorKind.AUTH, 404: ErrorKind.INVALID, 422: ErrorKind.INVALID}
    | {408: ErrorKind.SERVER, 413: ErrorKind.INVALID, 429: ErrorKind.RATE_LIMIT}
)
_BY_WORDS = (
    (
        ErrorKind.AUTH,
        r"\b(401|403)\b|unauthori[sz]ed|invalid.{0,20}api.?key|api.?key.{0,30}(missing|invalid)",
    ),
    (ErrorKind.AUTH, r"not logged in|please (run )?/?login|authentication|missing environment variable|sign in again"),
    (ErrorKind.RATE_LIMIT, r"\b429\b|rate.?limit|usage limit|too many requests|quota"),
    (
        ErrorKind.SERVER,
        r"\b5\d\d\b|overloaded|internal server error|connection (reset|refused|closed|failed)|disconnected",
    ),
    (
        ErrorKind.SERVER,
        r"\bterminated\b|stream ended|fetch failed|socket hang up|\bECONN\w+|high demand|at capacity",
    ),
    (
        ErrorKind.INVALID,
        r"\b(400|404|422)\b|invalid.?request|bad request|model.{0,40}not found|unknown model|context window",
    ),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a program's protocol told. `ended` is its last event, saying that all went well."""

    text: str = ""
    ended: bool = False
    error: AgentError | None = None
    usage: Usage | None = None
    session: Session | None = None
    denied: tuple[str, ...] = ()  # the tools it was refused
    version: str = ""


def judge(argv: tuple[str, ...], finished: Finished, reading: Reading) -> Result:
    """The result of a request, from how its program ended and what it told."""
    status, error = _verdict(argv[0] if argv else "", finished, reading)
    return Result(
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


def _verdict(program: str, finished: Finished, reading: Reading) -> tuple[AgentStatus, AgentError | None]:
    match finished.ending:
        case Ending.TIMEOUT:
            return AgentStatus.TIMEOUT, None
        case Ending.IDLE:
            return AgentStatus.IDLE, None
        case Ending.SPAWN_ERROR:
            return AgentStatus.ERROR, AgentError(ErrorKind.SPAWN, finished.message)
    if reading.error:
        return AgentStatus.ERROR, reading.error
    if finished.ending is Ending.SIGNAL:
        return AgentStatus.ERROR, AgentError(ErrorKind.KILLED, f'"{program}" was killed by {finished.message}')
    if finished.exit_code:
        words = _complaint(program, finished)
        return AgentStatus.ERROR, AgentError(kind_of(None, words), words)
    if not reading.ended:
        return AgentStatus.ERROR, AgentError(ErrorKind.PROTOCOL, f'"{program}" stopped before it told how it ended')
    if not reading.text.strip():
        return AgentStatus.ERROR, AgentError(ErrorKind.EMPTY, _empty(program, reading))
    return AgentStatus.OK, None


def _empty(program: str, reading: Reading) -> str:
    refused = f"; it was refused {', '.join(reading.denied)}" if reading.denied else ""
    return f'"{program}" answered nothing{refused}'


def _complaint(program: str, finished: Finished) -> str:
    """What a program that failed said last on its standard error."""
    said = [line for line in finished.stderr_tail.split("\n") if line.strip()]
    last = said[-1].strip() if said else "it said nothing on its standard error"
    return f'"{program}" exited with code {finished.exit_code}: {last}'


def kind_of(status: int | None, message: str) -> ErrorKind:
    """What kind of error a provider gave, by its HTTP status, else by its words."""
    if status is not None:
        return _BY_STATUS.get(status, ErrorKind.SERVER if status >= 500 else ErrorKind.UNKNOWN)
    found = (kind for kind, words in _BY_WORDS if re.search(words, message, re.IGNORECASE))
    return next(found, ErrorKind.UNKNOWN)

"""What the driver needs from the outside: a journal, a clock, chance, ears and people."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from pipeline.engine.context import Context
from pipeline.engine.outcome import ErrorKind as ErrorKind  # noqa: PLC0414 - part of this port
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State, Workspace
from pipeline.errors import AwfError, ExitCode
from pipeline.language.model import Access, BaseStage


class JournalError(AwfError):
    """The journal cannot be read or written. Nothing that was recorded is changed by it."""

    exit_code = ExitCode.RUN_FAILED


class RunExists(JournalError):
    """There is already a run of the name that a new one was given."""

    exit_code = ExitCode.USAGE


class UnknownRun(AwfError):
    """There is no run of this name."""


class RunIsOwned(AwfError):
    """Another process is at this run."""


class PluginFailed(AwfError):
    """A plugin raised while the run depended on it."""

    def __init__(self, plugin: str, hook: str, error: BaseException) -> None:
        what = error.message if isinstance(error, AwfError) else f"{type(error).__name__}: {error}"
        super().__init__(f'plugin "{plugin}" failed in {hook}: {what}')
        self.plugin, self.hook = plugin, hook


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A record with its number in its run, from 1."""

    seq: int
    record: AnyRecord


class Journal(Protocol):
    """The durable history of runs. Records are only ever added, each in one commit."""

    def create(self, run_id: str, record: AnyRecord) -> None:
        """Begin a run with its first record. Raises JournalError when there is one of that name."""

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        """Add a record and give its number. A long text that only people ask for is attached, not part of it.

        `lines` are added to the store's ledger in the same commit.
        """

    def attached(self, run_id: str, seq: int) -> str:
        """The text attached to a record; empty when there is none."""

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        """The records of a run, in order, from the one after `after`."""

    def last(self, run_id: str) -> JournalEntry:
        """The newest record of a run."""

    def enter(self, lines: Iterable[str]) -> int:
        """Add lines to the store's ledger, all of them or none; the number of the last line."""

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        """The lines of the store's ledger with their numbers, from the one after `after`. They belong to no run."""

    def runs(self) -> Sequence[str]:
        """The ids of all runs, the oldest first."""

    def own(self, run_id: str) -> AbstractContextManager[None]:
        """Be the one process at a run while the context lasts; raises RunIsOwned naming the owner."""

    def close(self) -> None:
        """Let go of the store."""


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """What somebody chose at one visit of a human stage, from wherever they are."""

    run_id: str
    stage: str
    visit: int
    option: str
    feedback: str
    by: str  # whose it is
    at: float


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Somebody's wish that a run be stopped."""

    run_id: str
    reason: str
    by: str
    at: float

    def words(self) -> str:
        """Who wished it, and why."""
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"


class Mailbox(Protocol):
    """What people elsewhere have for the process at a run. A letter is kept for good, and only ever about one thing."""

    def put(self, answer: HumanAnswer) -> HumanAnswer:
        """Keep an answer if it is the first to its visit; the one that is kept, which may be somebody else's."""

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        """The answer to a visit."""

    def cancel(self, wish: CancelRequest) -> None:
        """Leave a wish for whoever is at its run now."""

    def cancellation(self, run_id: str, after: int) -> CancelRequest | None:
        """The first wish later than the `after` that were there."""

    def cancellations(self, run_id: str) -> int:
        """How many wishes there are. Those that are there before a process takes up a run are not meant for it."""


class Clock(Protocol):
    """The time, and waiting for it."""

    def now(self) -> float:
        """Seconds since 1970."""

    async def sleep_until(self, moment: float) -> None:
        """Wait until then; at once when it is past."""


@dataclass(frozen=True, slots=True)
class ProcessCommand:
    """A program to run. Its standard output and error are spooled whole to files in `artifacts`."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # the whole environment of the child
    artifacts: Path  # a directory, made when it is not there; gets stdout.log and stderr.log
    stdin: str = ""
    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without output
    output_bytes: int = 64 * 1024 * 1024  # of each stream; the rest is dropped and said so


class ExitReason(StrEnum):
    """How a program ended."""

    EXITED = "exited"
    SIGNAL = "signal"  # killed by somebody else
    TIMEOUT = "timeout"
    IDLE = "idle"
    SPAWN_ERROR = "spawn_error"  # it never started


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """What came of a program."""

    ending: ExitReason
    exit_code: int | None  # None unless it exited by itself
    duration: float
    stdout: Path
    stderr: Path
    stdout_tail: str  # the last 30 lines, at most 4 KB
    stderr_tail: str
    truncated: bool = False
    message: str = ""  # why it did not start, or which signal


OnLine = Callable[[bytes], None]


class Processes(Protocol):
    """Runs programs. Cancelling the task that awaits `run` stops the whole process tree before it is raised again."""

    async def run(self, command: ProcessCommand, on_line: OnLine | None = None) -> ProcessResult: ...


_NONE: Mapping[str, str] = MappingProxyType({})


class RequestLimits(NamedTuple):
    """How much an agent may take; None is no limit."""

    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without any output
    output_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A conversation that an agent keeps and can go on with."""

    id: str
    used: Usage | None = None  # all of it so far, where the agent counts by session and not by request


class AgentRequest(NamedTuple):
    """What an agent is asked to do."""

    stage: str
    visit: int
    attempt: int
    review: bool
    prompt: str
    cwd: Path
    artifacts: Path  # a directory of this attempt, made by whoever writes there
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None
    access: Access = Access.CODING
    limits: RequestLimits = RequestLimits()
    session: AgentSession | None = None  # the conversation to go on with
    env: Mapping[str, str] = _NONE  # filtered already


class AgentStatus(StrEnum):
    """How an agent's run ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"  # more than its time in all
    IDLE = "idle"  # silent for too long
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AgentError:
    """A failed run, in the agent's own words where it had any."""

    kind: ErrorKind
    message: str
    retry_after: float | None = None  # seconds from now until trying again can help; None where it did not say


class AgentResult(NamedTuple):
    """What came of a request. `outcome` is set only by a backend that is told the whole outcome (scripted)."""

    status: AgentStatus
    text: str = ""
    error: AgentError | None = None
    usage: Usage | None = None  # of this request alone
    session: AgentSession | None = None  # None where the agent cannot go on with it
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    version: str = ""
    denied: tuple[str, ...] = ()
    outcome: Mapping[str, object] | None = None


class AgentEvent(NamedTuple):
    """Something an agent did while it ran. A text is a whole line, message or field, never a piece of one."""

    kind: Literal["started", "text", "tool_start", "tool_end", "usage", "retry", "warning"]
    text: str = ""
    usage: Usage | None = None  # of the request so far


Emit = Callable[[AgentEvent], None]


class Backend(Protocol):
    """Runs an agent. Cancelling the task that awaits `run` must stop every process it started."""

    name: str

    def variables(self, provider: str | None) -> Collection[str]:
        """The names of the variables it needs besides those that every program gets: its key, its own directories."""
        ...

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult: ...


RUNS = "runs"  # the directory in the store that has a directory for each run


class Job(NamedTuple):
    """One attempt at one visit of one stage, and all it may look at."""

    stage: BaseStage
    visit: int
    attempt: int
    state: State
    store: Path  # logs are named relative to it
    tell: Callable[[dict[str, Any]], None]  # progress, for whoever watches
    keep: Callable[[str], None]  # a text to be recorded with the attempt: what its agent was given
    elapsed: Callable[[], float] = lambda: 0.0  # seconds since the attempt began

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.state.run_id

    @property
    def context(self) -> Context:
        """The context as the stage sees it."""
        return self.state.context

    @property
    def artifacts(self) -> Path:
        """A directory of this attempt's own, made by whoever writes there."""
        return attempt_directory(self.store, self.run_id, self.stage.id, self.visit, self.attempt)

    @property
    def workspace(self) -> Workspace | None:
        """The run's own worktree, when it has one."""
        return self.state.workspace

    @property
    def directory(self) -> Path:
        """Where the stage works: the worktree, or the directory the run was started in."""
        workspace = self.workspace
        return workspace.path if workspace else self.state.cwd

    @property
    def variables(self) -> dict[str, str]:
        """What the programs of a stage are told about where they are."""
        return {"AWF_RUN_ID": self.run_id, "AWF_STAGE": self.stage.id, "AWF_VISIT": str(self.visit)}

    def named(self, path: Path) -> str:
        """A path as records name it: relative to the store."""
        return str(path.relative_to(self.store)) if path.is_relative_to(self.store) else str(path)


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an answer or a report says in a form that code can read. With a `problem` it says nothing."""

    status: Status = Status.FAIL
    reason: str = ""
    problem: str = ""


ReadAnswer = Callable[[Job, Sequence[str]], Assessment | None]  # None: they hold nothing that code can read
ReadReport = Callable[[Job, Path], Assessment]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A person is needed and is not there."""


def attempt_directory(store: Path, run_id: str, stage: str, visit: int, attempt: int) -> Path:
    """Where the files of an attempt are: the first in its visit's directory, a later one in one of its own below it."""
    visited = _stage_directory(store, run_id, stage) / str(visit)
    return visited if attempt == 1 else visited / f"attempt-{attempt}"


@lru_cache(maxsize=64)
def _stage_directory(store: Path, run_id: str, stage: str) -> Path:
    return store / RUNS / run_id / stage


class Handler(Protocol):
    """Runs the stages of one kind. Cancelling the task that awaits `run` must stop all it started."""

    async def run(self, job: Job) -> Outcome | Waiting: ...

"""What the engine needs from outside: a journal, a mailbox, a clock, handlers, agents, programs and workspaces."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

from pydantic import AfterValidator, ConfigDict, InstanceOf
from pydantic.dataclasses import dataclass as pydantic_dataclass

from pipeline.engine.context import Context, Operation, check_json, check_operation
from pipeline.engine.errors import JournalError as JournalError  # noqa: PLC0414 - part of the ports
from pipeline.engine.errors import PluginFailed as PluginFailed  # noqa: PLC0414 - part of the ports
from pipeline.engine.errors import RunExists as RunExists  # noqa: PLC0414 - part of the ports
from pipeline.engine.errors import RunIsOwned as RunIsOwned  # noqa: PLC0414 - part of the ports
from pipeline.engine.errors import UnknownRun as UnknownRun  # noqa: PLC0414 - part of the ports
from pipeline.engine.errors import WorkspaceError as WorkspaceError  # noqa: PLC0414 - part of the ports
from pipeline.engine.outcome import ErrorKind as ErrorKind  # noqa: PLC0414 - part of the port of agents
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, Usage
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State, Workspace
from pipeline.language.model import Access, BaseStage, LlmStage

STAGE_VARIABLE = "AWF_STAGE"  # set for whatever an agent or a tool runs: an `awf` in it has no rights of a person
RUNS = "runs"  # the directory of the store with a directory for each run
OUTPUT_BYTES = 64 * 1024 * 1024

# What plugins give is checked where they make it, so that whatever has one of these types can be recorded.
PlainData = Annotated[Any, AfterValidator(check_json)]
CheckedOperation = Annotated[InstanceOf[Operation], AfterValidator(check_operation)]
_AT_AN_EDGE = ConfigDict(defer_build=True, strict=True)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A record with its number in the run, counted from 1."""

    seq: int
    record: AnyRecord


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A line for the store's ledger, committed together with a stage."""

    text: str


class Concluded(NamedTuple):
    """A visit that has ended and is about to be recorded. Plugins may still amend its outcome."""

    stage: BaseStage
    visit: int
    outcome: Outcome


@pydantic_dataclass(frozen=True, slots=True, config=_AT_AN_EDGE)
class Conclusion:
    """What plugins make of visits that are concluded together."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)  # by stage; a visit that is not named stays as it is
    operations: Sequence[CheckedOperation] = ()  # for the context, after those of the stages themselves
    lines: Sequence[LedgerLine] = ()  # for the ledger, committed with the record

    def amend(self, visits: Iterable[Concluded]) -> tuple[Concluded, ...]:
        """Return the visits with their amended outcomes."""
        return tuple(one._replace(outcome=self.outcomes.get(one.stage.id, one.outcome)) for one in visits)

    def followed_by(self, later: "Conclusion") -> "Conclusion":
        """Return both conclusions as one. The later plugin has seen what the earlier one amended."""
        return Conclusion(
            {**self.outcomes, **later.outcomes},
            (*self.operations, *later.operations),
            (*self.lines, *later.lines),
        )


class Journal(Protocol):
    """The durable history of runs. Records are only ever added, each in one commit."""

    def create(self, run_id: str, record: AnyRecord) -> None:
        """Start a run with its first record. Raises RunExists if the name is taken."""

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        """Add a record and return its number, with a long text attached to it and `lines` added to the ledger."""

    def attached(self, run_id: str, seq: int) -> str:
        """Return the text attached to a record; empty if there is none."""

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        """Yield the records of a run in order, starting after number `after`."""

    def last(self, run_id: str) -> JournalEntry:
        """Return the newest record of a run."""

    def last_kind(self, run_id: str) -> str:
        """Return the kind of the newest record of a run, without decoding the rest of it."""

    def append_ledger(self, lines: Iterable[str]) -> int:
        """Add lines to the store's ledger, all or none, and return the number of the last one."""

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the lines of the store's ledger with their numbers, starting after number `after`."""

    def runs(self) -> Sequence[str]:
        """Return the ids of all runs, oldest first."""

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        """Own a run while the context lasts. Raises RunIsOwned, naming the owner."""

    def close(self) -> None:
        """Release the store."""


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """The choice somebody made at one visit of a human stage."""

    run_id: str
    stage: str
    visit: int
    option: str
    feedback: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """A request to cancel a run."""

    run_id: str
    reason: str
    by: str
    at: float

    def __str__(self) -> str:
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"


class Mailbox(Protocol):
    """Answers and cancel requests that other processes leave for a run. Nothing in it is ever changed or removed."""

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        """Keep an answer unless its visit has one already; return the answer that is kept."""

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        """Return the answer to a visit."""

    def put_cancel_request(self, request: CancelRequest) -> None:
        """Leave a request for the process that drives the run now."""

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        """Return the first request after the first `after` ones."""

    def cancel_requests(self, run_id: str) -> int:
        """Count the requests. Those left before a process starts driving the run are not meant for it."""


class Clock(Protocol):
    """The time, and waiting for it."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    async def sleep_until(self, moment: float) -> None:
        """Wait until a moment; return at once if it has passed."""


class TextPiece(NamedTuple):
    """Where a line of JSON holds the next piece of a text."""

    text: str  # which of the texts that are under way
    path: tuple[str, ...]  # of names, to the piece


class LogFate(StrEnum):
    """What happens to a line that holds no piece of a text."""

    KEEP = "keep"
    END = "end"  # kept, after the texts so far, which are complete
    SKIP = "skip"  # not kept: it repeats a text as far as it has come


FindPiece = Callable[[Mapping[str, Any]], TextPiece | LogFate]


@dataclass(frozen=True, slots=True)
class ProcessCommand:
    """A program to run. Its standard output and error are written whole to files in `artifacts`."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]  # the whole environment of the child
    artifacts: Path  # a directory, created if needed, that gets stdout.log and stderr.log
    stdin: str = ""
    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without output
    output_bytes: int = OUTPUT_BYTES  # of each stream; the rest is dropped, and noted
    find_piece: FindPiece | None = None  # if its output is lines of JSON that may hold pieces of texts


class ExitReason(StrEnum):
    """How a program ended."""

    EXITED = "exited"
    SIGNAL = "signal"  # killed by another process
    TIMEOUT = "timeout"
    IDLE = "idle"
    SPAWN_ERROR = "spawn_error"  # it never started


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a program."""

    ending: ExitReason
    exit_code: int | None  # None unless it exited by itself
    duration: float
    stdout: Path
    stderr: Path
    stdout_tail: str  # the last 30 lines, at most 4 KB
    stderr_tail: str
    truncated: bool = False
    message: str = ""  # why it did not start, or which signal killed it


OnLine = Callable[[bytes], None]


class Processes(Protocol):
    """Runs programs. Cancelling the task that awaits `run` stops the whole process tree first.

    So does an exception of `on_line` or `on_error_line`, which take the lines of standard output and standard error;
    `run` then raises it.
    """

    async def run(
        self, command: ProcessCommand, on_line: OnLine | None = None, on_error_line: OnLine | None = None
    ) -> ProcessResult: ...


class RequestLimits(NamedTuple):
    """How much an agent may use; None means no limit."""

    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without any output
    output_bytes: int = OUTPUT_BYTES


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A conversation that an agent keeps and can continue."""

    id: str
    used: Usage | None = None  # its total so far, for agents that count by session rather than by request


class AgentRequest(NamedTuple):
    """What an agent is asked to do."""

    stage: str
    visit: int
    attempt: int
    prompt: str
    cwd: Path
    artifacts: Path  # the directory of this attempt, created on first write
    passing: str = ""  # what a review answers that finds nothing wrong; empty for other stages
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None
    access: Access = Access.CODING
    limits: RequestLimits = RequestLimits()
    session: AgentSession | None = None  # the conversation to continue
    env: Mapping[str, str] = MappingProxyType({})  # already filtered


class AgentStatus(StrEnum):
    """How an agent's run ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"  # it took too long in all
    IDLE = "idle"  # it was silent for too long
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AgentError:
    """Why an agent failed, in its own words if it gave any."""

    kind: ErrorKind
    message: str
    retry_after: float | None = None  # seconds until another attempt can help, if known


class AgentResult(NamedTuple):
    """The result of a request. Only the scripted backend sets `outcome`, to dictate the outcome of the stage."""

    status: AgentStatus
    text: str = ""
    error: AgentError | None = None
    usage: Usage | None = None  # of this request alone
    session: AgentSession | None = None  # None if the agent cannot continue it
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    version: str = ""
    denied: tuple[str, ...] = ()
    outcome: Mapping[str, object] | None = None


class AgentEvent(NamedTuple):
    """Something an agent did while it ran. `text` is a whole line, message or field, never a fragment."""

    kind: Literal["started", "text", "tool_start", "tool_end", "usage", "retry", "warning"]
    text: str = ""
    usage: Usage | None = None  # of the request so far


Emit = Callable[[AgentEvent], None]


@runtime_checkable
class Backend(Protocol):
    """Runs an agent and reports what happened; the `llm` handler decides what that means for the stage.

    Cancelling the task that awaits `run` must stop every process it started.
    """

    name: str

    def variables(self, provider: str | None) -> Collection[str]:
        """Return the environment variables it needs beyond those of every program: keys, its own directories."""
        ...

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult: ...


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of merging a branch back: a commit, or the files that conflict."""

    commit: str | None
    conflicts: tuple[str, ...] = ()


class Workspaces(Protocol):
    """Manages worktrees. Every method raises WorkspaceError, which says what to do."""

    async def create(self, repository: Path, name: str) -> Workspace:
        """Create the worktree and branch `awf/<name>`, or reuse what an interrupted attempt left."""

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        """Commit all changes; return the same workspace if there are none."""

    async def restore(self, workspace: Workspace, keep_as: str) -> str | None:
        """Reset the files to `workspace.commit`; return the ref that keeps what was there, if anything was."""

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> MergeResult:
        """Merge the branch into the one checked out in `repository`; leave that checkout untouched on conflict."""

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        """Remove worktree and branch; without `force` only if the branch is merged."""


class AgentQuestion(NamedTuple):
    """What a stage without an agent of its own asks one."""

    agent: LlmStage  # its access and its model
    name: str  # of the agent in a script, and of the directory of its logs
    number: int  # of the question within the visit, from 1
    text: str
    passing: str = ""  # the answer of a script without an entry


async def no_agent(_job: "Job", _question: AgentQuestion) -> Outcome:
    """Answer nothing: there is no agent to ask."""
    reason = "there is no agent to ask"
    return Outcome(status=Status.ERROR, reason=reason, failure=Failure(kind=FailureClass.AGENT, digest=reason))


AskAgent = Callable[["Job", AgentQuestion], Awaitable[Outcome]]


class Job(NamedTuple):
    """One attempt at one visit of a stage, and all that its handler may use."""

    stage: BaseStage
    visit: int
    attempt: int
    state: State
    store: Path  # records name logs relative to it
    emit: Callable[[dict[str, Any]], None]  # shows progress to listeners
    attach_prompt: Callable[[str], None]  # records the agent's prompt with the attempt
    elapsed: Callable[[], float] = lambda: 0.0  # seconds since the attempt started
    ask_agent: AskAgent = no_agent  # given this job and a question
    place: Path | None = None  # where the stage works, if that is not where the run does

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
        """The directory of this attempt, created on first write."""
        return attempt_directory(self.store, self.run_id, self.stage.id, self.visit, self.attempt)

    @property
    def workspace(self) -> Workspace | None:
        """The run's own worktree, if it has one."""
        return self.state.workspace

    @property
    def directory(self) -> Path:
        """Where the stage works: its own place, the worktree, or the directory the run was started in."""
        return self.place or self.state.directory

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that tell a program which run and stage it belongs to."""
        return {"AWF_RUN_ID": self.run_id, STAGE_VARIABLE: self.stage.id, "AWF_VISIT": str(self.visit)}

    def relative_path(self, path: Path) -> str:
        """Return a path as records name it: relative to the store."""
        return str(path.relative_to(self.store)) if path.is_relative_to(self.store) else str(path)


def attempt_directory(store: Path, run_id: str, stage: str, visit: int, attempt: int) -> Path:
    """Return the directory of an attempt: its visit's for the first, one below that for any later one."""
    directory = store / RUNS / run_id / stage / str(visit)
    return directory if attempt == 1 else directory / f"attempt-{attempt}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stage needs a person, and nobody is available."""

    reason: str = ""  # why only a person will do, where that is not clear by itself


@runtime_checkable
class Handler(Protocol):
    """Runs the stages of one kind. Cancelling the task that awaits `run` must stop all it started."""

    async def run(self, job: Job) -> Outcome | Waiting: ...


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a machine-readable answer or report says about its stage. With a `problem` it says nothing."""

    status: Status | None = Status.FAIL  # None leaves it to the stage: to an agent's own words, to an exit code
    reason: str = ""
    problem: str = ""
    wish: str = ""  # what to ask an agent once more, although its answer can be read


@dataclass(frozen=True, slots=True)
class Worklist:
    """What is left to do, for the summary that an agent is given."""

    render: Callable[[int], str]  # lists it item by item, in this many characters if possible
    path: str = ""  # the file that holds all open reports
    replaces_reports: bool = False  # whether the agent is to see the listed items instead of the open reports


NOTHING_LEFT = Worklist(lambda _: "")


@pydantic_dataclass(frozen=True, slots=True, config=_AT_AN_EDGE)
class Briefing:
    """What a stage is given besides what its workflow says."""

    sections: Sequence[str] = ()  # of an agent's summary
    worklist: Worklist | None = None  # with which an agent's summary ends
    variables: Mapping[str, str] = field(default_factory=dict)  # in the environment of a tool's command


def merge_briefings(found: Sequence[Briefing]) -> Briefing:
    """Return what all plugins add; of two worklists, and of two variables of one name, the later plugin's counts."""
    worklists = [briefing.worklist for briefing in found if briefing.worklist]
    return Briefing(
        [section for briefing in found for section in briefing.sections],
        worklists[-1] if worklists else None,
        {name: value for briefing in found for name, value in briefing.variables.items()},
    )


@pydantic_dataclass(frozen=True, slots=True, config=_AT_AN_EDGE)
class Owned:
    """What belongs to a plugin, so that others leave it alone."""

    context_keys: tuple[str, ...] = ()  # how they begin; summaries do not list them
    files: tuple[str, ...] = ()  # files and directories in a repository that show things; they are not part of the work


ReadAnswer = Callable[[Job, Sequence[str]], Assessment | None]  # None: the answers hold nothing machine-readable
ReadReport = Callable[[Job, Path], Assessment]

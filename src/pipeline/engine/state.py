"""Where a run stands: a value that never changes, made only by folding records.

These are named tuples: one is made anew with every record, and a frozen dataclass of so many fields would cost more
than all else that a fold does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from pipeline.engine.context import EMPTY, Context, Delete, Key, Recorded, Set
from pipeline.engine.outcome import ErrorKind, FailureClass, Outcome, Status
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    RunCancelled,
    RunCreated,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
)
from pipeline.engine.routing import EdgeIndex, index_edges
from pipeline.errors import AwfError, ExitCode
from pipeline.language.model import (
    Backoff,
    Effects,
    ExitStage,
    HumanOption,
    HumanStage,
    LlmStage,
    ParallelStage,
    Retry,
    Stage,
    ToolStage,
    Workflow,
    WorkflowSettings,
    waits_for_person,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText


class WorkspaceError(AwfError):
    """A workspace could not be made, saved, merged or removed."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class Workspace:
    """A worktree and its branch. `commit` is the last checkpoint of its files."""

    path: Path
    branch: str
    base: str  # the commit it started from
    commit: str


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What came of bringing a branch back: a commit, or the files that conflict."""

    commit: str | None
    conflicts: tuple[str, ...] = ()


class Workspaces(Protocol):
    """Makes and keeps worktrees. Every method raises WorkspaceError with what to do about it."""

    async def create(self, repository: Path, name: str) -> Workspace:
        """Make the worktree and branch `awf/<name>`, or take up the one that is there from an interrupted attempt."""

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        """Commit whatever changed; the same workspace when nothing did."""

    async def restore(self, workspace: Workspace, keep_as: str) -> str | None:
        """Put the files back to `workspace.commit`; what was torn is kept under a ref, which is returned."""

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> MergeResult:
        """Merge the branch into the branch checked out in `repository`; on conflict leave that checkout untouched."""

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        """Remove worktree and branch; without `force` only when the branch is merged."""


_NONE: Mapping[str, Any] = MappingProxyType({})
_WORKSPACE = (Key.WORKSPACE_PATH, Key.WORKSPACE_BRANCH, Key.WORKSPACE_BASE, Key.WORKSPACE_COMMIT)


class RunStatus(StrEnum):
    """How a run is doing."""

    RUNNING = "running"  # or interrupted: nobody may be at it
    WAITING = "waiting"  # for a person
    PAUSED = "paused"  # by an error or a limit
    CANCELLED = "cancelled"
    SUCCESS = "success"
    FAIL = "fail"

    @property
    def final(self) -> bool:
        """Whether the run has ended. A failed one can still be resumed."""
        return self in (RunStatus.SUCCESS, RunStatus.FAIL)


class Cursor(NamedTuple):
    """Which stage is next, and which visit of it."""

    stage: str
    visit: int


class VisitSummary(NamedTuple):
    """A completed visit, as an agent is told of it."""

    stage: str
    visit: int
    status: str
    reason: str


class StageError(NamedTuple):
    """Why a stage could not do its job."""

    reason: str
    until: float | None  # when a used-up quota resets
    ends_run: bool


class FinishedBranch(NamedTuple):
    """A branch that is done, with what plugins keep of it until the branches are joined."""

    outcome: Outcome
    operations: tuple[Recorded, ...] = ()


class Progress(NamedTuple):
    """How far the visit at the cursor has come."""

    failed: Mapping[str, int] = _NONE  # attempts that failed and were retried, by stage
    torn: Mapping[str, int] = _NONE  # attempts that were interrupted, by stage
    begun: frozenset[str] = frozenset()  # stages that act outside the workspace, begun and not ended
    branches: Mapping[str, FinishedBranch] = _NONE  # of a parallel stage, those that are done
    errors: Mapping[str, StageError] = _NONE  # stages that could not do their job, until the run is resumed
    retry_at: Mapping[str, float] = _NONE  # when the next attempt is due, by stage
    asked_at: float | None = None  # when a person was first asked and was not there
    commit: str = ""  # the workspace as the last finished branch left it

    def attempt(self, stage: str) -> int:
        """The number of the next attempt at a stage."""
        return self.failed.get(stage, 0) + self.torn.get(stage, 0) + 1


class State(NamedTuple):
    """A run between two records."""

    run_id: str
    workflow: Workflow
    ways: EdgeIndex
    prompts: Mapping[str, str]
    goal: str
    options: Mapping[str, Any]
    cwd: Path
    cursor: Cursor
    settings: WorkflowSettings
    status: RunStatus = RunStatus.RUNNING
    reason: str = ""
    until: float | None = None  # of a paused run, when waiting is enough
    context: Context = EMPTY
    outcomes: Mapping[str, Status] = _NONE  # of each stage's last visit
    visits: Mapping[str, int] = _NONE  # completed
    recent: tuple[VisitSummary, ...] = ()  # the last visits, oldest first
    stages_run: int = 0
    seconds: float = 0.0  # spent running, not waiting
    cost_usd: float = 0.0
    tokens: int = 0
    owed: frozenset[str] = frozenset()  # human gates that must be passed again
    repeat: bool = False  # whether the torn attempt may be repeated
    progress: Progress = Progress()

    @property
    def stage(self) -> Stage:
        """The stage at the cursor."""
        return self.workflow.by_id[self.cursor.stage]

    @property
    def workspace(self) -> Workspace | None:
        """The run's own worktree, with the last commit on record."""
        if not self.context.held.get(Key.WORKSPACE_PATH):
            return None
        path, branch, base, commit = (self.context.get(key) for key in _WORKSPACE)
        return Workspace(Path(path), branch, base, self.progress.commit or commit)


JITTER = 0.1  # how far a wait may be off, so that many runs do not come back at once


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether a visit is tried again, and after how many seconds."""

    again: bool
    delay: float = 0.0
    reason: str = ""


_FINAL = RetryDecision(again=False, reason="the outcome is final")
_TRANSIENT = {ErrorKind.RATE_LIMIT, ErrorKind.SERVER, ErrorKind.EMPTY}  # retried without being asked
_LASTING = {  # never retried: trying again ends in the same way
    ErrorKind.AUTH,
    ErrorKind.CONFIG,
    ErrorKind.INVALID,
    ErrorKind.DENIED,
    ErrorKind.SPAWN,
    ErrorKind.QUOTA,
}
LONGEST_WAIT = 300.0  # seconds that a stage waits by itself for a limit to reset; beyond that the run pauses
ERROR_RETRY = Retry(max_attempts=3, backoff=Backoff.EXPONENTIAL, delay=timedelta(seconds=2))


def decide_retry(
    retry: Retry, failures: int, outcome: Outcome, chance: float, *, review: bool, on_error: Retry = ERROR_RETRY
) -> RetryDecision:
    """Decide after a failed attempt. `failures` counts those before it; `chance` is a random number in [0, 1).

    Transient errors follow `on_error` where the stage has no retry of its own.
    """
    least = 0.0
    if outcome.status is Status.ERROR:
        error, least = _error_of(outcome)
        if error in _LASTING or quota_resets_after(outcome) is not None:
            return _FINAL
        if error in _TRANSIENT and retry.max_attempts == 1:
            retry = on_error
    elif not _worth_retrying(outcome, review=review):
        return _FINAL
    if failures + 1 >= retry.max_attempts:
        return RetryDecision(again=False, reason=f"all {retry.max_attempts} attempts are used")
    delay = max(least, retry_delay(retry, failures, chance))
    return RetryDecision(True, delay, f"attempt {failures + 2} of {retry.max_attempts}")


def quota_resets_after(outcome: Outcome) -> float | None:
    """Seconds until the quota that stopped an attempt resets; None for any other outcome, or when nobody knows."""
    error, seconds = _error_of(outcome)
    long = error is ErrorKind.QUOTA or (error in _TRANSIENT and seconds > LONGEST_WAIT)
    return seconds if long and seconds > 0 else None


def _error_of(outcome: Outcome) -> tuple[ErrorKind | None, float]:
    """What kind of error an outcome is, and how many seconds it asks to wait."""
    failure = outcome.failure
    return (failure.error, failure.retry_after or 0.0) if failure else (None, 0.0)


def retry_delay(retry: Retry, failures: int, chance: float) -> float:
    """Seconds to wait after so many earlier failures; never longer than `max_delay`."""
    if retry.backoff is Backoff.NONE:
        return 0.0
    delay = retry.delay.total_seconds()
    if retry.backoff is Backoff.EXPONENTIAL:
        delay *= 2.0 ** min(failures, 64)
    spread = delay * JITTER * (2 * chance - 1)
    return max(0.0, min(delay + spread, retry.max_delay.total_seconds()))


def _worth_retrying(outcome: Outcome, *, review: bool) -> bool:
    """Whether another attempt may end better: what a review found, or a conflict, does not go away by asking again."""
    if outcome.status is Status.RETRY:
        return True
    conflict = outcome.failure is not None and outcome.failure.kind is FailureClass.CONFLICT
    return outcome.status is Status.FAIL and not review and not conflict


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit that the next visit would go beyond."""

    limit: str
    count: float
    allowed: float

    @property
    def reason(self) -> str:
        """The limit in a sentence."""
        return f"{self.limit} is reached: {self.count:g} of {self.allowed:g}"


def reached_limit(state: State) -> LimitReached | None:
    """The first limit that keeps the visit at the cursor from running."""
    settings = state.settings
    if state.cursor.visit > settings.max_visits:
        return LimitReached("max_visits", state.cursor.visit - 1, settings.max_visits)
    if state.stages_run >= settings.max_stages:
        return LimitReached("max_stages", state.stages_run, settings.max_stages)
    if settings.max_duration is not None and state.seconds >= settings.max_duration.total_seconds():
        return LimitReached("max_duration", round(state.seconds, 3), settings.max_duration.total_seconds())
    if settings.max_cost_usd is not None and state.cost_usd >= settings.max_cost_usd:
        return LimitReached("max_cost_usd", round(state.cost_usd, 6), settings.max_cost_usd)
    return None


def unsatisfied_gates(workflow: Workflow, outcomes: Mapping[str, Status]) -> Iterator[LlmStage | ToolStage]:
    """The goal gates that have not passed, in the order of the file; one that never ran has not."""
    for stage in workflow.stages:
        if isinstance(stage, LlmStage | ToolStage) and stage.goal_gate:
            status = outcomes.get(stage.id)
            if status is None or not status.passes:
                yield stage


def approving_options(stage: HumanStage) -> tuple[HumanOption, ...]:
    """The options that approve: those that say so, else the first."""
    return tuple(option for option in stage.options if option.approves) or stage.options[:1]


def pending_gate(workflow: Workflow, owed: frozenset[str], target: str) -> str | None:
    """The human gate that must be passed again before this target, or None."""
    for name in sorted(owed):
        gate = workflow.by_id.get(name)
        if isinstance(gate, HumanStage) and target in {option.to for option in approving_options(gate)}:
            return name
    return None


RECENT_VISITS = 30  # visits that agents are told of one by one
_FRESH = Progress()
_MID_STAGE = (RunStatus.RUNNING, RunStatus.CANCELLED)


def begin(record: RunCreated) -> State:
    """The state of a run that has just been created."""
    workflow = read_workflow(record.file, record.source)
    goal = record.goal or workflow.goal
    context = EMPTY.apply([Set(Key.GOAL, goal), Set(Key.NAME, workflow.name)])
    return State(
        run_id=record.run_id,
        workflow=workflow,
        ways=index_edges(workflow),
        prompts=record.prompts,
        goal=goal,
        options=record.options,
        cwd=Path(record.cwd),
        cursor=Cursor(workflow.start, 1),
        settings=_bounds(workflow, record.options),
        context=context,
    )


def _bounds(workflow: Workflow, options: Mapping[str, Any]) -> WorkflowSettings:
    """The workflow's bounds; the money it may cost, where it does not say, as the run was started."""
    most = options.get("max_cost_usd")
    if most is None or workflow.settings.max_cost_usd is not None:
        return workflow.settings
    return workflow.settings.model_copy(update={"max_cost_usd": float(most)})


@lru_cache(maxsize=16)  # most runs of a store share a workflow: `awf runs` lists 1,000 in 0.8 s instead of 2.5 s
def read_workflow(file: str, source: str) -> Workflow:
    """The workflow of a recorded source; it was checked when it was recorded."""
    draft = parse_workflow(SourceText(file, source))
    if draft.workflow is None:
        words = f'the recorded workflow "{file}" cannot be read: {draft.hits[0].problem.message}'
        raise AwfError(words, help="use the awf that the run was started with, or a later one; nothing was changed")
    return draft.workflow


def creation_record(first: AnyRecord | None) -> RunCreated:
    """The record that a run begins with. A journal that begins with anything else is damaged."""
    if not isinstance(first, RunCreated):
        words = "the journal of this run does not begin with its creation"
        raise AwfError(words, help="it is damaged: restore the store from a copy; nothing was changed")
    return first


def replay(records: Iterable[AnyRecord]) -> State:
    """The state after all records of a run."""
    remaining = iter(records)
    state = begin(creation_record(next(remaining, None)))
    for record in remaining:
        state = apply(state, record)
    return state


def apply(state: State, record: AnyRecord) -> State:
    """The state after one more record."""
    match record:
        case VisitStarted():
            return state._replace(progress=state.progress._replace(begun=state.progress.begun | {record.stage}))
        case AttemptFailed():
            return _tried_again(state, record)._replace(**_spent(state, [record.outcome]))
        case StageErrored():
            return _errored(state, record)._replace(**_spent(state, [record.outcome]))
        case BranchCompleted():
            return state._replace(progress=_branch_done(state.progress, record))
        case VisitCompleted():
            return apply_completed(
                state, record, apply_outcome(state, record.outcome, record.operations, record.branches)
            )
        case RunWaiting():
            return _waiting(state, record)
        case RunPaused():
            return state._replace(status=RunStatus.PAUSED, reason=record.reason, until=record.until)
        case RunFailed():
            return state._replace(status=RunStatus.FAIL, reason=record.reason)
        case RunCancelled():
            return state._replace(status=RunStatus.CANCELLED, reason=record.reason or "cancelled", until=None)
        case RunResumed():
            return _resumed(state, record)
        case WorkflowAdopted():
            return _adopted(state, record)
        case RunCreated():
            words = f"the journal of run {state.run_id} creates it twice"
            raise AwfError(words, help="it is damaged: restore the store from a copy; nothing was changed")


def _waiting(state: State, record: RunWaiting) -> State:
    asked_at = record.at if state.progress.asked_at is None else state.progress.asked_at
    reason = f'stage "{record.stage}" waits for a person'
    return state._replace(status=RunStatus.WAITING, reason=reason, progress=state.progress._replace(asked_at=asked_at))


def _branch_done(progress: Progress, record: BranchCompleted) -> Progress:
    return progress._replace(
        branches={**progress.branches, record.branch: FinishedBranch(record.outcome, record.operations)},
        begun=progress.begun - {record.branch},
        commit=record.commit or progress.commit,
    )


def _tried_again(state: State, record: AttemptFailed) -> State:
    progress = state.progress
    failed = {**progress.failed, record.stage: progress.failed.get(record.stage, 0) + 1}
    due = {**progress.retry_at, record.stage: record.at + record.delay}
    begun = progress.begun - {record.stage}
    return state._replace(progress=progress._replace(failed=failed, begun=begun, retry_at=due))


def _errored(state: State, record: StageErrored) -> State:
    """Count the attempt like an interrupted one: the retries of the next resume begin afresh."""
    progress, stage = state.progress, record.stage
    error = StageError(f'stage "{stage}" could not run: {record.outcome.reason}', record.until, record.ends_run)
    attempts = progress.torn.get(stage, 0) + progress.failed.get(stage, 0) + 1
    changed = progress._replace(
        errors={**progress.errors, stage: error},
        torn={**progress.torn, stage: attempts},
        failed={name: count for name, count in progress.failed.items() if name != stage},
        retry_at={name: due for name, due in progress.retry_at.items() if name != stage},
        begun=progress.begun - {stage},
    )
    return state._replace(progress=changed)


class VisitEffects(NamedTuple):
    """What a completed visit leaves, before the way on is known."""

    context: Context
    outcomes: Mapping[str, Status]
    visits: Mapping[str, int]


def apply_outcome(
    state: State, outcome: Outcome, operations: Sequence[Recorded], branches: Sequence[BranchResult]
) -> VisitEffects:
    """What the visit at the cursor changes."""
    outcomes, visits = dict(state.outcomes), dict(state.visits)
    for branch in branches:
        outcomes[branch.stage] = branch.outcome.status
        visits[branch.stage] = branch.visit
    outcomes[state.cursor.stage] = outcome.status
    visits[state.cursor.stage] = state.cursor.visit
    return VisitEffects(state.context.apply(operations), outcomes, visits)


def apply_completed(state: State, record: VisitCompleted, after: VisitEffects) -> State:
    """The state after a visit whose changes are known."""
    ended, chosen = record.ends is not None, record.chosen
    target = chosen.target or record.stage
    return state._replace(
        context=after.context,
        outcomes=after.outcomes,
        visits=after.visits,
        status=RunStatus(record.ends) if record.ends else RunStatus.RUNNING,
        reason=chosen.reason if ended else "",
        cursor=state.cursor if ended else Cursor(target, after.visits.get(target, 0) + 1),
        stages_run=state.stages_run + 1 + len(record.branches),
        recent=_recent(state, record),
        owed=pending_gates_after(state, record.stage, record.option),
        repeat=False,
        progress=_FRESH,
        **_spent(state, [record.outcome, *(branch.outcome for branch in record.branches)]),
    )


def _recent(state: State, record: VisitCompleted) -> tuple[VisitSummary, ...]:
    done = [
        VisitSummary(branch.stage, branch.visit, branch.outcome.status, branch.outcome.reason)
        for branch in record.branches
    ]
    done.append(VisitSummary(record.stage, record.visit, record.outcome.status, record.outcome.reason))
    return (*state.recent, *done)[-RECENT_VISITS:]


def _spent(state: State, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Time, tokens and money so far. The first outcome's time covers the others', which ran inside it."""
    cost, tokens = state.cost_usd, state.tokens
    for outcome in outcomes:
        if usage := outcome.usage:
            cost += usage.cost_usd or 0.0
            tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
    running = 0.0 if waits_for_person(state.stage) else outcomes[0].duration
    return {"seconds": state.seconds + running, "cost_usd": cost, "tokens": tokens}


def _resumed(state: State, record: RunResumed) -> State:
    if state.status is RunStatus.SUCCESS:
        words = f"run {state.run_id} finished with success, and was resumed after that"
        raise AwfError(words, help="its journal is damaged: restore the store from a copy; nothing was changed")
    progress = _interrupted(state, record.at) if state.status in _MID_STAGE else state.progress
    return state._replace(
        status=RunStatus.RUNNING,
        reason="",
        until=None,
        cursor=_cursor_after_failure(state) if state.status is RunStatus.FAIL else state.cursor,
        repeat=record.repeat,
        context=_let_go(state),
        options={**state.options, **record.options},
        settings=_raised(state.settings, record.raised),
        progress=progress._replace(errors={}, begun=progress.begun | _done_outside(state)),
    )


def _done_outside(state: State) -> frozenset[str]:
    """The stage of a failed run that did its work outside the workspace, and then had no transition to follow."""
    stage = state.stage
    if state.status is not RunStatus.FAIL or not isinstance(stage, ToolStage) or state.progress.errors:
        return frozenset()
    passed = state.outcomes.get(stage.id, Status.FAIL).passes
    return frozenset({stage.id}) if passed and stage.effects is Effects.EXTERNAL else frozenset()


def _cursor_after_failure(state: State) -> Cursor:
    """Where a failed run continues: at the stage that failed, or at the goal gate that kept it from its exit."""
    if state.progress.errors:
        return state.cursor
    gate = next(unsatisfied_gates(state.workflow, state.outcomes), None) if isinstance(state.stage, ExitStage) else None
    stage = _runner_of(state.workflow, gate.id) if gate else state.cursor.stage
    return Cursor(stage, state.visits.get(stage, 0) + 1)


def _runner_of(workflow: Workflow, stage: str) -> str:
    """The parallel stage that runs a branch; any other stage runs by itself."""
    for one in workflow.stages:
        if isinstance(one, ParallelStage) and stage in {branch.stage for branch in one.branches}:
            return one.id
    return stage


def _let_go(state: State) -> Context:
    """The context without what held the run, once it was held: who takes up a killed run has not been told of it."""
    if state.status is RunStatus.PAUSED and Key.HOLD in state.context:
        return state.context.apply([Delete(Key.HOLD)])
    return state.context


def _interrupted(state: State, at: float) -> Progress:
    """The attempts that were under way when a process ended without a word, or was told to stop.

    One that is not due yet had not begun, and is still waited for.
    """
    stage, progress = state.stage, state.progress
    started = [branch.stage for branch in stage.branches] if isinstance(stage, ParallelStage) else [stage.id]
    running = [name for name in started if name not in progress.branches and name not in progress.errors]
    waiting = {name: due for name, due in progress.retry_at.items() if due > at}
    begun = [name for name in running if name not in waiting]
    torn = {**progress.torn, **{name: progress.torn.get(name, 0) + 1 for name in begun}}
    return progress._replace(torn=torn, retry_at=waiting)


def _raised(settings: WorkflowSettings, raised: Mapping[str, float]) -> WorkflowSettings:
    values: dict[str, object] = dict(raised)
    for name in ("max_visits", "max_stages", "summary_budget"):
        if name in values:
            values[name] = int(raised[name])
    if "max_duration" in raised:
        values["max_duration"] = timedelta(seconds=raised["max_duration"])
    return settings.model_copy(update=values)


def _adopted(state: State, record: WorkflowAdopted) -> State:
    workflow = read_workflow(record.file, record.source)
    if state.cursor.stage not in workflow.by_id:
        words = f'the new workflow has no stage "{state.cursor.stage}", where the run stands'
        raise AwfError(words, help="give it a stage of that name, or begin another run")
    if (runner := _runner_of(workflow, state.cursor.stage)) != state.cursor.stage:
        words = f'in the new workflow "{state.cursor.stage}", where the run stands, is a branch of "{runner}"'
        raise AwfError(words, help="give it a stage of that name that is not a branch, or start another run")
    return state._replace(
        workflow=workflow,
        ways=index_edges(workflow),
        prompts=record.prompts,
        settings=_bounds(workflow, state.options),
    )


def pending_gates_after(state: State, stage: str, option: str) -> frozenset[str]:
    """The human gates to be passed again, after a choice at one of them."""
    gate = state.workflow.by_id.get(stage) if option else None
    if not isinstance(gate, HumanStage):
        return state.owed
    if option in {approving.key for approving in approving_options(gate)}:
        return state.owed - {stage}
    return state.owed | {stage} if gate.re_review else state.owed

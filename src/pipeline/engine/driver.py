"""The single steps of a run: each carries out one thing that the machine decided, and records what came of it.

Drivers differ in how they wait and where a step runs; what a step does is written down here, once.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.engine.context import Context, Key, Operation, Set
from pipeline.engine.events import EventKind
from pipeline.engine.machine import (
    HOLD,
    Ask,
    CompletedVisit,
    Fail,
    FanOut,
    Pause,
    Stop,
    Visit,
    complete,
    crash_outcome,
    decide,
    join_branches,
)
from pipeline.engine.outcome import Failure, FailureClass, LedgerLine, Outcome, Status, stage_operations
from pipeline.engine.ports import RUNS, Clock, Handler, Job, Journal, JournalError, PluginFailed, Waiting
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    RunCancelled,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitStarted,
)
from pipeline.engine.state import (
    ERROR_RETRY,
    RunStatus,
    State,
    WorkspaceError,
    Workspaces,
    apply,
    decide_retry,
    quota_resets_after,
)
from pipeline.language.model import (
    BaseStage,
    Effects,
    LlmStage,
    OnError,
    ParallelStage,
    Retry,
    StageKind,
    ToolStage,
    is_review,
    may_write,
)
from pipeline.redaction import PATTERNS_ONLY, Redactor

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
OUTPUT_EVERY = 0.1  # seconds: whoever watches sees what a stage prints, and a stage that prints much is not slowed


class Plugins(Protocol):
    """What plugins add to a run. All but `tell` raise PluginFailed when a plugin raises."""

    def before_stage(self, stage: BaseStage, visit: int, state: State) -> None:
        """Let plugins look at the run before an attempt begins."""

    def operations(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> tuple[Operation | LedgerLine, ...]:
        """Context operations and ledger lines for a stage that is done. `context` holds what the stage itself left."""

    def branch_operations(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> tuple[Operation, ...]:
        """Context operations that are recorded with a branch, and applied when the branches are joined."""

    def after_commit(self, state: State) -> None:
        """Let plugins act on what has been committed."""

    def on_resume(self, state: State) -> None:
        """Let plugins put right what a crash left behind."""

    def tell(self, kind: EventKind, state: State, stage: str = "", visit: int = 0, **data: Any) -> None:
        """Let everybody who listens know."""


@dataclass(frozen=True, slots=True)
class Services:
    """All that a driver needs from outside."""

    journal: Journal
    handlers: Mapping[StageKind, Handler]
    plugins: Plugins
    clock: Clock
    chance: Callable[[], float]  # a random number in [0, 1)
    workspaces: Workspaces
    store: Path
    redactor: Redactor = PATTERNS_ONLY
    error_retry: Retry = ERROR_RETRY  # of transient errors, where a stage has no retry of its own
    waits: bool = False  # whether this process stays until a used-up quota resets


def leaves_files(stage: BaseStage) -> bool:
    """Whether a stage of this kind may change files, or write logs."""
    return isinstance(stage, LlmStage | ToolStage)


def event_data(outcome: Outcome) -> dict[str, Any]:
    """An outcome in the words of an event."""
    usage = outcome.usage.model_dump(exclude_none=True) if outcome.usage else {}
    told = {"status": outcome.status, "source": outcome.source, "reason": outcome.reason, "usage": usage}
    return {"duration": outcome.duration, **told}


def cannot_be_kept(error: Exception, store: Path) -> bool:
    """Whether the disk is full, or no file of the run can be written: no stage is to blame, and none can mend it."""
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    runs = store.absolute() / RUNS
    return error.errno in _NO_ROOM or (
        bool(error.filename) and Path(str(error.filename)).absolute().is_relative_to(runs)
    )


def not_looked(outcome: Outcome) -> Outcome:
    """The outcome of a review; one that asks to be run again, or was left out, has found out nothing: an error."""
    if outcome.status in (Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL, Status.ERROR):
        return outcome
    reason = f"the review did not take place ({outcome.status}){f': {outcome.reason}' if outcome.reason else ''}"
    failure = Failure(kind=FailureClass.PROTOCOL, digest=reason)
    return outcome.model_copy(update={"status": Status.ERROR, "reason": reason, "failure": failure})


def redact_outcome(redactor: Redactor, outcome: Outcome) -> Outcome:
    """Return an outcome without secrets in anything that the stage reported."""
    reported = {"reason", "response", "updates", "preferred_label", "preferred_next", "notes"}
    changes = {name: redactor.value(getattr(outcome, name)) for name in reported}
    if failure := outcome.failure:
        texts = {name: redactor.text(getattr(failure, name)) for name in ("digest", "stdout_tail", "stderr_tail")}
        changes["failure"] = failure.model_copy(update=texts)
    return outcome.model_copy(update=changes)


def redact_operation(redactor: Redactor, operation: Operation) -> Operation:
    """Return an operation that writes no secret to the context."""
    return operation._replace(value=redactor.value(operation.value))


def _on_error(stage: BaseStage) -> OnError:
    """What an error of this stage does; one that only decides or asks pauses the run."""
    return getattr(stage, "on_error", OnError.PAUSE)


class StageExecutor:
    """The steps of one run, from where it stands. No secret that a stage or a plugin hands in is recorded."""

    def __init__(self, state: State, services: Services) -> None:
        self.state = state
        self.services = services
        self._now = services.clock.now
        self._kept: dict[str, str] = {}  # texts to be recorded with the attempt of a stage
        self._lines: list[str] = []  # for the ledger, to be committed with the stage
        self._committing = asyncio.Lock()  # git allows one commit at a time

    async def attempt(self, visit: Visit, before: State | None = None) -> Outcome | Visit:
        """Run one attempt; return its outcome, or the next visit if a retry was recorded.

        A branch sees the state as it was `before` the fan-out.
        """
        stage = self.state.workflow.stage(visit.stage)
        self._started(stage, visit)
        outcome = await self._handle(self._job(stage, visit.visit, visit.attempt, before))
        if isinstance(outcome, Waiting):
            outcome = crash_outcome(TypeError(f'stage "{stage.id}" asks nobody, so it cannot wait for a person'))
        decision = decide_retry(
            stage.retry,
            self.state.progress.failed.get(stage.id, 0),
            outcome,
            self.services.chance(),
            review=is_review(stage),
            on_error=self.services.error_retry,
        )
        if decision.again:
            return self._failed_once(visit, outcome, decision.delay)
        return not_looked(outcome) if is_review(stage) else outcome

    async def conclude(self, visit: Visit, outcome: Outcome) -> None:
        """Record the outcome of the visit at the cursor with the transition taken, or that the stage errored."""
        stage = self.state.stage
        if (outcome := self._routed(stage, outcome)).status is Status.ERROR:
            return self._errored(visit, outcome)
        try:
            saved = await self._saved(stage, visit)  # first: nothing is awaited between a report and its record
            operations = (*self._operations(stage, visit.visit, outcome, self.state), *saved)
        except (PluginFailed, WorkspaceError) as error:
            return self._errored(visit, crash_outcome(error), told=False)
        return self._finish(complete(self.state, outcome, operations, self._now()))

    async def ask(self, command: Ask) -> None:
        """Ask a person, and record the answer, or that nobody is there."""
        stage = self.state.stage
        self._tell(EventKind.HUMAN_ASKED, command.stage, command.visit)
        visit = Visit(command.stage, command.visit, self.state.progress.attempt(command.stage))
        outcome = await self._handle(self._job(stage, command.visit, 1))
        if isinstance(outcome, Waiting):
            self._record(RunWaiting(at=self._now(), stage=command.stage, visit=command.visit))
            return
        if outcome.status is Status.ERROR:
            self._errored(visit, outcome)
            return
        option = str(outcome.updates.get(Key.HUMAN_SELECTED, outcome.preferred_label))
        by = str(outcome.updates.get(Key.HUMAN_BY, ""))
        if option:  # nobody may have answered in time
            self._tell(EventKind.HUMAN_ANSWERED, command.stage, command.visit, option=option, by=by)
        try:
            operations = self._operations(stage, command.visit, outcome, self.state)
        except PluginFailed as error:
            self._errored(visit, crash_outcome(error), told=False)
            return
        self._finish(complete(self.state, outcome, operations, self._now(), option=option))

    async def conclude_branch(self, command: FanOut, visit: Visit, outcome: Outcome) -> None:
        """Record the outcome of one branch with what plugins keep of it, or that it errored.

        Plugins add to the run when the branches are joined, in the order of the file: nothing depends on which branch
        was quicker. A branch that only looks commits nothing while others run: it would be the half of what one of them
        is writing.
        """
        stage = self.state.workflow.stage(visit.stage)
        if (outcome := self._routed(stage, outcome)).status is Status.ERROR:
            self._errored(visit, outcome)
            return
        try:
            saved = await self._saved(stage, visit) if may_write(stage) or self._is_last(command, stage) else ()
            kept = self.services.plugins.branch_operations(stage, visit.visit, outcome, self.state)
        except (PluginFailed, WorkspaceError) as error:
            self._errored(visit, crash_outcome(error), told=False)
            return
        self._record(
            BranchCompleted(
                at=self._now(),
                stage=command.parallel.id,
                visit=command.visit,
                branch=visit.stage,
                branch_visit=visit.visit,
                outcome=outcome,
                commit=next((str(operation.value) for operation in saved), ""),
                operations=tuple(redact_operation(self.services.redactor, one) for one in kept),
            ),
            kept_of=visit.stage,
        )
        self._tell_done(visit.stage, visit.visit, outcome)

    def join(self, command: FanOut, began: float) -> None:
        """Record the outcome of a parallel stage, all of whose branches are done."""
        stage = command.parallel
        results = [self._result(branch.stage) for branch in stage.branches]
        outcome = join_branches(stage, results, self._now() - began)
        try:
            operations = self._joined(stage, command, results, outcome)
        except PluginFailed as error:
            visit = Visit(stage.id, command.visit, self.state.progress.attempt(stage.id))
            self._errored(visit, crash_outcome(error), told=False)
            return
        self._finish(complete(self.state, outcome, operations, self._now(), branches=results))

    def pause(self, command: Pause) -> None:
        """Record that the run stops here until somebody resumes it."""
        self._record(
            RunPaused(
                at=self._now(),
                limit=command.limit,
                stage=command.stage,
                count=command.count,
                allowed=command.allowed,
                reason=command.reason,
                until=command.until,
            )
        )

    def fail(self, command: Fail) -> None:
        """Record that the run ends with the errors of the stage at the cursor."""
        self._record(RunFailed(at=self._now(), stage=command.stage, reason=command.reason))

    def prepare_resumed(self) -> None:
        """Let plugins put right what a crash left behind; a plugin that cannot pauses the run."""
        try:
            self.services.plugins.on_resume(self.state)
        except PluginFailed as error:
            self._hold(error)

    async def restore_workspace(self) -> str:
        """Put the workspace back to its last checkpoint; the ref that keeps what was torn, if anything was."""
        state = self.state
        if state.workspace is None:
            return ""
        keep_as = f"{state.run_id}/{state.cursor.stage}-{state.cursor.visit}"
        return await self.services.workspaces.restore(state.workspace, keep_as) or ""

    def cancel(self, reason: str) -> None:
        """Record that somebody stopped the run."""
        cursor = self.state.cursor
        self._record(RunCancelled(at=self._now(), stage=cursor.stage, visit=cursor.visit, reason=reason))

    def _is_last(self, command: FanOut, stage: BaseStage) -> bool:
        done = {*self.state.progress.branches, stage.id}
        return all(branch.stage in done for branch in command.parallel.branches)

    def _result(self, branch: str) -> BranchResult:
        visit = self.state.visits.get(branch, 0) + 1
        return BranchResult(stage=branch, visit=visit, outcome=self.state.progress.branches[branch].outcome)

    def _joined(
        self, stage: ParallelStage, command: FanOut, results: Sequence[BranchResult], outcome: Outcome
    ) -> list[Operation]:
        """What the branches left, in the order of the file, then what the stage itself leaves."""
        operations: list[Operation] = []
        seen = self.state
        for result in results:
            branch = self.state.workflow.stage(result.stage)
            kept = [Operation(*one) for one in self.state.progress.branches[result.stage].operations]
            seen = seen._replace(context=seen.context.apply(kept))
            added = self._operations(branch, result.visit, result.outcome, seen)
            seen = seen._replace(context=seen.context.apply(added))
            operations += (*kept, *added)
        operations += self._operations(stage, command.visit, outcome, seen)
        if self.state.progress.commit:
            operations.append(Set(Key.WORKSPACE_COMMIT, self.state.progress.commit))
        return operations

    def _started(self, stage: BaseStage, visit: Visit) -> None:
        if isinstance(stage, ToolStage) and stage.effects is Effects.EXTERNAL:
            self._record(VisitStarted(at=self._now(), stage=stage.id, visit=visit.visit, attempt=visit.attempt))
        self._tell(EventKind.STAGE_STARTED, stage.id, visit.visit, attempt=visit.attempt)

    def _routed(self, stage: BaseStage, outcome: Outcome) -> Outcome:
        """The outcome as the stage's `on_error` wants it: an error that is to be routed is an ordinary failure."""
        if outcome.status is Status.ERROR and _on_error(stage) is OnError.ROUTE:
            return outcome.model_copy(update={"status": Status.FAIL})
        return outcome

    def _errored(self, visit: Visit, outcome: Outcome, *, told: bool = True) -> None:
        """Record that a stage could not do its job; nothing that follows from its result is decided.

        Plugins are `told`, so that the ledger can say who did not answer; the context stays as it was.
        """
        at, wait, attempt = self._now(), quota_resets_after(outcome), self.state.progress.attempt(visit.stage)
        stage = self.state.workflow.stage(visit.stage)
        if told:
            try:
                self._operations(stage, visit.visit, outcome, self.state)
            except PluginFailed as error:
                notes = (*outcome.notes, str(error))
                outcome = outcome.model_copy(update={"notes": notes})
        policy = _on_error(stage)
        if policy is OnError.PAUSE:
            policy = OnError(self.state.options.get("on_error", policy))
        self._record(
            StageErrored(
                at=at,
                stage=visit.stage,
                visit=visit.visit,
                attempt=attempt,
                outcome=outcome,
                until=None if wait is None else at + wait,
                ends_run=policy is OnError.FAIL,
            ),
            kept_of=visit.stage,
        )
        self._committed()
        self._tell(EventKind.STAGE_ERRORED, visit.stage, visit.visit, attempt=attempt, **event_data(outcome))

    def _failed_once(self, visit: Visit, outcome: Outcome, delay: float) -> Visit:
        stage, number, attempt = visit.stage, visit.visit, visit.attempt
        at = self._now()
        self._record(AttemptFailed(at=at, stage=stage, visit=number, attempt=attempt, outcome=outcome, delay=delay))
        self._tell(EventKind.STAGE_RETRYING, stage, number, attempt=attempt, reason=outcome.reason, delay=delay)
        return Visit(stage, number, attempt + 1, at + delay)

    async def _handle(self, job: Job) -> Outcome | Waiting:
        """Run the handler. An exception is an error of the stage, unless the run's files cannot be written."""
        kind: StageKind = job.stage.kind  # type: ignore[attr-defined]  # every stage has one, what they share has not
        try:
            self.services.plugins.before_stage(job.stage, job.visit, job.state)
            result = await self.services.handlers[kind].run(job)
            if isinstance(result, Waiting):
                return result
            result = redact_outcome(self.services.redactor, result)
        except Exception as error:
            if cannot_be_kept(error, self.services.store):
                words = f'the files of stage "{job.stage.id}" cannot be written, so the run stopped there: {error}'
                help = "make room on the disk, or make the store writable, and resume the run; the stage runs again"
                raise JournalError(words, help=help) from error
            result = redact_outcome(self.services.redactor, crash_outcome(error))
        return result if result.duration else result.model_copy(update={"duration": job.elapsed()})

    def _job(self, stage: BaseStage, visit: int, attempt: int, before: State | None = None) -> Job:
        state = before or self.state

        began, told_at = self._now(), 0.0

        def tell(data: dict[str, Any]) -> None:
            nonlocal told_at
            if data.get("usage") or self._now() - told_at >= OUTPUT_EVERY:
                told_at = self._now()
                self._tell(EventKind.STAGE_OUTPUT, stage.id, visit, **data)

        def keep(text: str) -> None:
            self._kept[stage.id] = self.services.redactor.text(text)

        def elapsed() -> float:
            return round(self._now() - began, 6)

        return Job(stage, visit, attempt, state, self.services.store, tell, keep, elapsed)

    def _operations(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> tuple[Operation, ...]:
        """What a stage changes, then what plugins add. Their ledger lines are committed with the next record."""
        own = stage_operations(stage, outcome)
        after = state.context.apply(own)
        added = self.services.plugins.operations(stage, visit, outcome, after, state, self._now())
        redactor = self.services.redactor
        self._lines += [redactor.text(line.text) for line in added if isinstance(line, LedgerLine)]
        return (*own, *(redact_operation(redactor, one) for one in added if not isinstance(one, LedgerLine)))

    async def _saved(self, stage: BaseStage, visit: Visit) -> Iterable[Operation]:
        """Commit what a stage changed in the workspace; the commit becomes part of the checkpoint."""
        workspace = self.state.workspace
        if workspace is None or not leaves_files(stage):
            return ()
        trailers = {"Awf-Run": self.state.run_id, "Awf-Stage": stage.id, "Awf-Visit": str(visit.visit)}
        async with self._committing:
            saved = await self.services.workspaces.commit(workspace, f"awf: {stage.id} #{visit.visit}", trailers)
        return () if saved.commit == workspace.commit else (Set(Key.WORKSPACE_COMMIT, saved.commit),)

    def _finish(self, concluded: CompletedVisit) -> None:
        record, before = concluded.record, self.state.context.list_at(Key.FINDINGS)
        stage, visit, chosen = record.stage, record.visit, record.chosen
        self._record(record, kept_of=stage, makes=concluded.state)
        self._committed()
        self._tell(EventKind.CHECKPOINT_SAVED, stage, visit)
        self._tell_done(stage, visit, record.outcome, to=chosen.target, why=chosen.reason)
        after = self.state.context.list_at(Key.FINDINGS)
        if before is not after and before != after:
            self._tell(EventKind.FINDINGS_CHANGED, stage, visit, outstanding=len(after))

    def _tell_done(self, stage: str, visit: int, outcome: Outcome, **data: Any) -> None:
        kind = EventKind.STAGE_COMPLETED if outcome.status.passes else EventKind.STAGE_FAILED
        self._tell(kind, stage, visit, **event_data(outcome), **data)

    def _committed(self) -> None:
        """Let plugins act on the commit; a plugin that cannot pauses the run."""
        try:
            self.services.plugins.after_commit(self.state)
        except PluginFailed as error:
            self._hold(error)

    def _hold(self, error: PluginFailed) -> None:
        if self.state.status is RunStatus.RUNNING:
            self.pause(Pause(HOLD, self.state.cursor.stage, 1, 0, str(error)))
        else:  # it has ended: all that is left is to say so
            self._tell(EventKind.PLUGIN_FAILED, plugin=error.plugin, hook=error.hook, error=str(error))

    def _record(self, record: AnyRecord, kept_of: str = "", makes: State | None = None) -> None:
        """Append the record, then update the state. `kept_of` is the stage whose text is recorded with it."""
        lines, self._lines = self._lines, []
        attached = self._kept.pop(kept_of, "")
        self.services.journal.append(self.state.run_id, record, attached=attached, lines=lines)
        self.state = makes or apply(self.state, record)

    def _tell(self, kind: EventKind, stage: str = "", visit: int = 0, **data: Any) -> None:
        self.services.plugins.tell(kind, self.state, stage, visit, **data)


class Driver(StageExecutor):
    """Drives one run from where it stands until it stops."""

    def __init__(self, state: State, services: Services) -> None:
        super().__init__(state, services)
        self.cancelled_because = ""  # set by whoever cancels the task, where there is more to say than that

    async def drive(self) -> None:
        """Carry out commands until the run stops; a cancelled task leaves a cancelled run.

        A run that is paused until a quota resets is waited for, and resumed, by a process that stays.

        Where it stopped is in `state`, and is not returned: asyncio would print all of it for itself to throw away.
        """
        try:
            while True:
                while not isinstance(command := decide(self.state), Stop):
                    await self._carry_out(command)
                if self.state.until is None or not self.services.waits:
                    return
                await self._wait(self.state.until)
        except asyncio.CancelledError:
            self.cancel(self.cancelled_because)

    async def _wait(self, until: float) -> None:
        """Continue by itself at the time when a quota resets."""
        cursor = self.state.cursor
        self._tell(EventKind.RUN_PAUSED, *cursor, status=self.state.status, reason=self.state.reason, until=until)
        await self.services.clock.sleep_until(until)
        torn = await self.restore_workspace()
        self._record(RunResumed(at=self._now(), torn=torn))
        self._tell(EventKind.RUN_RESUMED, *cursor, goal=self.state.goal, workflow=self.state.workflow.name)

    async def _carry_out(self, command: Visit | Ask | FanOut | Pause | Fail) -> None:
        match command:
            case Visit():
                await self.conclude(command, await self._attempts(command))
            case Ask():
                await self.ask(command)
            case FanOut():
                await self._fan_out(command)
            case Pause():
                self.pause(command)
            case Fail():
                self.fail(command)

    async def _attempts(self, visit: Visit, before: State | None = None) -> Outcome:
        """Run a stage until an attempt is final."""
        while True:
            if visit.not_before is not None:
                await self.services.clock.sleep_until(visit.not_before)
            outcome = await self.attempt(visit, before)
            if isinstance(outcome, Outcome):
                return outcome
            visit = outcome

    async def _fan_out(self, command: FanOut) -> None:
        began = self._now()
        stage = command.parallel
        self._tell(EventKind.STAGE_STARTED, stage.id, command.visit, branches=[b.stage for b in command.branches])
        await self._branches(stage, command)
        rest = decide(self.state)
        if isinstance(rest, FanOut) and not rest.branches:
            self.join(command, began)

    async def _branches(self, stage: ParallelStage, command: FanOut) -> None:
        """Run what is not done, so many at a time. One branch's trouble is its own."""
        places = asyncio.Semaphore(stage.max_parallel or len(stage.branches))
        before = self.state

        async def run(visit: Visit) -> None:
            async with places:
                await self.conclude_branch(command, visit, await self._attempts(visit, before))

        tasks = [asyncio.create_task(run(visit)) for visit in command.branches]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

"""The one effectful loop: carries out what the machine decides, and records the result."""

import asyncio
import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pipeline.engine.context import Context, Key, Operation, Set
from pipeline.engine.events import EventKind
from pipeline.engine.machine import (
    HOLD,
    Ask,
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
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, stage_operations
from pipeline.engine.policy import ERROR_RETRY, decide_retry, quota_resets_after
from pipeline.engine.ports import (
    RUNS,
    AskAgent,
    Clock,
    Concluded,
    Conclusion,
    Handler,
    Job,
    Journal,
    JournalError,
    LedgerLine,
    PluginFailed,
    Waiting,
    WorkspaceError,
    Workspaces,
    no_agent,
)
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
    VisitCompleted,
    VisitStarted,
)
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import RunStatus, State, apply
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

OUTPUT_INTERVAL = 0.1  # seconds between two output events, so that a stage that prints a lot is not slowed down
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Plugins(Protocol):
    """What plugins add to a run. Every method but `emit` raises PluginFailed if a plugin raises."""

    def collect(self, hook: str, **given: Any) -> list[Any]:
        """Return the results of all plugins, lists item by item and mappings as pairs, in the order of registration."""

    def conclude(self, visits: Sequence[Concluded], context: Context, state: State, at: float) -> Conclusion:
        """Return what all plugins make of visits. Each sees the outcomes as the earlier ones amended them."""

    def emit(self, kind: str, state: State, stage: str = "", visit: int = 0, **data: Any) -> None:
        """Tell all listeners about an event."""


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
    error_retry: Retry = ERROR_RETRY  # for transient errors, if the stage has no retry policy
    waits: bool = False  # whether this process stays until a used-up quota resets
    functions: Mapping[str, ExpressionFunction] = field(default_factory=dict)  # that plugins provide
    ask_agent: AskAgent = no_agent  # for stages without an agent of their own


def event_data(outcome: Outcome) -> dict[str, Any]:
    """Return what an event says about an outcome."""
    return {
        "duration": outcome.duration,
        "status": outcome.status,
        "source": outcome.source,
        "reason": outcome.reason,
        "usage": outcome.usage.model_dump(exclude_none=True) if outcome.usage else {},
    }


def record_events(record: AnyRecord) -> Iterator[tuple[EventKind, str, int, dict[str, Any]]]:
    """Return the events about the attempt, branch or visit that a record is about: kind, stage, visit and data."""
    match record:
        case AttemptFailed():
            data = {"attempt": record.attempt, "reason": record.outcome.reason, "delay": record.delay}
            yield EventKind.STAGE_RETRYING, record.stage, record.visit, data
        case StageErrored():
            data = {"attempt": record.attempt, **event_data(record.outcome)}
            yield EventKind.STAGE_ERRORED, record.stage, record.visit, data
        case BranchCompleted():
            yield _done_kind(record.outcome), record.branch, record.branch_visit, event_data(record.outcome)
        case VisitCompleted():
            yield EventKind.CHECKPOINT_SAVED, record.stage, record.visit, {}
            data = {**event_data(record.outcome), "to": record.chosen.target, "why": record.chosen.reason}
            yield _done_kind(record.outcome), record.stage, record.visit, data


def _done_kind(outcome: Outcome) -> EventKind:
    return EventKind.STAGE_COMPLETED if outcome.status.passes else EventKind.STAGE_FAILED


def redact_outcome(redactor: Redactor, outcome: Outcome) -> Outcome:
    """Return an outcome without secrets in anything that a stage can say."""
    reported = ("reason", "response", "answers", "updates", "preferred_label", "preferred_next", "notes", "kept")
    changes = {name: redactor.value(getattr(outcome, name)) for name in reported}
    if failure := outcome.failure:
        texts = {name: redactor.text(getattr(failure, name)) for name in ("digest", "stdout_tail", "stderr_tail")}
        changes["failure"] = failure.model_copy(update=texts)
    return outcome.model_copy(update=changes)


def redact_conclusion(redactor: Redactor, conclusion: Conclusion) -> Conclusion:
    """Return a conclusion that puts no secret into a record, the context or the ledger."""
    return Conclusion(
        {stage: redact_outcome(redactor, outcome) for stage, outcome in conclusion.outcomes.items()},
        [operation._replace(value=redactor.value(operation.value)) for operation in conclusion.operations],
        [LedgerLine(redactor.text(line.text)) for line in conclusion.lines],
    )


class StageExecutor:
    """Carries out single commands of one run and records their results, without secrets.

    Drivers differ in how they wait and where a command runs; what a command does is the same for all of them.
    """

    def __init__(self, state: State, services: Services) -> None:
        self.state = state
        self.services = services
        self._now = services.clock.now
        self._prompts: dict[str, str] = {}  # to be recorded with the attempt of a stage
        self._committing = asyncio.Lock()  # git allows one commit at a time

    async def attempt(self, visit: Visit, before: State | None = None) -> Outcome | Visit:
        """Run one attempt; return its outcome, or the next visit if a retry was recorded.

        A branch sees the state `before` the fan-out.
        """
        stage = self.state.workflow.stage(visit.stage)
        if isinstance(stage, ToolStage) and stage.effects is Effects.EXTERNAL:
            self._record(VisitStarted(at=self._now(), stage=stage.id, visit=visit.visit, attempt=visit.attempt))
        self._emit(EventKind.STAGE_STARTED, stage.id, visit.visit, attempt=visit.attempt)
        outcome = await self._handle(self._job(stage, visit.visit, visit.attempt, before or self.state))
        if isinstance(outcome, Waiting):
            outcome = crash_outcome(TypeError(f'stage "{stage.id}" is not a human stage, so it cannot wait'))
        decision = decide_retry(
            stage.retry,
            self.state.progress.failed.get(stage.id, 0),
            outcome,
            self.services.chance(),
            review=is_review(stage),
            on_error=self.services.error_retry,
        )
        if not decision.again:
            return _require_result(outcome) if is_review(stage) else outcome
        at = self._now()
        attempt = {"stage": stage.id, "visit": visit.visit, "attempt": visit.attempt}
        failed = AttemptFailed(at=at, **attempt, outcome=outcome, delay=decision.delay)
        self._record(failed)
        self._emit_record(failed)
        return Visit(stage.id, visit.visit, visit.attempt + 1, at + decision.delay)

    async def conclude(self, visit: Visit, outcome: Outcome) -> None:
        """Record the outcome of the visit at the cursor with the transition taken, or that the stage errored."""
        outcome = _route_error(self.state.stage, outcome)
        if outcome.status is Status.ERROR:
            return self._conclude_error(visit, outcome)
        try:
            # The workspace first: nothing may be awaited between what plugins report and its record.
            commit = await self._commit_workspace(self.state.stage, visit)
        except WorkspaceError as error:
            return self._record_error(visit, crash_outcome(error))
        return self._complete_visit(visit, outcome, commit)

    async def ask(self, command: Ask) -> None:
        """Ask a person, and record the answer, or that nobody is available."""
        stage = self.state.stage
        self._emit(EventKind.HUMAN_ASKED, command.stage, command.visit)
        visit = Visit(command.stage, command.visit, self.state.progress.attempt(command.stage))
        outcome = await self._handle(self._job(stage, command.visit, 1, self.state))
        if isinstance(outcome, Waiting):
            at, why = self._now(), outcome.reason
            return self._record(RunWaiting(at=at, stage=command.stage, visit=command.visit, reason=why))
        if outcome.status is Status.ERROR:
            return self._conclude_error(visit, outcome)
        option = str(outcome.updates.get(Key.HUMAN_SELECTED, outcome.preferred_label))
        if option:  # empty if nobody answered in time
            by = str(outcome.updates.get(Key.HUMAN_BY, ""))
            self._emit(EventKind.HUMAN_ANSWERED, command.stage, command.visit, option=option, by=by)
        return self._complete_visit(visit, outcome, option=option)

    async def conclude_branch(self, command: FanOut, visit: Visit, outcome: Outcome) -> None:
        """Record the outcome of one branch, or that it errored.

        Plugins conclude all branches together when they are joined, so nothing depends on which was quicker. A
        read-only branch commits nothing while others run: it would commit half of what they are writing.
        """
        stage = self.state.workflow.stage(visit.stage)
        outcome = _route_error(stage, outcome)
        if outcome.status is Status.ERROR:
            return self._conclude_error(visit, outcome)
        done = {*self.state.progress.branches, stage.id}
        is_last = all(branch.stage in done for branch in command.parallel.branches)
        try:
            commit = await self._commit_workspace(stage, visit) if may_write(stage) or is_last else ()
        except WorkspaceError as error:
            return self._record_error(visit, crash_outcome(error))
        record = BranchCompleted(
            at=self._now(),
            stage=command.parallel.id,
            visit=command.visit,
            branch=visit.stage,
            branch_visit=visit.visit,
            outcome=outcome,
            commit=next((str(operation.value) for operation in commit), ""),
        )
        self._record(record, prompt_of=visit.stage)
        return self._emit_record(record)

    def join(self, command: FanOut, began: float) -> None:
        """Record the outcome of a parallel stage whose branches are all done.

        A branch that plugins call an error runs again on resume. The others stay done, and are concluded with it then.
        """
        parallel, finished = command.parallel, self._finished_branches(command.parallel)
        try:
            conclusion = self._conclude(finished)
            visits = conclusion.amend(finished)
            if any(one.outcome.status is Status.ERROR for one in visits):
                return self._reject_branches(visits, conclusion.lines)
            results = [BranchResult(stage=one.stage.id, visit=one.visit, outcome=one.outcome) for one in visits]
            outcome = join_branches(parallel, results, self._now() - began, self.state.workflow)
            own = [operation for one in visits for operation in stage_operations(one.stage, one.outcome)]
            operations = [*own, *conclusion.operations, *stage_operations(parallel, outcome)]
            if commit := self.state.progress.commit:
                operations.append(Set(Key.WORKSPACE_COMMIT, commit))
            record = self._complete(outcome, operations, branches=results)
        except PluginFailed as error:
            visit = Visit(parallel.id, command.visit, self.state.progress.attempt(parallel.id))
            return self._record_error(visit, crash_outcome(error))
        return self._finish(record, conclusion.lines)

    def pause(self, command: Pause) -> None:
        """Record that the run stops here until it is resumed."""
        self._record(RunPaused(at=self._now(), **asdict(command)))

    def fail(self, command: Fail) -> None:
        """Record that the run ends with the errors of the stage at the cursor."""
        self._record(RunFailed(at=self._now(), **asdict(command)))

    def cancel(self, reason: str) -> None:
        """Record that the run was cancelled."""
        cursor = self.state.cursor
        self._record(RunCancelled(at=self._now(), stage=cursor.stage, visit=cursor.visit, reason=reason))

    async def restore_workspace(self) -> str:
        """Reset the workspace to its latest checkpoint; return the ref that keeps what was there, if anything was."""
        state = self.state
        if state.workspace is None:
            return ""
        keep_as = f"{state.run_id}/{state.cursor.stage}-{state.cursor.visit}"
        return await self.services.workspaces.restore(state.workspace, keep_as) or ""

    async def _handle(self, job: Job) -> Outcome | Waiting:
        """Run the handler. An exception is an error of the stage, unless the run's files cannot be written."""
        kind: StageKind = job.stage.kind  # type: ignore[attr-defined]  # every stage has one, but BaseStage does not
        plugins, redactor, kept = self.services.plugins, self.services.redactor, dict[str, Any]()
        try:
            kept = dict(plugins.collect("before_stage", stage=job.stage, visit=job.visit, state=job.state))
            result = await self.services.handlers[kind].run(job)
            if isinstance(result, Waiting):
                return result
            result = redact_outcome(redactor, result.model_copy(update={"kept": kept}))
        except Exception as error:
            if _is_storage_error(error, self.services.store):
                message = f'the files of stage "{job.stage.id}" cannot be written: {error}'
                help = "free disk space or make the store writable, then resume the run; the stage will run again"
                raise JournalError(message, help=help) from error
            result = redact_outcome(redactor, crash_outcome(error).model_copy(update={"kept": kept}))
        return result if result.duration else result.model_copy(update={"duration": job.elapsed()})

    def _job(self, stage: BaseStage, visit: int, attempt: int, state: State) -> Job:
        began, emitted_at = self._now(), 0.0

        def emit(data: dict[str, Any]) -> None:
            nonlocal emitted_at
            must_show = data.get("usage") or data.get("agent") == "warning"
            if must_show or self._now() - emitted_at >= OUTPUT_INTERVAL:
                emitted_at = self._now()
                self._emit(EventKind.STAGE_OUTPUT, stage.id, visit, **data)

        def attach_prompt(text: str) -> None:
            self._prompts[stage.id] = self.services.redactor.text(text)

        def elapsed() -> float:
            return round(self._now() - began, 6)

        services = self.services
        return Job(stage, visit, attempt, state, services.store, emit, attach_prompt, elapsed, services.ask_agent)

    def _conclude(self, visits: Sequence[Concluded]) -> Conclusion:
        """Return what plugins make of visits, without secrets."""
        state, workflow = self.state, self.state.workflow
        found = self.services.plugins.conclude(visits, state.context, state, self._now())
        routed = {name: _route_error(workflow.stage(name), outcome) for name, outcome in found.outcomes.items()}
        return redact_conclusion(self.services.redactor, replace(found, outcomes=routed))

    def _complete_visit(
        self, visit: Visit, outcome: Outcome, commit: Sequence[Operation] = (), option: str = ""
    ) -> None:
        """Record the visit at the cursor as plugins conclude it."""
        stage = self.state.stage
        try:
            conclusion = self._conclude([Concluded(stage, visit.visit, outcome)])
            outcome = conclusion.outcomes.get(stage.id, outcome)
            if outcome.status is Status.ERROR:
                return self._record_error(visit, outcome, conclusion.lines)
            operations = [*stage_operations(stage, outcome), *conclusion.operations, *commit]
            record = self._complete(outcome, operations, option=option)
        except PluginFailed as error:  # nothing of the conclusion counts: it will be made again
            return self._record_error(visit, crash_outcome(error))
        return self._finish(record, conclusion.lines)

    def _conclude_error(self, visit: Visit, outcome: Outcome) -> None:
        """Record that a stage could not do its job, and let plugins say in the ledger who did not answer."""
        stage = self.state.workflow.stage(visit.stage)
        lines: Sequence[LedgerLine] = ()
        try:
            lines = self._conclude([Concluded(stage, visit.visit, outcome)]).lines
        except PluginFailed as error:
            outcome = outcome.model_copy(update={"notes": (*outcome.notes, str(error))})
        self._record_error(visit, outcome, lines)

    def _finished_branches(self, parallel: ParallelStage) -> list[Concluded]:
        """Return the visits of all branches in file order."""
        state = self.state
        names = [branch.stage for branch in parallel.branches]
        return [
            Concluded(state.workflow.stage(name), state.visits.get(name, 0) + 1, state.progress.branches[name])
            for name in names
        ]

    def _reject_branches(self, visits: Iterable[Concluded], lines: Sequence[LedgerLine]) -> None:
        """Record the errors among branches that were done; the ledger lines are committed with the first."""
        for one in visits:
            if one.outcome.status is Status.ERROR:
                visit = Visit(one.stage.id, one.visit, self.state.progress.attempt(one.stage.id))
                self._record_error(visit, one.outcome, lines)
                lines = ()

    async def _commit_workspace(self, stage: BaseStage, visit: Visit) -> Sequence[Operation]:
        """Commit the files that a stage changed; return the operation that makes the commit part of the checkpoint."""
        workspace = self.state.workspace
        if workspace is None or not isinstance(stage, LlmStage | ToolStage):
            return ()
        trailers = {"Awf-Run": self.state.run_id, "Awf-Stage": stage.id, "Awf-Visit": str(visit.visit)}
        async with self._committing:
            saved = await self.services.workspaces.commit(workspace, f"awf: {stage.id} #{visit.visit}", trailers)
        return () if saved.commit == workspace.commit else (Set(Key.WORKSPACE_COMMIT, saved.commit),)

    def _complete(self, outcome: Outcome, operations: Iterable[Operation], **more: Any) -> VisitCompleted:
        return complete(self.state, outcome, operations, self._now(), functions=self.services.functions, **more)

    def _finish(self, record: VisitCompleted, lines: Sequence[LedgerLine]) -> None:
        """Commit a completed visit, then tell plugins and listeners."""
        before = self.state.context
        self._record(record, prompt_of=record.stage, lines=lines)
        self._announce(record, before)

    def _record_error(self, visit: Visit, outcome: Outcome, lines: Sequence[LedgerLine] = ()) -> None:
        """Record that a stage could not do its job. Nothing downstream is decided, and the context stays as it was."""
        at, attempt = self._now(), self.state.progress.attempt(visit.stage)
        policy = _error_policy(self.state.workflow.stage(visit.stage))
        if policy is OnError.PAUSE:
            policy = OnError(self.state.options.get("on_error", policy))
        wait = quota_resets_after(outcome)
        record = StageErrored(
            at=at,
            stage=visit.stage,
            visit=visit.visit,
            attempt=attempt,
            outcome=outcome,
            until=None if wait is None else at + wait,
            ends_run=policy is OnError.FAIL,
        )
        self._record(record, prompt_of=visit.stage, lines=lines)
        self._announce(record, self.state.context)

    def _record(self, record: AnyRecord, prompt_of: str = "", lines: Sequence[LedgerLine] = ()) -> None:
        """Append the record, then update the state. The prompt of the stage `prompt_of` is attached to it."""
        prompt, texts = self._prompts.pop(prompt_of, ""), [line.text for line in lines]
        self.services.journal.append(self.state.run_id, record, attached=prompt, lines=texts)
        self.state = apply(self.state, record)

    def _announce(self, record: VisitCompleted | StageErrored, before: Context) -> None:
        """Tell plugins and listeners about a commit; pause the run if a plugin cannot act on it."""
        events = []
        try:
            events = self.services.plugins.collect("committed", before=before, after=self.state.context)
        except PluginFailed as error:
            self._hold(error)
        self._emit_record(record)
        for kind, data in events:
            self._emit(kind, record.stage, record.visit, **data)

    def _hold(self, error: PluginFailed) -> None:
        if self.state.status is RunStatus.RUNNING:
            self.pause(Pause(HOLD, self.state.cursor.stage, 1, 0, str(error)))
        else:  # the run has ended, so it can only be reported
            self._emit(EventKind.PLUGIN_FAILED, plugin=error.plugin, hook=error.hook, error=str(error))

    def _emit(self, kind: str, stage: str = "", visit: int = 0, **data: Any) -> None:
        self.services.plugins.emit(kind, self.state, stage, visit, **data)

    def _emit_record(self, record: AnyRecord) -> None:
        for kind, stage, visit, data in record_events(record):
            self._emit(kind, stage, visit, **data)


def _require_result(outcome: Outcome) -> Outcome:
    """Turn the outcome of a review that asks for a retry or was skipped into an error: it has reviewed nothing."""
    if outcome.status in (Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.FAIL, Status.ERROR):
        return outcome
    reason = f"the review did not take place ({outcome.status}){f': {outcome.reason}' if outcome.reason else ''}"
    failure = Failure(kind=FailureClass.PROTOCOL, digest=reason)
    return outcome.model_copy(update={"status": Status.ERROR, "reason": reason, "failure": failure})


def _error_policy(stage: BaseStage) -> OnError:
    """Return what an error of this stage does; stages without the setting pause the run."""
    return getattr(stage, "on_error", OnError.PAUSE)


def _route_error(stage: BaseStage, outcome: Outcome) -> Outcome:
    """Turn an error into an ordinary failure if the stage says `on_error="route"`."""
    if outcome.status is Status.ERROR and _error_policy(stage) is OnError.ROUTE:
        return outcome.model_copy(update={"status": Status.FAIL})
    return outcome


def _is_storage_error(error: BaseException | None, store: Path) -> bool:
    """Return whether the disk is full or the run's files cannot be written, which no stage can help."""
    if isinstance(error, PluginFailed):
        error = error.__cause__
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    if error.errno in _DISK_FULL:
        return True
    return bool(error.filename) and Path(str(error.filename)).absolute().is_relative_to(store.absolute() / RUNS)


class Driver(StageExecutor):
    """Drives one run in this process, from its present state until it stops."""

    def __init__(self, state: State, services: Services) -> None:
        super().__init__(state, services)
        self.cancelled_because = ""  # the reason to record when the task is cancelled

    async def drive(self) -> None:
        """Carry out commands until the run stops. Cancelling the task cancels the run.

        A process that stays waits for a used-up quota to reset, and resumes the run by itself. The result is in `state`
        rather than returned, because asyncio would format all of it for its debug output.
        """
        try:
            while True:
                match decide(self.state):
                    case Visit() as visit:
                        await self.conclude(visit, await self._run_attempts(visit))
                    case Ask() as command:
                        await self.ask(command)
                    case FanOut() as command:
                        await self._fan_out(command)
                    case Pause() as command:
                        self.pause(command)
                    case Fail() as command:
                        self.fail(command)
                    case Stop():
                        if self.state.until is None or not self.services.waits:
                            return
                        await self._wait_for_quota(self.state.until)
        except asyncio.CancelledError:
            self.cancel(self.cancelled_because)

    async def _wait_for_quota(self, until: float) -> None:
        state, cursor = self.state, self.state.cursor
        self._emit(EventKind.RUN_PAUSED, *cursor, status=state.status, reason=state.reason, until=until)
        await self.services.clock.sleep_until(until)
        kept = await self.restore_workspace()
        self._record(RunResumed(at=self._now(), torn=kept))
        self._emit(EventKind.RUN_RESUMED, *cursor, goal=state.goal, workflow=state.workflow.name)

    async def _run_attempts(self, visit: Visit, before: State | None = None) -> Outcome:
        """Run a stage until an attempt is final."""
        while True:
            if visit.not_before is not None:
                await self.services.clock.sleep_until(visit.not_before)
            outcome = await self.attempt(visit, before)
            if isinstance(outcome, Outcome):
                return outcome
            visit = outcome

    async def _fan_out(self, command: FanOut) -> None:
        """Run the unfinished branches, at most `max_parallel` at a time, and join them once all are done."""
        began, before, stage = self._now(), self.state, command.parallel
        self._emit(EventKind.STAGE_STARTED, stage.id, command.visit, branches=[one.stage for one in command.branches])
        slots = asyncio.Semaphore(stage.max_parallel or len(stage.branches))

        async def run(visit: Visit) -> None:
            async with slots:
                await self.conclude_branch(command, visit, await self._run_attempts(visit, before))

        tasks = [asyncio.create_task(run(visit)) for visit in command.branches]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        rest = decide(self.state)
        if isinstance(rest, FanOut) and not rest.branches:
            self.join(command, began)

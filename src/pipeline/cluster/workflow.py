"""A run as a Temporal workflow: it asks the machine, has each step done by a worker, and applies what was recorded.

It must be deterministic, so it holds values only. What it may not know, the worker reads in the shared journal.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as TimedOut

from pipeline.cluster.messages import (
    WORKFLOW,
    ActivityErrorType,
    AttemptRequest,
    HumanVisit,
    OpenedRun,
    RunInput,
    RunPosition,
    StateSnapshot,
    StepRequest,
    StepResult,
    WorkflowResult,
    apply_all,
)
from pipeline.engine.context import Key
from pipeline.engine.machine import Ask, Fail, FanOut, Pause, Stop, Visit, decide
from pipeline.engine.records import AttemptFailed
from pipeline.engine.state import RunStatus, State
from pipeline.language.model import HumanStage

_LONGEST_STAGE = timedelta(days=30)  # a stage has a limit of its own; Temporal wants to know one too
_ONCE = RetryPolicy(maximum_attempts=1)  # whether a stage is tried again is for the machine to say
_ALWAYS = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
_MOST_PATIENCE = 60.0

T = TypeVar("T")


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """One run."""

    @workflow.init
    def __init__(self, beginning: RunInput) -> None:
        self._run_id = beginning.run_id
        self._terms = beginning.terms
        self._seq = beginning.seq
        self._home = beginning.home  # the queue of the worker that has the run's files
        self._answered = list(beginning.answered)
        self._asked_for = list(beginning.asked_for)
        self._state: State | None = None
        self._file, self._source = "", ""
        if beginning.snapshot is not None:
            self._take_up(beginning.snapshot)

    @workflow.run
    async def run(self, beginning: RunInput) -> WorkflowResult:
        """Do what the machine says until the run is over."""
        if self._state is None:
            order = StepRequest(run_id=self._run_id, after=0, resume=beginning.resume)
            opened = await self._short_step("open", order, OpenedRun)
            self._seq = opened.seq
            self._take_up(opened.snapshot)
        try:
            while (ended := await self._step()) is None:
                self._stop_if_cancelled()
                self._begin_anew_if_long()
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            await self._cancelled()
            raise
        return ended

    @workflow.update
    def answer(self, place: HumanVisit) -> None:
        """Somebody has left an answer in the letter-box."""
        self._answered.append(place)

    @answer.validator
    def _answerable(self, place: HumanVisit) -> None:
        if self._state is None or place != self._place():
            raise ApplicationError(f'the run does not stand at "{place.stage}" #{place.visit}')

    @workflow.update
    def resume(self, key: str) -> None:
        """Somebody wants the run to go on; how is in the store."""
        self._asked_for.append(key)

    @resume.validator
    def _resumable(self, key: str) -> None:
        del key
        if self._state is None or self._state.status is RunStatus.RUNNING:
            raise ApplicationError("the run is being run")

    @workflow.query
    def standing(self) -> RunPosition:
        """Where the run stands."""
        state, events = self._known, workflow.info().get_current_history_length()
        place = {"stage": state.cursor.stage, "visit": state.cursor.visit}
        return RunPosition(
            status=state.status, reason=state.reason, **place, seq=self._seq, home=self._home, events=events
        )

    async def _step(self) -> WorkflowResult | None:
        match command := decide(self._known):
            case Stop(status, reason):
                if status.final or status is RunStatus.CANCELLED:
                    return WorkflowResult(status=status, reason=reason)
                await self._woken()
            case Visit():
                await self._visit(command)
            case FanOut():
                await self._fan_out(command)
            case Ask():
                await self._near_step("ask", self._order())
            case Pause() | Fail():
                self._apply(await self._short_step("pause", self._order(), StepResult))
        return None

    async def _visit(self, command: Visit) -> None:
        if command.not_before is not None:
            await asyncio.sleep(max(0.0, command.not_before - workflow.time()))
        attempt = AttemptRequest(stage=command.stage, visit=command.visit, attempt=command.attempt)
        done = await self._tried("visit", self._order().model_copy(update={"attempt": attempt}))
        if isinstance(done, StepResult):
            self._apply(done)
            self._home = done.queue
        elif done:
            await self._lost([attempt], done)

    async def _fan_out(self, command: FanOut) -> None:
        """Run the branches that are not done, each as an activity, then join them.

        When a worker goes away with one, the others end first: at any time one worker has the run's files.
        """
        began, order = workflow.time(), self._order()
        lost: list[AttemptRequest] = []
        reasons: list[str] = []
        seen: list[int] = []
        places = asyncio.Semaphore(command.parallel.max_parallel or len(command.parallel.branches))

        async def run(visit: Visit) -> None:
            async with places:
                again: Visit | None = visit
                while again is not None:
                    again = await branch(again)

        async def branch(visit: Visit) -> Visit | None:
            if visit.not_before is not None:
                await asyncio.sleep(max(0.0, visit.not_before - workflow.time()))
            attempt = AttemptRequest(stage=visit.stage, visit=visit.visit, attempt=visit.attempt)
            asked = order.model_copy(update={"attempt": attempt})
            done = await self._tried("branch", asked)
            if isinstance(done, StepResult):
                fresh = [one for one in done.records if one.seq not in seen]
                seen.extend(one.seq for one in fresh)
                self._state = apply_all(self._known, [one.record for one in fresh])
                return _next_try(done, attempt)
            if done:
                lost.append(attempt)
                reasons.append(done)
            return None

        if command.branches:
            await asyncio.gather(*(run(visit) for visit in command.branches))
            self._seq = max([self._seq, *seen])
        if lost:
            more = {"lost": tuple(lost), "seen": tuple(seen), "reason": reasons[0]}
            self._apply(await self._short_step("take_up", order.model_copy(update=more), StepResult))
        rest = decide(self._known)
        if isinstance(rest, FanOut) and not rest.branches:
            joined = self._order().model_copy(update={"began": began})
            await self._near_step("join", joined)

    def _preferred(self) -> str:
        """The queue of the worker that has the run's worktree; none for a run without one."""
        return self._home if self._known.context.get(Key.WORKSPACE_PATH) else ""

    async def _tried(self, name: str, order: StepRequest) -> StepResult | str:
        """What a worker made of an order: records, or why it was lost; nothing when nobody began with it."""
        patience, home = 1.0, self._preferred()
        while True:
            try:
                done: StepResult = await workflow.execute_activity(
                    name,
                    order,
                    result_type=StepResult,
                    task_queue=home or None,
                    schedule_to_start_timeout=timedelta(seconds=self._terms.sticky) if home else None,
                    start_to_close_timeout=_LONGEST_STAGE,
                    heartbeat_timeout=timedelta(seconds=self._terms.heartbeat),
                    retry_policy=_ONCE,
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                )
                return done  # noqa: TRY300 - what is done has a type
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                if _never_taken(error):
                    self._home = ""
                    return ""
                if not _not_begun(error):
                    return _words(error)
            await asyncio.sleep(patience)
            patience = min(2 * patience, _MOST_PATIENCE)
            order = order.model_copy(update={"tries": max(order.tries - 1, 0)})

    async def _lost(self, attempts: list[AttemptRequest], why: str) -> None:
        order = self._order().model_copy(update={"lost": tuple(attempts), "reason": why})
        self._apply(await self._short_step("take_up", order, StepResult))

    async def _woken(self) -> None:
        """Wait for an answer, a resume, the reset of a quota, or the end of the time there was for an answer."""
        answer = self._place() if self._known.status is RunStatus.WAITING else None
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: bool(self._asked_for) or answer in self._answered, timeout=self._patience()
            )
        self._answered = [place for place in self._answered if place != answer]
        key = self._asked_for.pop(0) if self._asked_for else ""
        order = self._order().model_copy(update={"resume": key})
        self._apply(await self._short_step("resume", order, StepResult))

    def _patience(self) -> float | None:
        """Seconds until a quota resets, or until nobody has answered in time; None when there is no such time."""
        state = self._known
        stage, asked_at = state.stage, state.progress.asked_at
        if state.status is RunStatus.PAUSED and state.until is not None:
            return max(0.001, state.until - workflow.time())
        if state.status is not RunStatus.WAITING or not isinstance(stage, HumanStage) or asked_at is None:
            return None
        if stage.timeout is None:
            return None
        return max(0.001, asked_at + stage.timeout.total_seconds() - workflow.time())

    async def _cancelled(self) -> None:
        reason = workflow.cancellation_reason() or ""
        order = self._order().model_copy(update={"reason": reason})
        self._apply(await self._short_step("cancel", order, StepResult))

    def _stop_if_cancelled(self) -> None:
        if workflow.cancellation_reason() is not None:  # a stage that was done all the same has swallowed it
            raise asyncio.CancelledError

    def _begin_anew_if_long(self) -> None:
        info = workflow.info()
        long = info.get_current_history_length() > self._terms.longest_history
        if not long and not info.is_continue_as_new_suggested():
            return
        workflow.continue_as_new(
            RunInput(
                run_id=self._run_id,
                terms=self._terms,
                snapshot=StateSnapshot.of(self._known, self._file, self._source),
                seq=self._seq,
                home=self._home,
                answered=tuple(self._answered),
                asked_for=tuple(self._asked_for),
            )
        )

    async def _near_step(self, name: str, order: StepRequest) -> None:
        """Have something done by the worker that has the run's files, or else by any."""
        try:
            done = await self._short_step(name, order, StepResult, self._preferred())
        except ActivityError as error:
            if not _never_taken(error):
                raise
            self._home = ""
            done = await self._short_step(name, order, StepResult)
        self._apply(done)

    async def _short_step(self, name: str, order: StepRequest, result: type[T], home: str = "") -> T:
        """Have something done that runs no stage, and that may be done twice: its records are written once."""
        done: T = await workflow.execute_activity(
            name,
            order,
            result_type=result,
            task_queue=home or None,
            schedule_to_start_timeout=timedelta(seconds=self._terms.sticky) if home else None,
            start_to_close_timeout=timedelta(seconds=self._terms.short),
            retry_policy=_ALWAYS,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return done

    def _order(self) -> StepRequest:
        return StepRequest(run_id=self._run_id, after=self._seq, tries=self._terms.tries)

    def _apply(self, done: StepResult) -> None:
        """Take in what was recorded."""
        if done.snapshot is not None:
            self._take_up(done.snapshot)
        else:
            self._state = apply_all(self._known, [one.record for one in done.records])
        self._seq = max([self._seq, *(one.seq for one in done.records)])

    def _take_up(self, snapshot: StateSnapshot) -> None:
        self._file, self._source = snapshot.file, snapshot.source
        self._state = snapshot.state()

    @property
    def _known(self) -> State:
        if self._state is None:
            raise ApplicationError("the run is not open yet")
        return self._state

    def _place(self) -> HumanVisit:
        cursor = self._known.cursor
        return HumanVisit(stage=cursor.stage, visit=cursor.visit)


def _next_try(done: StepResult, attempt: AttemptRequest) -> Visit | None:
    """The try that follows one that failed."""
    last = done.records[-1].record if done.records else None
    if isinstance(last, AttemptFailed) and last.attempt == attempt.attempt:
        return Visit(attempt.stage, attempt.visit, attempt.attempt + 1, last.at + last.delay)
    return None


def _never_taken(error: ActivityError) -> bool:
    """Whether the worker that was meant did not take it up in time."""
    cause = error.cause
    return isinstance(cause, TimedOut) and cause.type is TimeoutType.SCHEDULE_TO_START


def _not_begun(error: ActivityError) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == ActivityErrorType.NOT_BEGUN


def _words(error: ActivityError) -> str:
    """Why an attempt was lost."""
    if isinstance(error.cause, TimedOut):
        return "its worker gave no sign of life"
    return str(error.cause or error)[:1000]

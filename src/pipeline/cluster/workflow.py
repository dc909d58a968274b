"""A run as a Temporal workflow: it asks the machine what is next, has a worker do it, and applies what was recorded.

Temporal replays a workflow, so this code is deterministic: it reads nothing but its input and what activities return.
Recorded histories must replay: a change in the order of commands needs `workflow.patched`.
"""

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as TemporalTimeout

from pipeline.cluster.messages import (
    NOT_BEGUN,
    WORKFLOW,
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

_LONGEST_STAGE = timedelta(days=30)  # stages have limits of their own, but Temporal requires one
_ONCE = RetryPolicy(maximum_attempts=1)  # the machine decides about retries
_ALWAYS = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
_LONGEST_PAUSE = 60.0  # seconds between two attempts to start a stage
_LONGEST_REASON = 1000  # characters

T = TypeVar("T")


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """One run."""

    @workflow.init
    def __init__(self, given: RunInput) -> None:
        self._run_id = given.run_id
        self._timeouts = given.terms
        self._seq = given.seq
        self._home = given.home  # the queue of the worker that has the run's files
        self._answered = list(given.answered)
        self._resumes = list(given.asked_for)
        self._overdue: HumanVisit | None = None  # a question whose time is up
        self._known_state: State | None = None
        self._file, self._source = "", ""
        if given.snapshot is not None:
            self._load(given.snapshot)

    @workflow.run
    async def run(self, given: RunInput) -> WorkflowResult:
        """Carry out what the machine decides until the run ends."""
        if self._known_state is None:
            request = StepRequest(run_id=self._run_id, after=0, resume=given.resume)
            opened = await self._short_step("open", request, OpenedRun)
            self._seq = opened.seq
            self._load(opened.snapshot)
        try:
            while (result := await self._step()) is None:
                if workflow.cancellation_reason() is not None:  # a stage that ended all the same has swallowed it
                    raise asyncio.CancelledError  # noqa: TRY301 - as if it had not
                self._continue_as_new_if_long()
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            request = self._request(reason=workflow.cancellation_reason() or "")
            self._apply(await self._short_step("cancel", request, StepResult))
            raise
        return result

    @workflow.update
    def answer(self, visit: HumanVisit) -> None:
        """Note that there is an answer in the mailbox."""
        self._answered.append(visit)

    @answer.validator
    def _check_answer(self, visit: HumanVisit) -> None:
        if self._known_state is None or visit != self._visit_at_cursor():
            raise ApplicationError(f'the run is not at "{visit.stage}" #{visit.visit}')

    @workflow.update
    def resume(self, key: str) -> None:
        """Note that the run is to continue, by the records stored under a key."""
        self._resumes.append(key)

    @resume.validator
    def _check_resume(self, key: str) -> None:
        del key
        if self._known_state is None or self._known_state.status is RunStatus.RUNNING:
            raise ApplicationError("the run is already running")

    @workflow.query(name="standing")
    def position(self) -> RunPosition:
        """Return where the run is."""
        state = self._state
        return RunPosition(
            status=state.status,
            reason=state.reason,
            stage=state.cursor.stage,
            visit=state.cursor.visit,
            seq=self._seq,
            home=self._home,
            events=workflow.info().get_current_history_length(),
        )

    async def _step(self) -> WorkflowResult | None:
        match command := decide(self._state):
            case Stop(status, reason):
                if status.final or status is RunStatus.CANCELLED:
                    return WorkflowResult(status=status, reason=reason)
                await self._wait_to_resume()
            case Visit():
                await self._visit(command)
            case FanOut():
                await self._fan_out(command)
            case Ask():
                await self._step_at_home("ask", self._request())
            case Pause() | Fail():
                self._apply(await self._short_step("pause", self._request(), StepResult))
        return None

    async def _visit(self, command: Visit) -> None:
        await _sleep_until(command.not_before)
        attempt = AttemptRequest(stage=command.stage, visit=command.visit, attempt=command.attempt)
        result = await self._attempt("visit", self._request(attempt=attempt))
        if isinstance(result, StepResult):
            self._apply(result)
            self._home = result.queue
        elif result:
            request = self._request(lost=(attempt,), reason=result)
            self._apply(await self._short_step("take_up", request, StepResult))

    async def _fan_out(self, command: FanOut) -> None:
        """Run the unfinished branches, each as an activity, then join them.

        If a worker is lost with a branch, the others finish first: only one worker has the run's files at any time.
        """
        began, request = workflow.time(), self._request()
        lost: list[AttemptRequest] = []
        reasons: list[str] = []
        seen: list[int] = []
        slots = asyncio.Semaphore(command.parallel.max_parallel or len(command.parallel.branches))

        async def run_branch(visit: Visit | None) -> None:
            async with slots:
                while visit is not None:
                    visit = await run_attempt(visit)

        async def run_attempt(visit: Visit) -> Visit | None:
            await _sleep_until(visit.not_before)
            attempt = AttemptRequest(stage=visit.stage, visit=visit.visit, attempt=visit.attempt)
            result = await self._attempt("branch", request.model_copy(update={"attempt": attempt}))
            if isinstance(result, StepResult):
                unseen = [one for one in result.records if one.seq not in seen]
                seen.extend(one.seq for one in unseen)
                self._known_state = apply_all(self._state, [one.record for one in unseen])
                return _next_attempt(result, attempt)
            if result:
                lost.append(attempt)
                reasons.append(result)
            return None

        if command.branches:
            await asyncio.gather(*(run_branch(visit) for visit in command.branches))
            self._seq = max([self._seq, *seen])
        if lost:
            changes = {"lost": tuple(lost), "seen": tuple(seen), "reason": reasons[0]}
            self._apply(await self._short_step("take_up", request.model_copy(update=changes), StepResult))
        rest = decide(self._state)
        if isinstance(rest, FanOut) and not rest.branches:
            await self._step_at_home("join", self._request(began=began))

    async def _attempt(self, name: str, request: StepRequest) -> StepResult | str:
        """Have an attempt made; return its result, or why it was lost, or "" if no worker started it."""
        pause, home = 1.0, self._home_queue()
        while True:
            try:
                result: StepResult = await workflow.execute_activity(
                    name,
                    request,
                    result_type=StepResult,
                    task_queue=home or None,
                    schedule_to_start_timeout=timedelta(seconds=self._timeouts.sticky) if home else None,
                    start_to_close_timeout=_LONGEST_STAGE,
                    heartbeat_timeout=timedelta(seconds=self._timeouts.heartbeat),
                    retry_policy=_ONCE,
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                )
                return result  # noqa: TRY300 - an annotated name gives the result its type
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                if _was_not_started(error):
                    self._home = ""
                    return ""
                cause = error.cause
                if isinstance(cause, TemporalTimeout):
                    return "its worker stopped responding"
                if not (isinstance(cause, ApplicationError) and cause.type == NOT_BEGUN):
                    return str(cause or error)[:_LONGEST_REASON]
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            request = request.model_copy(update={"tries": max(request.tries - 1, 0)})

    async def _wait_to_resume(self) -> None:
        """Wait for an answer, a resume, the reset of a quota, or the end of the time to answer; then continue."""
        answer = self._visit_at_cursor() if self._state.status is RunStatus.WAITING else None
        try:
            await workflow.wait_condition(
                lambda: bool(self._resumes) or answer in self._answered, timeout=self._seconds_to_wait(answer)
            )
        except TimeoutError:
            self._overdue = answer
        self._answered = [visit for visit in self._answered if visit != answer]
        key = self._resumes.pop(0) if self._resumes else ""
        self._apply(await self._short_step("resume", self._request(resume=key), StepResult))

    def _seconds_to_wait(self, question: HumanVisit | None) -> float | None:
        """Return the time to wait; None for a question that its timeout did not end: it is for a person."""
        state = self._state
        due = state.until if state.status is RunStatus.PAUSED else None
        stage, asked_at = state.stage, state.progress.asked_at
        if state.status is RunStatus.WAITING and isinstance(stage, HumanStage) and asked_at is not None:
            due = asked_at + stage.timeout.total_seconds() if stage.timeout and question != self._overdue else None
        return None if due is None else max(0.001, due - workflow.time())

    def _continue_as_new_if_long(self) -> None:
        info = workflow.info()
        is_long = info.get_current_history_length() > self._timeouts.longest_history
        if is_long or info.is_continue_as_new_suggested():
            workflow.continue_as_new(
                RunInput(
                    run_id=self._run_id,
                    terms=self._timeouts,
                    snapshot=StateSnapshot.of(self._state, self._file, self._source),
                    seq=self._seq,
                    home=self._home,
                    answered=tuple(self._answered),
                    asked_for=tuple(self._resumes),
                )
            )

    async def _step_at_home(self, name: str, request: StepRequest) -> None:
        """Have a step done by the worker that has the run's files or, if it does not respond, by any other."""
        try:
            result = await self._short_step(name, request, StepResult, self._home_queue())
        except ActivityError as error:
            if not _was_not_started(error):
                raise
            self._home = ""
            result = await self._short_step(name, request, StepResult)
        self._apply(result)

    async def _short_step(self, name: str, request: StepRequest, result_type: type[T], home: str = "") -> T:
        """Have something done that runs no stage; it can be repeated, since its records are written only once."""
        result: T = await workflow.execute_activity(
            name,
            request,
            result_type=result_type,
            task_queue=home or None,
            schedule_to_start_timeout=timedelta(seconds=self._timeouts.sticky) if home else None,
            start_to_close_timeout=timedelta(seconds=self._timeouts.short),
            retry_policy=_ALWAYS,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return result

    def _request(self, **more: Any) -> StepRequest:
        return StepRequest(run_id=self._run_id, after=self._seq, tries=self._timeouts.tries, **more)

    def _apply(self, result: StepResult) -> None:
        """Update the state with what was recorded."""
        if result.snapshot is not None:
            self._load(result.snapshot)
        else:
            self._known_state = apply_all(self._state, [one.record for one in result.records])
        self._seq = max([self._seq, *(one.seq for one in result.records)])

    def _load(self, snapshot: StateSnapshot) -> None:
        self._file, self._source = snapshot.file, snapshot.source
        self._known_state = snapshot.state()

    @property
    def _state(self) -> State:
        if self._known_state is None:
            raise ApplicationError("the run has not been opened yet")
        return self._known_state

    def _home_queue(self) -> str:
        """Return the queue of the worker that has the run's worktree; empty if the run has no worktree."""
        return self._home if self._state.context.get(Key.WORKSPACE_PATH) else ""

    def _visit_at_cursor(self) -> HumanVisit:
        return HumanVisit(stage=self._state.cursor.stage, visit=self._state.cursor.visit)


async def _sleep_until(due: float | None) -> None:
    if due is not None:
        await asyncio.sleep(max(0.0, due - workflow.time()))


def _next_attempt(result: StepResult, attempt: AttemptRequest) -> Visit | None:
    """Return the retry of an attempt, if it failed and is to be retried."""
    last = result.records[-1].record if result.records else None
    if isinstance(last, AttemptFailed) and last.attempt == attempt.attempt:
        return Visit(attempt.stage, attempt.visit, attempt.attempt + 1, last.at + last.delay)
    return None


def _was_not_started(error: ActivityError) -> bool:
    """Return whether the worker that an activity was meant for did not start it in time."""
    cause = error.cause
    return isinstance(cause, TemporalTimeout) and cause.type is TimeoutType.SCHEDULE_TO_START

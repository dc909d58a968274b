"""Agent stages: a prompt in, an answer out, and a strict reading of the answer."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import reduce
from typing import Any

from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status, StatusSource, TokenPrice, Usage
from pipeline.engine.policy import quota_resets_after
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentQuestion,
    AgentRequest,
    AgentResult,
    AgentSession,
    AgentStatus,
    Assessment,
    Backend,
    Job,
    ReadAnswer,
    RequestLimits,
)
from pipeline.handlers.markers import StatusMarkers, length_problem, read_markers
from pipeline.handlers.variables import expand_prompt
from pipeline.language.model import (
    NO_PROFILES,
    UNCHOSEN,
    LlmStage,
    ModelChoice,
    choose_model,
    is_review,
    is_structured_review,
)
from pipeline.text import fence, truncate_length

STATUS_REQUEST = """

Your previous answer did not end with a status, so nobody knows its result. Answer again, and end with one of
these lines, outside any code block:

[STATUS: success]
[STATUS: fail]
[FAILURE_REASON: one sentence]
"""
REPEAT_REQUEST = """

Your previous answer cannot be used: {problem}. Answer again, in full: the whole JSON object with every finding
in it, none left out or shortened. It began with:

{answer}

Each defect that it names belongs under `findings`.
"""
_MAX_REPEATED = 2_000  # characters of an answer that its agent is shown again
_NO_FINDINGS = "it has no JSON object with `findings`"
SECOND_ANSWER = "again"  # the directory for what an agent writes when it is asked a second time
_PASSED = "[STATUS: success]"
_NOTHING_FOUND = '{"findings": [], "reviewed": ["all files: the script has no entry"], "testing_gaps": []}'
_NO_STATUS = "the review gave no status"
_FROM_BEST_TO_WORST = (Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.RETRY, Status.FAIL)
_CAUSES = {
    ErrorKind.AUTH: "was refused access",
    ErrorKind.RATE_LIMIT: "hit a rate limit",
    ErrorKind.QUOTA: "has used up its quota",
    ErrorKind.SERVER: "got an error from its model's server",
    ErrorKind.NETWORK: "could not reach its model",
    ErrorKind.TIMEOUT: "took too long",
    ErrorKind.SILENT: "was silent for too long",
    ErrorKind.NOT_FOUND: "asked for an unknown model",
    ErrorKind.INVALID: "sent a request that was rejected",
    ErrorKind.BAD_FLAG: "rejected a flag",
    ErrorKind.CONFIG: "is not configured correctly",
    ErrorKind.DENIED: "was denied",
    ErrorKind.EMPTY: "gave an empty answer",
    ErrorKind.PROTOCOL: "did not finish its answer",
    ErrorKind.KILLED: "was killed",
    ErrorKind.SPAWN: "could not be started",
    ErrorKind.UNKNOWN: "failed",
}
_KIND_BY_STATUS = {AgentStatus.TIMEOUT: ErrorKind.TIMEOUT, AgentStatus.IDLE: ErrorKind.SILENT}

Summary = Callable[[Job], str]
ChooseBackend = Callable[[LlmStage, str | None], Backend]
AgentEnvironment = Callable[[Collection[str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class AgentDefaults:
    """What applies to an agent where the workflow says nothing. No agent runs forever."""

    model: ModelChoice = UNCHOSEN
    profiles: Mapping[str, ModelChoice] = field(default_factory=lambda: NO_PROFILES)  # they replace the workflow's
    timeout: float = 2 * 3600.0  # seconds in total
    idle: float = 1800.0  # seconds without output: a long test run inside an agent prints nothing
    prices: Mapping[str, TokenPrice] = field(default_factory=dict)  # by model, or by agent for its default model


class LlmHandler:
    """Asks an agent, and again if a review's answer cannot be read or leaves a wish. Then all answers count."""

    def __init__(
        self,
        choose_backend: ChooseBackend,
        summary: Summary,
        environment: AgentEnvironment,
        now: Callable[[], float],
        defaults: AgentDefaults = AgentDefaults(),  # noqa: B008 - it is frozen
        read_answer: ReadAnswer = lambda *_: None,
        answer_format: Callable[[LlmStage], str] = lambda _: "",
        key_hint: Callable[[str, Collection[str]], str] = lambda *_: "",  # which keys an agent was not given
    ) -> None:
        self._choose_backend = choose_backend
        self._summary = summary
        self._environment = environment
        self._now = now
        self._defaults = defaults
        self._read_answer = read_answer
        self._answer_format = answer_format
        self._key_hint = key_hint
        self._quota_resets: dict[tuple[str, str | None], float] = {}  # by agent and model

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, LlmStage)  # noqa: S101 - ensured by the registry
        choice = choose_model(stage, job.state.workflow.models, self._defaults.model, self._defaults.profiles)
        backend = self._choose_backend(stage, choice.provider)
        wait = self._quota_resets.get((backend.name, choice.model), 0.0) - self._now()
        if wait > 0:
            error = AgentError(ErrorKind.QUOTA, "another stage reached the limit just before", wait)
            return judge_results(stage, [AgentResult(AgentStatus.ERROR, error=error)], backend.name)

        prompt = self._prompt(job, stage)
        job.attach_prompt(prompt)
        request = self._request(job, stage, choice, backend, prompt)
        outcome = await self._converse(job, stage, backend, request)
        if (seconds := quota_resets_after(outcome)) is not None:
            self._quota_resets[backend.name, choice.model] = self._now() + seconds
        if not outcome.failure:
            return outcome
        if outcome.failure.error is ErrorKind.AUTH and (hint := self._key_hint(backend.name, request.env)):
            reason = f"{outcome.reason}; {hint}"
            failure = outcome.failure.model_copy(update={"digest": reason})
            outcome = outcome.model_copy(update={"reason": reason, "failure": failure})
        files = {name: request.artifacts / f"{name}.log" for name in ("stdout", "stderr")}
        logs = {name: job.relative_path(path) for name, path in files.items() if path.is_file()}
        return outcome.model_copy(update={"logs": logs})

    async def _converse(self, job: Job, stage: LlmStage, backend: Backend, request: AgentRequest) -> Outcome:
        """Ask until nothing is left to ask: once more about a problem, and once more about a wish."""
        results, asked = [await self._ask(backend, request, job)], set[_Again]()
        while True:
            assessment = self._assess(job, stage, results)
            outcome = judge_results(stage, results, backend.name, assessment, job.elapsed())
            reason = _ask_again_for(outcome, assessment)
            if reason is None or reason in asked:
                return outcome
            asked.add(reason)
            if reason is _Again.WISH and assessment:
                question = assessment.wish
            else:
                question = _problem_request(outcome.reason, results[-1].text)
            request = _second_request(request, results[-1].session, question, self._answer_format(stage))
            results.append(await self._ask(backend, request, job))

    async def ask(self, job: Job, question: AgentQuestion) -> Outcome:
        """Ask an agent on behalf of a stage without one."""
        stage = question.agent
        choice = choose_model(stage, job.state.workflow.models, self._defaults.model, self._defaults.profiles)
        backend = self._choose_backend(stage, choice.provider)
        request = self._request(job, stage, choice, backend, question.text)._replace(
            stage=question.name,
            visit=question.number,
            artifacts=job.artifacts / f"{question.name}-{question.number}",
            passing=question.passing,
        )
        return judge_results(stage, [await self._ask(backend, request, job)], backend.name, duration=job.elapsed())

    def _prompt(self, job: Job, stage: LlmStage) -> str:
        parts = [stage.prompt] if stage.prompt is not None else [job.state.prompts[path] for path in stage.prompt_file]
        own = "\n\n".join(expand_prompt(part, job.state.goal, job.context).strip() for part in parts)
        texts = (self._summary(job), own, self._answer_format(stage))
        return "\n\n".join(text.strip() for text in texts if text.strip()) + "\n"

    def _request(self, job: Job, stage: LlmStage, choice: ModelChoice, backend: Backend, prompt: str) -> AgentRequest:
        if stage.timeout:  # a stage's own limit covers all of its time, silent or not
            limits = RequestLimits(timeout=stage.timeout.total_seconds())
        else:
            limits = RequestLimits(timeout=self._defaults.timeout, idle=self._defaults.idle)
        return AgentRequest(
            stage=stage.id,
            visit=job.visit,
            attempt=job.attempt,
            prompt=prompt,
            cwd=job.directory,
            artifacts=job.artifacts,
            passing=_passing_answer(stage),
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=stage.access,
            limits=limits,
            env={**self._environment(backend.variables(choice.provider)), **job.variables},
        )

    async def _ask(self, backend: Backend, request: AgentRequest, job: Job) -> AgentResult:
        def emit(event: AgentEvent) -> None:
            usage = event.usage.model_dump(exclude_none=True) if event.usage else {}
            job.emit({"agent": event.kind, "text": event.text, "usage": usage})

        result = await backend.run(request, emit)
        price = self._defaults.prices.get(request.model or backend.name)
        return result._replace(usage=result.usage.priced(price)) if result.usage else result

    def _assess(self, job: Job, stage: LlmStage, results: Sequence[AgentResult]) -> Assessment | None:
        """Read all answers of a review together."""
        if not is_review(stage) or results[-1].status is not AgentStatus.OK:
            return None
        texts = [result.text for result in results]
        problem = next(filter(None, map(length_problem, texts)), "")
        return Assessment(problem=problem) if problem else self._read_answer(job, texts)


def _passing_answer(stage: LlmStage) -> str:
    """Return the answer of a script without an entry for a stage."""
    if is_structured_review(stage):
        return _NOTHING_FOUND
    return _PASSED if is_review(stage) else ""


class _Again(Enum):
    """Why an agent is asked once more."""

    PROBLEM = auto()
    WISH = auto()


def _ask_again_for(outcome: Outcome, assessment: Assessment | None) -> _Again | None:
    """Return why the agent is to be asked once more, if it is."""
    if outcome.failure is not None:
        return _Again.PROBLEM if outcome.failure.kind is FailureClass.PROTOCOL else None
    return _Again.WISH if assessment and assessment.wish else None


def _problem_request(problem: str, answer: str) -> str:
    """Return what an agent is asked whose answer cannot be read. Without a session it does not know what it said."""
    if problem == _NO_STATUS:
        return STATUS_REQUEST
    return REPEAT_REQUEST.format(problem=problem, answer=fence(truncate_length(answer, _MAX_REPEATED)))


def _second_request(first: AgentRequest, session: AgentSession | None, wish: str, answer_format: str) -> AgentRequest:
    """Ask again: in the agent's session, or with the whole prompt if it keeps none."""
    prompt = f"{wish}\n{answer_format}" if session else first.prompt + wish
    return first._replace(prompt=prompt, artifacts=first.artifacts / SECOND_ANSWER, session=session)


def judge_results(
    stage: LlmStage,
    results: Sequence[AgentResult],
    backend: str = "",
    assessment: Assessment | None = None,
    duration: float = 0.0,
) -> Outcome:
    """Decide the outcome of a stage from everything its agent answered.

    `assessment` is what code read from a review; if it and the agent's own status disagree, the worse one counts. What
    its findings say is known when the visit is concluded.
    """
    last = results[-1]
    if last.outcome is not None:
        return _scripted_outcome(last.outcome, backend)
    unread = _unread_outcome(results, backend, duration)
    if last.status is not AgentStatus.OK or not last.text.strip():
        return _fail(unread, _agent_failure(last, backend))
    markers = [read_markers(result.text) for result in results]
    if not is_review(stage):
        return _accept(unread, Status.SUCCESS, StatusSource.DEFAULT, markers[-1])

    stated = [(one.status, one) for one in markers if one.status is not None]
    claimed, worst = max(stated, key=lambda each: _FROM_BEST_TO_WORST.index(each[0]), default=(None, markers[-1]))
    if assessment is not None and assessment.status is None and not assessment.problem:
        assessment = None  # the agent's own words decide
    if assessment is None and is_structured_review(stage):
        assessment = Assessment(problem=_NO_FINDINGS)  # whatever status it gives; asked for once more
    if assessment is None and claimed:
        return _accept(unread, claimed, StatusSource.MARKER, worst)
    if assessment is None:
        return _fail(unread, Failure(kind=FailureClass.PROTOCOL, digest=_NO_STATUS, exit_code=last.exit_code))
    if assessment.problem:
        if len(results) > 1 and claimed is Status.FAIL:  # asked twice, it still fails in words
            return _accept(unread, claimed, StatusSource.MARKER, worst)
        reason = f"the review cannot be read: {assessment.problem}"
        return _fail(unread, Failure(kind=FailureClass.PROTOCOL, digest=reason, exit_code=last.exit_code))
    found = assessment.status
    assert found is not None  # noqa: S101 - such an assessment was left to the agent's own words above
    if claimed is not None and _FROM_BEST_TO_WORST.index(claimed) > _FROM_BEST_TO_WORST.index(found):
        return _accept(unread, claimed, StatusSource.MARKER, worst)
    return _accept(unread, found, StatusSource.STRUCTURED, markers[-1], assessment.reason)


def _unread_outcome(results: Sequence[AgentResult], backend: str, duration: float) -> Outcome:
    """An error that holds what the agent answered and used, until its answer is read."""
    last = results[-1].text
    # What a first answer said is not lost by asking again.
    earlier = [result.text for result in results[:-1] if result.text.strip() and result.text.strip() not in last]
    used = [result.usage for result in results if result.usage]
    denied = dict.fromkeys(tool for result in results for tool in result.denied)
    return Outcome(
        status=Status.ERROR,
        response="\n\n".join((*earlier, last)),
        answers=tuple(result.text for result in results) if len(results) > 1 else (),
        usage=reduce(Usage.plus, used) if used else None,
        duration=duration,
        backend=backend,
        notes=(f"the agent was refused {', '.join(denied)}",) if denied else (),
    )


def _fail(unread: Outcome, failure: Failure) -> Outcome:
    return unread.model_copy(update={"reason": failure.digest, "failure": failure})


def _accept(
    unread: Outcome,
    status: Status,
    source: StatusSource,
    markers: StatusMarkers,
    reason: str = "",
) -> Outcome:
    if source is StatusSource.MARKER:
        reason = "" if status is Status.SUCCESS else markers.reason
    return unread.model_copy(
        update={
            "status": status,
            "source": source,
            "reason": reason,
            "preferred_label": markers.preferred_label,
            "preferred_next": markers.preferred_next,
        }
    )


def _agent_failure(result: AgentResult, backend: str) -> Failure:
    """Why an agent could not answer: the cause in plain words, then the agent's own."""
    error = result.error or AgentError(_KIND_BY_STATUS.get(result.status, ErrorKind.EMPTY), "")
    message = f"{backend or 'the agent'} {_CAUSES[error.kind]}"
    return Failure(
        kind=FailureClass.AGENT,
        digest=f"{message}: {error.message}" if error.message else message,
        exit_code=result.exit_code,
        error=error.kind,
        retry_after=error.retry_after,
    )


def _scripted_outcome(given: Mapping[str, Any], backend: str) -> Outcome:
    """An outcome that a script states in full."""
    usage = given.get("usage")
    return Outcome(
        status=Status(given.get("status", "success")),
        reason=str(given.get("reason") or given.get("failure_reason") or ""),
        response=str(given.get("response", "")),
        updates=dict(given.get("context_updates", {})),
        preferred_label=str(given.get("preferred_label", "")),
        preferred_next=str(given.get("preferred_next") or given.get("next") or ""),
        usage=Usage(**usage) if usage else None,
        backend=backend,
    )

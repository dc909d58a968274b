"""Agent stages: a prompt in, an answer out, and an honest reading of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status, StatusSource, Usage
from pipeline.engine.policy import quota_resets_after
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
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
from pipeline.language.model import UNCHOSEN, LlmStage, ModelChoice, Models, choose_model

STATUS_REQUEST = """

Your previous answer did not end with a status, so nobody knows whether the review passes. Answer again, and end
with one of these lines, outside any code block:

[STATUS: success]
[STATUS: fail]
[FAILURE_REASON: one sentence]
"""
REPEAT_REQUEST = """

Your previous answer cannot be used: {problem}. Answer again, in full: the whole JSON object with every finding
in it, none left out or shortened.
"""
NO_STATUS = "the review gave no status"
AGAIN = "again"  # the directory for what an agent writes when it is asked once more
_WORSE = (Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.RETRY, Status.FAIL)  # each is worse than those before it
_CAUSES = {
    ErrorKind.AUTH: "was refused",
    ErrorKind.RATE_LIMIT: "hit a rate limit",
    ErrorKind.QUOTA: "has used up its quota",
    ErrorKind.SERVER: "lost its model's server",
    ErrorKind.INVALID: "sent a request that was rejected",
    ErrorKind.CONFIG: "cannot be used as it is configured",
    ErrorKind.DENIED: "was denied",
    ErrorKind.EMPTY: "answered nothing",
    ErrorKind.PROTOCOL: "did not finish its answer",
    ErrorKind.KILLED: "was killed",
    ErrorKind.SPAWN: "could not be started",
    ErrorKind.UNKNOWN: "failed",
}

Summary = Callable[[Job], str]
ChooseBackend = Callable[[LlmStage, str | None], Backend]
AgentEnvironment = Callable[[Collection[str]], Mapping[str, str]]


def _says_nothing(job: Job, answers: Sequence[str]) -> None:
    """Take answers for words alone."""
    del job, answers


@dataclass(frozen=True, slots=True)
class AgentDefaults:
    """What holds for an agent where the workflow does not say. No agent runs for ever."""

    model: ModelChoice = UNCHOSEN
    timeout: float = 2 * 3600.0  # seconds in all
    idle: float = 1800.0  # seconds without any output: a long test run inside an agent prints nothing


class LlmHandler:
    """Asks an agent, and a review once more when its answer cannot be read: then both count, and the worse one wins."""

    def __init__(
        self,
        backend: ChooseBackend,
        summary: Summary,
        environment: AgentEnvironment,
        now: Callable[[], float],
        defaults: AgentDefaults = AgentDefaults(),  # noqa: B008 - it is frozen
        read: ReadAnswer = _says_nothing,
    ) -> None:
        self._backend = backend
        self._summary = summary
        self._environment = environment
        self._now = now
        self._defaults = defaults
        self._read = read
        self._choices: dict[str, ModelChoice] = {}
        self._resets: dict[tuple[str, str | None], float] = {}  # when a used-up quota resets, by agent and model

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, LlmStage)  # noqa: S101 - the registry sees to it
        choice = self._choice(stage, job.state.workflow.models)
        backend = self._backend(stage, choice.provider)
        if waiting := self._wait_for_quota(backend.name, choice):
            return waiting
        prompt = self._prompt(job, stage)
        job.attach_prompt(prompt)

        async def ask(text: str, artifacts: Path, session: AgentSession | None = None) -> AgentResult:
            request = self._request(job, stage, choice, backend, text, artifacts, session)
            return await backend.run(request, lambda event: job.emit(_told(event)))

        results, artifacts = [await ask(prompt, job.artifacts)], job.artifacts
        outcome = self._judge(job, stage, results, backend.name)
        if outcome.failure and outcome.failure.kind is FailureClass.PROTOCOL:
            session, artifacts = results[0].session, job.artifacts / AGAIN
            wish = STATUS_REQUEST if outcome.reason == NO_STATUS else REPEAT_REQUEST.format(problem=outcome.reason)
            results.append(await ask(wish if session else prompt + wish, artifacts, session))
            outcome = self._judge(job, stage, results, backend.name)
        if (wait := quota_resets_after(outcome)) is not None:
            self._resets[backend.name, choice.model] = self._now() + wait
        return _with_logs(outcome, job, artifacts) if outcome.failure else outcome

    def _wait_for_quota(self, backend: str, choice: ModelChoice) -> Outcome | None:
        """The error of a stage whose agent is known to have used up its quota: it is not even started."""
        left = self._resets.get((backend, choice.model), 0.0) - self._now()
        if left <= 0:
            return None
        error = AgentError(ErrorKind.QUOTA, "another stage ran into the limit just before", left)
        return _error([AgentResult(AgentStatus.ERROR, error=error)], backend, 0.0)

    def _judge(self, job: Job, stage: LlmStage, results: Sequence[AgentResult], backend: str) -> Outcome:
        assessment = None
        if stage.auto_status and results[-1].status is AgentStatus.OK:
            problem = next(filter(None, (length_problem(result.text) for result in results)), "")
            assessment = (
                Assessment(problem=problem) if problem else self._read(job, [result.text for result in results])
            )
        return judge_results(stage, results, backend, assessment, job.elapsed())

    def _prompt(self, job: Job, stage: LlmStage) -> str:
        parts = [stage.prompt] if stage.prompt is not None else [job.state.prompts[path] for path in stage.prompt_file]
        own = "\n\n".join(expand_prompt(part, job.state.goal, job.context).strip() for part in parts)
        summary = self._summary(job)
        return f"{summary.strip()}\n\n{own}\n" if summary.strip() else f"{own}\n"

    def _request(
        self,
        job: Job,
        stage: LlmStage,
        choice: ModelChoice,
        backend: Backend,
        prompt: str,
        artifacts: Path,
        session: AgentSession | None,
    ) -> AgentRequest:
        return AgentRequest(
            stage=stage.id,
            visit=job.visit,
            attempt=job.attempt,
            review=stage.auto_status,
            prompt=prompt,
            cwd=job.directory,
            artifacts=artifacts,
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=stage.access,
            limits=self._limits(stage),
            session=session,
            env={**self._environment(backend.variables(choice.provider)), **job.variables},
        )

    def _choice(self, stage: LlmStage, models: Models) -> ModelChoice:
        """The model of a stage, worked out once: a handler lives for one run in one process."""
        if stage.id not in self._choices:
            self._choices[stage.id] = choose_model(stage, models, self._defaults.model)
        return self._choices[stage.id]

    def _limits(self, stage: LlmStage) -> RequestLimits:
        """A stage's own time is for all of it, silent or not."""
        if stage.timeout:
            return RequestLimits(timeout=stage.timeout.total_seconds())
        return RequestLimits(timeout=self._defaults.timeout, idle=self._defaults.idle)


def _with_logs(outcome: Outcome, job: Job, artifacts: Path) -> Outcome:
    """A failure with the files that tell more of it."""
    written = {name: artifacts / f"{name}.log" for name in ("stdout", "stderr")}
    logs = {name: job.relative_path(path) for name, path in written.items() if path.is_file()}
    return outcome.model_copy(update={"logs": logs})


def judge_results(
    stage: LlmStage,
    results: Sequence[AgentResult],
    backend: str = "",
    assessment: Assessment | None = None,
    duration: float = 0.0,
) -> Outcome:
    """The outcome of a stage from all that its agent answered. Of two readings of a review the worse one wins."""
    last = results[-1]
    if last.outcome is not None:
        return _scripted(last.outcome, backend)
    if last.status is not AgentStatus.OK or not last.text.strip():
        return _error(results, backend, duration)
    markers = [read_markers(result.text) for result in results]
    if not stage.auto_status:
        return _answer(results, backend, duration, Status.SUCCESS, markers[-1])
    stated = [one for one in markers if one.status is not None]
    worst = max(stated, key=lambda one: _WORSE.index(one.status or Status.FAIL), default=None)
    if assessment is not None and assessment.problem:
        if len(results) > 1 and worst and worst.status is Status.FAIL:  # asked again, it still fails, in words
            return _answer(results, backend, duration, Status.FAIL, worst, StatusSource.MARKER)
        return _unreadable(results, backend, duration, f"the review cannot be read: {assessment.problem}")
    if assessment is None and worst is None:
        return _unreadable(results, backend, duration, NO_STATUS)
    if assessment is None or (worst and _is_worse(worst.status, assessment.status)):
        claims = worst or markers[-1]
        notes = _contradiction(assessment, claims)
        return _answer(
            results, backend, duration, claims.status or Status.FAIL, claims, StatusSource.MARKER, notes=notes
        )
    notes = _contradiction(assessment, worst) if worst else ()
    reason, status = assessment.reason, assessment.status
    return _answer(results, backend, duration, status, markers[-1], StatusSource.STRUCTURED, reason, notes)


def _is_worse(claimed: Status | None, read: Status) -> bool:
    return claimed is not None and _WORSE.index(claimed) > _WORSE.index(read)


def _contradiction(assessment: Assessment | None, claims: StatusMarkers) -> tuple[str, ...]:
    if assessment is None or claims.status is None or claims.status is assessment.status:
        return ()
    return (f"the answer claims {claims.status}; its findings say {assessment.status}; the worse one counts",)


def _answer(
    results: Sequence[AgentResult],
    backend: str,
    duration: float,
    status: Status,
    claims: StatusMarkers,
    source: StatusSource = StatusSource.DEFAULT,
    reason: str = "",
    notes: tuple[str, ...] = (),
) -> Outcome:
    claimed = source is StatusSource.MARKER and status is not Status.SUCCESS
    return Outcome(
        status=status,
        source=source,
        reason=claims.reason if claimed else reason,
        response=_whole_text(results),
        usage=_usage(results),
        preferred_label=claims.preferred_label,
        preferred_next=claims.preferred_next,
        duration=duration,
        backend=backend,
        notes=(*_refused_tools(results), *notes),
    )


def _unreadable(results: Sequence[AgentResult], backend: str, duration: float, reason: str) -> Outcome:
    """The error of a review that took place and said nothing that can be used."""
    failure = Failure(kind=FailureClass.PROTOCOL, digest=reason, exit_code=results[-1].exit_code)
    return _errored(results, backend, duration, failure)


def _error(results: Sequence[AgentResult], backend: str, duration: float) -> Outcome:
    """The error of an agent that could not answer: the cause in plain words, then the agent's own."""
    last, name = results[-1], backend or "the agent"
    error = last.error or AgentError(ErrorKind.EMPTY, "")
    match last.status:
        case AgentStatus.TIMEOUT:
            kind, cause = None, "took too long"
        case AgentStatus.IDLE:
            kind, cause = None, "was silent for too long"
        case _:
            kind, cause = error.kind, _CAUSES[error.kind]
    words = f"{name} {cause}: {error.message}" if error.message else f"{name} {cause}"
    failure = Failure(
        kind=FailureClass.AGENT,
        digest=words,
        exit_code=last.exit_code,
        error=kind,
        retry_after=error.retry_after,
    )
    return _errored(results, backend, duration, failure)


def _errored(results: Sequence[AgentResult], backend: str, duration: float, failure: Failure) -> Outcome:
    return Outcome(
        status=Status.ERROR,
        reason=failure.digest,
        response=_whole_text(results),
        failure=failure,
        usage=_usage(results),
        duration=duration,
        backend=backend,
        notes=_refused_tools(results),
    )


def _whole_text(results: Sequence[AgentResult]) -> str:
    """All that was answered: what a first answer said is not lost by asking again."""
    last = results[-1].text
    earlier = [result.text for result in results[:-1] if result.text.strip() and result.text.strip() not in last]
    return "\n\n".join((*earlier, last))


def _usage(results: Sequence[AgentResult]) -> Usage | None:
    used = [result.usage for result in results if result.usage]
    return reduce(Usage.plus, used) if used else None


def _refused_tools(results: Sequence[AgentResult]) -> tuple[str, ...]:
    denied = dict.fromkeys(tool for result in results for tool in result.denied)
    return (f"the agent was refused {', '.join(denied)}",) if denied else ()


def _scripted(given: Mapping[str, Any], backend: str) -> Outcome:
    """An outcome that a script states whole."""
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


def _told(event: AgentEvent) -> dict[str, Any]:
    usage = event.usage.model_dump(exclude_none=True) if event.usage else {}
    return {"agent": event.kind, "text": event.text, "usage": usage}

"""Agent stages: a prompt in, an answer out, and an honest reading of it."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pipeline.engine.agent import AgentEvent, AgentStatus, Backend, ErrorKind, Limits, Request, Result, Session
from pipeline.engine.handler import Job
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Source, Status, Usage
from pipeline.handlers.markers import Claims, read_claims
from pipeline.handlers.variables import expand_prompt
from pipeline.language.choice import choose_model
from pipeline.language.model import LlmStage

RESTATED = """

Your answer before this one did not end with a status, so nobody knows whether the review passes. Answer again, and end
with one of these lines, outside any code block:

[STATUS: success]
[STATUS: fail]
[FAILURE_REASON: one sentence]
"""

Summary = Callable[[Job], str]
ChooseBackend = Callable[[LlmStage, str | None], Backend]
AgentEnvironment = Callable[[Collection[str]], Mapping[str, str]]


class LlmHandler:
    """Asks an agent. A review that gives no status is asked once more, then fails as no review at all."""

    def __init__(self, backend: ChooseBackend, summary: Summary, environment: AgentEnvironment) -> None:
        self._backend = backend
        self._summary = summary
        self._environment = environment

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, LlmStage)  # noqa: S101 - the registry sees to it
        prompt = self._prompt(job, stage)
        job.keep(prompt)
        outcome, session = await self._asked(job, stage, prompt)
        if outcome.failure is not None and outcome.failure.kind is FailureClass.PROTOCOL:
            again = RESTATED if session else prompt + RESTATED
            second, _ = await self._asked(job, stage, again, session)
            return second.model_copy(update={"usage": _both(outcome.usage, second.usage)})
        return outcome

    def _prompt(self, job: Job, stage: LlmStage) -> str:
        parts = [stage.prompt] if stage.prompt is not None else [job.state.prompts[path] for path in stage.prompt_file]
        own = "\n\n".join(expand_prompt(part, job.state.goal, job.context).strip() for part in parts)
        summary = self._summary(job)
        return f"{summary.strip()}\n\n{own}\n" if summary.strip() else f"{own}\n"

    async def _asked(
        self, job: Job, stage: LlmStage, prompt: str, session: Session | None = None
    ) -> tuple[Outcome, Session | None]:
        choice = choose_model(stage, job.state.workflow.models)
        backend = self._backend(stage, choice.provider)
        request = Request(
            stage=stage.id,
            visit=job.visit,
            attempt=job.attempt,
            review=stage.auto_status,
            prompt=prompt,
            cwd=job.directory,
            artifacts=job.artifacts,
            model=choice.model,
            provider=choice.provider,
            reasoning_effort=choice.reasoning_effort,
            access=stage.access,
            limits=Limits(timeout=stage.timeout.total_seconds() if stage.timeout else None),
            session=session,
            env=self._environment(backend.variables(choice.provider)),
        )
        result = await backend.run(request, lambda event: job.tell(_told(event)))
        return judge(stage, result).model_copy(update={"backend": backend.name}), result.session


def _both(first: Usage | None, second: Usage | None) -> Usage | None:
    return first if second is None else second.plus(first)


def judge(stage: LlmStage, result: Result) -> Outcome:
    """What an agent's result means for its stage."""
    if result.outcome is not None:
        return _scripted(result.outcome)
    if _is_empty(result):
        return _outcome(result, Status.RETRY, "the agent answered nothing", FailureClass.AGENT)
    if result.status is not AgentStatus.OK:
        return _agent_failed(result)
    claims = read_claims(result.text)
    if not stage.auto_status:
        return _claiming(_outcome(result, Status.SUCCESS), claims)
    if claims.status is None:
        return _outcome(result, Status.FAIL, "the review gave no status", FailureClass.PROTOCOL)
    reason = claims.reason if claims.status is not Status.SUCCESS else ""
    return _claiming(_outcome(result, claims.status, reason, source=Source.MARKER), claims)


def _is_empty(result: Result) -> bool:
    if result.error is not None:
        return result.error.kind is ErrorKind.EMPTY
    return result.status is AgentStatus.OK and not result.text.strip()


def _agent_failed(result: Result) -> Outcome:
    error = f"{result.error.kind}: {result.error.message}" if result.error else "no answer"
    words = {AgentStatus.TIMEOUT: "it took too long", AgentStatus.IDLE: "it was silent for too long"}
    reason = f"the agent failed ({words.get(result.status, error)})"
    return _outcome(result, Status.FAIL, reason, FailureClass.AGENT)


def _outcome(
    result: Result,
    status: Status,
    reason: str = "",
    failure: FailureClass | None = None,
    source: Source = Source.DEFAULT,
) -> Outcome:
    details = Failure(kind=failure, digest=reason, exit_code=result.exit_code) if failure else None
    return Outcome(
        status=status, source=source, reason=reason, response=result.text, failure=details, usage=result.usage
    )


def _claiming(outcome: Outcome, claims: Claims) -> Outcome:
    return outcome.model_copy(
        update={"preferred_label": claims.preferred_label, "preferred_next": claims.preferred_next}
    )


def _scripted(given: Mapping[str, Any]) -> Outcome:
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
    )


def _told(event: AgentEvent) -> dict[str, Any]:
    usage = event.usage.model_dump(exclude_none=True) if event.usage else {}
    return {"agent": event.kind, "text": event.text, "usage": usage}

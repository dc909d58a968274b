"""Agent stages: a prompt in, an answer out, and an honest reading of it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.engine.agent import AgentEvent, AgentStatus, Backend, ErrorKind, Limits, Request, Result, Session
from pipeline.engine.handler import Job, Judged, ReadAnswer
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Source, Status, Usage
from pipeline.handlers.markers import Claims, read_claims
from pipeline.handlers.variables import expand_prompt
from pipeline.language.choice import UNCHOSEN, ModelChoice, choose_model
from pipeline.language.model import LlmStage, Models

RESTATED = """

Your answer before this one did not end with a status, so nobody knows whether the review passes. Answer again, and end
with one of these lines, outside any code block:

[STATUS: success]
[STATUS: fail]
[FAILURE_REASON: one sentence]
"""
UNREADABLE = """

Your answer before this one cannot be used: {problem}. Answer again, in full: the whole JSON object with every finding
in it, none left out or shortened.
"""
_NO_STATUS = "the review gave no status"
AGAIN = "again"  # the directory for what an agent writes that is asked once more

Summary = Callable[[Job], str]
ChooseBackend = Callable[[LlmStage, str | None], Backend]
AgentEnvironment = Callable[[Collection[str]], Mapping[str, str]]


def _says_nothing(job: Job, answer: str) -> None:
    """Take an answer for words alone."""
    del job, answer


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds for an agent where the workflow does not say. No agent runs for ever."""

    model: ModelChoice = UNCHOSEN
    timeout: float = 2 * 3600.0  # seconds in all
    idle: float = 1800.0  # seconds without any output: a long test run inside an agent prints nothing


class LlmHandler:
    """Asks an agent, and once more where it says nothing, or a review says nothing that can be used.

    A review that then gives no status fails as no review at all.
    """

    def __init__(
        self,
        backend: ChooseBackend,
        summary: Summary,
        environment: AgentEnvironment,
        defaults: Defaults = Defaults(),  # noqa: B008 - it is frozen
        read: ReadAnswer = _says_nothing,
    ) -> None:
        self._backend = backend
        self._summary = summary
        self._environment = environment
        self._defaults = defaults
        self._read = read
        self._choices: dict[str, ModelChoice] = {}

    async def run(self, job: Job) -> Outcome:
        stage = job.stage
        assert isinstance(stage, LlmStage)  # noqa: S101 - the registry sees to it
        prompt = self._prompt(job, stage)
        job.keep(prompt)
        outcome, session = await self._asked(job, stage, prompt, job.artifacts)
        if outcome.failure is None:
            return outcome
        if not _worth_asking_again(stage, outcome):
            return _with_logs(outcome, job, job.artifacts)
        return await self._asked_again(job, stage, prompt, outcome, session)

    async def _asked_again(
        self, job: Job, stage: LlmStage, prompt: str, first: Outcome, session: Session | None
    ) -> Outcome:
        """The answer to the same prompt and what was wrong with the first. The files of the first stay as they are."""
        artifacts = job.artifacts / AGAIN
        if first.status is Status.RETRY:
            second, _ = await self._asked(job, stage, prompt, artifacts)
        else:
            wish = _wish(first)
            second, _ = await self._asked(job, stage, wish if session else prompt + wish, artifacts, session)
        second = _not_less(first, second)
        both = {"usage": _both(first.usage, second.usage), "response": _not_shorter(first, second)}
        second = second.model_copy(update=both)
        return second if second.failure is None else _with_logs(second, job, artifacts)

    def _prompt(self, job: Job, stage: LlmStage) -> str:
        parts = [stage.prompt] if stage.prompt is not None else [job.state.prompts[path] for path in stage.prompt_file]
        own = "\n\n".join(expand_prompt(part, job.state.goal, job.context).strip() for part in parts)
        summary = self._summary(job)
        return f"{summary.strip()}\n\n{own}\n" if summary.strip() else f"{own}\n"

    async def _asked(
        self, job: Job, stage: LlmStage, prompt: str, artifacts: Path, session: Session | None = None
    ) -> tuple[Outcome, Session | None]:
        choice = self._choice(stage, job.state.workflow.models)
        backend = self._backend(stage, choice.provider)
        request = Request(
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
            env=self._environment(backend.variables(choice.provider)),
        )
        result = await backend.run(request, lambda event: job.tell(_told(event)))
        judged = self._read(job, result.text) if stage.auto_status and result.status is AgentStatus.OK else None
        return judge(stage, result, backend.name, judged, job.elapsed()), result.session

    def _choice(self, stage: LlmStage, models: Models) -> ModelChoice:
        """The model of a stage, worked out once: a handler lives for one run in one process."""
        if stage.id not in self._choices:
            self._choices[stage.id] = choose_model(stage, models, self._defaults.model)
        return self._choices[stage.id]

    def _limits(self, stage: LlmStage) -> Limits:
        """A stage's own time is for all of it, silent or not."""
        if stage.timeout:
            return Limits(timeout=stage.timeout.total_seconds())
        return Limits(timeout=self._defaults.timeout, idle=self._defaults.idle)


def _with_logs(outcome: Outcome, job: Job, artifacts: Path) -> Outcome:
    """A failure with the files that tell more of it."""
    written = {name: artifacts / f"{name}.log" for name in ("stdout", "stderr")}
    logs = {name: job.named(path) for name, path in written.items() if path.is_file()}
    return outcome.model_copy(update={"logs": logs})


def _worth_asking_again(stage: LlmStage, outcome: Outcome) -> bool:
    """Whether an agent came to its end without an answer. Where the stage has a retry, that is for silence."""
    kind = outcome.failure.kind if outcome.failure else None
    silent = kind is FailureClass.AGENT and outcome.status is Status.RETRY
    return kind is FailureClass.PROTOCOL or (silent and stage.retry.max_attempts == 1)


def _wish(outcome: Outcome) -> str:
    """What an agent is told whose answer is none."""
    return RESTATED if outcome.reason == _NO_STATUS else UNREADABLE.format(problem=outcome.reason)


def _not_less(first: Outcome, second: Outcome) -> Outcome:
    """The second answer, unless it waves through what the first one found and nobody could read."""
    waved = second.source is Source.MARKER and second.status.passes and first.reason != _NO_STATUS
    if not waved:
        return second
    words = f"{first.reason}; asked again, it gave a status and no findings"
    failure = Failure(kind=FailureClass.PROTOCOL, digest=words)
    return second.model_copy(
        update={"status": Status.FAIL, "source": Source.DEFAULT, "reason": words, "failure": failure}
    )


def _not_shorter(first: Outcome, second: Outcome) -> str:
    """The words of a second answer, behind those of the first where they cannot be a repetition of it.

    Asked for a status, many an agent gives that alone, and what it found would be lost.
    """
    in_words = first.reason == _NO_STATUS and second.source is Source.MARKER  # findings that code reads stand alone
    if in_words and len(second.response) < len(first.response):
        return f"{first.response}\n\n{second.response}"
    return second.response


def _both(first: Usage | None, second: Usage | None) -> Usage | None:
    return first if second is None else second.plus(first)


def judge(
    stage: LlmStage, result: Result, backend: str = "", judged: Judged | None = None, duration: float = 0.0
) -> Outcome:
    """What an agent's result means for its stage. What code can read of it goes before what it claims."""
    said = _Said(result, backend, duration)
    if result.outcome is not None:
        return _scripted(result.outcome, backend)
    if _is_empty(result):
        return said.failed("the agent answered nothing", FailureClass.AGENT, Status.RETRY)
    if result.status is not AgentStatus.OK:
        return said.failed(f"the agent failed ({_trouble(result)})", FailureClass.AGENT)
    claims = read_claims(result.text)
    if not stage.auto_status:
        return said.outcome(Status.SUCCESS, claims)
    if judged is not None:
        return said.judged(judged, claims)
    if claims.status is None:
        return said.failed(_NO_STATUS, FailureClass.PROTOCOL)
    return said.outcome(claims.status, claims, Source.MARKER)


class _Said(NamedTuple):
    """An agent's answer, to be made an outcome of."""

    result: Result
    backend: str
    duration: float

    def outcome(self, status: Status, claims: Claims, source: Source = Source.DEFAULT) -> Outcome:
        claimed = source is Source.MARKER and status is not Status.SUCCESS
        return Outcome(
            status=status,
            source=source,
            reason=claims.reason if claimed else "",
            response=self.result.text,
            usage=self.result.usage,
            preferred_label=claims.preferred_label,
            preferred_next=claims.preferred_next,
            duration=self.duration,
            backend=self.backend,
            notes=_notes(self.result),
        )

    def judged(self, judged: Judged, claims: Claims) -> Outcome:
        if judged.problem:
            return self.failed(f"the review cannot be read: {judged.problem}", FailureClass.PROTOCOL)
        outcome = self.outcome(judged.status, claims, Source.STRUCTURED)
        notes = (*outcome.notes, *_contradiction(judged, claims))
        return outcome.model_copy(update={"reason": judged.reason, "notes": notes})

    def failed(self, reason: str, kind: FailureClass, status: Status = Status.FAIL) -> Outcome:
        return Outcome(
            status=status,
            reason=reason,
            response=self.result.text,
            failure=Failure(kind=kind, digest=reason, exit_code=self.result.exit_code),
            usage=self.result.usage,
            duration=self.duration,
            backend=self.backend,
            notes=_notes(self.result),
        )


def _contradiction(judged: Judged, claims: Claims) -> tuple[str, ...]:
    if claims.status is None or claims.status is judged.status:
        return ()
    return (f"the answer claims {claims.status}; its findings say {judged.status}",)


def _is_empty(result: Result) -> bool:
    if result.error is not None:
        return result.error.kind is ErrorKind.EMPTY
    return result.status is AgentStatus.OK and not result.text.strip()


def _trouble(result: Result) -> str:
    if result.error:
        return f"{result.error.kind}: {result.error.message}"
    words = {AgentStatus.TIMEOUT: "it took too long", AgentStatus.IDLE: "it was silent for too long"}
    return words.get(result.status, "no answer")


def _notes(result: Result) -> tuple[str, ...]:
    return (f"the agent was refused {', '.join(result.denied)}",) if result.denied else ()


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

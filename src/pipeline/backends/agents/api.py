"""A model asked directly, through pydantic-ai, with tools of our own.

It is loaded when the first request is run, since it takes a second. Failed requests are not repeated here: whether
and when to try again is the engine's to decide.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, get_args

from pipeline.backends.agents.api_models import ModelUnavailable, model_for
from pipeline.backends.agents.api_tools import FileTools, ShellTool, ToolFailure, ToolFunction, tools_for
from pipeline.backends.agents.base import Now, cut_off, kind_of, local_now, with_retry_after
from pipeline.backends.environment import provider_variables
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentStatus,
    Emit,
    ErrorKind,
    Processes,
)

if TYPE_CHECKING:
    from pydantic_ai import Agent, AgentRunResult, AgentStreamEvent, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RunUsage

_CUT_SHORT = {
    "length": cut_off("length"),
    "none": AgentError(ErrorKind.PROTOCOL, "the answer was cut off: the provider gave no finish reason"),
    "error": AgentError(ErrorKind.PROTOCOL, 'the answer was cut off: the provider gave the finish reason "error"'),
    "content_filter": AgentError(ErrorKind.DENIED, "the provider's content filter cut the answer short"),
}
_INSTALL = "the backend \"api\" is not installed: pip install 'awf-pipeline[api]'"


class ApiBackend:
    """Asks the model that a request names. `models` makes it; `turns` bounds how often one request may ask it."""

    name = "api"

    def __init__(
        self,
        processes: Processes,
        models: "Callable[[AgentRequest], Model]" = model_for,
        *,
        turns: int = 200,
        now: Now = local_now,
    ) -> None:
        self._processes = processes
        self._models = models
        self._turns = turns
        self._now = now

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The provider's key and address."""
        return provider_variables(provider)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Ask the model until it has no more to do."""
        emit(AgentEvent("started"))
        try:
            model = await asyncio.to_thread(self._models, request)
            result = await _Asking(request, emit, self._processes, self._turns).ask(model)
            if result.error is None:
                return result
            return result._replace(error=with_retry_after(result.error, (result.error.message,), self._now()))
        except ImportError as error:
            return _failed(AgentError(ErrorKind.CONFIG, f"{_INSTALL} ({error})"))
        except ModelUnavailable as error:
            return _failed(AgentError(error.kind, error.message))


class _Asking:
    """One request: its limits, its tools, what it has used so far."""

    def __init__(self, request: AgentRequest, emit: Emit, processes: Processes, turns: int) -> None:
        self._request = request
        self._emit = emit
        self._turns = turns
        self._files = FileTools(request.cwd)
        self._shell = ShellTool(request, processes, self._heard)
        self._silence: asyncio.Timeout | None = None

    async def ask(self, model: "Model") -> AgentResult:
        """Ask within the limits; what was used is told even of a request that failed."""
        from pydantic_ai.usage import RunUsage  # noqa: PLC0415 - slow to load, and an extra

        used, limits = RunUsage(), self._request.limits
        result = _failed(AgentError(ErrorKind.SERVER, "the model's provider took too long"))
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.timeout) as whole, asyncio.timeout(limits.idle) as self._silence:
                result = await self._judged(model, used)
        if whole.expired():
            result = AgentResult(AgentStatus.TIMEOUT)
        elif self._silence and self._silence.expired():
            result = AgentResult(AgentStatus.IDLE)
        return self._with_usage(result, _usage(used))

    async def _judged(self, model: "Model", used: "RunUsage") -> AgentResult:
        from pydantic_ai.exceptions import AgentRunError, UserError  # noqa: PLC0415 - slow to load, and an extra

        try:
            agent = self._agent(model)
            async with agent:
                return _answer(await self._run(agent, used))
        except UserError as error:
            return _failed(AgentError(ErrorKind.CONFIG, error.message))
        except AgentRunError as error:
            return _failed(_error(error))

    def _agent(self, model: "Model") -> "Agent[None, str | None]":
        from pydantic_ai import Agent, Tool  # noqa: PLC0415 - slow to load, and an extra

        tools = [Tool[None](_telling(tool)) for tool in tools_for(self._request, self._files, self._shell)]
        return Agent(
            model,
            output_type=str | None,  # type: ignore[arg-type]  # a union is a type form, which mypy does not know yet
            deps_type=type(None),
            instructions=f"Your working directory is {self._request.cwd}. Paths are relative to it." if tools else None,
            tools=tools,
        )

    async def _run(self, agent: "Agent[None, str | None]", used: "RunUsage") -> "AgentRunResult[str | None]":
        from pydantic_ai.usage import UsageLimits  # noqa: PLC0415 - slow to load, and an extra

        return await agent.run(
            self._request.prompt,
            usage=used,
            usage_limits=UsageLimits(request_limit=self._turns),
            model_settings=_settings(self._request),
            event_stream_handler=self._follow,
        )

    async def _follow(self, _: object, events: "AsyncIterable[AgentStreamEvent]") -> None:
        async for event in events:
            self._heard()
            if told := _event(event):
                self._emit(told)

    def _heard(self) -> None:
        """Begin to count the silence anew."""
        idle = self._request.limits.idle
        if idle is not None and self._silence and not self._silence.expired():
            self._silence.reschedule(asyncio.get_running_loop().time() + idle)

    def _with_usage(self, result: AgentResult, usage: Usage | None) -> AgentResult:
        if usage:
            self._emit(AgentEvent("usage", usage=usage))
        denied = tuple(self._files.denied)
        return AgentResult(result.status, result.text, result.error, usage, denied=denied)


def _failed(error: AgentError) -> AgentResult:
    return AgentResult(AgentStatus.ERROR, error=error)


def _answer(run: "AgentRunResult[str | None]") -> AgentResult:
    text = run.output or ""
    if error := _CUT_SHORT.get(_finish_reason(run.response)):
        return AgentResult(AgentStatus.ERROR, text, error)
    if not text.strip():
        return _failed(AgentError(ErrorKind.EMPTY, f'the model "{run.response.model_name}" answered nothing'))
    return AgentResult(AgentStatus.OK, text)


def _finish_reason(response: "ModelResponse") -> str:
    """Why the model stopped, by the provider alone: the kit takes a stream that just ends for a whole answer."""
    told = (response.provider_details or {}).get("finish_reason")
    return (response.finish_reason or "") if told or not response.provider_url else "none"


def _telling(tool: ToolFunction) -> ToolFunction:
    """The tool, whose failure is told to the model."""
    from pydantic_ai.exceptions import ToolFailed  # noqa: PLC0415 - slow to load, and an extra

    @functools.wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> object:
        try:
            if inspect.iscoroutinefunction(tool):
                return await tool(*args, **kwargs)
            return await asyncio.to_thread(tool, *args, **kwargs)
        except ToolFailure as error:
            raise ToolFailed(str(error)) from error

    return call


def _settings(request: AgentRequest) -> "ModelSettings":
    from pydantic_ai.settings import ModelSettings, ThinkingEffort  # noqa: PLC0415 - slow to load, and an extra

    settings, efforts = ModelSettings(max_retries=0), get_args(ThinkingEffort)
    if (effort := request.reasoning_effort) and effort not in efforts:
        raise ModelUnavailable(f'there is no reasoning effort "{effort}"; there are {", ".join(efforts)}')
    if effort:
        settings["thinking"] = effort  # type: ignore[typeddict-item]  # mypy does not see that it is one of them
    return settings


def _event(event: "AgentStreamEvent") -> AgentEvent | None:
    from pydantic_ai import messages  # noqa: PLC0415 - slow to load, and an extra

    match event:
        case messages.PartEndEvent(part=messages.TextPart(content=str(text))) if text:
            return AgentEvent("text", text)
        case messages.FunctionToolCallEvent():
            return AgentEvent("tool_start", event.part.tool_name)
        case messages.FunctionToolResultEvent():
            return AgentEvent("tool_end", event.part.tool_name or "")
    return None


def _error(error: Exception) -> AgentError:
    from pydantic_ai import exceptions  # noqa: PLC0415 - slow to load, and an extra

    words = str(error)
    match error:
        case exceptions.ModelHTTPError():
            return AgentError(kind_of(error.status_code, words), words, error.retry_after)
        case exceptions.ModelConnectionError():
            return AgentError(ErrorKind.SERVER, words, error.retry_after)
        case exceptions.ModelAPIError():
            return AgentError(kind_of(None, words), words, error.retry_after)
        case exceptions.ContentFilterError():
            return AgentError(ErrorKind.DENIED, words)
        case exceptions.UnexpectedModelBehavior():
            return AgentError(ErrorKind.PROTOCOL, words)
        case exceptions.UsageLimitExceeded():
            return AgentError(ErrorKind.INVALID, f"the model was asked as often as one request may ({words})")
    return AgentError(kind_of(None, words), words)


def _usage(used: "RunUsage") -> Usage | None:
    """What was used; its cost is by the prices that came with the package, where they know the model."""
    if not used.requests:
        return None
    cost = None if used.cost is None else float(used.cost)
    return Usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=cost)

"""One request to a model through pydantic-ai: the model, its tools, its limits, and what its answer means.

The providers' SDKs look into our own environment for what they are not given, so a key and an address are always given:
those of the request's variables.
"""

import asyncio
import functools
import inspect
from collections.abc import AsyncIterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from pydantic_ai import Agent, AgentStreamEvent, Tool, exceptions, messages
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings, ThinkingEffort
from pydantic_ai.usage import RunUsage, UsageLimits

from pipeline.backends.agents.api import (
    FileTools,
    ModelUnavailable,
    ShellTool,
    ToolFailure,
    ToolFunction,
    tools_for,
)
from pipeline.backends.provider_errors import error_kind, truncated_answer
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

MAX_TURNS = 200  # model calls of one request
_INCOMPLETE = {  # by finish reason
    "length": truncated_answer("length"),
    "none": AgentError(ErrorKind.PROTOCOL, "the answer was cut off: the provider gave no finish reason"),
    "error": AgentError(ErrorKind.PROTOCOL, 'the answer was cut off: the provider gave the finish reason "error"'),
    "content_filter": AgentError(ErrorKind.DENIED, "the provider's content filter cut the answer short"),
}


@dataclass(frozen=True, slots=True)
class _Provider:
    """Which variables hold a provider's key and address."""

    keys: tuple[str, ...]
    address: str
    default_address: str


_GOOGLE = _Provider(
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"
)
_PROVIDERS = {
    "anthropic": _Provider(("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": _Provider(("OPENAI_API_KEY",), "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "google": _GOOGLE,
    "gemini": _GOOGLE,
}


class PydanticAgent:
    """A model that works on one request."""

    def __init__(self, model: Model, request: AgentRequest, emit: Emit, processes: Processes) -> None:
        self._model = model
        self._settings = ModelSettings(max_retries=0)
        if effort := request.reasoning_effort:
            if effort not in (efforts := get_args(ThinkingEffort)):
                raise ModelUnavailable(f'unknown reasoning effort "{effort}"; use {", ".join(efforts)}')
            self._settings["thinking"] = effort  # type: ignore[typeddict-item]  # mypy does not see that it is one
        self._request = request
        self._emit = emit
        self._files = FileTools(request.cwd)
        self._shell = ShellTool(request, processes, self._reset_idle)
        self._idle: asyncio.Timeout | None = None

    async def run(self) -> AgentResult:
        """Call the model until it has answered, within the request's limits; usage is reported even on failure."""
        used, limits = RunUsage(), self._request.limits
        result = _failed(AgentError(ErrorKind.NETWORK, "the model's provider timed out"))
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.timeout) as whole, asyncio.timeout(limits.idle) as self._idle:
                result = await self._call(used)
        if whole.expired():
            result = AgentResult(AgentStatus.TIMEOUT)
        elif self._idle and self._idle.expired():
            result = AgentResult(AgentStatus.IDLE)
        usage = None
        if used.requests:
            cost = None if used.cost is None else float(used.cost)  # by the library's prices, if they include the model
            usage = Usage(input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=cost)
            self._emit(AgentEvent("usage", usage=usage))
        return result._replace(usage=usage, denied=tuple(self._files.denied))

    async def _call(self, used: RunUsage) -> AgentResult:
        tools = [Tool[None](_as_async(tool)) for tool in tools_for(self._request.access, self._files, self._shell)]
        where = f"Your working directory is {self._request.cwd}. Paths are relative to it."
        try:
            agent = Agent(
                self._model,
                output_type=str | None,  # type: ignore[arg-type]  # a union is a type form, which mypy does not know yet
                deps_type=type(None),
                instructions=where if tools else None,
                tools=tools,
            )
            async with agent:
                answer = await agent.run(
                    self._request.prompt,
                    usage=used,
                    usage_limits=UsageLimits(request_limit=MAX_TURNS),
                    model_settings=self._settings,
                    event_stream_handler=self._show_events,
                )
        except exceptions.UserError as error:
            return _failed(AgentError(ErrorKind.CONFIG, error.message))
        except exceptions.AgentRunError as error:
            return _failed(_agent_error(error))
        text, response = answer.output or "", answer.response
        reason: str = response.finish_reason or ""
        if response.provider_url and not (response.provider_details or {}).get("finish_reason"):
            reason = "none"  # a broken stream, which pydantic-ai takes for a whole answer
        if incomplete := _INCOMPLETE.get(reason):
            return AgentResult(AgentStatus.ERROR, text, incomplete)
        if not text.strip():
            empty = f'the model "{response.model_name}" returned an empty answer'
            return _failed(AgentError(ErrorKind.EMPTY, empty))
        return AgentResult(AgentStatus.OK, text)

    async def _show_events(self, _: object, events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            self._reset_idle()
            match event:
                case messages.PartEndEvent(part=messages.TextPart(content=str(text))) if text:
                    self._emit(AgentEvent("text", text))
                case messages.FunctionToolCallEvent():
                    self._emit(AgentEvent("tool_start", event.part.tool_name))
                case messages.FunctionToolResultEvent():
                    self._emit(AgentEvent("tool_end", event.part.tool_name or ""))

    def _reset_idle(self) -> None:
        limit = self._request.limits.idle
        if limit is not None and self._idle and not self._idle.expired():
            self._idle.reschedule(asyncio.get_running_loop().time() + limit)


def _failed(error: AgentError) -> AgentResult:
    return AgentResult(AgentStatus.ERROR, error=error)


def _as_async(tool: ToolFunction) -> ToolFunction:
    """The tool as a coroutine whose failure is reported to the model."""

    @functools.wraps(tool)
    async def call(*args: Any, **kwargs: Any) -> object:
        try:
            if inspect.iscoroutinefunction(tool):
                return await tool(*args, **kwargs)
            return await asyncio.to_thread(tool, *args, **kwargs)
        except ToolFailure as error:
            raise exceptions.ToolFailed(str(error)) from error

    return call


def _agent_error(error: exceptions.AgentRunError) -> AgentError:
    message = str(error)
    match error:
        case exceptions.ModelHTTPError():
            return AgentError(error_kind(message, error.status_code), message, error.retry_after)
        case exceptions.ModelConnectionError():
            return AgentError(ErrorKind.NETWORK, message, error.retry_after)
        case exceptions.ModelAPIError():
            return AgentError(error_kind(message), message, error.retry_after)
        case exceptions.ContentFilterError():
            return AgentError(ErrorKind.DENIED, message)
        case exceptions.UnexpectedModelBehavior():
            return AgentError(ErrorKind.PROTOCOL, message)
        case exceptions.UsageLimitExceeded():
            return AgentError(ErrorKind.INVALID, f"the model was called too often for one request ({message})")
    return AgentError(error_kind(message), message)


def model_for(request: AgentRequest) -> Model:
    """The model that a request names; raises ModelUnavailable, or ImportError if its SDK is not installed."""
    provider, name = request.provider, request.model
    if name and not provider:
        provider, _, name = name.rpartition(":")
    elif name and provider:
        name = name.removeprefix(f"{provider}:")
    if not name or not provider:
        raise ModelUnavailable('no model is named: give the stage a provider and a model, such as "anthropic"')
    known = _PROVIDERS.get(provider.lower())
    if known is None:
        raise ModelUnavailable(f'the provider "{provider}" is not supported; use {", ".join(_PROVIDERS)}')
    key = next((request.env[variable] for variable in known.keys if request.env.get(variable)), None)
    if not key:
        raise ModelUnavailable(f'the key of "{provider}" is missing: set {" or ".join(known.keys)}', ErrorKind.AUTH)
    return _make_model(provider, name, key, request.env.get(known.address) or known.default_address)


def _make_model(provider: str, name: str, key: str, address: str) -> Model:
    """Each provider's SDK is installed and loaded on its own."""
    match provider.lower():
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415 - see above
            from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415 - see above

            return AnthropicModel(name, provider=AnthropicProvider(api_key=key, base_url=address))
        case "openai":
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415 - see above
            from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 - see above

            # Servers that imitate OpenAI's seldom offer more than its chat interface.
            make = OpenAIResponsesModel if address == _PROVIDERS["openai"].default_address else OpenAIChatModel
            return make(name, provider=OpenAIProvider(api_key=key, base_url=address))
        case _:
            from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415 - see above
            from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415 - see above

            return GoogleModel(name, provider=GoogleProvider(api_key=key, base_url=address))

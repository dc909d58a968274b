"""The models of `provider:model`. A key comes from the request's variables alone, never from our own environment.

The providers' kits look into the environment for what they are not given: so key and address are always given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.engine.ports import ErrorKind
from pipeline.errors import AwfError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from pipeline.engine.ports import AgentRequest


class ModelUnavailable(AwfError):
    """A request that names no model that can be asked, or a model whose key is missing."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.CONFIG) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _Provider:
    """Where a provider's key and address stand, and how its model is made of name, key and address."""

    keys: tuple[str, ...]
    address: str
    default: str
    make: Callable[[str, str, str], "Model"]


def model_for(request: "AgentRequest") -> "Model":
    """The model that a request names; raises Unusable when there is none, and ImportError without the extra."""
    provider, name = _named(request)
    known = _PROVIDERS.get(provider.lower())
    if known is None:
        raise ModelUnavailable(f'the provider "{provider}" cannot be asked directly; {", ".join(_PROVIDERS)} can')
    key = _first(request.env, known.keys)
    if not key:
        raise ModelUnavailable(f'the key of "{provider}" is missing: set {" or ".join(known.keys)}', ErrorKind.AUTH)
    return known.make(name, key, request.env.get(known.address) or known.default)


def _named(request: "AgentRequest") -> tuple[str, str]:
    provider, name = request.provider, request.model
    if name and not provider:
        provider, _, name = name.rpartition(":")
    elif name and provider:
        name = name.removeprefix(f"{provider}:")
    if not name or not provider:
        raise ModelUnavailable(
            'no model is named: give the stage a provider and a model, such as "anthropic" and its model'
        )
    return provider, name


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((env[name] for name in names if env.get(name)), None)


def _anthropic(name: str, key: str, address: str) -> "Model":
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415 - slow to load, and an extra
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415 - as above

    return AnthropicModel(name, provider=AnthropicProvider(api_key=key, base_url=address))


def _openai(name: str, key: str, address: str) -> "Model":
    """Servers that speak like OpenAI's seldom know more than its chat interface."""
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: PLC0415 - slow, and an extra
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 - as above

    provider = OpenAIProvider(api_key=key, base_url=address)
    if address == _PROVIDERS["openai"].default:
        return OpenAIResponsesModel(name, provider=provider)
    return OpenAIChatModel(name, provider=provider)


def _google(name: str, key: str, address: str) -> "Model":
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415 - slow to load, and an extra
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415 - as above

    return GoogleModel(name, provider=GoogleProvider(api_key=key, base_url=address))


_GOOGLE = _Provider(
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com", _google
)
_PROVIDERS: Mapping[str, _Provider] = {
    "anthropic": _Provider(("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL", "https://api.anthropic.com", _anthropic),
    "openai": _Provider(("OPENAI_API_KEY",), "OPENAI_BASE_URL", "https://api.openai.com/v1", _openai),
    "google": _GOOGLE,
    "gemini": _GOOGLE,
}

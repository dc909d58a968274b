"""A request to a model and its reply, whatever dialect they are in. Nothing here knows HTTP or a provider."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

INPUT_TOKENS = 100  # of every request, so that a sum tells how many there were
OUTPUT_TOKENS = 20


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: of the user, of the model, or the result of a tool."""

    by: Literal["user", "model", "tool"]
    text: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call, and the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)

    def argument(self, *names: str) -> str | None:
        """The first of these names that the tool has an argument by."""
        properties = self.schema.get("properties") or {}
        return next((name for name in names if name in properties), None)


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that a request holds. `stream` asks for the answer in pieces."""

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...]
    stream: bool


@dataclass(frozen=True, slots=True)
class Call:
    """The model's wish to have a tool run."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: a text, or a call of a tool; both may be missing. `cut` is true at the token limit."""

    text: str = ""
    call: Call | None = None
    cut: bool = False

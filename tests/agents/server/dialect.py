"""What a model's HTTP interface must be able to do here; one module for each provider's."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from tests.agents.server.conversation import Conversation, Reply
from tests.agents.server.script import Refuse

Json = Mapping[str, Any]


class Dialect(Protocol):
    """Reads requests and writes replies as one provider does."""

    def conversation(self, body: Json, path: str) -> Conversation:
        """What a request holds."""
        ...

    def whole(self, reply: Reply) -> Json:
        """A reply in one piece."""
        ...

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        """A reply as server-sent events."""
        ...

    def error(self, refusal: Refuse) -> Json:
        """An error's body."""
        ...


def unexplained(refusal: Refuse) -> str:
    """The message of an error whose provider says nothing more."""
    return f"the script refuses this with {refusal.status}"


def event(data: Json, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def halves(text: str) -> tuple[str, ...]:
    """A text in two pieces, so that a program has to join them; an empty text has none."""
    middle = len(text) // 2
    return tuple(part for part in (text[:middle], text[middle:]) if part)


def words(content: Any) -> str:
    """The text of a content that is a text, or a list of blocks some of which hold one."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text") or "") for block in blocks if isinstance(block, dict))

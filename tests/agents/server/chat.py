"""The Chat Completions interface of OpenAI, which many other providers speak as well."""

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS, Conversation, Reply, Tool, Turn
from tests.agents.server.dialect import Json, event, halves, unexplained, words
from tests.agents.server.script import Cause, Refuse

_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


_WORDS = {
    Cause.TOO_LONG: ("context_length_exceeded", "Your input exceeds the context window of this model."),
    Cause.UNKNOWN_MODEL: ("model_not_found", "The model `no-such-model` does not exist or you do not have access."),
}


class ChatCompletions:
    """`POST /v1/chat/completions`."""

    def conversation(self, body: Json, path: str) -> Conversation:
        del path
        turns = tuple(turn for message in body["messages"] for turn in _turns(message))
        offered = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
        tools = tuple(Tool(tool["name"], tool.get("parameters") or {}) for tool in offered)
        return Conversation(turns, tools, bool(body.get("stream")))

    def whole(self, reply: Reply) -> Json:
        message = {"role": "assistant", "content": reply.text or None, **_calls(reply)}
        choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
        return {**_about("chat.completion"), "choices": [choice], "usage": _USAGE}

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        yield _chunk({"role": "assistant", "content": ""})
        for part in halves(reply.text):
            yield _chunk({"content": part})
        if reply.call:
            yield _chunk(_calls(reply))
        yield _chunk({}, _reason(reply))
        yield event({**_about("chat.completion.chunk"), "choices": [], "usage": _USAGE})
        yield b"data: [DONE]\n\n"

    def error(self, refusal: Refuse) -> Json:
        return openai_error(refusal)


def openai_error(refusal: Refuse) -> Json:
    """An error as both interfaces of OpenAI report it."""
    if refusal.cause is Cause.USAGE_LIMIT:
        limit = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "pro"}
        return {"error": {**limit, "resets_at": int(time.time()) + (refusal.retry_after or 0)}}
    code, message = _WORDS.get(refusal.cause, (None, unexplained(refusal)))
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _turns(message: Json) -> Iterator[Turn]:
    match message["role"]:
        case "tool":
            yield Turn("tool", words(message.get("content")))
        case "assistant":
            yield Turn("model", words(message.get("content")))
        case "user":
            yield Turn("user", words(message.get("content")))


def _calls(reply: Reply) -> dict[str, Any]:
    if reply.call is None:
        return {}
    function = {"name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
    call = {"index": 0, "id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
    return {"tool_calls": [call]}


def _reason(reply: Reply) -> str:
    return "length" if reply.cut else "tool_calls" if reply.call else "stop"


def _about(kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": 0, "model": "scripted"}


def _chunk(delta: Json, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return event({**_about("chat.completion.chunk"), "choices": [choice]})

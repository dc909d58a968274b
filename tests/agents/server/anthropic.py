"""The Messages interface of Anthropic."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS, Conversation, Reply, Tool, Turn
from tests.agents.server.dialect import Json, event, halves, unexplained, words
from tests.agents.server.script import Cause, Refuse

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_WORDS = {
    Cause.USAGE_LIMIT: "This request would exceed your account's rate limit. Please try again later.",
    Cause.TOO_LONG: "prompt is too long: 250000 tokens > 200000 maximum",
    Cause.UNKNOWN_MODEL: "model: no-such-model",
}


class Messages:
    """`POST /v1/messages`."""

    def conversation(self, body: Json, path: str) -> Conversation:
        del path
        turns = tuple(turn for message in body["messages"] for turn in _turns(message))
        tools = tuple(Tool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or ())
        return Conversation(turns, tools, bool(body.get("stream")))

    def whole(self, reply: Reply) -> Json:
        return {**_message(), "content": _content(reply), "stop_reason": _reason(reply), "usage": _usage(OUTPUT_TOKENS)}

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        yield _event("message_start", message={**_message(), "content": [], "stop_reason": None, "usage": _usage(1)})
        for index, block in enumerate(_content(reply)):
            yield _event("content_block_start", index=index, content_block=_begun(block))
            for delta in _deltas(block):
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        stop = {"stop_reason": _reason(reply), "stop_sequence": None}
        yield _event("message_delta", delta=stop, usage={"output_tokens": OUTPUT_TOKENS})
        yield _event("message_stop")

    def error(self, refusal: Refuse) -> Json:
        message = _WORDS.get(refusal.cause) or unexplained(refusal)
        return {"type": "error", "error": {"type": _KINDS.get(refusal.status, "api_error"), "message": message}}


def _turns(message: Json) -> Iterator[Turn]:
    content = message["content"]
    if message["role"] != "user":
        yield Turn("model", words(content))
        return
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for block in blocks:
        if block.get("type") == "tool_result":
            yield Turn("tool", words(block.get("content")))
        else:
            yield Turn("user", str(block.get("text") or ""))


def _message() -> dict[str, Any]:
    about = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant", "model": "scripted"}
    return {**about, "stop_sequence": None}


def _usage(output: int) -> dict[str, int]:
    return {"input_tokens": INPUT_TOKENS, "output_tokens": output}


def _content(reply: Reply) -> list[dict[str, Any]]:
    texts = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.call is None:
        return texts
    call = {"type": "tool_use", "id": f"toolu_{secrets.token_hex(12)}", "name": reply.call.tool}
    return [*texts, {**call, "input": dict(reply.call.arguments)}]


def _reason(reply: Reply) -> str:
    return "max_tokens" if reply.cut else "tool_use" if reply.call else "end_turn"


def _begun(block: Json) -> Json:
    return {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}


def _deltas(block: Json) -> list[Json]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": part} for part in halves(block["text"])]
    return [{"type": "input_json_delta", "partial_json": part} for part in halves(json.dumps(block["input"]))]


def _event(kind: str, **data: Any) -> bytes:
    return event({"type": kind, **data}, kind)

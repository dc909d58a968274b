"""The Responses interface of OpenAI."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

from tests.agents.server.chat import openai_error
from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS, Conversation, Reply, Tool, Turn
from tests.agents.server.dialect import Json, event, halves, words
from tests.agents.server.script import Refuse

_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


class Responses:
    """`POST /v1/responses`."""

    def conversation(self, body: Json, path: str) -> Conversation:
        del path
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        turns = tuple(turn for item in items for turn in _turns(item))
        offered = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
        tools = tuple(Tool(tool["name"], tool.get("parameters") or {}) for tool in offered)
        return Conversation(turns, tools, bool(body.get("stream")))

    def whole(self, reply: Reply) -> Json:
        return _response(_ending(reply), [_item(reply)] if reply.text or reply.call else [])

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        yield _event("response.created", response=_response("in_progress", []))
        items = [_item(reply)] if reply.text or reply.call else []
        for index, item in enumerate(items):
            yield _event("response.output_item.added", output_index=index, item=_begun(item))
            for part in halves(reply.text):
                where = {"item_id": item["id"], "output_index": index, "content_index": 0}
                yield _event("response.output_text.delta", **where, delta=part)
            yield _event("response.output_item.done", output_index=index, item=item)
        yield _event(f"response.{_ending(reply)}", response=_response(_ending(reply), items))

    def error(self, refusal: Refuse) -> Json:
        return openai_error(refusal)


def _turns(item: Json) -> Iterator[Turn]:
    match item:
        case {"type": "function_call_output", "output": output}:
            yield Turn("tool", words(output))
        case {"role": "user", "content": content}:
            yield Turn("user", words(content))
        case {"role": "assistant", "content": content}:
            yield Turn("model", words(content))


def _item(reply: Reply) -> dict[str, Any]:
    if reply.call is None:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        return {"id": _id("msg"), "type": "message", "role": "assistant", "status": "completed", "content": content}
    call = {"id": _id("fc"), "type": "function_call", "status": "completed", "call_id": _id("call")}
    return {**call, "name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}


def _begun(item: Json) -> Json:
    return {**item, "status": "in_progress", **({"content": []} if item["type"] == "message" else {"arguments": ""})}


def _ending(reply: Reply) -> str:
    return "incomplete" if reply.cut else "completed"


def _response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"id": _id("resp"), "object": "response", "created_at": 0, "model": "scripted", "status": status}
    usage = None if status == "in_progress" else _USAGE
    why = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {**about, "output": output, "usage": usage, "incomplete_details": why}


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"


def _event(kind: str, **data: Any) -> bytes:
    return event({"type": kind, **data}, kind)

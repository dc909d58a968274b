"""The generateContent interface of Gemini."""

from collections.abc import Iterator
from typing import Any

from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS, Conversation, Reply, Tool, Turn
from tests.agents.server.dialect import Json, event, halves

_STATES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
_USAGE = {
    "promptTokenCount": INPUT_TOKENS,
    "candidatesTokenCount": OUTPUT_TOKENS,
    "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
}


class GenerateContent:
    """`POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

    def conversation(self, body: Json, path: str) -> Conversation:
        turns = tuple(turn for content in body["contents"] for turn in _turns(content))
        groups = body.get("tools") or ()
        tools = tuple(_tool(tool) for group in groups for tool in group.get("functionDeclarations") or ())
        return Conversation(turns, tools, ":streamGenerateContent" in path)

    def whole(self, reply: Reply) -> Json:
        return _response(_parts(reply, (reply.text,) if reply.text else ()), "STOP")

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        for text in halves(reply.text):
            yield event(_response([{"text": text}]))
        yield event(_response(_parts(reply, ()), "STOP"))

    def error(self, status: int) -> Json:
        message = f"the script refuses this with {status}"
        return {"error": {"code": status, "message": message, "status": _STATES.get(status, "INTERNAL")}}


def _turns(content: Json) -> Iterator[Turn]:
    for part in content.get("parts") or ():
        if "functionResponse" in part:
            yield Turn("tool", str(part["functionResponse"].get("response")))
        elif content.get("role") == "model":
            yield Turn("model", str(part.get("text") or ""))
        else:
            yield Turn("user", str(part.get("text") or ""))


def _tool(declared: Json) -> Tool:
    return Tool(declared["name"], declared.get("parametersJsonSchema") or declared.get("parameters") or {})


def _parts(reply: Reply, texts: tuple[str, ...]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": text} for text in texts]
    if reply.call:
        parts.append({"functionCall": {"name": reply.call.tool, "args": dict(reply.call.arguments)}})
    return parts


def _response(parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": "scripted"}

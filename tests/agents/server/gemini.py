"""The generateContent interface of Gemini."""

from collections.abc import Iterator
from typing import Any

from tests.agents.server.conversation import INPUT_TOKENS, OUTPUT_TOKENS, Conversation, Reply, Tool, Turn
from tests.agents.server.dialect import Json, event, halves, unexplained
from tests.agents.server.script import Cause, Refuse

_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
}
_WORDS = {
    Cause.USAGE_LIMIT: "You have exhausted your capacity on this model. Your quota will reset after {}s.",
    Cause.TOO_LONG: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    Cause.UNKNOWN_MODEL: "models/no-such-model is not found for API version v1beta.",
}
_RPC = "type.googleapis.com/google.rpc"
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
        return _response(_parts(reply, (reply.text,) if reply.text else ()), _reason(reply))

    def pieces(self, reply: Reply) -> Iterator[bytes]:
        for text in halves(reply.text):
            yield event(_response([{"text": text}]))
        yield event(_response(_parts(reply, ()), _reason(reply)))

    def error(self, refusal: Refuse) -> Json:
        message = _WORDS.get(refusal.cause, unexplained(refusal)).format(refusal.retry_after)
        said = {"code": refusal.status, "message": message, "status": _STATES.get(refusal.status, "INTERNAL")}
        if refusal.cause is not Cause.USAGE_LIMIT:
            return {"error": said}
        reason = {"reason": "QUOTA_EXHAUSTED", "domain": "cloudcode-pa.googleapis.com"}
        details = [
            {"@type": f"{_RPC}.ErrorInfo", **reason},
            {"@type": f"{_RPC}.RetryInfo", "retryDelay": f"{refusal.retry_after}s"},
        ]
        return {"error": {**said, "details": details}}


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


def _reason(reply: Reply) -> str:
    return "MAX_TOKENS" if reply.cut else "STOP"


def _response(parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": "scripted"}
